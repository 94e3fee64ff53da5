"""Broken twins are caught: a part of the table that benchmarks/audit_twins.py prints."""

from __future__ import annotations

import pytest

from auditing import twins
from auditing.rows import every_case
from privmean.auditing.audit_local import STREAMED, audit_streams
from privmean.auditing.findings import Findings

TRIED = {
    "NoisyCounts": "default",
    "PrivateCenter": "default",
    "PrivateLimits": "default",
    "SumsOver, laplace": "bounded",
    "StableHistogram": "sub-Gaussian",
    "NoisyArgmax": "bounded moment",
    "PowerSums": "variance, nothing given",
}


def case_of(subject):
    return next(case for case in every_case() if case.of.name == subject)


@pytest.mark.slow
@pytest.mark.parametrize("twin", twins.TWINS)
@pytest.mark.parametrize("name", TRIED)
def test_a_broken_mechanism_is_caught(name, twin):
    case = case_of(TRIED[name])
    if twins.applies(twin, twins.mechanism_of(name, case)):
        assert twins.caught(case, {**twins.TWINS[twin], "name": name}, runs=40)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIED)
def test_the_real_thing_is_not(name):
    """Through the same hands: a curator who breaks nothing, and amplifies nothing."""
    case = case_of(TRIED[name])
    assert twins.caught(case, {"name": name}, runs=40) == 0
    assert twins.caught(case, {"name": name, "exact": lambda exact: exact}, runs=10) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "twin"), twins.WEIGHTED)
def test_a_broken_choice_with_weights_is_caught(name, twin):
    assert twins.weighted_caught(name, twin, case_of("default"))


@pytest.mark.slow
@pytest.mark.parametrize("twin", twins.PLANS)
def test_a_broken_plan_is_caught(twin):
    assert twins.plan_caught(twin)


@pytest.mark.slow
def test_broken_clients_and_streams_are_caught():
    assert all(twins.clients_caught().values())
    assert all(twins.streams_caught().values())


def test_every_stream_keeps_its_bill():
    found = Findings()
    audit_streams(found, [item for item in STREAMED if item.name in ("bands", "withhold-release")])
    assert found.count == 0
    assert found.mechanisms["stream: bands"].largest > 0.999
