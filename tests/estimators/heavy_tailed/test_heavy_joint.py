"""Clipped sums with a sum of weights: sensitivity attacked on exact integers."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from privmean.data.array_table import ArrayPersonTable
from privmean.errors import ArgumentError
from privmean.estimators.heavy_tailed.clipping_bias import BoundedMoment
from privmean.estimators.heavy_tailed.heavy_tailed_plan import (
    RecordWeights,
    counted,
    records_of,
    totals,
)
from privmean.mechanisms.weighted_sums import UNIT, JointSums
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE

MOMENT = BoundedMoment(3, 1.0, 10)
LAWS = ("gaussian", "k-norm", "laplace")


def joint(law="gaussian", d=3, relation=REPLACE_ONE, weights=None, radius=2.0, strength=None):
    levels = (0, UNIT) if weights is None else weights.weights(MOMENT)
    radii = tuple(radius * MOMENT.spread(m) for m in range(len(levels)))
    if weights is None:
        radii = (radius, radius)
    power = strength if strength is not None else (0.25 if law == "gaussian" else Fraction(1, 2))
    return JointSums("sum", law, d, levels, radii, power, relation)


def answers(sums, rows, counts):
    people = ArrayPersonTable(rows, tuple(f"c{j}" for j in range(rows.shape[1])), counts)
    records = records_of(people, len(sums.weights) - 1)
    return totals(people, records, sums, (0.0,) * rows.shape[1])


def hostile(d, rng):
    """Rows on, beyond and far beyond the ball, half-lattice rows, nulls, infinities."""
    line = rng.standard_normal(d)
    line /= np.linalg.norm(line)
    return [
        line * 2.0,
        -line * 2.0,
        line * 1e300,
        np.full(d, 2 / math.sqrt(d)),
        np.full(d, 0.5001 * 2.0**-24),
        np.full(d, np.nan),
        np.full(d, np.inf),
        np.concatenate([[np.nan], line[1:]]) if d > 1 else np.array([np.nan]),
        np.nextafter(line * 2.0, 10),
    ]


@pytest.mark.parametrize("weights", [None, RecordWeights(6), RecordWeights(6, 2.5)])
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("d", [1, 3, 40])
def test_no_person_moves_the_answers_more_than_billed(weights, relation, d):
    rng = np.random.default_rng(d)
    sums = joint(d=d, relation=relation, weights=weights)
    scale = max(sums.radii[m] for m, w in enumerate(sums.weights) if w) / 2
    cap = len(sums.weights) - 1
    persons = [
        (scale * row, m) for row in hostile(d, rng) for m in sorted({0, 1, 2, 3, cap, cap + 5})
    ]
    alone = [answers(sums, row[None, :], np.full((1, d), m, dtype=np.int64)) for row, m in persons]
    alone.append(([0] * d, 0))  # a person who is not there
    pairs = itertools.combinations(range(len(alone)), 2)
    if relation == ADD_REMOVE:
        pairs = ((i, len(alone) - 1) for i in range(len(alone) - 1))
    most = 0.0
    allowed = {}
    for a, w in sums.changes:
        allowed[w] = max(allowed.get(w, 0), a)
    gaussian = sums.gaussian
    knorm = joint("k-norm", d, relation, weights)
    for i, j in pairs:
        moved = math.sqrt(sum((a - b) ** 2 for a, b in zip(alone[i][0], alone[j][0], strict=True)))
        weight = abs(alone[i][1] - alone[j][1])
        assert moved <= max(a for w, a in allowed.items() if w >= weight) + 1e-9
        loss = math.hypot(moved / gaussian.sds[0], weight / gaussian.sds[-1])
        assert loss <= gaussian.mu * (1 + 1e-9)
        most = max(most, loss / gaussian.mu)
        main, side = knorm.pure_scales
        assert moved / main + weight / side <= knorm.strength * (1 + 1e-12)
    # the bill is attained, not merely safe
    assert most >= 0.97


@pytest.mark.parametrize("law", LAWS)
def test_weights_are_free_without_record_weights(law):
    # the noise of the sum is what it would be alone
    sums = joint(law, d=1)
    assert sums.free
    alone = 2 * sums.reach[1] * sums.step / float(sums.strength)
    assert sums.scales[0] == pytest.approx(alone, rel=1e-9)
    if law == "gaussian":
        assert sums.scales[1] == pytest.approx(2 / math.sqrt(3) / 0.25, rel=1e-6)
    else:
        assert sums.scales[1] == pytest.approx(2 / 0.5, rel=1e-9)


def test_radii_of_a_batch_never_exceed_the_public_one():
    weights = RecordWeights(8, 3.0)
    levels = weights.weights(MOMENT)
    assert levels[0] == 0
    assert max(levels) == UNIT
    assert sorted(levels) == list(levels)
    # weighted radii stop growing at the critical number of records
    reach = [w * MOMENT.spread(m) for m, w in enumerate(levels)]
    assert reach[3] == pytest.approx(max(reach), rel=1e-4)
    assert reach[8] == pytest.approx(reach[3], rel=1e-4)
    assert weights.noise_factor(MOMENT) == pytest.approx(1.0, rel=1e-4)
    assert RecordWeights(8).noise_factor(MOMENT) == pytest.approx(math.sqrt(8), rel=1e-6)


def test_estimate_of_unequal_persons_is_the_weighted_mean():
    weights = RecordWeights(4, 2.0)
    sums = joint(d=2, weights=weights, radius=50.0)
    rows = np.array([[0.1, 0.2], [0.4, -0.3], [9.0, 9.0]])
    counts = np.array([[1, 1], [9, 9], [0, 0]])
    total, weight = answers(sums, rows, counts)
    w = np.array([sums.weights[1], sums.weights[4], 0]) / UNIT
    assert weight / UNIT == pytest.approx(w.sum())
    assert np.array(total) * sums.step == pytest.approx((w[:, None] * rows).sum(axis=0), abs=1e-5)


def test_counts_are_needed_and_read_per_person():
    with pytest.raises(ArgumentError):
        counted(ArrayPersonTable(np.zeros((2, 1)), ("a",)), size_is_public=True)
    counts = np.array([[0, 0], [5, 2], [0, 7]])
    people = ArrayPersonTable(np.zeros((3, 2)), ("a", "b"), counts)
    assert records_of(people, 4).tolist() == [0, 2, 4]
