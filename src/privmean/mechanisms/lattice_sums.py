"""Sums of rows that were clipped on an integer lattice, in blocks with Gaussian noise each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from privmean.array_types import Integers
from privmean.mechanisms.sensitivity_share import differences, gaussian_share
from privmean.noise.noise_source import Noise
from privmean.privacy.privacy_events import Gaussian


@dataclass(frozen=True)
class LatticeSums:
    """Integer sums and discrete Gaussian noise: one loss a block, whose scale is its noise.

    The caller owes that one change of neighbors moves a block by at most its loss's sensitivity
    (l2, in lattice steps).

    Guarantees: the Gaussian losses, for the relation that they name.
    """

    events: tuple[Gaussian, ...]

    def sensitivity_share(
        self, exact: Sequence[Integers], other: Sequence[Integers]
    ) -> tuple[Fraction, ...]:
        pairs = zip(exact, other, self.events, strict=True)
        return tuple(
            gaussian_share([(item, loss.scale) for item in differences(a, b)], loss)
            for a, b, loss in pairs
        )

    def draw(self, exact: Sequence[Integers], noise: Noise) -> list[Integers]:
        return [
            sums + noise.gaussian(len(sums), loss.scale)
            for sums, loss in zip(exact, self.events, strict=True)
        ]
