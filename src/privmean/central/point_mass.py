"""Whether narrow limits hold one value that nearly all people share, or values that differ.

The limits of a value that most people have are narrow, as those of values far from 0 are, but only
the latter show how far from each other they lie. Everything here is a function of noisy counts and
public numbers. Claims: docs/proofs/groups.md, section 6.
"""

from __future__ import annotations

import math

import numpy as np

from privmean.central.find_region import LOWER, UPPER, ClippingRegion

NARROW = 2.0**-10  # width of such limits for where they are
SEEN = 4.0  # noise scales of a cell where somebody is for certain


def is_narrow(lower: float, upper: float) -> bool:
    """Whether limits are this close together, for where they are."""
    return upper - lower < NARROW * max(abs(lower), abs(upper))


def is_one_cell(place: ClippingRegion) -> bool:
    """Whether the histogram behind the limits shows people in one cell at most (of those that
    reach into them, and the origin's), so that nothing says how far from each other they are."""
    if place.seen is None:
        return True
    inside = (place.upper - place.origin > LOWER) & (place.lower - place.origin < UPPER)
    cells = np.append(place.seen.negative[::-1], place.seen.positive)
    within = np.append(cells[inside], place.seen.zero)
    return int((within > SEEN * place.seen.scale).sum()) <= 1


def point_mass_value(place: ClippingRegion) -> str:
    """The value that most people have, in the digits in which its limits agree."""
    size, width = max(abs(place.lower), abs(place.upper)), place.upper - place.lower
    if not 0 < width < size:
        return f"{place.origin:.6g}"
    digits = min(max(math.floor(math.log10(size / width)), 1), 15)
    middle = (place.lower + place.upper) / 2
    return f"{float(f'{middle:.{digits}g}'):.15g}"
