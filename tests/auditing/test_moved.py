"""`sensitivity_share` against the draws: two ways to one number, with nothing in common."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from privmean.auditing.measure_loss import troubles
from privmean.auditing.replay import Recording, Transcript, paid
from privmean.data.person_table import ClipInterval, IntervalSums, L2BallSums
from privmean.mechanisms.choices import Choice, FirstBelow, GaussianArgmax, NoisyArgmax
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.curator import EachColumn
from privmean.mechanisms.histograms import (
    DyadicBins,
    GaussianStableHistogram,
    PairScale,
    StableHistogram,
)
from privmean.mechanisms.noisy_counts import GaussianCounts, NoisyCounts, as_counts
from privmean.mechanisms.noisy_vector import GaussianVector, LaplaceVector
from privmean.mechanisms.row_sums import RowSums, TailRows
from privmean.mechanisms.weighted_sums import UNIT, JointSums, WeightSum
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE

E = Fraction(3, 7)
BOX = ClipInterval(-1.0, 3.0)
K = BOX.steps
LOW = IntervalSums(9, 0, 0, -3 * K, 9 * K, 9, -3 * K, 9, -3 * K, 9 * K * K)
HIGH = IntervalSums(9, 0, 0, -K, 9 * K, 9, -K, 9, -K, 9 * K * K)


def sums(relation, **settings):
    over = ClippedSums("sums", relation, **settings).over([BOX])
    return over, over.exact([LOW]), over.exact([HIGH])


ADDED = {
    "joint Laplace": (LaplaceVector((1, 8), (1, 2), E, REPLACE_ONE), (5, 80), (5, 96)),
    "joint Laplace, coarse": (
        LaplaceVector((2**60,), (1,), Fraction(1, 2**20), REPLACE_ONE),
        (2**66,),
        (2**66 + 2**60,),
    ),
    "Gaussian sums": (GaussianVector("g", (1, 1), (3.0, 5.5), 0.7), (3, 4), (5, -1)),
    "Gaussian sums, coarse": (
        GaussianVector("g", (1,), (2.0**70,), 2.0**-20),
        (2**75,),
        (2**75 + 2**50,),
    ),
    "counts": (NoisyCounts.at("c", E, REPLACE_ONE, 2, 2), as_counts(3, 4, 5), as_counts(2, 5, 5)),
    "Gaussian counts": (
        GaussianCounts.at("c", 0.3, REPLACE_ONE, 4),
        [as_counts(3, 4), as_counts(1, 9)],
        [as_counts(2, 5), as_counts(1, 9)],
    ),
    "clipped sums": sums(REPLACE_ONE, epsilon=E),
    "clipped sums, added": sums(ADD_REMOVE, epsilon=E),
    "clipped sums, Gaussian": sums(REPLACE_ONE, mu=0.4),
    "clipped sums, cross": sums(REPLACE_ONE, epsilon=E, cross=True),
    "clipped sums, tail": sums(REPLACE_ONE, epsilon=E, jumps=(0.5, 0.5)),
    "rows": (
        RowSums("rows", 2.0, (3.0, 3.0), 0.4, "squares"),
        L2BallSums((400_000, 7), 5, (10**11, 10**10)),
        L2BallSums((-400_000, 9), 5, (10**11, 10**9)),
    ),
    "rows with tails": (
        TailRows("rows", 2.0, (3.0, 3.0), 0.4, ((-3.0, 3.0), (-3.0, 3.0)), 0.9),
        L2BallSums((400_000, 7), 5, (10**11, 10**10), (10**5, 0)),
        L2BallSums((-400_000, 9), 5, (10**11, 10**9), (0, 10**5)),
    ),
    "weighted rows": (
        JointSums("w", "gaussian", 2, (0, UNIT), (0.0, 1.0), 0.4, REPLACE_ONE),
        ([10**7, 5], 9 * UNIT),
        ([-(10**7), 4], 8 * UNIT),
    ),
    "weighted rows, Laplace": (
        JointSums("w", "laplace", 2, (0, UNIT), (0.0, 1.0), E, ADD_REMOVE),
        ([10**7, 5], 9 * UNIT),
        ([0, 4], 8 * UNIT),
    ),
    "weights": (WeightSum("gaussian", 0.4, ADD_REMOVE), 9 * UNIT, 8 * UNIT),
    "weights, pure": (WeightSum("k-norm", E, ADD_REMOVE), 9 * UNIT, 8 * UNIT),
    "choice": (Choice("c", E, REPLACE_ONE, 4, ""), as_counts(3, 4, 5), as_counts(5, 4, 3)),
    "fullest bin": (NoisyArgmax.of(E, REPLACE_ONE), as_counts(3, 4, 5), as_counts(2, 4, 6)),
    "columns": (
        EachColumn(NoisyArgmax.of(E, REPLACE_ONE), 2),
        [as_counts(3, 4), as_counts(1, 9)],
        [as_counts(2, 5), as_counts(2, 8)],
    ),
}


def shift(mechanism, exact, other):
    """What the operands of the draws cost, over the bill."""
    tape = Transcript()
    Recording(tape, SimulatedNoise(1)).answer(mechanism, exact)
    found = paid(tape.answers[0], other)
    assert not found.trouble
    return float(found.share)


@pytest.mark.parametrize("name", ADDED)
def test_the_share_is_what_the_draws_cost(name):
    mechanism, exact, other = ADDED[name]
    shares = mechanism.sensitivity_share(exact, other)
    assert len(shares) == len(mechanism.events)
    assert all(share > 0 for share in shares)
    if len(shares) > 1:  # by column: what they cost together
        total = sum(loss.pure for loss in mechanism.events)
        costs = zip(shares, mechanism.events, strict=True)
        expected = float(sum(share * loss.pure for share, loss in costs) / total)
    else:
        expected = float(shares[0])
    assert shift(mechanism, exact, other) == pytest.approx(expected, rel=1e-6)
    assert list(troubles(mechanism, exact)) == []
    assert mechanism.sensitivity_share(exact, exact) == (0,) * len(shares)


def test_exact_shares_are_exact():
    """The sensitivities of the proofs, reached: 1 and not 1 - 1e-16."""
    plus, zero = as_counts(1, 0), as_counts(0, 1)
    assert NoisyCounts.at("c", E, REPLACE_ONE, 2, 2).sensitivity_share(plus, zero) == (1,)
    assert NoisyArgmax.of(E, REPLACE_ONE).sensitivity_share(plus, zero) == (1,)
    assert NoisyArgmax.of(E, ADD_REMOVE).sensitivity_share(plus, as_counts(0, 0)) == (1,)
    assert FirstBelow("f", 3, E, REPLACE_ONE, "").sensitivity_share((3, 2, 1), (4, 3, 1)) == (1,)
    assert FirstBelow("f", 3, E, REPLACE_ONE, "").sensitivity_share((3, 2), (4, 1)) == (2,)
    histogram = StableHistogram.of(E, 1e-6, REPLACE_ONE)
    assert histogram.sensitivity_share({0: 1, 2: 5}, {2: 5, 7: 1}) == (1, 1)
    over, exact, other = sums(REPLACE_ONE, epsilon=E)
    assert over.sensitivity_share(exact, other) == (1,)


def test_a_cell_of_several_persons_is_not_hidden_by_a_threshold():
    histogram = StableHistogram.of(E, 1e-6, REPLACE_ONE)
    assert histogram.sensitivity_share({0: 2}, {})[1] == 2
    both = GaussianStableHistogram.of(0.5, 3, REPLACE_ONE, "h", delta=1e-6)
    assert both.sensitivity_share({0: 1}, {})[1] == Fraction(1, 3)


def test_gaussian_sensitivities_are_never_understated():
    """A root that was rounded down would be a share above 1, by the last digit of a double."""
    for columns in range(1, 60):
        for relation in (REPLACE_ONE, ADD_REMOVE):
            cells = 2 if relation == REPLACE_ONE else 1
            one, two = as_counts(1, 0), as_counts(0, 1 if cells == 2 else 0)
            argmax = EachColumn(GaussianArgmax.of(0.3, columns, relation, "argmax"), 1)
            (share,) = argmax.sensitivity_share([one] * columns, [two] * columns)
            assert 1 - 1e-15 < share <= 1
            histogram = EachColumn(
                GaussianStableHistogram.of(0.3, columns, relation, "h", delta=1e-6), 1
            )
            other = [{1: 1} if cells == 2 else {}] * columns
            shares = histogram.sensitivity_share([{0: 1}] * columns, other)
            assert 1 - 1e-15 < shares[0] <= 1
            assert shares[1] == 1
        scale = EachColumn(PairScale.gaussian(0.3, DyadicBins(-3, 3), columns), 1)
        (share,) = scale.sensitivity_share([as_counts(1, 0)] * columns, [as_counts(0, 1)] * columns)
        assert 1 - 1e-15 < share <= 1


def test_more_changed_answers_than_were_counted_cost_more():
    sums_ = GaussianVector("g", (1, 1, 1), (1.0, 1.0, 1.0), 10.0, affected=1)
    assert sums_.sensitivity_share((0, 0, 0), (1, 1, 1))[0] == 3


def test_k_norm_costs_its_norm():
    step = JointSums("w", "k-norm", 2, (0, UNIT), (0.0, 1.0), E, REPLACE_ONE)
    top = step.widest
    (share,) = step.sensitivity_share(([top, 0], 0), ([0, 0], 0))
    assert share == 1
    (tilted,) = step.sensitivity_share(([3, 4], 0), ([0, 0], 0))
    assert tilted == Fraction(5, top)
    assert math.isclose(float(step.sensitivity_share(([1, 1], 0), ([0, 0], 0))[0]), 2 / top)


def test_arrays_and_lists_are_told_apart_from_shapes():
    counts = NoisyCounts.at("c", E, REPLACE_ONE)
    assert counts.sensitivity_share(as_counts(1, 2), as_counts(1)) == (2,)
    with pytest.raises(ValueError, match="zip"):
        EachColumn(counts, 1).sensitivity_share([np.zeros(2, dtype=int)], [])
