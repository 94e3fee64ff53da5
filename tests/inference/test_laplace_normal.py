"""Tails of sums of Laplace and normal errors against quadrature and limits, many at once against
each alone; the half length beside a noisy allowance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from privmean.inference import laplace_normal
from privmean.inference.laplace_normal import (
    allowance_half_lengths,
    allowance_miss,
    bounded_quantiles,
    find_roots,
    find_smooth_root,
    gaussian_margin,
    margin,
    sum_quantile,
    sum_quantiles,
    sum_tail,
    survival,
)
from statistics_kit import allowance_half_length, bounded_quantile, half_length


def by_quadrature(t: float, b: float, s: float) -> float:
    def inner(x: float) -> float:
        return float(stats.laplace.sf(t - x, scale=b) * stats.norm.pdf(x, scale=s))

    reach = 12 * s
    marks = [t] if -reach < t < reach else None
    value, _ = integrate.quad(inner, -reach, reach, points=marks, limit=400, epsabs=1e-14)
    return value


@pytest.mark.slow
@pytest.mark.parametrize("b", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("s", [0.2, 1.0, 3.0])
def test_one_scale_agrees_with_quadrature(b, s):
    for t in (-3.0, -0.4, 0.0, 0.7, 2.5, 9.0):
        assert float(survival(t, [b], s)) == pytest.approx(by_quadrature(t, b, s), abs=1e-10)


def test_limits_and_extremes_stay_finite():
    t = np.array([-50.0, -1.0, 0.0, 0.5, 3.0, 700.0])
    np.testing.assert_allclose(survival(t, [1.0], 1e-12), stats.laplace.sf(t), atol=1e-9)
    np.testing.assert_allclose(survival(t, [1e-9], 2.0), stats.norm.sf(t, scale=2.0), atol=1e-12)
    np.testing.assert_allclose(survival(t, [0.0], 2.0), stats.norm.sf(t, scale=2.0), atol=1e-12)
    for ratio in (1e-9, 1e-3, 1.0, 1e3, 1e9):
        values = survival(t, [1.0], ratio)
        assert np.all(np.isfinite(values))
        assert np.all(np.diff(values) <= 0)


@pytest.mark.parametrize("scales", [(1.0, 2.0), (1.0, 1.0), (0.5, 1.0, 2.5), (1.0, 1.0, 2.0)])
def test_several_scales_agree_with_a_numerical_convolution(scales):
    step = 0.005
    x = np.arange(-60, 60, step) + step / 2
    law = stats.norm.pdf(x, scale=0.8) * step
    transform = np.fft.fft(np.fft.ifftshift(law))
    for b in scales:
        piece = stats.laplace.cdf(x + step / 2, scale=b) - stats.laplace.cdf(x - step / 2, scale=b)
        transform = transform * np.fft.fft(np.fft.ifftshift(piece))
    total = np.fft.fftshift(np.fft.ifft(transform).real)
    upper = total[::-1].cumsum()[::-1]
    for t in (0.0, 1.0, 3.0, 7.0):
        at = int(np.searchsorted(x, t))
        got = float(survival(x[at] - step / 2, scales, 0.8))  # the grid is off by under a step
        assert got == pytest.approx(upper[at], abs=3e-3), (scales, t)


@pytest.mark.slow
@pytest.mark.parametrize(("tau", "rho"), [(0.3, 0.7), (2.0, 0.7), (5.0, 2.8), (1.0, 5.0)])
def test_allowance_half_length_keeps_the_miss_probability_for_every_allowance(tau, rho):
    alpha = 0.05
    level = (np.arange(20000) + 0.5) / 20000
    noise = stats.laplace.ppf(level)

    def worst(half: float) -> float:
        misses = []
        for w in np.concatenate([[0.0], np.geomspace(0.05, 100, 60)]) * max(1.0, rho):
            extra = np.maximum(w + rho * noise, 0.0)
            miss = survival(half + extra - w, [1.0], tau) + survival(half + extra + w, [1.0], tau)
            misses.append(miss.mean())
        return max(misses)

    half = allowance_half_length(tau, rho, alpha)
    assert alpha * 0.97 <= worst(half) <= alpha * 1.01  # holds, and is not longer than needed
    if rho > 1:  # adding a noisy allowance to the plain quantile is not enough
        assert worst(half_length(tau, alpha)) > alpha * 1.1


def test_margins():
    assert margin(0.9) == margin(0.95) == 1.0
    assert margin(0.99) == pytest.approx(2.0, abs=0.01)
    assert margin(0.999) > margin(0.99)
    levels = [0.5, 0.9, 0.95, 0.99, 0.995, 0.999]
    values = [gaussian_margin(item) for item in levels]
    assert values[:5] == pytest.approx([1.0, 1.0, 1.5, 3.0, 4.0])
    assert values[5] > 4.0


TAILS = [0.45, 0.3, 0.025, 1e-4, 1e-6]


def hostile(rows, width, seed=2):
    """Scales and deviations of any size: equal, nearly equal, none, far apart."""
    rng = np.random.default_rng(seed)
    scales = 10.0 ** rng.uniform(-6, 6, (rows, width)) * (rng.random((rows, width)) < 0.8)
    scales[::7] = scales[::7, :1]
    scales[1::7, 1:] = scales[1::7, :1] * (1 + 1e-4 * rng.random((len(scales[1::7]), width - 1)))
    sd = 10.0 ** rng.uniform(-8, 6, rows) * (rng.random(rows) < 0.8)
    unit = 10.0 ** rng.choice([-100, 0, 100], rows)
    return scales * unit[:, None], sd * unit


def agree(found, one_by_one, unit):
    """To 1e-9 of the number, or of the unit where the number is nothing beside it."""
    expected = np.array(one_by_one)
    assert np.isfinite(expected).all()
    room = 1e-9 * np.maximum(np.abs(expected), 1e-6 * unit)
    assert (np.abs(found - expected) <= room).all(), np.abs(found - expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("width", [3, 6])
@pytest.mark.parametrize("tail", TAILS)
def test_sums_of_rows_are_those_of_each_row(tail, width):
    scales, sd = hostile(120, width)
    unit = scales.max(axis=1) + sd
    one_by_one = [sum_quantile(tail, row, float(s)) for row, s in zip(scales, sd, strict=True)]
    agree(sum_quantiles(tail, scales, sd), one_by_one, unit)
    # a brute search on the tail itself, which no search of ours takes part in
    for row in range(0, 120, 10):
        if unit[row] == 0:
            assert one_by_one[row] == 0
            continue
        b, s = scales[row] / unit[row], float(sd[row] / unit[row])
        root = optimize.brentq(lambda x, b=b, s=s: sum_tail(x, b, s) - tail, 0, 60, xtol=1e-12)
        assert one_by_one[row] / unit[row] == pytest.approx(root, rel=1e-5, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("width", [3, 6])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.9999])
def test_rows_with_room_for_a_bias_are_those_of_each_row(level, width):
    scales, sd = hostile(120, width)
    unit = scales.max(axis=1) + sd
    rng = np.random.default_rng(4)
    room = 10.0 ** rng.uniform(-6, 6, 120) * unit
    room[::5], room[1::5] = 0.0, math.inf
    one_by_one = [
        bounded_quantile(level, float(w), row, float(s))
        for w, row, s in zip(room, scales, sd, strict=True)
    ]
    agree(bounded_quantiles(level, room, scales, sd), one_by_one, unit)


def test_known_laws():
    for unit in (1e-140, 1.0, 1e140):  # squares of these are no doubles with digits
        one = np.array([[unit, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
        found = sum_quantiles(0.025, one, np.array([0.0, unit, 0.0])) / unit
        np.testing.assert_allclose(found, [math.log(20), stats.norm.isf(0.025), 0.0], rtol=1e-8)
    assert sum_quantile(0.025, [math.inf, 1.0], 0.0) == math.inf
    assert math.isnan(sum_quantile(0.025, [1.0], math.nan))
    assert sum_quantile(0.5, [1.0], 1.0) == pytest.approx(0.0, abs=1e-6)


def test_a_flat_function_has_a_root_too():
    # the rule would divide by nothing
    assert find_roots(lambda x, _: 0.0 * x, 0.1, np.zeros(2), np.ones(2)).shape == (2,)


def test_roots_of_rows_are_found_in_few_steps():
    levels = np.array([1e-3, 0.2, 0.7, 0.999])
    calls = []

    def tails(x, rows):
        calls.extend(rows)
        return np.exp(-x * x) / levels[rows]

    found = find_roots(tails, 1.0, np.zeros(4), np.full(4, 40.0), 1e-10)
    assert len(calls) < 80  # steps by halves would be 150
    np.testing.assert_allclose(found, np.sqrt(-np.log(levels)), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.1, 0.05, 2e-4])
def test_half_lengths_with_allowances_are_those_of_each_row(alpha):
    rng = np.random.default_rng(6)
    tau, rho = np.exp(rng.uniform(-3, 4, 90)), np.exp(rng.uniform(-4, 3, 90))
    tau[::11], rho[::7] = 0.0, 0.0
    scales = np.column_stack([np.ones(90), rng.random((90, 2)) * (rng.random((90, 2)) < 0.5)])
    found = allowance_half_lengths(tau, rho, alpha, scales)
    rows = list(zip(tau.tolist(), rho.tolist(), map(tuple, scales.tolist()), strict=True))
    each = [allowance_half_length(t, r, alpha, b) for t, r, b in rows]
    assert np.abs(found / each - 1).max() < 2e-11
    for (t, r, b), half in list(zip(rows, found.tolist(), strict=True))[::5]:
        root = optimize.brentq(
            lambda h, t=t, r=r, b=b: allowance_miss(h, t, r, b) - alpha, 1e-3, 1e4, xtol=1e-9
        )
        assert half == pytest.approx(root, rel=3e-6)


@pytest.mark.parametrize(("alpha", "value"), [(0.1, 2.07), (0.05, 2.82), (0.01, 4.47)])
def test_noise_only_allowance_half_lengths(alpha, value):
    assert allowance_half_length(0.0, 0.7, alpha) == pytest.approx(value, rel=0.012)


@pytest.mark.parametrize("scales", [(1.0,), (1.0, 0.2), (1.0, 1.0, 3.0)])
def test_bounds_of_misses_are_never_below_them(scales):
    rng = np.random.default_rng(7)
    tau, rho, half = np.exp(rng.uniform([[-4], [-4], [-2]], [[4], [4], [3]], (3, 40)))
    moved = [np.full(40, item) for item in laplace_normal._apart(scales)]
    rows = laplace_normal._Allowed(tau, rho, moved)
    exact, bound = (
        found(half, np.arange(40), laplace_normal._ALLOWANCES[None, :])
        for found in (rows.misses, rows.bounds)
    )
    assert (bound >= exact * (1 - 1e-9) - 1e-13).all()
    assert (bound <= 1.5 * exact + 1e-13).mean() > 0.9


def test_smooth_roots():
    def curve(x: float) -> list[float]:
        tail = math.exp(-x - x * x)
        return [tail, -(1 + 2 * x) * tail, ((1 + 2 * x) ** 2 - 2) * tail]

    root = (math.sqrt(1 + 4 * math.log(100)) - 1) / 2
    for start in (0.3, 1.6, 9.0, 50.0):
        assert find_smooth_root(curve, 0.01, start, 10.0) == pytest.approx(root, rel=1e-10)
    assert find_smooth_root(curve, 0.01, 1.0, 1.5) is None
