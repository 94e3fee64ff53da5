"""Parts of a squared GDP budget, spent one after the other.

Each step may ask for a part that depends on earlier outputs; what is left never depends on the
output that the step is about to make. So the whole is mu-GDP (docs/proofs/many-columns.md, step
6): by induction from the last step, every remainder of the transcript is sqrt(left)*mu-GDP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class GdpBudgetSpender:
    """mu: of the whole. left: the part of mu^2 that is not spent."""

    mu: float
    left: float = 1.0

    def spend(self, part: float) -> float:
        """The GDP strength of `part` of mu^2, which is then spent."""
        if not 0 < part <= self.left:
            raise ValueError("a part that is not left")
        self.left = self.left - part
        return self.mu * math.sqrt(part)
