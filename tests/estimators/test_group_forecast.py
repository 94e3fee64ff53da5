"""Predicted errors of groups against releases, and the least epsilon."""

from __future__ import annotations

import json

import numpy as np
import pytest

import privmean as pm
from privmean.cli.app import run
from privmean.data.group_pairs import ArrayPairTable, GroupWeights
from privmean.errors import ArgumentError
from privmean.noise.noise_source import SimulatedNoise

QUESTION = pm.Mean(("x",), by=("key",), keys=("a", "b", "c", "d"))
SIZES = {"a": 2000, "b": 700, "c": 250, "d": 90}


def test_predicted_noise_is_near_that_of_releases():
    group = np.repeat(np.arange(4), list(SIZES.values()))
    value = np.random.default_rng(1).standard_normal(len(group))
    pairs = ArrayPairTable.of(np.arange(len(group)), group, value, list(SIZES), GroupWeights())
    plan = pm.plan(QUESTION, n=len(group), epsilon=1.0)
    made = [plan.release(pairs, SimulatedNoise(i)).intervals.scales for i in range(15)]
    noise = np.median([np.sqrt(2 * (scales**2).sum(axis=1)) for scales in made], axis=0)
    for line, seen in zip(plan.forecast(SIZES, 1.0), noise, strict=True):
        assert 0.7 < line.privacy_noise / seen < 1.4
        assert line.rmse == pytest.approx(np.hypot(line.privacy_noise, line.sampling))
        assert line.status == "ok"


def test_small_groups_are_told_before():
    plan = pm.plan(QUESTION, n=3000, epsilon=1.0)
    lines = plan.forecast({**SIZES, "c": 40, "d": 5}, 1.0)
    assert [item.status for item in lines] == ["ok", "ok", "low_precision", "suppressed"]
    even = plan.forecast(400, 1.0)
    assert {item.n for item in even} == {100}
    assert plan.forecast([1, 2, 3, 4], 1.0)[3].n == 4
    for wrong in ({"a": 1}, {**SIZES, "q": 1}, [1, 2], 0, [1, 2, 3, -1]):
        with pytest.raises(ArgumentError):
            plan.forecast(wrong, 1.0)


def test_the_least_epsilon_is_enough_and_no_more():
    least = pm.required_epsilon(QUESTION, group_sizes=SIZES, target_error=0.15, guess_sd=1.0)

    def worst(epsilon):
        return max(
            item.rmse for item in pm.plan(QUESTION, n=9, epsilon=epsilon).forecast(SIZES, 1.0)
        )

    assert worst(least) <= 0.15 < worst(least * 0.97)
    with pytest.raises(ArgumentError, match="any epsilon"):
        pm.required_epsilon(QUESTION, group_sizes=SIZES, target_error=0.01, guess_sd=1.0)
    with pytest.raises(ArgumentError, match="by group"):
        pm.required_epsilon(pm.Mean(("x",)), group_sizes=SIZES, target_error=1.0, guess_sd=1.0)


def test_the_command_tells_every_group(capsys):
    known = ["plan", "--n", "3040", "--by", "key", "--keys", "a,b,c,d", "--epsilon", "1"]
    assert (
        run([*known, "--group-sizes", "2000,700,250,90", "--target-error", "0.15", "--json"]) == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert [item["key"] for item in told["groups"]] == ["a", "b", "c", "d"]
    assert told["required_epsilon"] == pm.required_epsilon(
        QUESTION, group_sizes=[2000, 700, 250, 90], target_error=0.15, guess_sd=1.0
    )
    assert run([*known, "--group-sizes", "2000,700,40,5"]) == 0
    assert "suppressed" in capsys.readouterr().out
    assert run([*known, "--group-sizes", "a lot"]) == 2
