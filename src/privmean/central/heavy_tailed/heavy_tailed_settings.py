"""The settings of `HeavyTailedMean` that planning reads, and the shares it deals out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from privmean.central.heavy_tailed.coarse_center import Coarse
from privmean.central.heavy_tailed.coarse_center_budget import CoarseNeeds
from privmean.central.heavy_tailed.heavy_tailed_plan import HeavyTailedNumbers
from privmean.central.heavy_tailed.record_weights import RecordWeights
from privmean.mechanisms.k_norm import LARGEST_DIMENSION
from privmean.mechanisms.weighted_rows import Law
from privmean.privacy.budget import Budget

COARSE_SHARE = 0.6  # a coarse step that needs more than this share of the budget is refused
SEARCH_SHARE = Fraction(15, 100)
THRESHOLD_SHARE = 0.25  # of delta, for the thresholds of Gaussian histograms


@dataclass(frozen=True)
class Settings:
    """The settings of `HeavyTailedMean` that planning reads."""

    law: Literal["auto", "gaussian", "laplace", "k-norm"]
    rounds: int | None
    start: Literal["auto", "histogram", "public"]
    wide_buckets: bool
    private_radius: bool | None
    weights: RecordWeights | None

    def laws(self, budget: Budget, dimension: int) -> tuple[Law, ...]:
        """The noise laws to plan with."""
        pure: Law = "k-norm" if dimension <= LARGEST_DIMENSION else "laplace"
        if self.law != "auto":
            allowed = self.law != "gaussian" or not budget.is_pure
            allowed = allowed and (self.law != "k-norm" or dimension <= LARGEST_DIMENSION)
            return (self.law,) if allowed else ()
        if budget.is_pure:
            return (pure,)
        if budget.is_zcdp:
            return ("gaussian",)
        return ("gaussian", pure)

    def starts(self, law: Law, common: HeavyTailedNumbers, persons: int) -> Iterator[Coarse]:
        """Coarse steps that fit the law, each with the budget it needs for `persons`."""
        needs = CoarseNeeds(
            common.dimension,
            persons,
            common.spread,
            common.moment.ranges(common.dimension),
            common.relation,
            common.beta,
            self.wide_buckets,
        )
        found: list[Coarse | None] = []
        if self.start != "histogram":
            found.append(needs.public())
        if self.start != "public":
            delta = common.budget.delta
            if law == "gaussian":
                found += [needs.gaussian(), needs.gaussian_stable(delta * THRESHOLD_SHARE)]
            else:
                found += [needs.selection(), needs.stable(delta)]
        return (item for item in found if item is not None)
