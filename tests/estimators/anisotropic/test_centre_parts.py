"""Centres of some of the persons: as private as of all, and cheap, for every relation."""

import itertools
import math

import numpy as np
import pytest

from estimators.made_people import people
from privmean.estimators.anisotropic import calibrate_filter as calibration
from privmean.estimators.anisotropic import known_covariance as known
from privmean.estimators.anisotropic.anisotropic_mean import AnisotropicMean
from privmean.mechanisms.filtered_mean import (
    FilteredMean,
    Metric,
    Rows,
    degrees,
    keep_odds,
)
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.amplification import outer_epsilon
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from statistics_kit import planned

BUDGET = Budget(epsilon=1.0, delta=1e-6)


def all_graphs(vertices):
    edges = list(itertools.combinations(range(vertices), 2))
    for code in range(2 ** len(edges)):
        friends = np.eye(vertices, dtype=np.int64)
        for bit, (i, j) in enumerate(edges):
            friends[i, j] = friends[j, i] = code >> bit & 1
        yield friends


def count_law(friends, samples):
    """The exact law of the number kept. samples: (probability, members) of the centre's persons."""
    law = np.zeros(len(friends) + 1)
    for chance, members in samples:
        numerators, denominator = keep_odds(
            friends[np.ix_(members, members)].sum(axis=1), ADD_REMOVE
        )
        here = np.ones(1)
        for item in numerators:
            p = int(item) / denominator
            here = np.convolve(here, [1 - p, p])
        law[: len(here)] += chance * here
    return law


def by_coin(persons, heads):
    """Every person's own coin."""
    for size in range(len(persons) + 1):
        for members in itertools.combinations(persons, size):
            yield heads**size * (1 - heads) ** (len(persons) - size), list(members)


def by_position(persons):
    """The broken twin: every other one of whoever is there."""
    yield 1.0, list(persons)[::2]


def told(before, after, inner):
    """The largest log ratio of a count with two-sided geometric noise of `inner`, both ways."""
    steps = np.arange(-60, 70)
    noise = np.exp(-inner * np.abs(steps[:, None] - np.arange(len(after))[None, :]))
    padded = np.zeros(len(after))
    padded[: len(before)] = before
    ratio = np.log(noise @ after) - np.log(noise @ padded)
    return float(np.abs(ratio).max())


@pytest.mark.slow
def test_coins_are_as_private_as_everybody_on_every_graph():
    """All graphs of up to five persons, each of whom may come or go, at two rates of coins."""
    twin = 0.0
    for size in (3, 4, 5):
        for number, friends in enumerate(all_graphs(size)):
            everybody = list(range(size))
            gone = number % size
            left = [j for j in everybody if j != gone]
            after = count_law(friends, by_coin(everybody, 0.4))
            before = count_law(friends, by_coin(left, 0.4))
            for inner in (0.05, 0.4, 1.5):
                assert told(before, after, inner) <= outer_epsilon(inner, ADD_REMOVE)
            after = count_law(friends, by_position(everybody))
            before = count_law(friends, by_position(everybody[1:]))
            twin = max(twin, told(before, after, 0.05))
    assert twin > outer_epsilon(0.05, ADD_REMOVE)  # positions would tell too much


@pytest.fixture
def small(monkeypatch):
    """Centres of 500 persons from 1000 persons on."""
    monkeypatch.setattr(calibration, "MOST_PAIRED", 1000)
    monkeypatch.setattr(calibration, "CENTRE_PERSONS", 500)


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("covariance", [1.0, None])
def test_all_pairs_are_never_compared_where_persons_are_many(
    small, monkeypatch, relation, covariance
):
    if covariance is None and relation == ADD_REMOVE:
        pytest.skip("an unknown covariance is estimated under replace-one only")
    asked = []

    def seen(metrics, usable, **others):
        asked.append(len(usable))
        return degrees(metrics, usable, **others)

    monkeypatch.setattr("privmean.mechanisms.filtered_mean.degrees", seen)
    n = 12_000
    x = 3 + np.random.default_rng(0).standard_normal((n, 4))
    plan = planned(AnisotropicMean(covariance), BUDGET, count=n, dimension=4, relation=relation)
    release = plan.release(people(x), SimulatedNoise(1))
    assert release.status == "ok"
    assert release.guarantee.verify()
    assert np.abs(release.estimate - 3).max() < 0.1
    assert len(asked) == 1
    assert abs(asked[0] - 500) <= (0 if relation == REPLACE_ONE else 120)


def test_an_unknown_covariance_asks_a_public_part_of_the_second_half(small, monkeypatch):
    """A person replaced outside the part leaves the centre as it is: she is in the sum alone."""
    n = 12_000
    plan = planned(AnisotropicMean(scale_range=(0.1, 10.0)), BUDGET, persons=n, dimension=3)
    assert plan.centred == 500
    parts = plan.centre_parts
    x = np.random.default_rng(2).standard_normal((n, 3))
    second = np.arange(n)[1::2]
    inside, outside = second[parts], second[parts + 1]
    found, draw = {}, FilteredMean.draw
    for who in (None, inside, outside):
        y = x.copy()
        if who is not None:
            y[who] = 1e6
        centres = []

        def watched(mechanism, exact, noise, centres=centres):
            centres.append(draw(mechanism, exact, noise))
            return centres[-1]

        monkeypatch.setattr(FilteredMean, "draw", watched)
        plan.release(people(y), SimulatedNoise(3))
        found[who] = np.concatenate(centres[0].means)
    assert (found[None] == found[outside]).all()
    assert (found[None] != found[inside]).any()


def test_coins_are_drawn_for_every_person_alike(small):
    """One in so many, whoever they are; another coin each release."""
    n = 12_000
    plan = planned(AnisotropicMean(1.0), BUDGET, n_guess=n, dimension=1, relation=ADD_REMOVE)
    assert isinstance(plan, known.KnownPlan)
    parts = plan.centre_parts
    assert parts == n // 500
    mechanism = plan.centre.mechanism(parts)
    rows = Rows((Metric(np.arange(n)[:, None]),), np.ones(n, dtype=bool))
    drawn = [mechanism.some(rows, SimulatedNoise(k)).metrics[0].points[:, 0] for k in range(40)]
    share = np.bincount(np.concatenate(drawn), minlength=n)
    expected = 40 / parts
    assert abs(share.mean() - expected) < 5 * math.sqrt(expected / n)
    assert abs(share.var() / expected / (1 - 1 / parts) - 1) < 0.1
    assert abs(np.corrcoef(share[:-1], share[1:])[0, 1]) < 0.05
