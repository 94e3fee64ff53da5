"""Local reports as published: exact laws, unbiased estimates, radii."""

import math
from fractions import Fraction

import numpy as np
import pytest
from heterogeneous_local_cases import ball_laws, vote_laws

from privmean import ArgumentError
from privmean.auditing.audit_local import largest_ratio
from privmean.local.exact_coins import SimulatedEntropy, power_of_e
from privmean.local.round_builders import mean_round
from privmean.published import (
    ball_mean,
    item_shares,
    laplace_mean,
    randomized_response_mean,
)
from privmean.published import heterogeneous_local as local
from privmean.published.heterogeneous_local import laplace_radius
from statistics_kit import assert_mean, assert_rate_at_most

MIX = np.where(np.arange(500) < 450, 0.1, 1.0)


def test_laplace_reports_are_on_the_grid_and_have_the_published_noise():
    """At epsilon 1/8 the scale is 16; a wrong twin has 10."""
    people = local._People.of([0.25] * 1500, 0.125, SimulatedEntropy(1))
    draws = local.laplace_reports(people, mean_round(-1, 1, epsilon=1, persons=9)) - 0.25
    assert_mean(draws, 0.0)
    assert_mean(draws**2, 2 * 16.0**2)
    with pytest.raises(AssertionError):
        assert_mean(draws**2, 2 * 10.0**2)


@pytest.mark.parametrize("laws", [ball_laws, vote_laws])
def test_reports_that_spend_twice_are_caught(laws):
    for epsilon, private in ((Fraction(1), True), (Fraction(2), False)):
        found = laws(epsilon)
        worst = max(largest_ratio(first, second) for first in found for second in found)
        assert (worst <= Fraction(power_of_e(Fraction(1)))) == private


# --- estimates ------------------------------------------------------------------------------------


def errors(estimate, truth, runs):
    return np.array([estimate(SimulatedEntropy(k)).raw - truth for k in range(runs)])


@pytest.mark.slow
def test_weights_of_laplace_reports_by_the_table_of_the_paper():
    """Of squared errors over the least, 90 % at .1 and 10 % at 1: uniform 8.83, printed 1.042."""
    x = np.random.default_rng(0).choice([-1.0, 1.0], 500)
    squares = {
        weights: errors(
            lambda coins, w=weights: laplace_mean(x, -1, 1, epsilon=MIX, weights=w, entropy=coins),
            0.0,
            60,
        )[:, 0]
        ** 2
        for weights in ("uniform", "printed", "minimax")
    }
    assert_mean(squares["uniform"] - 8.83 * squares["minimax"], 0.0)
    assert_mean(squares["printed"] - 1.042 * squares["minimax"], 0.0)


def test_radii_of_the_reference_mix():
    """n = 5000, 4488 at epsilon .1 and 512 at 1, beta .05: Chernoff's .3440, Hoeffding's .2474."""
    epsilons = np.repeat([0.1, 1.0], [4488, 512])
    raw = 1 / (1 + 8 / epsilons**2)
    assert laplace_radius(epsilons, raw / raw.sum(), 0.05) == pytest.approx(0.3440, abs=5e-5)
    found = randomized_response_mean(
        np.ones(5000), -1, 1, epsilon=epsilons, entropy=SimulatedEntropy(1)
    )
    assert found.radius == pytest.approx(0.2474, abs=5e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimate", "truth"),
    [
        (lambda x, **k: laplace_mean(x, -1, 1, **k), 0.3),
        (lambda x, **k: laplace_mean(x, -1, 1, weights="minimax", **k), 0.3),
        (lambda x, **k: randomized_response_mean(x, -1, 1, **k), 0.3),
        (lambda x, **k: ball_mean(np.c_[x, 0 * x, 0 * x], 1, 3, **k), (0.3, 0, 0)),
        (lambda x, **k: item_shares((x > 0).astype(int), 4, **k), (0.35, 0.65, 0, 0)),
    ],
)
def test_estimates_are_unbiased_and_their_radii_hold(estimate, truth):
    rng, runs, off, misses = np.random.default_rng(2), 60, [], 0
    own = np.repeat([0.5, 2.0, 6.0], [200, 200, 100])
    for k in range(runs):
        x = np.where(rng.uniform(size=500) < 0.65, 1.0, -1.0)
        found = estimate(x, epsilon=own, beta=0.2, entropy=SimulatedEntropy(k))
        error = found.value - truth
        size = np.linalg.norm(error) if found.norm == "l2" else abs(error).max()
        misses += size > found.radius
        off.append(found.raw - truth)
        assert not found.secure
        assert found.people == {0.5: 200, 2.0: 200, 6.0: 100}
    assert_rate_at_most(misses, runs, 0.2)
    for coordinate in np.array(off).T:
        assert_mean(coordinate, 0.0, slack=0.02)  # a sketch has a bias, which its radius has


def test_missing_values_send_reports_and_few_people_learn_the_trivial_radius():
    for value in (None, math.nan, "text", [1, 2]):
        found = laplace_mean([value] * 3, 0, 10, epsilon=[1, 1, 2])
        assert (float(found.value[0]), found.radius, found.secure) == (5.0, 5.0, True)
    with pytest.raises(ArgumentError, match="has length 1, but there are 2 values"):
        laplace_mean([1, 2], 0, 1, epsilon=[1])
    with pytest.raises(ArgumentError, match="values is empty"):
        laplace_mean([], 0, 1, epsilon=1)
    with pytest.raises(ArgumentError, match="weights"):
        ball_mean([[1, 0]], 1, 2, epsilon=1, weights="best")
