"""The Winsorized mean with the constants of the paper, for study and comparison.

Roth and Avella-Medina, "Differential Privacy with Dependent Data" (2025): Algorithms 2-5 and the
sample-splitting variant of equation (1). Releases say that they are as published. Where the printed
budget is not private (splitting with three or more columns) the corrected one is used and said.
`WinsorizedMean` is better in every respect: docs/proofs/winsorized.md, section 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from privmean import validate
from privmean.central.clipped_mean import ClippedMean
from privmean.central.concentration import Bounded, Concentration, Radii, UnknownScale
from privmean.central.winsorized_plan import WinsorizedPlan
from privmean.central.winsorized_stages import PublicFacts, Stages, predicted_failure
from privmean.data.person_table import ClipInterval, PersonTable
from privmean.data.public_shape import PublicShape
from privmean.errors import ArgumentError
from privmean.mechanisms.clipped_sum import ClippedSums, ColumnSums
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.stable_histogram import StableHistogram, laplace_threshold
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.parallel_composition import Parallel
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.published.terms import require_delta, require_theorem

HALVES = "location and mean, disjoint halves"
MARK = "as published, for study"
SPLIT_NOTE = "the printed budget of the split is not private for three or more columns; corrected"


@dataclass(frozen=True)
class PublishedHistogram(StableHistogram):
    """The stable histogram with the printed threshold 1 + scale ln(2/delta), rounded up.

    Guarantees: as `StableHistogram`; the printed threshold is above the tight one.
    """

    @property
    def threshold(self) -> int:
        printed = 1 + math.ceil(float(self.scale) * math.log(2 / self.delta))
        return max(printed, laplace_threshold(self.scale, self.delta))


@dataclass(frozen=True)
class AsPublished:
    """Algorithms 2-5: bins of half width tau, radius 3 tau, half of epsilon on each of two steps.

    concentration: gives tau, one log term for all columns, as printed. half_width, radius: other
    bins and clipping radii, in the units of the data (A with superscript radius and subscript half
    width in the paper's second figure). share: of epsilon for the location step. tight: the tight
    threshold instead of the printed one. splitting: location from one half of the people, mean
    from the other (halves by position in the roster).

    Guarantees: (epsilon, delta)-DP under replace-one, for any data. One column: basic composition;
    several: epsilon/sqrt(8 d ln(2/delta)) a column, half of delta for thresholds, half for
    composition. Split halves are disjoint, so that a person pays for one of the two steps only.
    """

    serves_records: ClassVar[bool] = True

    concentration: Concentration
    gamma: float = 0.05
    half_width: float | None = None
    radius: float | None = None
    share: float = 0.5
    tight: bool = False
    splitting: bool = False

    def __post_init__(self) -> None:
        validate.fraction("gamma", self.gamma)
        validate.fraction("share", self.share)
        for name in ("half_width", "radius"):
            if getattr(self, name) is not None:
                validate.positive(name, getattr(self, name))
        if isinstance(self.concentration, Bounded | UnknownScale):
            raise ArgumentError(
                "concentration",
                self.concentration,
                "is not an assumption of the paper",
                "give SubGaussian(sd=...), LogSobolev(...) or BetweenWithin(...)",
            )

    def plan(self, budget: Budget, shape: PublicShape) -> PublishedPlan:
        """The plan; raises InfeasibleError if the budget has no delta. A small n is not refused."""
        require_delta(budget)
        n, d = shape.number(least=2), shape.dimension
        epsilon, delta = self._per_column(budget, d)
        mean_persons = n // 2 if self.splitting else n
        facts = PublicFacts(n, d, REPLACE_ONE, self._radii(n, d), 0.01)
        stages = self._stages(facts, epsilon, delta, mean_persons)
        plan = PublishedPlan(
            budget, facts, stages, None, self.concentration, None, self, mean_persons
        )
        require_theorem(plan.events, budget, "give an epsilon below 1, or use Winsorized")
        return plan

    def _per_column(self, budget: Budget, columns: int) -> tuple[Fraction, float]:
        if columns == 1:
            return budget.pure_epsilon(), budget.delta
        assert budget.epsilon is not None
        each = budget.epsilon / math.sqrt(8 * columns * math.log(2 / budget.delta))
        return Fraction(math.floor(each * 2**50), 2**50), budget.delta / 2 / columns

    def _radii(self, n: int, columns: int) -> Radii:
        printed = self.concentration.radius(n, columns, self.gamma, jointly=True)
        half = printed.tau if self.half_width is None else (self.half_width,) * columns
        return replace(printed, half=half)

    def _stages(
        self, facts: PublicFacts, epsilon: Fraction, delta: float, mean_persons: int
    ) -> Stages:
        share = Fraction(self.share).limit_denominator(10**6)
        # halves are disjoint persons: either step may use the whole of epsilon
        first, second = (
            (epsilon, epsilon)
            if self.splitting
            else (
                epsilon * share,
                epsilon * (1 - share),
            )
        )
        make = StableHistogram if self.tight else PublishedHistogram
        location = make.of(first, delta, facts.relation)
        final = ClippedSums("clipped sum", facts.relation, facts.columns, epsilon=second)
        tau = facts.radii.tau
        slack = tuple((3 * t if self.radius is None else self.radius) - t for t in tau)
        noise = tuple(
            (t + s) * final.value_sd / mean_persons for t, s in zip(tau, slack, strict=True)
        )
        shares = (("location", float(share)), ("mean", float(1 - share)))
        if self.splitting:
            shares = (("location (first half)", 1.0), ("mean (second half)", 1.0))
        located = replace(facts, n=facts.n - facts.n // 2)
        failure = predicted_failure(location, located if self.splitting else facts)
        return Stages("laplace", None, location, None, final, shares, slack, noise, failure)


@dataclass(frozen=True)
class PublishedPlan(WinsorizedPlan):
    """The plan of `AsPublished`. mean_persons: how many people the mean is over."""

    published: AsPublished
    mean_persons: int

    estimator = f"Winsorized mean ({MARK})"

    @property
    def rationale(self) -> str:
        text = f"{MARK}: {super().rationale}"
        if self.published.splitting:
            text += "; location and mean from disjoint halves"
            if self.facts.columns > 2:
                text += f" ({SPLIT_NOTE})"
        return text

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """For split halves: the larger of the two steps, which touch different people."""
        if not self.published.splitting:
            return self.stages.events
        assert self.stages.location is not None
        first, second = self.stages.location.events, self.stages.final.loss_of_one
        return (Parallel(HALVES, (first, (second,)), neighbors=REPLACE_ONE),) * self.facts.columns

    def _target(self) -> str:
        """A radius below tau clips more than the assumption allows for."""
        return "mean" if min(self.stages.slack) >= 0 else "clipped mean"

    def _parts(self, curator: Curator) -> tuple[Curator, Curator]:
        if not self.published.splitting:
            return curator, curator
        halves = [curator.people.split(index, 2) for index in range(2)]
        first, second = curator.parallel(HALVES, halves, lines=self.facts.columns)
        return first, second

    def mean_of(self, people: PersonTable, box: ClipInterval, sums: ColumnSums) -> ClippedMean:
        return ClippedMean(
            box, sums, self.mean_persons, by_records=people.max_records is not None, always_n=True
        )
