"""Coverage, statuses and equivariance of intervals for one mean."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

import statistics_kit
from privmean.errors import ArgumentError
from privmean.inference.clipped_intervals import ColumnIntervals, OutlierCheck
from privmean.inference.interval import NoInterval, grouped_design_effect, sidak_level
from privmean.inference.mean_interval import (
    ClippingBiasBound,
    ClipUnits,
    NoisySums,
    ends_of,
    half_of,
)
from privmean.inference.status import MODIFIED_TARGET, OUTLIERS_CLIPPED


def test_noise_interval_is_exact_for_any_data():
    g = np.random.default_rng(10)
    draws, level = 40_000, 0.9
    sums = NoisySums(0.0, 0.0, 100, 2.0, 4.0)
    half = ColumnIntervals(sums).noise_interval(level).upper[0]
    statistics_kit.assert_rate(
        int((np.abs(g.laplace(0, 2 / 100, draws)) <= half).sum()), draws, level
    )


@pytest.mark.slow
def test_a_noisy_number_of_persons_is_inverted_not_trusted():
    g = np.random.default_rng(11)
    n, epsilon, runs = 300, 0.3, 400
    hits = naive = 0
    for _ in range(runs):
        z = np.where(g.random(n) < 0.95, -1.0, 1.0) * 0.944
        a = (1 + z) / 2
        cells = np.array([(a**2).sum(), (2 * a * (1 - a)).sum(), ((1 - a) ** 2).sum()])
        high, middle, low = cells + g.laplace(0, 1 / epsilon, 3)
        count = high + middle + low
        sums = NoisySums(
            high - low, high + low - middle, count, 1 / epsilon, 2 / epsilon, partition=True
        )
        lower, upper = ends_of(sums, 0.95)
        truth = -0.944 * 0.9
        hits += lower <= truth <= upper
        trusted = NoisySums(high - low, high + low - middle, count, 0.01, 0.01)
        naive += abs(trusted.mean - truth) <= half_of(trusted, 0.95)
    statistics_kit.assert_rate_at_least(hits, runs, 0.93)
    assert naive < hits


def test_nulls_that_are_seen_are_left_out_and_cost_length():
    public = NoisySums(-400.0, 380.0, 1000, 2.0, 4.0)
    ratio = NoisySums(-400.0, 380.0, 1000, 2.0, 4.0, count_scale=4.0)
    low, high = ends_of(public, 0.95)
    low2, high2 = ends_of(ratio, 0.95)
    assert high2 - low2 > high - low
    assert low2 < ratio.mean < high2


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.002, 0.008])
def test_interval_for_the_mean_covers_when_the_tail_is_as_heavy_as_assumed(share):
    """Everybody beyond the limit exceeds it by exactly the stated reach: the worst allowed bias."""
    g = np.random.default_rng(13)
    n, runs, reach, count_scale = 1000, 300, 1.0, 4.0
    truth = share * (1 + reach)
    hits = bare = 0
    for _ in range(runs):
        z = np.clip(g.normal(0, 0.3, n), -1, 1)
        beyond = g.random(n) < share
        z[beyond] = 1.0
        sums = NoisySums(z.sum() + g.laplace(0, 2), (z**2).sum() + g.laplace(0, 4), n, 2.0, 4.0)
        counted = beyond.sum() + g.laplace(0, count_scale)
        low, high = ends_of(sums, 0.95, 1.0, ClippingBiasBound(reach * counted, count_scale, reach))
        hits += low <= truth <= high
        bare += abs(sums.mean - truth) <= half_of(sums, 0.95)
    statistics_kit.assert_rate_at_least(hits, runs, 0.945)
    if share > 0.005:
        assert bare < 0.9 * runs


def test_allowance_is_floored_and_widens_both_ends():
    sums = NoisySums(100.0, 300.0, 1000, 2.5, 5.0)
    ends = [
        ends_of(sums, 0.95, 1.0, ClippingBiasBound(total, 6.0, 1.0)) for total in (0.0, 5.0, 20.0)
    ]
    assert ends[0][0] > ends[1][0] > ends[2][0]
    assert ends[0][1] < ends[1][1] < ends[2][1]
    assert ends[2][1] - ends[0][1] >= 20.0 / 1000
    negative = ends_of(sums, 0.95, 1.0, ClippingBiasBound(-30.0, 6.0, 1.0))
    zero = ends_of(sums, 0.95, 1.0, ClippingBiasBound(0.0, 6.0, 1.0))
    assert negative == zero


def test_statuses_and_targets():
    sums = NoisySums(100.0, 300.0, 1000, 2.5, 5.0)
    maker = ColumnIntervals(
        sums,
        ClipUnits(0.0, 2.0, (-2.0, 2.0)),
        allowance=ClippingBiasBound(1.0, 6.0, 1.0),
        check=OutlierCheck(1000, 1.0, 6.0),
    )
    assert maker.interval(0.95, None).target == "mean"
    assert "could go undetected" in maker.interval(0.95, None).assumption
    assert maker.interval(0.95, "clipped").target == "clipped mean"
    assert maker.interval(0.95, "clipped mean") == maker.interval(0.95, "clipped")
    inner, outer = maker.interval(0.95, "clipped"), maker.interval(0.95, "mean")
    assert inner.half_widths.keys() < outer.half_widths.keys()
    seen = ColumnIntervals(
        sums, allowance=ClippingBiasBound(30.0, 6.0, 1.0), check=OutlierCheck(1000, 30.0, 6.0)
    )
    assert seen.interval(0.95, None).status == OUTLIERS_CLIPPED
    assert "fewer than about 28 people far outside" in seen.interval(0.95, None).assumption
    thick = ColumnIntervals(
        sums, allowance=ClippingBiasBound(90.0, 6.0, 1.0), check=OutlierCheck(1000, 90.0, 6.0)
    )
    shown = thick.interval(0.95, None)
    assert (shown.status, shown.target) == (MODIFIED_TARGET, "clipped mean")
    with pytest.raises(ArgumentError, match="counted"):
        ColumnIntervals(sums).interval(0.95, "mean")
    with pytest.raises(ArgumentError, match="Choose one"):
        maker.interval(0.95, "median")
    nothing = ColumnIntervals(None, status="failed")
    assert nothing.interval(0.9, None).upper == (math.inf,)
    assert nothing.noise_interval(0.9).lower == (-math.inf,)
    assert NoInterval(ranges=[(0.0, 1.0)]).interval(0.95).upper == (1.0,)


def test_gaussian_law_uses_normal_quantiles():
    sums = NoisySums(0.0, 250.0, 1000, 30.0, 18.0, law="gaussian")
    half = half_of(sums, 0.95)
    sd = math.sqrt(250.0 + 1.5 * 18.0)
    assert half == pytest.approx(1.959964 * math.hypot(sd, 30.0) / 1000, rel=1e-6)
    assert ndtr(1.959964) == pytest.approx(0.975)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_the_part_for_undetected_outliers_is_the_noise_of_the_allowance(law):
    """Alone it covers that noise exactly, and the parts add up to the interval at least."""
    sums = NoisySums(100.0, 900.0, 4000, 20.0, 40.0, law)
    allowance = ClippingBiasBound(30.0, 60.0, 1.0)
    made = ColumnIntervals(sums, allowance=allowance, check=OutlierCheck(4000, 30.0, 60.0))
    one = made.interval(0.95, None)
    parts = {name: half[0] for name, half in one.half_widths.items()}
    noise = np.random.default_rng(1).normal(0, 60, 400_000)
    if law == "laplace":
        noise = np.random.default_rng(1).laplace(0, 60, 400_000)
    share = np.mean(np.abs(noise) / 4000 <= parts["undetected outliers"])
    assert share == pytest.approx(0.95, abs=0.002)
    assert parts["clipping allowance"] == pytest.approx(30 / 4000)
    assert (one.upper[0] - one.lower[0]) / 2 < sum(parts.values())
    assert "undetected outliers" not in made.interval(0.95, "clipped").half_widths


def test_sidak_level():
    assert sidak_level(0.95, 1) == pytest.approx(0.95)
    assert sidak_level(0.95, 4) ** 4 == pytest.approx(0.95)
    assert sidak_level(0.95, 50) > 1 - 0.05 / 40


def test_public_design_effects():
    assert grouped_design_effect([1] * 10, 0.7) == 1
    assert grouped_design_effect([50] * 100, 0.05) == pytest.approx(3.45)
    for bad in (1.2, -0.1):
        with pytest.raises(ArgumentError):
            grouped_design_effect([5, 5], bad)
    with pytest.raises(ArgumentError):
        grouped_design_effect([], 0.5)
