"""Values at every edge of half octaves and of parts, and what is told of people who have them."""

from __future__ import annotations

import math

import people_reference as reference
from random_tables import column_expected, in_column

HALF = 2.0**-0.5
PARTS = (  # sign, step, first, parts
    (1, 2.0**-40, 0, 4096), (-1, 2.0, 1, 300), (-1, 0.25, 0, 64), (1, 2.0**-108, 0, 8),
    (1, 2.0**64, 0, 3), (1, 2.0**-4, 2**44 - 5, 16),
)  # fmt: skip
COLUMN_PART = PARTS[2]


def edges():
    """Powers of two, edges of half octaves and of parts, their neighbours, and what is far out."""
    ends = [2.0**k * size for k in range(-72, 72) for size in (1.0, HALF, 0.75)]
    ends += [math.ldexp(1.0, k) for k in (-1074, -1073, -1022, -109, -108, -107, 511, 512, 1023)]
    ends += [k * 2.0**-4 for k in range(2**44 - 7, 2**44 + 15)] + [k / 4 for k in range(70)]
    near = [math.nextafter(e, toward) for e in ends for toward in (0.0, math.inf)]
    sizes = [*ends, *near, 1e-300, 1e200, 1.7976931348623157e308]
    return [*sizes, *(0.0 - v for v in sizes), None]  # no engine holds a zero with a sign


def edges_told(people):
    """Of people with one value each, those of `edges`."""
    return {
        **{f"half octaves {origin}": people.half_octave_counts(0, origin).tolist()
           for origin in (0.0, 1.0, -0.3)},
        **{f"parts {part}": people.part_counts(0, *part).tolist() for part in PARTS},
        "column": in_column(people.column_counts(0), COLUMN_PART),
    }  # fmt: skip


def edges_expected(values):
    return {
        **{f"half octaves {origin}": reference.half_octave_counts(values, origin)
           for origin in (0.0, 1.0, -0.3)},
        **{f"parts {part}": reference.part_counts(values, *part) for part in PARTS},
        "column": column_expected(values, COLUMN_PART),
    }  # fmt: skip
