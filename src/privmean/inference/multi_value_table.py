"""Tables of groups of several values side by side: intervals one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from privmean.inference.interval import Interval, IntervalMaker
from privmean.inference.status import worst_status


@dataclass(frozen=True)
class SeveralTables:
    """One maker a value; each interval stands for its own row alone."""

    tables: tuple[IntervalMaker, ...]

    def interval(self, level: float, target: str | None) -> Interval:
        return joined([item.interval(level, target) for item in self.tables])

    def noise_interval(self, level: float) -> Interval:
        return joined([item.noise_interval(level) for item in self.tables])


def joined(found: Sequence[Interval]) -> Interval:
    """One after the other."""
    return replace(
        found[0],
        lower=tuple(x for item in found for x in item.lower),
        upper=tuple(x for item in found for x in item.upper),
        clip_bounds=tuple(x for item in found for x in item.clip_bounds),
        status=worst_status(item.status for item in found),
    )
