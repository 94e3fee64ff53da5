"""What full cells of the pooled histogram say of groups: where nobody, or hardly anybody, is left.

Of rates nearly everybody is in the cells of 0 and of 1: a mean beside 0 is no mean that is cut off,
and a group that spreads more is one of more ones, not one of a longer tail (docs/proofs/groups.md,
section 6). Everything here is a function of noisy counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privmean.central.clipping_region import ClippingRegion
from privmean.central.groups.decode_cells import Flags
from privmean.central.log_histogram import EDGES, Histogram
from privmean.data.person_table import Floats

FULL = 10.0  # noise scales of a cell that is full for certain
# part of the spread: of normal, uniform and exponential values no cell has above a sixth
CARRIES = 1 / 3
DOUBT = 1.28  # noise deviations: what is there is more in one release of ten
_LOWER: Floats = np.concatenate([-EDGES[1:][::-1], [0.0], EDGES[:-1]])
_UPPER: Floats = np.concatenate([-EDGES[:-1][::-1], [0.0], EDGES[1:]])


@dataclass(frozen=True)
class OccupiedCells:
    """Cells in the order of their values: ends, noisy people, and the deviation of their noise."""

    lower: Floats
    upper: Floats
    n: Floats
    sd: float

    @classmethod
    def of(cls, place: ClippingRegion, seen: Histogram, mass: float = 1.0) -> OccupiedCells:
        """mass: the parts in which a person is counted."""
        counts = np.concatenate([seen.negative[::-1], [seen.zero], seen.positive])
        return cls(
            _LOWER + place.origin, _UPPER + place.origin, counts / mass, 2**0.5 * seen.scale / mass
        )

    def explain(
        self, mean: Floats, within: Floats, noise: Floats, about: tuple[float, float, float]
    ) -> Flags:
        """Groups whose variance is no more than values in full cells can have about such a mean
        (Bhatia and Davis 2000), in a table where one such cell makes a third of the spread, as that
        of 1 does of rates. noise: of each variance; about: middle, variance and number of all."""
        middle, variance, total = about
        full = self.n > FULL * self.sd / 2**0.5
        far = np.clip(np.maximum(self.lower - middle, middle - self.upper), 0.0, None)
        carried = np.where(full, self.n, 0.0) * far**2
        if not carried.max() > CARRIES * variance * total:
            return np.zeros(len(mean), dtype=bool)
        lower, upper, place = self.lower[full], self.upper[full], mean
        if self.upper[int(np.argmax(carried))] <= middle:  # the cell lies below: the same mirrored
            lower, upper, place = -upper[::-1], -lower[::-1], -mean
        above = np.maximum(place - lower[0], 1e-300)
        most = above >= np.median(above)
        # of two values, lower[0] and top, this median is top
        with np.errstate(over="ignore"):  # a mean that noise put below all of them
            top = max(lower[-1], float(np.median((place + within / above)[most])))
        found: Flags = within <= above * (min(top, upper[-1]) - place) + noise
        return found

    def rest(self, total: float, sd: float, limits: Floats, high: Flags) -> Floats:
        """People who may lie beyond each limit (a lower one unless `high`): all of them, but for
        those in full cells on its other side. total, sd: all people, and the noise of that."""
        full = self.n > FULL * self.sd / 2**0.5
        ends = limits[:, None]
        inside = np.where(high[:, None], self.upper <= ends, self.lower >= ends) & full
        seen = inside @ np.where(full, self.n, 0.0)
        noise = np.sqrt(sd**2 + inside.sum(axis=1) * self.sd**2)
        found: Floats = np.maximum(total - seen, 0.0) + DOUBT * noise
        return found
