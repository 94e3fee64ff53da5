"""What plans share that release clipped sums about a coarse centre, by one round or by several."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

from privmean.central.heavy_tailed.coarse import Coarse
from privmean.central.heavy_tailed.outcome import Common, HeavyTailedPlan
from privmean.central.heavy_tailed.private_radius import ClippedCount, Outside, RadiusSearch
from privmean.central.heavy_tailed.radius import Choice
from privmean.privacy.loss import Loss


@dataclass(frozen=True)
class ClippingPlan(HeavyTailedPlan):
    """search: for a private radius of the last sum, count: of the persons that it clips, where
    these are bought. nothing: predicted error of giving nothing."""

    common: Common
    coarse: Coarse
    search: RadiusSearch | None = field(default=None, kw_only=True)
    count: ClippedCount | None = field(default=None, kw_only=True)
    why: str = field(default="", kw_only=True)
    nothing: float | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def last(self) -> Choice:
        """The radius of the last sum, with what it is planned to cost."""

    @property
    @abstractmethod
    def offset(self) -> float:
        """Planned l2 distance of the last sum's centre from the mean."""

    @property
    @abstractmethod
    def error(self) -> float:
        """Planned root mean square l2 error, sampling included."""

    @property
    @abstractmethod
    def usual(self) -> float:
        """Predicted l2 error for values of the assumed spread without large outliers."""

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted l2 error by cause, for a guess of the deviation of persons' values a column."""
        return self.common.predict(guess_sd, self.last.bias, self.last.noise)

    @property
    def searched(self) -> tuple[Loss, ...]:
        return () if self.search is None else self.search.losses

    @property
    def counted(self) -> tuple[Loss, ...]:
        return () if self.count is None else self.count.losses

    def told(self) -> dict[str, Any]:
        """What `describe` says of the last sum."""
        return {
            "planned bias": self.last.bias,
            "planned noise": self.last.noise,
            "planned sampling error": self.last.sampling,
            "planned error": self.error,
            "predicted error, usual values": self.usual,
            "predicted error, giving nothing": self.nothing,
        }

    def outside(self, found: float | None) -> Outside | None:
        """The bound on those beyond a radius that was found."""
        if found is None or self.search is None:
            return None
        return Outside(self.search, self.common.persons, self.common.tails, self.offset)

    def report(self, beyond: float, weight: float) -> dict[str, Any]:
        """What the noisy number of clipped persons says."""
        assert self.count is not None
        return self.count.report(
            beyond, round(weight), self.common.tails, self.offset, self.common.beta
        )
