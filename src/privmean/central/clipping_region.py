"""Where the values of one column were found, and how: the private outcome of all that looks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from privmean.central.log_histogram import Histogram
from privmean.inference.missing_count import UNKNOWN, MissingCount

NOBODY = "no person has a value"


@dataclass(frozen=True)
class ClippingRegion:
    """The private outcome: limits of the values, and the path that was paid for.

    origin: a center near the median; seen: the histogram about it; missing: the people without a
    value, as far as they are known; hidden: as in `HistogramExtent`.
    """

    outcome: str
    origin: float
    lower: float
    upper: float
    looks: int = 1
    seen: Histogram | None = field(default=None, repr=False, compare=False)
    missing: MissingCount = UNKNOWN
    hidden: float = 0.0

    @property
    def path(self) -> dict[str, Any]:
        """What was paid for, as a release tells it."""
        return {name: getattr(self, name) for name in ("outcome", "origin", "looks")}

    @property
    def scale(self) -> float:
        """Noise of a count of the histogram."""
        return 0.0 if self.seen is None else self.seen.scale
