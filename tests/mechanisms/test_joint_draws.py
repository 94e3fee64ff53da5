"""Noise of many answers: drawn together where scales are equal, each answer with its own."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from privmean.data.person_table import ClipInterval, IntervalSums
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.noisy_vector import TOGETHER, GaussianVector, LaplaceVector, drawn_each
from privmean.noise.exact import ExactNoise
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import REPLACE_ONE
from statistics_kit import ALPHA, cdf_p_value, law_p_value


class Told(SimulatedNoise):
    """Keeps what it is asked, and answers with numbers that tell the scale and the place."""

    def __init__(self):
        super().__init__(0)
        self.asked = []

    def _numbered(self, size, scale):
        self.asked.append((size, scale))
        done = sum(count for count, other in self.asked[:-1] if other == scale)
        return int(scale) * 10**6 + np.arange(done, done + size)

    laplace = gaussian = _numbered


def test_equal_scales_are_drawn_together_and_keep_their_places():
    noise, scales = Told(), [3.0, 5.0] * TOGETHER + [7.0] * (TOGETHER - 1) + [3.0]
    found = drawn_each(noise.gaussian, scales)
    assert noise.asked[:2] == [(TOGETHER + 1, 3.0), (TOGETHER, 5.0)]
    assert noise.asked[2:] == [(1, 7.0)] * (TOGETHER - 1)
    assert [number // 10**6 for number in found] == scales
    assert len(set(found)) == len(found)  # no draw is used twice
    assert found[:3] == [3_000_000, 5_000_000, 3_000_001]


def test_few_answers_are_drawn_one_by_one_in_their_order():
    """So that what a seed gives them does not change."""
    scales = [float(2 ** (k % 20)) for k in range(20 * (TOGETHER - 1))]
    one = drawn_each(SimulatedNoise(4).laplace, [Fraction(s) for s in scales])
    noise = SimulatedNoise(4)
    assert one == [int(noise.laplace(1, Fraction(s))[0]) for s in scales]
    assert drawn_each(SimulatedNoise(4).gaussian, []) == []


@pytest.mark.parametrize("width", [40, 3000])
def test_gaussian_answers_have_their_deviations(width):
    """Each of two deviations, at any width: the billed noise on every answer, independent."""
    sds = (3.0, 700.0) * width
    mechanism = GaussianVector("sums", (1,) * len(sds), sds, 1.0)
    answers = tuple(range(2 * width))
    repeat = max(1, 3000 // width)
    drawn = np.array([mechanism.draw(answers, ExactNoise()) for _ in range(repeat)], dtype=float)
    residue = drawn - np.arange(2 * width)
    for part, sd in ((residue[:, ::2], 3.0), (residue[:, 1::2], 700.0)):
        assert cdf_p_value(part.ravel(), stats.norm(scale=sd).ppf) >= ALPHA
        assert cdf_p_value(part.ravel(), stats.norm(scale=1.3 * sd).ppf) < ALPHA
    limit = 4.9 / np.sqrt(residue.size / 2)
    assert abs(np.corrcoef(residue[:, ::2].ravel(), residue[:, 1::2].ravel())[0, 1]) < limit


def test_laplace_answers_of_many_columns_have_their_scales():
    columns = 2000
    sums = ClippedSums("sums", REPLACE_ONE, columns, epsilon=Fraction(1, 2))
    found = IntervalSums(5, 3, 3, 3, 5, 3, 3, 3, 0, 0)
    over = sums.over([ClipInterval(0.0, 1.0)] * columns)
    exact = over.exact([found] * columns)
    drawn = over.draw(exact, ExactNoise())
    joint = LaplaceVector(
        (1 << 20, 1 << 40, 1), (2, 4, 4), Fraction(1, 2), REPLACE_ONE
    )  # a box of 2^20 steps
    assert {len(item) for item in exact} == {3}
    for name, scale, place in (("value", 4, 0), ("square", 8, 1), ("weight", 8, 2)):
        true = exact[0][place] / joint.units[place]
        residue = np.array([getattr(item, name) for item in drawn]) - true
        assert cdf_p_value(residue, stats.laplace(scale=scale).ppf) >= ALPHA
        # missed by chance below 1e-11 (1.3: in 3 % of runs)
        assert cdf_p_value(residue, stats.laplace(scale=1.6 * scale).ppf) < ALPHA


def test_wide_joint_laplace_has_the_law_of_a_narrow_one():
    mechanism = LaplaceVector((1 << 30,) * 3000, (1,) * 3000, Fraction(1, 2), REPLACE_ONE)
    drawn = np.array(mechanism.draw([0] * 3000, ExactNoise()))
    steps = np.rint(drawn * (1 << 30)).astype(np.int64)
    assert cdf_p_value(steps, stats.laplace(scale=2.0**31).ppf) >= ALPHA
    assert law_p_value(steps & 7, lambda k: ((k >= 0) & (k < 8)) / 8.0) >= ALPHA
