"""How many people have no value, from several noisy numbers of them: firm, so that complete
columns stay complete. Post-processing: reads no data. docs/proofs/default-mean.md, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FIRM = 4.0  # noise scales of the pooled number up to which nobody is believed to be missing


@dataclass(frozen=True)
class MissingCount:
    """number: noisy number of people without a value, pooled by precision; scale: its noise."""

    number: float = 0.0
    scale: float = float("inf")

    @classmethod
    def pooled(cls, numbers: Sequence[tuple[float, float]]) -> MissingCount:
        """From independent noisy numbers of the same people, each with its noise scale."""
        if not numbers:
            return cls()
        total = sum(scale**-2 for _, scale in numbers)
        mean = sum(number * scale**-2 for number, scale in numbers) / total
        return cls(mean, float(total**-0.5))

    @property
    def believed(self) -> float:
        """0 up to `FIRM` scales, the number itself from twice that on, and between them twice what
        is above: a complete column loses hardly anything by mistake, and no step is large."""
        if self.number <= FIRM * self.scale:
            return 0.0
        return min(self.number, 2 * (self.number - FIRM * self.scale))

    @property
    def spared(self) -> float:
        """What the noisy number says beyond what is believed: at most `FIRM` scales."""
        return max(self.number - self.believed, 0.0)


UNKNOWN = MissingCount()
