"""What plans share that release clipped sums about a coarse center, by one round or by several."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

from privmean.central.heavy_tailed.clipping_rounds import Round, Schedule
from privmean.central.heavy_tailed.coarse_center import Coarse
from privmean.central.heavy_tailed.heavy_tailed_plan import HeavyTailedNumbers, HeavyTailedPlan
from privmean.central.heavy_tailed.private_radius import Outside, RadiusSearch
from privmean.privacy.privacy_events import PrivacyEvent


@dataclass(frozen=True)
class ClippingPlan(HeavyTailedPlan):
    """schedule: of the sums. search: for a private radius of the last sum, where it is bought.
    nothing: predicted error of giving nothing."""

    common: HeavyTailedNumbers
    coarse: Coarse
    schedule: Schedule
    search: RadiusSearch | None = field(default=None, kw_only=True)
    rationale: str = field(default="", kw_only=True)
    nothing: float | None = field(default=None, kw_only=True)

    @property
    def last(self) -> Round:
        """The round of the last sum."""
        return self.schedule.rounds[-1]

    @property
    def error(self) -> float:
        """Planned root mean square l2 error, sampling included."""
        return self.schedule.error

    @property
    @abstractmethod
    def usual(self) -> float:
        """Predicted l2 error for values of the assumed spread without large outliers."""

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted l2 error by cause, for a guess of the deviation of people's values a column."""
        return self.common.predict(guess_sd, self.last.choice.bias, self.last.choice.noise)

    @property
    def searched(self) -> tuple[PrivacyEvent, ...]:
        return () if self.search is None else self.search.events

    def told(self) -> dict[str, Any]:
        """What `describe` says of the last sum."""
        return {
            "planned bias": self.last.choice.bias,
            "planned noise": self.last.choice.noise,
            "planned sampling error": self.last.choice.sampling,
            "planned error": self.error,
            "predicted error, usual values": self.usual,
            "predicted error, giving nothing": self.nothing,
        }

    def outside(self, found: float | None) -> Outside | None:
        """The bound on those beyond a radius that was found."""
        if found is None or self.search is None:
            return None
        return Outside(self.search, self.common.n, self.common.tails, self.last.offset)
