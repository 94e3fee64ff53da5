"""Scales are rounded up, never down, and the ends of their range are defined."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privmean.noise.noise_source import LARGEST_SCALE, ExactNoise, SimulatedNoise, double_above


@given(
    st.fractions(min_value=Fraction(1, 10**9), max_value=2**56).filter(lambda f: f > 0),
)
@settings(deadline=None)
def test_the_drawn_scale_is_the_next_double_above(scale):
    drawn = double_above(scale)
    assert Fraction(drawn) >= scale
    assert Fraction(math.nextafter(drawn, 0)) < scale


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1, 10**320), Fraction(10**15, 3)])
def test_rounding_goes_up_at_any_size(scale):
    assert Fraction(double_above(scale)) >= scale


@pytest.mark.parametrize(
    "scale", [0.0, -1.0, math.inf, math.nan, LARGEST_SCALE * 1.0001, Fraction(10) ** 400, 0]
)
def test_scales_that_cannot_be_drawn_are_refused(scale):
    """By the seeded source too: what a test draws, a release can draw."""
    for noise in (ExactNoise(), SimulatedNoise(1)):
        for draw in (noise.laplace, noise.gaussian):
            with pytest.raises(ValueError, match=r"scale|NaN"):
                draw(1, scale)
        with pytest.raises(ValueError, match=r"scale|NaN"):
            noise.argmax(np.array([1, 2]), scale)


def test_tiny_scales_give_zero_and_huge_ones_stay_inside_64_bits():
    noise = ExactNoise()
    assert not noise.laplace(100, Fraction(1, 10**300)).any()
    assert not noise.gaussian(100, 1e-300).any()
    for draws in (noise.laplace(5000, Fraction(LARGEST_SCALE)), noise.gaussian(5000, 2.0**56)):
        assert draws.dtype == np.int64
        assert np.abs(draws).max() < 2**62  # P(beyond) < 5000 e^-64
        assert np.abs(draws).max() > 2**55


@pytest.mark.parametrize("size", [0, 1, 7])
def test_sizes(size):
    noise = ExactNoise()
    assert noise.laplace(size, Fraction(2)).shape == (size,)
    assert noise.gaussian(size, 2.0).shape == (size,)
    assert noise.bits64(size).shape == (size,)
