"""How much budget a coarse estimate needs, from public numbers.

The rules are derived in docs/proofs/heavy-tails-coarse.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from scipy.special import ndtri

from privmean.central.heavy_tailed.coarse_center import Coarse, Form, Ranges
from privmean.mechanisms.stable_histogram import moved_counts
from privmean.privacy.budget import REPLACE_ONE, Relation

MARGIN = 0.3  # the fullest bucket leads any bucket far from the mean by this share of people
KEPT = 0.4  # and holds at least this share
LARGEST_CELLS = 2**22  # cells that a dense histogram may have, all columns together
FINEST_SHARE = 2**40


def _share(value: float) -> Fraction:
    """A rational of 40 binary places, rounded up."""
    return Fraction(math.ceil(value * FINEST_SHARE), FINEST_SHARE)


@dataclass(frozen=True)
class CoarseNeeds:
    """Public facts from which the budget a coarse estimate needs is computed.

    spread: bound on the standard deviation of a person's value. beta: chance of a wrong bucket.
    wide: use buckets of 6 standard deviations, for which the proof's constants hold, not of 2.
    """

    dimension: int
    n: int
    spread: float
    ranges: Ranges | None
    relation: Relation = REPLACE_ONE
    beta: float = 0.01
    wide: bool = False

    @property
    def cells_changed(self) -> int:
        """Counts of one column that a neighbor changes."""
        return moved_counts(self.relation)

    @property
    def width(self) -> float:
        return (6.0 if self.wide else 2.0) * self.spread

    @property
    def offset(self) -> float:
        """The planned distance of the center from the mean, over all columns."""
        one = self.width if self.wide else 0.75 * self.width
        return math.sqrt(self.dimension) * one

    @property
    def cells(self) -> int:
        """Buckets of all columns together."""
        assert self.ranges is not None
        return sum(max(1, math.ceil((u - v) / self.width)) for v, u in self.ranges)

    def _of(
        self,
        form: Form,
        *,
        offset: float | None = None,
        epsilon: Fraction = Fraction(0),
        mu: float = 0.0,
        delta: float = 0.0,
    ) -> Coarse:
        ranges = None if "stable" in form else self.ranges
        planned = self.offset if offset is None else offset
        return Coarse(
            form, self.dimension, self.width, planned, epsilon, mu, delta, ranges, self.relation
        )

    def public(self) -> Coarse | None:
        """The middle of the public range."""
        if self.ranges is None:
            return None
        offset = math.sqrt(math.fsum(((u - v) / 2) ** 2 for v, u in self.ranges))
        return self._of("public", offset=offset)

    def selection(self) -> Coarse | None:
        """Exact noisy argmax a column, with just the epsilon it needs."""
        if self.ranges is None or self.cells > LARGEST_CELLS:
            return None
        persons = MARGIN * self.n
        if self.wide:
            slack = 2 * math.sqrt(math.log(4 * self.dimension / self.beta) / (2 * self.n))
            persons = self.n * max(1 / 3 - slack, 1e-9)
        need = (
            self.cells_changed
            * math.log((2 if self.wide else 1) * self.cells / self.beta)
            / persons
        )
        return self._of("selection", epsilon=_share(need))

    def stable(self, delta: float) -> Coarse | None:
        """Laplace counts of occupied buckets above a threshold, a column at a time."""
        if delta <= 0 or KEPT * self.n <= 1:
            return None
        d = self.dimension
        shown = (math.log(d / delta) + math.log(d / self.beta)) / (KEPT * self.n - 1)
        right = math.log(self.n * d / self.beta) / (MARGIN * self.n)
        return self._of(
            "stable", epsilon=_share(self.cells_changed * max(shown, right)), delta=delta
        )

    def gaussian(self) -> Coarse | None:
        """Gaussian counts of all buckets of all columns."""
        if self.ranges is None or self.cells > LARGEST_CELLS:
            return None
        deviation = MARGIN / 2 * self.n / math.sqrt(2 * math.log(self.cells / self.beta))
        return self._of("gaussian", mu=math.sqrt(self.cells_changed * self.dimension) / deviation)

    def gaussian_stable(self, delta: float) -> Coarse | None:
        """Gaussian counts of occupied buckets above a threshold, all columns in one query."""
        if delta <= 0 or KEPT * self.n <= 1:
            return None
        d = self.dimension
        hidden = -float(ndtri(delta / d)) + math.sqrt(2 * math.log(d / self.beta))
        deviation = (KEPT * self.n - 1) / hidden
        return self._of(
            "gaussian stable", mu=math.sqrt(self.cells_changed * d) / deviation, delta=delta
        )
