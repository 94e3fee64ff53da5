"""Grouping persons into bins with enough records, and a private location of bin averages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean.continual.series import Floats
from privmean.noise.base import Noise
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.loss import Laplace, Loss, Threshold


def cover(counts: Mapping[str, int], capacity: int) -> list[list[tuple[str, int]]]:
    """Disjoint groups of persons (in the given order) with at least `capacity` records each.

    A person lends at most `capacity` records, so that a closed bin holds fewer than twice that and
    the number of bins is at least half the best possible (less one half). Uses counts only.
    """
    closed: list[list[tuple[str, int]]] = []
    group: list[tuple[str, int]] = []
    held = 0
    for person, count in counts.items():
        lent = min(count, capacity)
        if not lent:
            continue
        group.append((person, lent))
        held += lent
        if held >= capacity:
            closed.append(group)
            group, held = [], 0
    return closed


@dataclass(frozen=True)
class LocationSearch:
    """A private interval that holds most bin averages of one column; (epsilon, delta)-DP.

    Cells of width 2 * radius; only cells that hold an average get discrete Laplace noise of scale
    2/epsilon, and only noisy counts of at least `threshold` are kept. One person changes one
    average, hence at most two counts by 1 (loss epsilon), or the set of non-empty cells by one cell
    each way, which then shows with probability at most delta.
    """

    name: str
    radius: float
    epsilon: Fraction
    delta: float

    @property
    def threshold(self) -> int:
        """The least T with P(1 + noise >= T) = a^(T-1)/(1+a) <= delta, and one more for safety."""
        a = float(self.epsilon) / 2
        needed = (math.log(1 / self.delta) - math.log1p(math.exp(-a))) / a
        return math.ceil(needed + 1e-9) + 2

    @property
    def losses(self) -> tuple[Loss, Loss]:
        return (
            Laplace(
                self.name,
                sensitivity=Fraction(2),
                scale=2 / self.epsilon,
                spread=2,
                relation=REPLACE_ONE,
            ),
            Threshold(
                self.name,
                delta=self.delta,
                threshold=float(self.threshold),
                scale=2 / self.epsilon,
                relation=REPLACE_ONE,
            ),
        )

    def averages_needed(self, beta: float) -> int:
        """How many averages make a cell pass with probability 1 - beta if two cells share them."""
        return math.ceil(2 * (self.threshold + 2 / float(self.epsilon) * math.log(2 / beta)))

    def find(self, averages: Iterable[float], noise: Noise) -> float | None:
        """The middle of the fullest cell, or None if no cell passes."""
        counts: dict[int, int] = {}
        for value in averages:
            cell = math.ceil((value - self.radius) / (2 * self.radius))
            counts[cell] = counts.get(cell, 0) + 1
        cells = sorted(counts)
        drawn = noise.laplace(len(cells), 2 / self.epsilon).tolist()
        noisy = [(counts[cell] + error, -cell) for cell, error in zip(cells, drawn, strict=True)]
        count, cell = max(noisy, default=(0, 0))
        return 2 * self.radius * -cell if count >= self.threshold else None


def bin_averages(
    groups: Sequence[Sequence[tuple[str, int]]], records: Mapping[str, list[Floats]]
) -> Floats:
    """The average of the first lent records of each group's persons, shape (bins, d)."""
    rows = []
    for group in groups:
        taken = [record for person, lent in group for record in records[person][:lent]]
        total = taken[0]
        for record in taken[1:]:
            total = total + record
        rows.append(total / len(taken))
    return np.array(rows)
