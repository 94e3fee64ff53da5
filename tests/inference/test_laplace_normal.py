"""Tails of Laplace plus normal sums against quadrature and limits; the allowance's half length."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from privmean.inference.laplace_normal import (
    gaussian_margin,
    margin,
    quantile,
    survival,
)
from statistics_kit import allowance_half_length, half_length


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


def test_quantile_inverts_survival():
    for scales, sd in (((1.0,), 0.0), ((1.0,), 2.0), ((1.0, 0.3), 0.5), ((), 1.0)):
        for tail in (0.05, 0.025, 0.001):
            at = quantile(tail, scales, sd)
            assert float(survival(at, scales, sd)) == pytest.approx(tail, rel=1e-6)


def test_half_length_without_sampling_error_is_the_laplace_quantile():
    for alpha in (0.1, 0.05, 0.01):
        assert half_length(0.0, alpha) == pytest.approx(math.log(1 / alpha))


def test_half_lengths_grow_with_the_normal_part():
    taus = [0.0, 0.1, 0.5, 1.0, 3.0, 10.0, 100.0]
    plain = [half_length(tau, 0.05) for tau in taus]
    allowed = [allowance_half_length(tau, 0.7, 0.05) for tau in taus]
    assert all(a < b for a, b in pairwise(plain))
    assert all(a <= b for a, b in pairwise(allowed))
    assert plain[-1] == pytest.approx(195.99, rel=1e-3)


@pytest.mark.parametrize(("alpha", "value"), [(0.1, 2.07), (0.05, 2.82), (0.01, 4.47)])
def test_noise_only_allowance_half_lengths(alpha, value):
    assert allowance_half_length(0.0, 0.7, alpha) == pytest.approx(value, rel=0.012)


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
