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
    def effect(self) -> Row:
        """First arm less second, with its intervals."""
        return self.rows()[len(self.columns)]

    @property
    def answered(self) -> bool:
        return math.isfinite(self.effect.estimate)

    @property
    def p_value(self) -> float:
        """Of no effect: that both arms have one law of values. The smallest level at which an
        interval for the difference of limited values leaves 0 out; both arms have the same limits,
        so that this difference is 0 then, whatever the tails. The interval of the effect allows for
        tails that differ, and is longer. NaN without an effect, 1 where too much lies beyond the
        limits."""
        return self.groups.p_value(np.array([1.0, -1.0]))

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"p_value": plain(self.p_value)}

    def footer(self) -> tuple[str, ...]:
        return (*super().footer(), *effect_lines(self.p_value, by_arms=True))
