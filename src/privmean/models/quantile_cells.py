"""The cells of a histogram around a private median: public edges in units of a private spread.

Widths near the median are unequal, so that values on a lattice (whole numbers) put unequal numbers
of points into them and show, whatever the spacing. docs/proofs/quantiles.md, sections 2 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privmean.data.column_counts import APART
from privmean.data.person_table import ClipInterval, Integers, PersonTable

CLOSE = 1 / 256  # spreads: the nearest edge at most
ZERO = 0.0, 2.0**-64  # the cell of zeros
NOISY, NOISIER = 0.65, 1.0  # noise of the median, of its sampling error: fewer cells above
CENTRAL = 0.2, 0.8


@dataclass(frozen=True)
class Layout:
    """Distances of edges to either side of the median, in spreads, but for the nearest edge: first
    those of `like` cells (about as wide as each other), then the wider ones."""

    like: tuple[float, ...]
    wider: tuple[float, ...]

    @property
    def away(self) -> tuple[float, ...]:
        return (*self.like, *self.wider)

    @property
    def cells(self) -> int:
        """With those that the cell of zeros adds."""
        return 2 * len(self.away) + 5

    @property
    def side(self) -> int:
        """Cells to either side between two edges of `like`."""
        return len(self.like) - 1

    def edges_around(self, center: float, spread: float) -> tuple[float, ...]:
        """Increasing edges around a median; those that doubles cannot tell apart merge into cells
        that hold nobody. The innermost cell holds the values that are taken for the center, that of
        a center of 0 is the cell of zeros."""
        apart = abs(center) * APART
        nearest = (center - apart, center + apart) if center else ZERO
        if spread * CLOSE < apart:
            nearest = center - spread * CLOSE, center + spread * CLOSE
        away = [spread * x for x in self.away]
        return (*(center - x for x in reversed(away)), *nearest, *(center + x for x in away))


def zero_edges(edges: tuple[float, ...]) -> tuple[float, ...]:
    """The edges with those of the cell of zeros: twice where the innermost cell is that one."""
    return tuple(sorted((*edges, *ZERO)))


MANY = Layout(
    (0.11, 0.25, 0.36, 0.5, 0.61, 0.75, 0.86, 1.0),
    (1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 32.0, 1024.0),
)
# less noise in sums: for quantiles between CENTRAL, and for any
SOME = Layout((0.24, 0.44, 0.58, 0.78, 0.92), (1.5, 2.5, 6.0, 1024.0))
FEW = Layout((0.22, 0.5, 0.72, 1.0), (1.5, 2.5, 6.0, 1024.0))  # none of them nearly empty
FAR = Layout((0.22, 0.5, 0.72, 1.0), (1.5, 2.0, 3.0, 6.0, 32.0, 1024.0))


def layout_for(noise: float, points: tuple[float, ...]) -> Layout:
    """noise: of the median with many cells, over its sampling error; points: the quantiles."""
    if noise <= NOISY:
        return MANY
    if points[0] < CENTRAL[0] or points[-1] > CENTRAL[1]:
        return FAR
    return SOME if noise <= NOISIER else FEW


def cells_between(people: PersonTable, edges: tuple[float, ...]) -> Integers:
    """People with a value below the first edge, between edges (lower ends included), and from the
    last one on: everybody with a value is in one cell."""
    (box,) = people.interval_sums([ClipInterval(-1.0, 1.0)])
    assert box is not None
    below = [people.count_outside(0, x, x)[0] for x in edges]
    upto = np.array([0, *below, box.present], dtype=np.int64)
    cells: Integers = upto[1:] - upto[:-1]
    return cells
