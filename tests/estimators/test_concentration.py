"""Radii hold what the assumptions promise."""

import math

import numpy as np
import pytest
from scipy import stats

from privmean.errors import ArgumentError
from privmean.estimators.concentration import (
    BetweenWithin,
    Bounded,
    BoundedWithin,
    LogSobolev,
    SubGaussian,
    UnknownScale,
    clipped_at,
)
from statistics_kit import assert_rate_at_most


@pytest.mark.parametrize("n", [10, 1000, 10**6])
@pytest.mark.parametrize("gamma", [0.01, 0.05, 0.5])
def test_normal_values_stay_inside(n, gamma):
    radii = SubGaussian(2.5).radius(n, 1, gamma)
    assert n * 2 * stats.norm.sf(radii.tau[0] / 2.5) <= gamma
    assert 2 * stats.norm.sf(radii.half[0] / 2.5) < 0.25
    assert radii.tau[0] == pytest.approx(2.5 * math.sqrt(2 * math.log(2 * n / gamma)))
    assert radii.half[0] == pytest.approx(2.039 * 2.5, rel=1e-3)


@pytest.mark.parametrize("tail", [1e-7, 1e-3, 0.02])
def test_bias_of_clipping_is_bounded(tail):
    """The bound is the integral of 2 exp(-t^2/2) beyond tau, and no normal law comes near it."""
    radii = clipped_at(SubGaussian((1.0, 3.0)), 2, tail)
    tau = radii.tau[0]
    exact = 2 * math.sqrt(2 * math.pi) * stats.norm.sf(tau)
    assert radii.beyond[0] == pytest.approx(exact, rel=1e-4)
    assert radii.beyond[1] == pytest.approx(3 * exact, rel=1e-4)
    worst_one_sided = stats.norm.expect(lambda x: x - tau, lb=tau)
    assert worst_one_sided < radii.beyond[0]
    mixed = BoundedWithin(0.3, 0.0, 2.0, 6)
    assert 0 < clipped_at(mixed, 1, tail).beyond[0] < tail * clipped_at(mixed, 1, tail).tau[0]


def test_person_means():
    ar = LogSobolev(constant=(1 + 0.95) / (1 - 0.95), records=100).radius(1000)
    assert ar.sd == (pytest.approx(math.sqrt(39 / 100)),)
    both = BetweenWithin(between_sd=0.5, within_sd=1.0, records=10).radius(1000)
    assert both.sd == (pytest.approx(math.sqrt(0.25 + 0.1)),)
    # the joint constant of a group of 100 would give 25.1 where one person's variance is 0.35
    assert both.tau[0] ** 2 == pytest.approx(2 * 0.35 * math.log(2 * 1000 / 0.05))
    dependent = BetweenWithin(between_sd=0.5, within_constant=4.0, records=10).radius(1000)
    assert dependent.sd == (pytest.approx(math.sqrt(0.25 + 0.4)),)


def test_bounded_records_stay_inside():
    """Two-valued records, the widest there are, with normal person means."""
    rng, n, records = np.random.default_rng(1), 400, 6
    assumption = BoundedWithin(between_sd=0.3, lower=0.0, upper=2.0, records=records)
    radii = assumption.radius(n, 1, 0.2)
    outside = far = 0
    for _ in range(300):
        mean = 1 + 0.3 * rng.standard_normal(n)
        y = 2 * rng.binomial(records, np.clip(mean / 2, 0, 1)) / records
        outside += np.abs(y - 1).max() > radii.tau[0]
        far += int((np.abs(y - 1) > radii.half[0]).sum())
    assert_rate_at_most(outside, 300, 0.2)
    assert_rate_at_most(far, 300 * n, 0.25)


def test_columns_have_their_own_radii():
    radii = SubGaussian((1.0, 3.0)).radius(100, 2)
    assert radii.tau[1] == pytest.approx(3 * radii.tau[0])
    assert SubGaussian(2.0).radius(100, 3).tau == SubGaussian((2.0,) * 3).radius(100, 3).tau
    assert radii.times(2.0).tau == (2 * radii.tau[0], 2 * radii.tau[1])
    with pytest.raises(ArgumentError, match="2 numbers for 3 columns"):
        SubGaussian((1.0, 3.0)).radius(100, 3)
    bounds = Bounded((0.0, -1.0), 5.0)
    assert bounds.limits(2) == ((0.0, 5.0), (-1.0, 5.0))
    assert bounds.radius(10, 2).tau == (2.5, 3.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SubGaussian(0.0),
        lambda: SubGaussian("wide"),
        lambda: SubGaussian(()),
        lambda: SubGaussian((1.0, -2.0)),
        lambda: SubGaussian(math.nan),
        lambda: LogSobolev(1.0, 0),
        lambda: BetweenWithin(1.0),
        lambda: BetweenWithin(1.0, 1.0, 5, 1.0),
        lambda: BoundedWithin(1.0, 2.0, 1.0, 5),
        lambda: Bounded(1.0, 1.0),
        lambda: Bounded(0.0, math.inf),
        lambda: UnknownScale(2.0, 1.0),
        lambda: UnknownScale(safety=0.0),
    ],
)
def test_refused(make):
    with pytest.raises(ArgumentError):
        make()
