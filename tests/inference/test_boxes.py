"""Joint coverage of boxes and ellipsoids, and design effects."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import statistics_kit
from privmean.errors import ArgumentError
from privmean.inference.design_effects import (
    autoregressive_design_effect,
    grouped_design_effect,
    grouped_interval,
    proxy_half_length,
)
from privmean.inference.mean_interval import ClipUnits, NoisySums
from privmean.inference.simultaneous_boxes import ellipsoid, sidak_box, sidak_level
from privmean.mechanisms.group_spread import group_spread
from privmean.noise.simulated import SimulatedNoise


def test_sidak_level():
    assert sidak_level(0.95, 1) == pytest.approx(0.95)
    assert sidak_level(0.95, 4) ** 4 == pytest.approx(0.95)
    assert sidak_level(0.95, 50) > 1 - 0.05 / 40


def correlated(g, n, d):
    shared = g.normal(size=(n, 1))
    return np.clip(0.25 * (math.sqrt(0.5) * shared + math.sqrt(0.5) * g.normal(size=(n, d))), -1, 1)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_box_holds_all_coordinates_together(law):
    g = np.random.default_rng(2)
    d, n, runs = 3, 400, 500
    hits = separate = 0
    for _ in range(runs):
        z = correlated(g, n, d)
        scale, square = (3.0, 6.0) if law == "laplace" else (3.0, 3.0 / 1.665)
        draw = g.laplace if law == "laplace" else g.normal
        sums = [
            NoisySums(
                z[:, j].sum() + draw(0, scale),
                (z[:, j] ** 2).sum() + draw(0, square),
                n,
                scale,
                square,
                law,
            )
            for j in range(d)
        ]
        box = sidak_box(sums, middles=[0] * d, radii=[1] * d, regions=[(-1, 1)] * d, level=0.9)
        hits += all(a <= 0 <= b for a, b in zip(box.lower, box.upper, strict=True))
        one = sidak_box(sums, middles=[0] * d, radii=[1] * d, regions=[(-1, 1)] * d, level=0.9**d)
        separate += all(a <= 0 <= b for a, b in zip(one.lower, one.upper, strict=True))
    statistics_kit.assert_rate_at_least(hits, runs, 0.88)
    assert separate < hits - 0.05 * runs  # per-coordinate levels do not hold jointly
    assert box.clip_bounds == ((-1, 1),) * d


def test_ellipsoid_covers_and_its_shadow_is_simultaneous():
    g = np.random.default_rng(3)
    d, n, runs, sd = 3, 500, 500, 8.0
    hits = inside = ignored = 0
    for _ in range(runs):
        y = correlated(g, n, d) / math.sqrt(d)
        noise = g.normal(size=(d, d)) * sd
        symmetric = (noise + noise.T) / 2  # diagonal sd, off-diagonal sd/sqrt 2
        symmetric[np.diag_indices(d)] = g.normal(size=d) * math.sqrt(2) * sd
        set_ = ellipsoid(
            y.sum(axis=0) + g.normal(0, sd, d),
            y.T @ y + symmetric,
            persons=n,
            center=np.zeros(d),
            radius=2.0,
            value_sd=sd,
            moments_sd=math.sqrt(2) * sd,
            level=0.95,
        )
        hits += set_.contains(np.zeros(d))
        a = np.array([1.0, -1.0, 0.5])
        inside += abs(a @ set_.center) <= set_.half_length(a)
        plain = np.cov((2 * y).T) / n
        ignored += set_.center @ np.linalg.solve(plain, set_.center) <= set_.threshold
    statistics_kit.assert_rate_at_least(hits, runs, 0.94)
    assert inside >= hits
    assert ignored < 0.5 * runs  # noise left out of the length


def test_public_design_effects():
    assert grouped_design_effect([1] * 10, 0.7) == 1
    assert grouped_design_effect([50] * 100, 0.05) == pytest.approx(3.45)
    assert autoregressive_design_effect(0.8) == pytest.approx(9)
    for bad in (1.2, -0.1):
        with pytest.raises(ArgumentError):
            grouped_design_effect([5, 5], bad)
    with pytest.raises(ArgumentError):
        autoregressive_design_effect(1.0)
    with pytest.raises(ArgumentError):
        grouped_design_effect([], 0.5)


def test_proxy_interval_is_longer_than_the_normal_one():
    sums = NoisySums(0.0, 500.0, 1000, 2.0, 4.0)
    wide = proxy_half_length(sums, proxy=0.5, radius=1.0, level=0.95)
    sampling = math.sqrt(2 * 0.5 * math.log(80) / 1000)
    assert wide == pytest.approx(sampling + 2.0 * math.log(2 / 0.05) / 1000)


def test_released_spread_between_groups_covers_unknown_dependence():
    g = np.random.default_rng(4)
    groups, size, icc, runs, k, epsilon = 50, 20, 0.3, 400, 1000, Fraction(1)
    hits = plain = 0
    source = SimulatedNoise(g)
    for _ in range(runs):
        shared = np.repeat(g.normal(size=groups) * math.sqrt(icc), size)
        x = (shared + g.normal(size=groups * size) * math.sqrt(1 - icc)) / 4
        z = np.clip(np.rint(k * x), -k, k).astype(int)
        by_group = z.reshape(groups, size).sum(axis=1)
        spread = group_spread(
            [int(s) for s in by_group], [size] * groups, steps=k, epsilon=epsilon / 5, noise=source
        )
        value = (z.sum() + g.laplace(0, 2 * k / 0.8)) / k
        sums = NoisySums(value, (z / k) @ (z / k), groups * size, 2 / 0.8, 4 / 0.8)
        interval = grouped_interval(sums, spread, ClipUnits(0.0, 1.0, (-1, 1)), level=0.95)
        hits += interval.lower[0] <= 0 <= interval.upper[0]
        bare = sidak_box([sums], middles=[0], radii=[1], regions=[(-1, 1)], level=0.95)
        plain += bare.lower[0] <= 0 <= bare.upper[0]
    statistics_kit.assert_rate_at_least(hits, runs, 0.94)
    assert plain < 0.75 * runs


def test_too_few_groups_are_refused():
    with pytest.raises(ArgumentError, match="groups"):
        group_spread([1] * 5, [4] * 5, steps=3, epsilon=Fraction(1), noise=SimulatedNoise(1))
