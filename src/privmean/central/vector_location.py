"""Looks at all columns together: noisy counts per octave, again for the columns not yet seen.

One search of k columns is one Gaussian query: a replaced person leaves one cell of each column for
another, l2 change at most sqrt(2k). docs/proofs/many-columns.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privmean.central.gdp_budget import GdpBudgetSpender
from privmean.central.log_histogram import FOUND
from privmean.central.octave_counts import CELLS, Counts, OctaveSummary, octave_counts, read_octaves
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import GaussianCounts
from privmean.privacy.budget import REPLACE_ONE

FIRST, TWO_LOOKS, ALL_LOOKS = 0.25, 0.5, 0.65  # parts of mu^2, at most
MOST_LOOKS, FEW = 3, 0.5  # the third look only for at most this part of the columns
AGAIN, LEAST = 9.0, 0.005  # a further look at k of d columns: 9 k/d of the first; the least part


def look_sd(columns: int, mu: float) -> float:
    """Deviation of every noisy count of a search of `columns` columns, in people."""
    return math.sqrt(2 * columns) / mu


def look_counts(columns: int, mu: float) -> GaussianCounts:
    """The counts of one search of so many columns."""
    return GaussianCounts.at("columns by octave", mu, REPLACE_ONE, 2 * columns)


@dataclass(frozen=True)
class VectorLocation:
    """What was seen of every column, and at how many looks."""

    columns: tuple[OctaveSummary, ...]
    looks: int


def look(curator: Curator, persons: int, parts: GdpBudgetSpender) -> VectorLocation:
    """Look until every column is found, or no look that is left would change much."""
    people = curator.people
    dimension = len(people.columns)
    exact = [
        octave_counts(people.log_counts(j, 0.0), people.size() - people.missing(j))
        for j in range(dimension)
    ]
    total: list[Counts] = [np.zeros(CELLS)] * dimension
    precision = [0.0] * dimension
    seen = [OctaveSummary("")] * dimension
    hidden, spent, looks = list(range(dimension)), 0.0, 0
    while hidden and looks < MOST_LOOKS:
        wanted = AGAIN * FIRST * len(hidden) / dimension
        third = looks == MOST_LOOKS - 1
        part = min((ALL_LOOKS if third else TWO_LOOKS) - spent, wanted) if looks else FIRST
        if part < LEAST or (third and len(hidden) > FEW * dimension):
            break
        counts = look_counts(len(hidden), parts.spend(part))
        looks, spent, sd = looks + 1, spent + part, counts.sd
        shown = curator.ask(counts, [exact[j] for j in hidden])
        for j, noisy in zip(hidden, shown, strict=True):
            total[j] = total[j] + noisy * sd**-2
            precision[j] += sd**-2
            found = total[j] / precision[j]
            seen[j] = read_octaves(found, precision[j] ** -0.5, persons)
        hidden = [j for j in hidden if seen[j].outcome != FOUND]
    return VectorLocation(tuple(seen), looks)
