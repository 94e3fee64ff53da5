"""Boxes that ask little: of privacy noise only, and of a failed release."""

from __future__ import annotations

from dataclasses import dataclass

from privmean.inference.interval import Interval
from privmean.inference.mean_interval import no_interval
from privmean.inference.status import FAILED

MEAN = "mean"


def noise_box(
    estimate: tuple[float, ...], half: float, level: float, target: str, assumption: str = ""
) -> Interval:
    """The same half length on both sides in every column: privacy noise only."""
    return Interval(
        tuple(x - half for x in estimate),
        tuple(x + half for x in estimate),
        level,
        kind="noise_interval",
        target=target,
        assumption=assumption,
        half_widths={"noise": (half,) * len(estimate)},
    )


@dataclass(frozen=True)
class NoInterval:
    """The intervals of a failed release: the public range, or the whole line."""

    ranges: tuple[tuple[float, float], ...] | None
    columns: int

    def _make(self, level: float, kind: str) -> Interval:
        if self.ranges is None:
            return no_interval(level, kind=kind, columns=self.columns)
        return Interval(
            tuple(a for a, _ in self.ranges),
            tuple(c for _, c in self.ranges),
            level,
            kind=kind,
            status=FAILED,
        )

    def interval(self, level: float, target: str | None) -> Interval:
        return self._make(level, "interval")

    def noise_interval(self, level: float) -> Interval:
        return self._make(level, "noise_interval")
