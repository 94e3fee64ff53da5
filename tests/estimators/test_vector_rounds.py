"""Rounds over standardized columns: parts of the budget, norms, new centres and scales."""

import math

import numpy as np
import pytest

from estimators.made_people import people
from estimators.zero_noise import NoAddedNoise
from privmean.data.person_table import Standardization
from privmean.estimators.means.vector_rounds import (
    SHELLS,
    GdpBudgetSpender,
    Norms,
    called_back,
    narrowed,
    norm_counts,
)
from privmean.mechanisms.curator import TrustedCurator
from privmean.mechanisms.row_sums import NoisyRows


def test_parts_are_spent_once_and_no_more_than_there_is():
    parts = GdpBudgetSpender(0.5)
    assert math.isclose(parts.spend(0.25), 0.25)
    assert math.isclose(parts.spend(parts.left), 0.5 * math.sqrt(0.75))
    assert parts.left == 0
    with pytest.raises(ValueError, match="not left"):
        parts.spend(1e-9)


def test_a_replaced_person_moves_two_shells_by_one_and_the_bill_says_so():
    g = np.random.default_rng(2)
    rows = g.normal(size=(60, 4)) * g.choice([1e-9, 0.3, 1.0, 1e4, 1e30], size=(60, 1))
    edges = (2 * SHELLS).tolist()
    one = np.array([people(row[None]).norm_counts(edges) for row in rows])
    assert (one.sum(axis=1) == 1).all()
    assert (np.abs(one[:, None] - one[None]).sum(axis=2) <= 2).all()
    assert (people(rows).norm_counts(edges) == one.sum(axis=0)).all()
    loss = norm_counts(0.1).loss
    assert math.isclose(float(loss.sensitivity / loss.scale), 0.1, rel_tol=1e-9)


def test_scales_never_vanish():
    still = NoisyRows((0.0, 0.0), (0.0, 0.0), 1e-12, (1e-12,) * 2)
    unit = Standardization(0.0, 2.0, 1.0, 0.5)
    new = narrowed((unit, unit), still, 1.0, np.full(2, 10.0), np.array([0.0, 0.5]))
    assert [u.scale for u in new] == [0.5 / 16, 0.5]
    for _ in range(50):
        new = narrowed(new, still, 1.0, np.full(2, 10.0), np.zeros(2))
    assert [u.scale for u in new] == [2 * 2.0**-30] * 2


def looked_at(lengths):
    """Norms of one column with values so far out, without noise."""

    rows = np.array(lengths, float)[:, None]
    norms = Norms(people(rows), 1)
    norms.look(1.0, TrustedCurator(people(rows), NoAddedNoise(1)))
    return norms


def test_rows_far_apart_are_named_and_called_back():
    lengths = [0.9] * 600 + [1.6] * 300 + [100.0] * 100
    norms = looked_at(lengths)
    assert norms.typical == pytest.approx(2.0 ** (-1 / 8), rel=0.01)
    assert norms.far() == 128.0
    assert norms.radius(1.0, 1e9) > 90
    norms.call_back()
    assert norms.far() == 0.0
    assert 1.6 < norms.radius(1.0, 1e9) < 3
    assert looked_at([0.9] * 900 + [6.0] * 100).far() == 0.0  # a long tail, and not apart
    assert looked_at([5.0] * 600 + [9.0] * 400).typical > 2  # scales fell too far


def test_columns_that_fell_far_are_called_back_and_others_stay():
    first = tuple(Standardization(-100.0, 100.0, 0.0, 10.0) for _ in range(4))
    now = tuple(Standardization(-100.0, 100.0, 1.0, s) for s in (0.001, 1.9, 2.1, 30.0))
    back = called_back(now, first, 64.0)
    assert [unit.scale for unit in back] == [0.064, 10.0, 2.1, 30.0]
    assert all(unit.center == 1.0 for unit in back)
