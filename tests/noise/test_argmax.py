"""The noisy argmax follows the permute-and-flip law, enumerated exactly."""

import math
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.flip_law import permute_and_flip
from privmean.noise.noise_source import ExactNoise, SimulatedNoise
from statistics_kit import ALPHA, choice_p_value

DRAWS = 6000


@pytest.mark.slow
@pytest.mark.parametrize("noise", [ExactNoise(), SimulatedNoise(2)], ids=["exact", "simulated"])
@pytest.mark.parametrize("scores", [(0, 1), (3, 3, 1), (5, 4, 4, 0), (0, -2, 0, -1, 1)])
def test_argmax_law_and_its_twins(noise, scores):
    scale = Fraction(5, 2)
    draw = [noise.argmax(np.array(scores), scale) for _ in range(DRAWS)]
    law = permute_and_flip(scores, scale)
    assert math.isclose(sum(law), 1)
    assert choice_p_value(draw, law) >= ALPHA


def test_large_scores_are_not_rounded_to_doubles():
    noise = ExactNoise()
    close = np.array([2**62, 2**62 + 1])  # the same double
    assert [noise.argmax(close, Fraction(1, 50)) for _ in range(50)] == [1] * 50
    far = np.array([2**62, -(2**62)])
    assert noise.argmax(far, Fraction(10**6)) == 0


@pytest.mark.parametrize("noise", [ExactNoise(), SimulatedNoise(2)])
def test_a_choice_needs_something_to_choose_from(noise):
    with pytest.raises(ValueError, match="at least one"):
        noise.argmax(np.array([], dtype=np.int64), Fraction(1))
