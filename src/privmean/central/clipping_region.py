"""Where the values of one column were found, and how: the private outcome of all that looks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from privmean.central.log_histogram import END, Histogram
from privmean.inference.missing_count import MissingCount

MOST = 0.75  # part of the people without a value that explains why nothing else is seen
LAST = END * (1 - 2.0**-20)  # limits that hold this hold the end of the public range

NOBODY = "no person has a value"


@dataclass(frozen=True)
class ClippingRegion:
    """The private outcome: limits of the values, and the path that was paid for.

    hidden, before: as in `Reach`. count_scale: noise of a count of the histogram behind
    the limits; seen: that histogram. nulls: the noisy numbers of people without a value, and their
    scales. first: the first round's histogram, around 0, where a round moved the origin.
    away: the noisy number of people that rounds left behind and its scale, where it was asked for.
    typical: about the mean of what was seen (None: not known). within: where limits were chosen
    after a new start: the location before the last choice, if that is worth going back to.
    """

    outcome: str
    origin: float
    lower: float
    upper: float
    rounds: int
    looks: int
    restarts: int
    hidden: float
    count_scale: float
    before: tuple[float, float] = (0.0, 0.0)
    nulls: tuple[tuple[float, float], ...] = ()
    first: Histogram | None = field(default=None, repr=False, compare=False)
    seen: Histogram | None = field(default=None, repr=False, compare=False)
    away: tuple[float, float] | None = None
    typical: float | None = None
    within: ClippingRegion | None = None

    @property
    def path(self) -> dict[str, Any]:
        """What was paid for, as a release tells it."""
        names = ("outcome", "origin", "rounds", "looks", "restarts")
        told = {name: getattr(self, name) for name in names}
        if self.away is not None:
            told["people left behind"], told["noise scale of those left behind"] = self.away
        return told

    @property
    def missing(self) -> MissingCount:
        """The people without a value, as far as they are known by now."""
        return MissingCount.pooled(self.nulls)

    def scarce(self, there: float) -> bool:
        """Whether beside so many people with a value most are known to have none."""
        absent = self.missing.believed
        return absent > MOST * (absent + there)
