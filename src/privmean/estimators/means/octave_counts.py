"""Reading noisy counts per octave of a column: where its values are, roughly, and how far apart.

Post-processing: reads no data. Cells are one octave wide, from 2^-40 to 2^40, for both signs, with
a cell for zero and one for people without a value. Coarser cells than those of `log_segments`
find values under more noise; the limits need not be sharp, because what follows clips whole rows.
docs/proofs/many-columns.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privmean.array_types import Integers
from privmean.data.grids import LOG_BINS, LOG_LOW, LOG_ZERO
from privmean.estimators.find_region import ATOM_ONLY, BEYOND, FOUND, NOTHING, best_segment

Counts = npt.NDArray[np.float64]

OCTAVES = LOG_BINS // 2
ZERO, NULL, CELLS = OCTAVES, 2 * OCTAVES + 1, 2 * OCTAVES + 2
# evidence, in deviations of a count: price of a cell; what a first segment needs beyond that, less
# where people away from zero are certain; a segment of the other sign; the zero cell
PRICE, MAIN, SURE, OTHER, ATOM = 2.0, 4.0, 3.0, 3.0, 4.0
CERTAIN = 8.0  # deviations of the people away from zero, to be certain
LOOK, NEAR = 7, 3  # octaves beyond the first segment's end: farthest allowed, and "about as far"
UNSEEN = 1.0  # deviations of the people that no segment holds: then both signs are open
SAFETY = 2.0  # factor on the outer limits
NARROW = 8.0  # an inner limit is kept when it is more than this part of the outer one
HEAVY = 4.0  # the first scale is at most so many times the typical distance from the middle cell
FINEST, MAD_TO_SD = 8.0, 1.2533141373155003  # least scale: this part of the width; sqrt(pi/2)

_EDGES: Counts = np.array([2.0 ** (k + LOG_LOW // 2) for k in range(OCTAVES + 1)])
_MIDDLES: Counts = (_EDGES[:-1] + _EDGES[1:]) / 2


def octave_counts(logarithmic: Integers, present: int) -> Integers:
    """People per cell, from `People.log_counts` (two bins an octave, nulls in the zero bin)."""
    cells = np.empty(CELLS, dtype=np.int64)
    cells[:OCTAVES] = logarithmic[:LOG_BINS].reshape(OCTAVES, 2).sum(axis=1)
    cells[ZERO + 1 : NULL] = logarithmic[LOG_ZERO + 1 :].reshape(OCTAVES, 2).sum(axis=1)
    cells[NULL] = logarithmic.sum() - present
    cells[ZERO] = logarithmic[LOG_ZERO] - cells[NULL]
    return cells


@dataclass(frozen=True)
class OctaveSummary:
    """What a column shows: limits, a first center and a first scale if values were found.

    least: what the scale is at least, where cells around zero resolve it (0 for values far off).
    missing, missing_sd: noisy number of people without a value, and its deviation.
    """

    outcome: str
    lower: float = 0.0
    upper: float = 0.0
    center: float = 0.0
    scale: float = 1.0
    least: float = 0.0
    missing: float = 0.0
    missing_sd: float = 0.0


def read_octaves(counts: Counts, sd: float, persons: int) -> OctaveSummary:
    """What noisy cells of deviation `sd` show of a column of `persons` (public) people."""
    missing = float(counts[NULL])
    zero, price = float(counts[ZERO]), PRICE * sd
    sides = (counts[:OCTAVES], counts[ZERO + 1 : NULL])
    up, down = best_segment(sides[0], price), best_segment(sides[1], price)
    sign = 1 if up.score >= down.score else -1
    main, near = (up, sides[0]) if sign > 0 else (down, sides[1])
    far = sides[1] if sign > 0 else sides[0]
    other = best_segment(far, price, max(main.last - LOOK, 0))
    distance = other.first - main.last
    both = other.score > (OTHER if distance <= NEAR else MAIN + distance) * sd
    away = persons - zero - max(missing, 0.0)
    needed = (SURE if away > CERTAIN * sd else MAIN) * sd
    if main.score < needed:
        # together with the other sign, where both reach about as far
        if abs(other.last - main.last) > 2 or main.score + other.score < needed:
            outcome = ATOM_ONLY if zero > ATOM * sd else NOTHING
            return OctaveSummary(outcome, missing=missing, missing_sd=sd)
        both = True
    if OCTAVES - 1 in (main.last, other.last if both else 0):
        return OctaveSummary(BEYOND, missing=missing, missing_sd=sd)
    outer, inner = float(_EDGES[main.last + 1]), 0.0
    cells = [near[main.first : main.last + 1]]
    places = [_MIDDLES[main.first : main.last + 1]]
    if both:
        inner = -float(_EDGES[other.last + 1])
        cells.append(far[other.first : other.last + 1])
        places.append(-_MIDDLES[other.first : other.last + 1])
    filled = zero > ATOM * sd
    if filled:
        cells.append(np.array([zero]))
        places.append(np.zeros(1))
    elif not both:
        start = float(_EDGES[max(main.first - 1, 0)])
        inner = start if start > outer / NARROW else 0.0
    weights = np.maximum(np.concatenate(cells), 0.0)
    where = np.concatenate(places)
    total = float(weights.sum())
    center = float(weights @ where) / total
    middle = _median(where, weights)
    typical = _median(np.abs(where - middle), weights) + abs(middle) / 3
    if typical > 0 and abs(center - middle) > HEAVY * typical:  # by a false cell far out
        center = middle
    scale = MAD_TO_SD * float(weights @ np.abs(where - center)) / total
    width = outer - inner
    scale = min(max(scale, width / FINEST), width / 2)
    if typical > 0:
        scale = min(scale, HEAVY * typical)
    unseen = away - float(cells[0].sum())
    if not both and unseen > UNSEEN * sd * math.sqrt(len(cells[0]) + 1):
        inner = -outer
    lower, upper = min(SAFETY * inner, inner), SAFETY * outer
    if sign < 0:
        lower, upper, center = -upper, -lower, -center
    least = scale / 2 if filled or both else 0.0
    return OctaveSummary(FOUND, lower, upper, center, scale, least, missing, sd)


def _median(values: Counts, weights: Counts) -> float:
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order[int(np.searchsorted(total, total[-1] / 2))]])
