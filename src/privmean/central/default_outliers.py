"""The tail of a column: what its assumption is about, and people far beyond the limits, who are
set apart in the sum and counted at no extra loss.

Under replace-one they stand at the middle of the limits with the square of a limit, which leaves
half of the privacy loss to their count; under add-remove they have a cell of their own
(docs/proofs/intervals.md, section 8).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from privmean.central.clipping_region import ClippingRegion
from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_table import ClipInterval, IntervalSums, PersonTable
from privmean.privacy.budget import REPLACE_ONE, Relation

FARTHEST = Fraction(15, 16)  # of the radius: from the middle to where people without a value count
WIDTHS = 4.0  # widths of the limits beyond them from which a value is called far


@dataclass(frozen=True)
class OutliersSetAside:
    """Sums of one column with the far people set apart, and where far begins."""

    sums: IntervalSums
    far: int
    limits: tuple[float, float]


def set_outliers_aside(
    people: PersonTable, column: int, sums: IntervalSums, box: ClipInterval, relation: Relation
) -> OutliersSetAside:
    """`sums` of `box` with the people far beyond its limits at its middle (or left out)."""
    reach = WIDTHS * (box.upper - box.lower)
    limits = (box.lower - reach, box.upper + reach)
    below, above = people.count_outside(column, *limits)
    far = below + above
    up, down = _step_at(box.upper, box), _step_at(box.lower, box)
    z = sums.z - up * above - down * below
    zz = sums.zz - up * up * above - down * down * below
    present, near = sums.present, (sums.above, sums.below)
    if relation == REPLACE_ONE:
        zz += box.steps**2 * far
    else:
        present, near = present - far, (near[0] - above, near[1] - below)
    return OutliersSetAside(
        IntervalSums(present, *near, z, zz, present, z, present, z, zz), far, limits
    )


def missing_step(place: ClippingRegion, box: ClipInterval, relation: Relation) -> int:
    """The integer at which a person without a value counts: next to the mean of what was seen, so
    that it hardly matters whether these people are known; 0 under add-remove, where they count
    nowhere."""
    if relation != REPLACE_ONE or place.typical is None:
        return 0
    most = box.steps * FARTHEST.numerator // FARTHEST.denominator
    return min(max(_step_at(place.typical, box), -most), most)


def with_missing(sums: IntervalSums, absent: int, step: int) -> IntervalSums:
    """`sums` with so many people without a value at this integer."""
    z, zz = sums.z + step * absent, sums.zz + step * step * absent
    return replace(sums, z=z, zz=zz, wz=z, wwz=z, wwzz=zz)


def _step_at(limit: float, box: ClipInterval) -> int:
    """The integer that a value at or beyond this limit has, as `People` computes it."""
    (item,) = ArrayPersonTable(np.array([[limit]]), ("limit",)).interval_sums([box])
    assert item is not None
    return item.z


def tail_centre(place: ClippingRegion, limits: tuple[float, float]) -> float:
    """What the tail assumption is about: where the values were looked at from, or the limit next to
    it; the middle of the last limits where these hold none of both."""
    if limits[0] <= place.origin <= limits[1]:
        return min(max(place.origin, place.lower), place.upper)
    return (limits[0] + limits[1]) / 2
