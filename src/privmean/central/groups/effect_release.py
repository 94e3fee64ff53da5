"""Releases of one difference of two groups.

What the release of one difference adds to a release: the effect and its p-value.

What the release of two arms adds to one by group: the effect and its p-value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmean.central.groups.group_release import GroupRelease
from privmean.inference.status import MODIFIED_TARGET
from privmean.plain_data import plain
from privmean.release.release import Release
from privmean.release.result_rows import Row

SMALLEST, LARGEST = 1e-12, 1 - 1e-6  # p-values that are told apart
ROUNDS = 40
CHANCE = "Causal only if the arms were randomized."


@dataclass(frozen=True, repr=False)
class EffectRelease(Release):
    """A release of one difference within the same people.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    release = pm.compare(table, "ln_wage", by="union", pair=["1", "0"], epsilon=1.0)
    release.effect, release.p_value
    """

    @property
    def question_kind(self) -> str:
        return "effect"

    @property
    def effect(self) -> Row:
        """First less second, with its intervals."""
        return self.rows()[0]

    @property
    def p_value(self) -> float:
        """For the null hypothesis of no effect: the smallest level at which an interval excludes 0.

        1 if nothing is excluded; NaN without an effect; 1e-12 stands for all smaller numbers.
        """
        if math.isnan(self.effect.estimate):
            return math.nan
        if self.status == MODIFIED_TARGET or self._holds(LARGEST):
            return 1.0
        low, high = SMALLEST, LARGEST  # 0 is inside at low, if anywhere, and outside at high
        if not self._holds(low):
            return SMALLEST
        for _ in range(ROUNDS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self._holds(middle) else (low, middle)
        return high

    def _holds(self, alpha: float) -> bool:
        found = self.interval(1 - alpha)
        return not (found.lower[0] > 0 or found.upper[0] < 0)

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"p_value": plain(self.p_value)}

    def labels(self) -> tuple[str, ...]:
        return tuple(row.term.rpartition(": ")[2] for row in self.rows())

    def footer(self) -> tuple[str, ...]:
        return (*super().footer(), *effect_lines(self.p_value, by_arms=False))


def effect_lines(p_value: float, *, by_arms: bool) -> tuple[str, ...]:
    """What stands below an effect: its p-value, if there is one, and when it is one of the arms."""
    lines: tuple[str, ...] = (CHANCE,) if by_arms else ()
    if not math.isnan(p_value):
        said = f"p = {p_value:.2g}" if p_value >= 1e-6 else "p < 1e-6"
        null = "equal distributions in both arms" if by_arms else "no difference"
        lines = (f"{said} for the null hypothesis of {null}.", *lines)
    return lines


@dataclass(frozen=True)
class CompareRelease(GroupRelease):
    """A release of two arms: their means, the effect and its p-value.

    Notes
    -----
    Every number follows from the released means, at no further charge.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    release = pm.compare(table, "ln_wage", arms="collgrad", epsilon=1.0)
    release.effect, release.p_value
    """

    @property
    def question_kind(self) -> str:
        return "compare"

    @property
    def effect(self) -> Row:
        """First arm less second, with its intervals."""
        return self.rows()[len(self.columns)]

    @property
    def answered(self) -> bool:
        return math.isfinite(self.effect.estimate)

    @property
    def p_value(self) -> float:
        """For the null hypothesis of equal distributions in both arms.

        The smallest level at which the interval for the difference of clipped means excludes 0.
        Both arms have the same clipping bounds, so that this difference is 0 under the null
        hypothesis. The interval of the effect allows for different outliers and is wider. NaN
        without an effect; 1 if too many values lie outside the bounds.
        """
        return self.groups.p_value(np.array([1.0, -1.0]))

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"p_value": plain(self.p_value)}

    def footer(self) -> tuple[str, ...]:
        return (*super().footer(), *effect_lines(self.p_value, by_arms=True))
