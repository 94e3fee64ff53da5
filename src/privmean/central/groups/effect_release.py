"""What the release of one difference adds to a release: the effect and its p-value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privmean.release import Release
from privmean.rows import Row

SMALLEST, LARGEST = 1e-12, 1 - 1e-6  # p-values that are told apart
ROUNDS = 60
CHANCE = "an effect is one of the arms only if these were fixed by chance, before the values"


@dataclass(frozen=True, repr=False)
class EffectRelease(Release):
    """The release of one difference: of two public arms, or within the same persons. by_arms: the
    first, whose reading as an effect rests on chance."""

    by_arms: bool = False

    @property
    def effect(self) -> Row:
        """First less second, with its intervals."""
        return self.rows()[0]

    @property
    def p_value(self) -> float:
        """The smallest level at which the interval leaves 0 out: noise, sampling errors and
        allowances are in it. 1 where that side is open, NaN without an effect; 1e-12 stands for
        everything smaller."""
        if math.isnan(self.effect.estimate):
            return math.nan
        if self._holds(LARGEST):
            return 1.0
        low, high = SMALLEST, LARGEST  # 0 is inside at low, if anywhere, and outside at high
        if not self._holds(low):
            return SMALLEST
        for _ in range(ROUNDS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self._holds(middle) else (low, middle)
        return high

    def _holds(self, alpha: float) -> bool:
        found = self.alone(0, 1 - alpha)
        return not (found.lower[0] > 0 or found.upper[0] < 0)

    def facts(self) -> dict[str, Any]:
        result = super().facts()
        found = self.p_value
        result["p_value"] = None if math.isnan(found) else found
        return result

    def footer(self) -> tuple[str, ...]:
        found, lines = self.p_value, super().footer()
        if not math.isnan(found):
            said = f"p-value {found:.2g}" if found >= 1e-6 else "p-value below 1e-6"
            lines = (*lines, f"{said}, of no effect")
        return (*lines, CHANCE) if self.by_arms else lines
