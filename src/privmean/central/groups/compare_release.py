"""What the release of two arms adds to one by group: the effect and its p-value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privmean.central.groups.effect_release import effect_lines
from privmean.central.groups.group_release import GroupRelease
from privmean.plain_data import plain

if TYPE_CHECKING:
    from privmean.release.result_rows import Row


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
