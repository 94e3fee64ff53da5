"""Limits that are chosen: scores, prices, bills, and what a few persons get."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from privmean.central.bound_pairs import EDGES, ZERO, all_pairs, asked_for, choice, fits, limits_of
from privmean.central.default_mean import DefaultMean
from privmean.central.log_histogram import cells_of
from privmean.data.array_table import ArrayPersonTable
from privmean.errors import ArgumentError, InfeasibleError
from privmean.inference.status import ASSUMPTION_VIOLATED
from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from statistics_kit import planned

CHOSEN = DefaultMean(limits="selection", complete=True)


def people(x):
    return ArrayPersonTable(np.asarray(x, float)[:, None], ("v",))


def score(x, asked):
    them = people(x)
    return fits(cells_of(them.log_counts(0, 0.0), them.missing(0)), asked)


def hostile(g, n):
    """Values at edges, beside them, infinite, missing, and of all sizes."""
    kinds = [0.0, math.nan, math.inf, -math.inf, 2.0**-40, -(2.0**-41)]
    edge = EDGES[g.integers(0, len(EDGES), n)]
    near = np.nextafter(edge, g.choice([-math.inf, math.inf], n))
    sized = np.exp(g.normal(0, 8, n)) * g.choice([-1, 1], n)
    every = np.stack([edge, near, sized, g.choice(kinds, n)])
    return every[g.integers(0, 4, n), np.arange(n)]


def test_a_score_is_minus_the_worst_of_four_numbers():
    g = np.random.default_rng(1)
    x = np.exp(g.normal(0, 3, 300)) * g.choice([-1, 1], 300)
    x[:40] = 0.0
    x[40:60] = math.nan
    asked = asked_for(Fraction(1, 10), 300)
    assert list(asked[:3]) == [20, 30, 30]
    found, pairs, there = score(x, asked), all_pairs(), x[~np.isnan(x)]
    for index in g.integers(0, len(found), 400):
        low, high = int(pairs.lower[index]), int(pairs.upper[index])
        worst = max(int((there > EDGES[high]).sum()), int((there < EDGES[low]).sum()))
        for k, wanted in enumerate(asked, start=1):
            inside_high = (there >= EDGES[high - k]).sum() if high >= k else len(there)
            below = low + k
            inside_low = (there <= EDGES[below]).sum() if below < len(EDGES) else len(there)
            worst = max(worst, wanted - int(inside_high), wanted - int(inside_low))
        assert found[index] == -worst


def test_a_person_moves_every_score_by_one_at_most_and_in_both_directions():
    g = np.random.default_rng(2)
    ups = downs = 0
    for _ in range(150):
        x, asked = hostile(g, 30), asked_for(Fraction(1, int(g.integers(1, 40))), 30)
        one, added = hostile(g, 1), score(x, asked)
        change = score(np.append(x, one), asked) - added
        swapped = score(np.append(x[1:], one), asked) - added
        assert max(abs(change).max(), abs(swapped).max()) <= 1
        ups, downs = ups + (change > 0).any(), downs + (change < 0).any()
    assert ups
    assert downs


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
def test_the_noise_of_a_choice_is_that_of_scores_that_move_both_ways(relation):
    mechanism = choice("limits", Fraction(1, 8), relation)
    assert mechanism.scale == 2 / Fraction(1, 8)
    assert mechanism.events[0].pure == Fraction(1, 8)


def test_pairs_are_about_zero_or_narrow_and_their_limits_in_order():
    pairs = all_pairs()
    lone = pairs.lone > 0
    assert ((pairs.lower <= ZERO) & (pairs.upper >= ZERO))[~lone].all()
    assert ((pairs.lower > ZERO) | (pairs.upper < ZERO))[lone].all()
    assert (pairs.upper - pairs.lower)[lone].max() == 6
    assert len(set(zip(pairs.lower, pairs.upper, strict=True))) == len(pairs.lower)
    for index in range(0, len(pairs.lower), 97):
        lower, upper = limits_of(index)
        assert lower < upper


SHAPES = {
    "normal": lambda g, n: g.normal(0, 1, n),
    "lognormal": lambda g, n: np.exp(g.normal(0, 1, n)),
    "far": lambda g, n: g.normal(1990, 10, n),
    "very far": lambda g, n: g.normal(1e6, 1, n),
    "stars": lambda g, n: g.choice([5, 4, 3, 2, 1], n, p=[0.8, 0.12, 0.04, 0.02, 0.02]),
    "groups": lambda g, n: g.choice([0.0, 1e6], n) + g.normal(size=n),
    "zeros": lambda g, n: np.zeros(n),
    "hostile": hostile,
    "missing": lambda g, n: np.where(g.random(n) < 0.5, np.nan, g.normal(50, 5, n)),
}


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("complete", [False, True])
def test_no_path_spends_more_than_epsilon_and_the_last_stage_gets_something(relation, complete):
    estimator = DefaultMean(limits="selection", complete=complete)
    most = 0
    for seed in range(4):
        g = np.random.default_rng(seed)
        for draw in SHAPES.values():
            for n in (160, 600, 1700, 5000):
                budget = Budget(epsilon=1.0)
                known = n if relation == REPLACE_ONE else None
                plan = planned(estimator, budget, persons=known, relation=relation)
                curator = TrustedCurator(people(draw(g, n)), SimulatedNoise(g))
                outcome = plan.run(curator)
                spent = sum((loss.pure for loss in curator.events), Fraction(0))
                assert spent <= 1
                if outcome.status not in ("failed", "point_mass"):
                    assert spent == 1
                    assert outcome.shares["mean and square"] > 0.08
                most = max(most, len(curator.events))
    assert most >= 9  # several cells, limits again, limits moved


@pytest.mark.parametrize("shape", ["normal", "lognormal"])
def test_few_persons_have_an_answer(shape):
    """Where the histograms fail in two releases of three."""
    errors, n = [], 312
    plan = planned(CHOSEN, Budget(epsilon=0.5), persons=n)
    for seed in range(300):
        g = np.random.default_rng([3, seed])
        x = SHAPES[shape](g, n)
        release = plan.release(people(x), SimulatedNoise(g))
        assert release.status not in ("failed", "point_mass")
        errors.append((release.estimate[0] - x.mean()) / x.std() * math.sqrt(n))
    size = np.abs(errors)
    assert np.median(size) < 2
    assert np.quantile(size, 0.97) < 10
    assert size.max() < 100


def test_sixty_persons_at_epsilon_one_are_enough_where_all_have_a_value():
    plan = planned(CHOSEN, Budget(epsilon=1.0), persons=60)
    g = np.random.default_rng(5)
    found = [plan.release(people(g.normal(0, 1, 60)), SimulatedNoise(g)) for _ in range(60)]
    answered = [item.estimate[0] for item in found if not item.failed]
    assert len(answered) > 50
    assert np.median(np.abs(answered)) < 1


def test_persons_without_a_value_are_told_where_all_were_said_to_have_one():
    g = np.random.default_rng(6)
    x = g.normal(5, 1, 1200)
    plan = planned(CHOSEN, Budget(epsilon=1.0), persons=1200)
    whole = plan.release(people(x), SimulatedNoise(7))
    x[:240] = math.nan
    holed = plan.release(people(x), SimulatedNoise(7))
    assert (whole.status, holed.status) == ("ok", ASSUMPTION_VIOLATED)
    assert "complete" in holed.advice
    assert sum(item.pure for item in holed.guarantee.mechanisms) == 1
    assert any("stated" in item for item in holed.assumptions)
    assert "that every person has a value" in holed.guarantee.public
    assert "guess of the size of values" in holed.guarantee.public


def test_nobody_with_a_value_fails_whatever_was_said():
    for estimator in (CHOSEN, DefaultMean(limits="selection")):
        plan = planned(estimator, Budget(epsilon=1.0), persons=700)
        for seed in range(20):
            release = plan.release(people(np.full(700, math.nan)), SimulatedNoise(seed))
            assert release.failed


def test_a_guess_finds_what_is_far_from_one():
    g = np.random.default_rng(8)
    x = np.where(g.random(312) < 0.5, 1e6, 0.0) + g.normal(size=312)
    errors = {}
    for near in (None, 1e6):
        words = DefaultMean(limits="selection", near=near, complete=True)
        plan = planned(words, Budget(epsilon=1.0), persons=312)
        found = [plan.release(people(x), SimulatedNoise(s)).estimate[0] for s in range(30)]
        errors[near] = np.median(np.abs(np.array(found) - x.mean())) / x.std() * math.sqrt(312)
    assert errors[1e6] < 3 < errors[None]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ({"limits": "histogram"}, "limits"),
        ({"near": 1.0}, "near"),
        ({"complete": True}, "complete"),
        ({"limits": "selection", "near": -1.0}, "near"),
        ({"limits": "selection", "near": 2.0**41}, "near"),
        ({"limits": "selection", "near": math.inf}, "near"),
        ({"limits": "selection", "target": "mean"}, "target"),
    ],
)
def test_what_cannot_be_meant_is_refused(words, name):
    with pytest.raises(ArgumentError) as said:
        DefaultMean(**words)
    assert str(said.value).startswith(name)


def test_too_few_persons_are_refused_from_public_numbers():
    with pytest.raises(InfeasibleError):
        planned(DefaultMean(limits="selection"), Budget(epsilon=1.0), persons=149)
    with pytest.raises(InfeasibleError):
        planned(CHOSEN, Budget(epsilon=1.0), persons=39)
    with pytest.raises(InfeasibleError):
        planned(CHOSEN, Budget(epsilon=1.0), persons=1000, dimension=2)
    planned(CHOSEN, Budget(epsilon=1.0), persons=40)


def test_many_persons_are_answered_by_histograms():
    x = np.random.default_rng(9).normal(3, 1, 4000)
    one = planned(DefaultMean(limits="selection"), Budget(epsilon=1.0), persons=4000)
    two = planned(DefaultMean(), Budget(epsilon=1.0), persons=4000)
    first, second = (plan.release(people(x), SimulatedNoise(1)) for plan in (one, two))
    assert first.estimate[0] == second.estimate[0]
