"""Sums of rows in a ball, with sizes or squares beside them: one loss, that of the sums alone."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_table import Standardization
from privmean.mechanisms.row_sums import RowSums

UNITS = (
    Standardization(-3.0, 5.0, 1.0, 0.7),
    Standardization(0.0, 4.0, 1.5, 0.01),
    Standardization(-9, 9, 0.0, 40.0),
)
FAR = [math.nan, math.inf, -math.inf, 1e300, -1e300, 0.0, 1.0, 1.5, 4.0, 5e-324, -3.0, 2.9999]


@pytest.mark.slow
@pytest.mark.parametrize("besides", ["sizes", "squares"])
@pytest.mark.parametrize("radius", [0.3, 1.0, 6.1, 5e3])
def test_a_replaced_person_moves_the_exact_sums_by_no_more_than_is_billed(besides, radius):
    g = np.random.default_rng(3)
    rows = g.choice(FAR, size=(150, 3))
    reaches = tuple(unit.reach for unit in UNITS)
    sums = RowSums("rows", radius, reaches, 0.4, besides)
    sds = [Fraction(sd) for sd in sums.vector.sds]
    (loss,) = sums.vector.events
    assert math.isclose(float(loss.sensitivity / loss.scale), 0.4, rel_tol=1e-9)
    assert loss.answers == 6
    found = []
    for row in rows:
        people = ArrayPersonTable(row[None], ("a", "b", "c")).standardized(UNITS)
        exact = people.ball_sums(sums.ball, besides)
        assert all(abs(z) <= top for z, top in zip(exact.z, sums.tops, strict=True))
        found.append((*exact.z, *exact.besides))
    for one, other in itertools.combinations(found, 2):
        lost = sum(((a - b) / sd) ** 2 for a, b, sd in zip(one, other, sds, strict=True))
        assert lost <= Fraction(0.4) ** 2
