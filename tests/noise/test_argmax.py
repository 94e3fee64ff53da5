"""The noisy argmax follows the permute-and-flip law, enumerated exactly."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from privmean.noise.noise_source import ExactNoise, SimulatedNoise
from statistics_kit import ALPHA, choice_p_value

DRAWS = 6000


def permute_and_flip(scores, scale):
    """P(choice): visit items in a uniform random order, take i with probability e^(-gap/scale)."""
    accept = [math.exp(-(max(scores) - s) / float(scale)) for s in scores]
    total = [0.0] * len(scores)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = 1.0
        for item in order:
            total[item] += reached * accept[item] / len(orders)
            reached *= 1 - accept[item]
    return total


@pytest.mark.slow
@pytest.mark.parametrize("noise", [ExactNoise(), SimulatedNoise(2)], ids=["exact", "simulated"])
@pytest.mark.parametrize("scores", [(0, 1), (3, 3, 1), (5, 4, 4, 0), (0, -2, 0, -1, 1)])
def test_argmax_law_and_its_twins(noise, scores):
    scale = Fraction(5, 2)
    draw = [noise.argmax(np.array(scores), scale) for _ in range(DRAWS)]
    law = permute_and_flip(scores, scale)
    assert math.isclose(sum(law), 1)
    assert choice_p_value(draw, law) >= ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("noise", [ExactNoise(), SimulatedNoise(2)], ids=["exact", "simulated"])
def test_argmax_twins_are_caught(noise):
    """A twin 30 % off is caught by the pair of scores that shows the scale best."""
    scores, scale, draws = (0, 2), Fraction(2), 10_000
    law = permute_and_flip(scores, scale)
    correct = [noise.argmax(np.array(scores), scale) for _ in range(draws)]
    assert choice_p_value(correct, law) >= ALPHA
    for twin in (Fraction(7, 10), Fraction(13, 10)):
        wrong = [noise.argmax(np.array(scores), scale * twin) for _ in range(draws)]
        assert choice_p_value(wrong, law) < ALPHA


def test_the_law_is_private_at_two_over_scale_and_not_at_less():
    """Every pair of score vectors that move by at most 1: the loss reaches 2/scale, never more."""
    scale, worst, one_sided = Fraction(3), 0.0, 0.0
    for scores in itertools.product(range(4), repeat=3):
        law = permute_and_flip(scores, scale)
        for change in itertools.product((-1, 0, 1), repeat=3):
            other = permute_and_flip([s + c for s, c in zip(scores, change, strict=True)], scale)
            loss = max(abs(math.log(p / q)) for p, q in zip(law, other, strict=True))
            worst = max(worst, loss)
            if min(change) >= 0 or max(change) <= 0:
                one_sided = max(one_sided, loss)
    assert worst <= 2 / 3 + 1e-12
    assert worst > 0.9 * 2 / 3
    assert one_sided <= 1 / 3 + 1e-12


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
