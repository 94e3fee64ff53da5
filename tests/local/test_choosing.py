"""The choice of a mechanism, plans, ladders of epsilon, public spread, weights, limits."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from privmean.errors import ArgumentError
from privmean.local import (
    Aggregator,
    Round,
    WinsorizedRounds,
    ball_round,
    estimate,
    items_round,
    lower_bound,
    mean_round,
    plan_round,
    randomize,
    tally_many,
    vote_round,
)
from privmean.local.aggregators.ball_law import endless_shrinkage
from privmean.local.aggregators.scalar_law import scalar_law
from privmean.local.choose_mechanism import TOLERANCE, variance_of
from privmean.local.round_plan import choice_of, mean_radius, mean_rmse, share_radius, vector_rmse
from privmean.noise.noise_source import SimulatedNoise
from statistics_kit import assert_rate_at_most

EPSILONS = (0.1, 0.5, 1, 2, 4, 8)


@pytest.mark.parametrize("epsilon", [*EPSILONS, (0.1, 1, 6)])
@pytest.mark.parametrize("items", [2, 16, 100, 1000])
def test_items_take_the_least_variance_then_the_shorter_report(items, epsilon):
    given = {"epsilon": epsilon, "persons": 1000}
    chosen = items_round(items, **given)
    names = ("hadamard", "subset")
    found = {name: variance_of(items_round(items, mechanism=name, **given)) for name in names}
    assert variance_of(chosen) <= (1 + TOLERANCE) * min(found.values())
    if variance_of(chosen) > min(found.values()) * (1 + 1e-12):
        assert chosen.mechanism == "hadamard"  # only a shorter report is a reason
    if epsilon == 4:
        assert found["hadamard"] > 3 * variance_of(chosen)


def test_huge_domains_keep_short_reports():
    round_ = items_round(2**20, epsilon=1, persons=1000)
    assert round_.mechanism == "hadamard"
    assert "4096" in choice_of(round_).reason
    assert items_round(2**25, epsilon=1, persons=1000).mechanism == "sketch"
    assert items_round(40, epsilon=4, persons=9, row_choice="chosen").mechanism == "hadamard"
    assert vote_round(0, 1, 9, epsilon=1, persons=9).mechanism == "subset"


@pytest.mark.parametrize("dimension", [2, 20, 500])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_vectors_take_the_least_variance(dimension, epsilon):
    given = {"epsilon": epsilon, "persons": 1000}
    chosen = ball_round(1, dimension, **given)
    assert chosen.mechanism in ("ball-bit", "closest")
    others = [variance_of(ball_round(1, dimension, mechanism=m, **given))
              for m in ("ball-bit", "closest")]  # fmt: skip
    assert variance_of(chosen) <= (1 + TOLERANCE) * min(others)
    # a cap around the pole (PrivUnit), which has no exact coins, would be this near
    ideal = endless_shrinkage(epsilon, dimension) ** -2
    assert variance_of(chosen) < 1.05 * ideal
    assert ball_round(1, 1, **given).mechanism == "ball-bit"


def test_numbers_take_one_bit_unless_their_spread_is_known():
    for epsilon in (*EPSILONS, (0.1, 0.5, 1, 6)):
        given = {"epsilon": epsilon, "persons": 9}
        assert mean_round(0, 1, **given).mechanism == "one-bit"
        wide = mean_round(0, 1, sigma=0.5, **given)
        assert wide.mechanism == "one-bit"  # half the range: nothing is known
    assert mean_round(0, 1, sigma=0.05, epsilon=2, persons=9).mechanism == "hybrid"
    protocol = WinsorizedRounds.of(-9, 9, tau=1, epsilon=[0.1, 0.5, 1, 6], persons=900)
    location = protocol.locate(
        tally_many(protocol.vote(), np.zeros(900), epsilon=1.0, noise=SimulatedNoise(1))
    )
    second = protocol.mean(location)
    assert (second.mechanism, second.sigma) == ("hybrid", (1.0,))
    assert protocol.vote().mechanism == "subset"


def test_a_public_spread_makes_weights_for_it():
    n, levels, sigma = 6000, [1.0, 8.0], 0.125
    given = {"epsilon": levels, "persons": n, "mechanism": "hybrid"}
    plain, told = mean_round(-1, 1, **given), mean_round(-1, 1, sigma=sigma, **given)
    laws = [scalar_law(plain, k) for k in (0, 1)]
    x = np.clip(np.random.default_rng(1).normal(0.2, sigma, n), -1, 1)
    person = np.where(np.arange(n) < 0.9 * n, 1.0, 8.0)
    radii = []
    for round_, variances in (
        (plain, [law.variance for law in laws]),
        (told, [law.at(sigma) for law in laws]),
    ):
        counted = tally_many(round_, x, epsilon=person, noise=SimulatedNoise(2))
        answer = estimate(counted, weights="minimax")
        ratio = answer.levels[1].weight / answer.levels[0].weight
        assert ratio == pytest.approx(variances[0] / variances[1])
        radii.append(answer.radius)
    assert "standard deviation" in answer.notes[0]
    assert radii[1] < 0.5 * radii[0]
    for wrong in ([0.1, 0.2], 0):
        with pytest.raises(ArgumentError):
            mean_round(-1, 1, epsilon=1, persons=9, sigma=wrong)


def test_radii_with_a_public_spread_hold():
    n, runs, sigma = 300, 60, 0.2
    dice, noise = np.random.default_rng(3), SimulatedNoise(4)
    for mechanism in ("piecewise", "hybrid"):
        round_ = mean_round(
            -1, 1, epsilon=[0.5, 4], persons=n, mechanism=mechanism, sigma=sigma, beta=0.1
        )
        misses = 0
        for _ in range(runs):
            # two points with this standard deviation, as uneven as they can be
            p = 0.02
            a = sigma / math.sqrt(p * (1 - p))
            x = np.where(dice.uniform(size=n) < p, -0.8 + min(a, 1.8), -0.8)
            truth = -0.8 + p * min(a, 1.8)
            own = dice.choice([0.5, 4.0], n)
            answer = estimate(tally_many(round_, x, epsilon=own, noise=noise), weights="minimax")
            misses += abs(float(answer) - truth) > answer.radius
        assert_rate_at_most(misses, runs, 0.1)


# -- a client's own epsilon


def test_a_ladder_uses_the_clients_own_epsilon():
    round_ = mean_round(0, 1, epsilon=["0.1", 4], step="0.001", persons=1000)
    assert len(round_.menu) == 3901
    assert len(round_.to_json()) < 400
    assert Round.from_json(round_.to_json()) == round_
    for own in (0.1, 0.734, 1.125, 3.999, 4, 9):
        level = round_.level(own)
        assert round_.menu[level] == min(Fraction(repr(float(own))), 4)
    assert round_.menu[round_.level("0.73499")] == Fraction(734, 1000)
    with pytest.raises(ArgumentError, match="smallest"):
        round_.level(0.0999)
    server = Aggregator(round_)
    for own in (0.734, 1.125):
        report = randomize(round_, 0.4, epsilon=own)
        assert int.from_bytes(report[28:30], "little") == round_.level(own)
        server.add(report)
    assert [item.epsilon for item in server.estimate().levels] == [0.734, 1.125]


def test_a_ladder_has_two_ends_and_whole_steps():
    for ends, step in (([0.1, 4], "0.7"), ([0.1, 0.3, 4], "0.1")):
        with pytest.raises(ArgumentError):
            mean_round(0, 1, persons=9, epsilon=ends, step=step)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["one-bit", "piecewise", "hybrid"])
def test_a_ladder_estimates_as_well_as_its_epsilons_allow(mechanism):
    n, runs = 1500, 25
    dice, noise = np.random.default_rng(7), SimulatedNoise(8)
    ladder = mean_round(-1, 1, epsilon=[0.1, 4], step="0.05", persons=n, mechanism=mechanism)
    misses, covered, off = 0, 0, []
    own = dice.choice(np.arange(2, 81) / 20, n)
    for _ in range(runs):
        x = np.clip(dice.normal(0.3, 0.3, n), -1, 1)
        answer = estimate(tally_many(ladder, x, epsilon=own, noise=noise), weights="minimax")
        off.append(float(answer) - 0.3)
        misses += abs(off[-1]) > answer.radius
        band = answer.interval()
        covered += band.lower[0] <= 0.3 <= band.upper[0]
        assert len(answer.levels) <= 8
        assert sum(item.reports for item in answer.levels) == n
    assert_rate_at_most(misses, runs, 0.05)
    assert_rate_at_most(runs - covered, runs, 0.05)
    told = sum(1 / scalar_law(ladder, ladder.level(e)).at(0.3) for e in own.tolist())
    assert np.std(off) < 1.8 / math.sqrt(told)


def test_a_relation_on_a_ladder_is_seen():
    n = 6000
    dice = np.random.default_rng(9)
    own = np.round(dice.uniform(0.1, 4, n), 2)
    ladder = mean_round(-1, 1, epsilon=[0.1, 4], step="0.01", persons=n)
    x = np.where(own > 2, 0.6, -0.4)
    answer = estimate(tally_many(ladder, x, epsilon=own, noise=SimulatedNoise(3)))
    assert answer.heterogeneity.related
    assert answer.used == "uniform"


# -- plans and limits


@pytest.mark.parametrize(
    "round_",
    [
        mean_round(0, 24, epsilon=[0.5, 1], persons=10_000),
        mean_round([0, 0], [1, 9], epsilon=[1, 4], persons=10_000, sigma=0.2),
        ball_round(2, 20, epsilon=[1, 4], persons=10_000),
        items_round(16, epsilon=[0.5, 2], persons=10_000),
        vote_round(0, 1, 9, epsilon=2, persons=10_000),
        items_round(2**25, epsilon=2, persons=10_000),
        mean_round(0, 1, epsilon=[0.1, 4], step="0.001", persons=10_000),
    ],
)
def test_a_plan_says_why_and_what_nothing_can_do_better(round_):
    plan = plan_round(round_)
    text = str(plan)
    assert plan.mechanism == plan.choice.mechanism == round_.mechanism
    assert text.splitlines()[0] == f"Collection round: {round_.mechanism}"
    assert "no protocol has less than" in text
    assert 0 < plan.limit.rmse <= plan.rmse
    assert 0 < plan.limit.radius <= plan.radius
    json.loads(json.dumps(plan.to_dict(), allow_nan=False))


def test_the_planned_radius_is_the_one_that_comes():
    n = 4000
    own = np.where(np.arange(n) < n / 2, 0.5, 2.0)
    for round_, x in (
        (mean_round(0, 24, epsilon=[0.5, 2], persons=n), np.full(n, 7.0)),
        (ball_round(1, 5, epsilon=[0.5, 2], persons=n), np.zeros((n, 5))),
        (items_round(300, epsilon=[0.5, 2], persons=n, mechanism="hadamard"), np.zeros(n)),
    ):
        counted = tally_many(round_, x, epsilon=own, noise=SimulatedNoise(1))
        answer = estimate(counted, weights="minimax")
        assert plan_round(round_).radius == pytest.approx(answer.raw_radius, rel=1e-6)


def test_limits_are_below_what_is_reached_and_near_it_for_numbers():
    for epsilon in EPSILONS:
        e, n = np.array([epsilon]), np.array([1e6])
        reached = 1 / (math.tanh(epsilon / 2) * 1e3)
        assert 1 <= reached / mean_rmse(e, n) < 1.1
        hoeffding = math.sqrt(2 * math.log(40)) * reached
        assert 1 < hoeffding / mean_radius(e, n, 0.05) < 2.2
        for d in (2, 20):
            given = ball_round(1, d, epsilon=epsilon, persons=10**6)
            own = math.sqrt(variance_of(given) / 1e6)
            assert 1 <= own / vector_rmse(e, n, d) < 3
        assert share_radius(e, n, 100, 0.05) <= 0.5


def test_the_bayes_risk_of_reports_themselves_is_above_the_limit():
    """Exact: 40 randomized responses at one epsilon, mean with the cosine prior."""
    n, epsilon = 40, 1.0
    t = math.tanh(epsilon / 2)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    prior = weights * np.cos(math.pi * nodes / 2) ** 2
    chance = (1 + t * nodes) / 2
    k = np.arange(n + 1)[:, None]
    log_law = (
        np.array([math.log(math.comb(n, j)) for j in range(n + 1)])
    )[:, None] + k * np.log(chance) + (n - k) * np.log(1 - chance)  # fmt: skip
    joint = np.exp(log_law) * prior
    posterior = (joint * nodes).sum(axis=1) / joint.sum(axis=1)
    bayes = (joint * (nodes - posterior[:, None]) ** 2).sum()
    limit = mean_rmse(np.array([epsilon]), np.array([float(n)]))
    risk = bayes / prior.sum()
    assert 0.5 * risk < limit**2 <= risk * (1 + 1e-9)


def test_no_test_of_responses_beats_the_radius_limit():
    """Exact total variation of 30 responses at means d and -d, just below the limit."""
    n, epsilon, beta = 30, 1.0, 0.05
    d = mean_radius(np.array([epsilon]), np.array([float(n)]), beta)
    p = (1 + d * math.tanh(epsilon / 2)) / 2
    law = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    apart = sum(abs(a - b) for a, b in zip(law, law[::-1], strict=True)) / 2
    assert 1 - apart >= 2 * beta


def test_who_has_other_epsilons_has_another_limit():
    round_ = mean_round(-1, 1, epsilon=[0.1, 1], persons=9)
    few = lower_bound(round_, [(0.1, 900), (1, 100)])
    many = lower_bound(round_, [0.1] * 900 + [1] * 100)
    assert few.rmse == pytest.approx(many.rmse)
    assert lower_bound(round_, [(1, 1000)]).rmse < few.rmse
    with pytest.raises(ArgumentError):
        lower_bound(round_, [])
