"""Looks at all columns together: noisy counts per octave, again for the columns not yet seen.

One look at k columns is one Gaussian query: a replaced person leaves one cell of each column for
another, l2 change at most sqrt(2k). docs/proofs/default-mean.md, section 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privmean.central.log_segments import FOUND
from privmean.central.octaves import CELLS, Counts, Seen, octave_counts, read_octaves
from privmean.central.parts import Parts
from privmean.noise.base import Noise
from privmean.people.reductions import Box, People
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.loss import Gaussian

COUNT_LATTICE = 2**20  # counts are scaled up: their own unit is too coarse for Gaussian noise
FIRST, TWO_LOOKS, ALL_LOOKS = 0.25, 0.5, 0.65  # parts of mu^2, at most
MOST_LOOKS, FEW = 3, 0.5  # the third look only for at most this part of the columns
AGAIN, LEAST = 9.0, 0.005  # a further look at k of d columns: 9 k/d of the first; the least part
ANY = Box(-1.0, 1.0)  # to ask who has a value


def look_sd(columns: int, mu: float) -> float:
    """Deviation of every noisy count of a look at `columns` columns, in persons."""
    return math.sqrt(2 * columns) / mu


def look_loss(columns: int, mu: float) -> Gaussian:
    root = math.nextafter(math.sqrt(2 * columns), math.inf)
    sd = look_sd(columns, mu) * (1 + 1e-12)
    return Gaussian(
        "columns by octave",
        root * COUNT_LATTICE,
        sd * COUNT_LATTICE,
        2 * columns,
        relation=REPLACE_ONE,
    )


@dataclass(frozen=True)
class Looks:
    """What was seen of every column, and at how many looks."""

    columns: tuple[Seen, ...]
    looks: int


def look(people: People, persons: int, parts: Parts, noise: Noise) -> Looks:
    """Look until every column is found, or no look that is left would change much."""
    dimension = len(people.columns)
    present = [item.present for item in people.box_sums([ANY] * dimension) if item is not None]
    exact = [octave_counts(people.log_counts(j, 0.0), present[j]) for j in range(dimension)]
    total: list[Counts] = [np.zeros(CELLS)] * dimension
    precision = [0.0] * dimension
    seen = [Seen("")] * dimension
    hidden, spent, looks = list(range(dimension)), 0.0, 0
    while hidden and looks < MOST_LOOKS:
        wanted = AGAIN * FIRST * len(hidden) / dimension
        third = looks == MOST_LOOKS - 1
        part = min((ALL_LOOKS if third else TWO_LOOKS) - spent, wanted) if looks else FIRST
        if part < LEAST or (third and len(hidden) > FEW * dimension):
            break
        loss = look_loss(len(hidden), parts.take(part))
        parts.bill((loss,))
        looks, spent = looks + 1, spent + part
        sd = float(loss.scale) / COUNT_LATTICE
        for j in hidden:
            drawn = noise.gaussian(CELLS, float(loss.scale))
            noisy = (exact[j] * COUNT_LATTICE + drawn).astype(float) / COUNT_LATTICE
            total[j] = total[j] + noisy * sd**-2
            precision[j] += sd**-2
            found = total[j] / precision[j]
            seen[j] = read_octaves(found, precision[j] ** -0.5, persons)
        hidden = [j for j in hidden if seen[j].outcome != FOUND]
    return Looks(tuple(seen), looks)
