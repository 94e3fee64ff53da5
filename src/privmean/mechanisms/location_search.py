"""A private interval that holds most of some averages, of which one person can change one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from privmean.mechanisms.curator import laplace_share
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.privacy_events import Laplace, Threshold


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
    def events(self) -> tuple[Laplace, Threshold]:
        return (
            Laplace(
                self.name,
                sensitivity=Fraction(2),
                scale=2 / self.epsilon,
                cells_changed=2,
                neighbors=REPLACE_ONE,
            ),
            Threshold(
                self.name,
                delta=self.delta,
                threshold=float(self.threshold),
                scale=2 / self.epsilon,
                neighbors=REPLACE_ONE,
            ),
        )

    def averages_needed(self, beta: float) -> int:
        """How many averages make a cell pass with probability 1 - beta if two cells share them."""
        return math.ceil(2 * (self.threshold + 2 / float(self.epsilon) * math.log(2 / beta)))

    def sensitivity_share(
        self, exact: Iterable[float], other: Iterable[float]
    ) -> tuple[Fraction, ...]:
        one, two = self._counts(exact), self._counts(other)
        changes = [one.get(cell, 0) - two.get(cell, 0) for cell in one.keys() | two.keys()]
        new = max(
            sum(one[cell] for cell in one.keys() - two.keys()),
            sum(two[cell] for cell in two.keys() - one.keys()),
        )
        return (laplace_share(changes, self.events[0]), Fraction(new))

    def _counts(self, averages: Iterable[float]) -> dict[int, int]:
        counts: dict[int, int] = {}
        for value in averages:
            cell = math.ceil((value - self.radius) / (2 * self.radius))
            counts[cell] = counts.get(cell, 0) + 1
        return counts

    def find(self, averages: Iterable[float], noise: Noise) -> float | None:
        """What a stream asks, which keeps its own accounting."""
        return self.draw(averages, noise)

    def draw(self, exact: Iterable[float], noise: Noise) -> float | None:
        """The middle of the fullest cell, or None if no cell passes."""
        counts = self._counts(exact)
        cells = sorted(counts)
        drawn = noise.laplace(len(cells), 2 / self.epsilon).tolist()
        noisy = [(counts[cell] + error, -cell) for cell, error in zip(cells, drawn, strict=True)]
        count, cell = max(noisy, default=(0, 0))
        return 2 * self.radius * -cell if count >= self.threshold else None
