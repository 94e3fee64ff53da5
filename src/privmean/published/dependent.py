"""Roth and Avella-Medina, "Differential Privacy with Dependent Data" (2025), as printed.

Algorithms 2 to 5 with the splitting of equation (1) (`WinsorizedAsPublished`), the Priestley-Chao
curve of Corollary 4.11 (`PriestleyChao`), Algorithms 10 to 14 (`VarianceAsPublished`) and Lemma 6.3
(`vote_radius_dependent`). The constants are those of the paper; what privacy needs is corrected and
named where it is: spec 2.5 (budget of the split), 2.8 (1, 2: a cap on the rounds).
`pm.WinsorizedMean`, `pm.Variance` and `pm.FixedDesign` are better in every respect
(docs/proofs/winsorized.md, docs/proofs/variance.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from privmean import validate
from privmean.bisection import bisect
from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_table import ClipInterval, PersonTable, collect_rows
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError
from privmean.estimators.column_plan import box_around
from privmean.estimators.concentration import Bounded, Concentration, UnknownScale
from privmean.inference.status import FAILED, OK
from privmean.local.aggregators.item_law import item_law
from privmean.local.round import Round
from privmean.mechanisms.clipped_sum import ClippedSums, ColumnSums
from privmean.mechanisms.curator import Curator, EachColumn
from privmean.mechanisms.histograms import StableHistogram, laplace_threshold, top_bin
from privmean.mechanisms.noisy_vector import LaplaceVector
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.compose import Parallel
from privmean.privacy.privacy_events import Laplace, PrivacyEvent
from privmean.published.terms import PublishedPlan, one_column, require_delta, require_theorem
from privmean.release.result_numbers import Outcome

HALVES = "location and mean, disjoint halves"
SMALLER = "give an epsilon of about 1 or less, or use {}"


# --- Algorithms 2 to 5: the Winsorized mean ------------------------------------------------------
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
class WinsorizedAsPublished:
    """Algorithms 2-5: bins of half width tau, radius 3 tau, half of epsilon on each of two steps.

    concentration: gives tau, one log term for all columns, as printed. half_width, radius: other
    bins and clipping radii, in the units of the data (A with superscript radius and subscript half
    width in the paper's second figure). share: of epsilon for the location step. tight: the tight
    threshold instead of the printed one. splitting: location from one half of the people, mean
    from the other (halves by position in the roster).

    Guarantees: (epsilon, delta)-DP under replace-one, for any data. One column: basic composition;
    several: epsilon/sqrt(8 d ln(2/delta)) a column, half of delta for thresholds, half for
    composition. Split halves are disjoint, so that a person pays for one of the two steps only;
    the printed budget of the split is not private for three or more columns (spec 2.5) and is that
    of Algorithm 5 here.
    """

    name: ClassVar[str] = "Winsorized mean"

    concentration: Concentration
    gamma: float = 0.05
    half_width: float | None = None
    radius: float | None = None
    share: float = 0.5
    tight: bool = False
    splitting: bool = False

    def __post_init__(self) -> None:
        validate.keep(self, validate.fraction, "gamma")
        validate.keep(self, validate.fraction, "share")
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

    def plan(self, budget: Budget, shape: PublicShape) -> WinsorizedPlan:
        """The plan; raises InfeasibleError if the budget has no delta. A small n is not refused."""
        require_delta(budget)
        n, d = shape.number(least=2), shape.dimension
        tau = self.concentration.radius(n, d, self.gamma / d).tau  # one gamma for all columns
        epsilon, delta = _per_column(budget, d)
        share = Fraction(self.share).limit_denominator(10**6)
        # halves are disjoint people: either step may use the whole of epsilon
        first, second = (1, 1) if self.splitting else (share, 1 - share)
        make = StableHistogram if self.tight else PublishedHistogram
        made = WinsorizedPlan(
            self, budget, n, d,
            tau if self.half_width is None else (self.half_width,) * d,
            tuple(3 * t for t in tau) if self.radius is None else (self.radius,) * d,
            make.of(first * epsilon, delta, REPLACE_ONE),
            ClippedSums("clipped sum", REPLACE_ONE, d, epsilon=second * epsilon),
            self.splitting,
        )  # fmt: skip
        require_theorem(made.events, budget, SMALLER.format("pm.WinsorizedMean"))
        return made


def _per_column(budget: Budget, columns: int) -> tuple[Fraction, float]:
    """Epsilon and delta of one column."""
    if columns == 1:
        return budget.pure_epsilon(), budget.delta
    assert budget.epsilon is not None
    each = budget.epsilon / math.sqrt(8 * columns * math.log(2 / budget.delta))
    return Fraction(math.floor(each * 2**50), 2**50), budget.delta / 2 / columns


@dataclass(frozen=True)
class WinsorizedPlan(PublishedPlan):
    """half, radius: of the bins and of clipping, a column. location, sums: the two steps."""

    half: tuple[float, ...]
    radius: tuple[float, ...]
    location: StableHistogram
    sums: ClippedSums
    splitting: bool = False

    @property
    def averaged(self) -> int:
        """How many people the mean is over."""
        return self.n // 2 if self.splitting else self.n

    @property
    def noise(self) -> tuple[float, ...]:
        """Standard deviation of the privacy noise, a column."""
        return tuple(radius * self.sums.value_sd / self.averaged for radius in self.radius)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """For split halves: the larger of the two steps, which touch different people."""
        if not self.splitting:
            return self.location.events * self.dimension + self.sums.events
        steps = (self.location.events, (self.sums.loss_of_one,))
        return (Parallel(HALVES, steps, neighbors=REPLACE_ONE),) * self.dimension

    def run(self, curator: Curator) -> Outcome:
        people = curator.people
        if not self.splitting:
            return self.winsorized(curator, people, curator, people)
        halves = [people.split(index, 2) for index in range(2)]
        first, second = curator.parallel(HALVES, halves, lines=self.dimension)
        return self.winsorized(first, first.people, second, second.people)

    def winsorized(
        self, first: Curator, located: PersonTable, second: Curator, averaged: PersonTable
    ) -> Outcome:
        """Location from some people, mean of others: who asks, and about whom."""
        counts = [located.uniform_counts(j, half) for j, half in enumerate(self.half)]
        kept = first.ask(EachColumn(self.location, self.dimension), counts)
        tops = [top_bin(item) for item in kept]
        # printed: a column whose bin is not found has center 0; here it has no estimate
        boxes = [
            None if top is None else box_around(2 * half * top, radius)
            for top, half, radius in zip(tops, self.half, self.radius, strict=True)
        ]
        estimate = np.full(self.dimension, np.nan)
        found = sum(box is not None for box in boxes)
        if found:
            # columns without a box are given noise on nothing: the joint release keeps its shape
            over = self.sums.over(
                [ClipInterval(-1.0, 1.0) if box is None else box for box in boxes],
                billed=(self.sums.loss_of_one,) * found,
            )
            noisy = second.ask(over, over.exact(averaged.interval_sums(boxes)))
            for j, box in enumerate(boxes):
                if box is not None:
                    estimate[j] = mean_within(box, noisy[j], self.averaged)
        return self.outcome(estimate, [FAILED if box is None else OK for box in boxes])


def mean_within(box: ClipInterval, sums: ColumnSums, n: int) -> float:
    """The noisy mean of n people, in the box."""
    return box.middle + box.radius * min(1.0, max(-1.0, sums.value / n))


# --- Corollary 4.11: one point of a Priestley-Chao curve -----------------------------------------
# of the normal kernel: its largest value, its largest slope, its mean absolute argument
KERNEL, KERNEL_SLOPE, KERNEL_MEAN = 0.3989422804014327, 0.24197072451914337, 0.7978845608028654


@dataclass(frozen=True)
class PriestleyChao:
    """The curve at one point from responses at i/n: Y_i K((at - i/n)/b)/b into Algorithm 4.

    The people are in the order of the fixed design, one response each. at: where the curve is
    wanted, not within b sqrt(2 ln(2/b)) of 0 or 1. sd: root of the largest eigenvalue of the
    covariance of all responses. slope, size: bounds on the curve's slope and absolute value.
    bandwidth: b; by default the corollary's max((sd^2/n)^(1/3), sqrt(sd/(n epsilon))). The kernel
    is normal.

    Guarantees: those of Algorithm 4, for one response as the unit; the design is public. Nearly
    all products are about 0, so that the location step always finds 0; `pm.FixedDesign` needs none.
    """

    name: ClassVar[str] = "Priestley-Chao curve"

    at: float
    sd: float
    slope: float
    size: float
    bandwidth: float | None = None
    gamma: float = 0.05

    def __post_init__(self) -> None:
        validate.keep(self, validate.fraction, "at")
        validate.keep(self, validate.fraction, "gamma")
        for name in ("sd", "slope", "size"):
            validate.positive(name, getattr(self, name))
        if self.bandwidth is not None:
            validate.keep(self, validate.positive, "bandwidth")

    def plan(self, budget: Budget, shape: PublicShape) -> PriestleyChaoPlan:
        """The plan; raises InfeasibleError if the budget has no delta. A small n is not refused."""
        epsilon, n = require_delta(budget), one_column(shape)
        b = self.bandwidth or max((self.sd**2 / n) ** (1 / 3), math.sqrt(self.sd / (n * epsilon)))
        # the printed tau has the root of the kernel's largest value, which suffices up to 1
        spread = math.sqrt(2 * self.sd**2 * KERNEL * math.log(2 * n / self.gamma))
        tau = (
            b * (self.slope * KERNEL_MEAN + self.size)
            + (self.slope * KERNEL + self.size * KERNEL_SLOPE + spread) / b
        )
        half = budget.pure_epsilon() / 2
        inner = WinsorizedPlan(
            self, budget, n, 1, (tau,), (3 * tau,),
            PublishedHistogram.of(half, budget.delta, REPLACE_ONE),
            ClippedSums("clipped sum", REPLACE_ONE, 1, epsilon=half),
        )  # fmt: skip
        return PriestleyChaoPlan(self, budget, n, 1, b, inner)


@dataclass(frozen=True)
class PriestleyChaoPlan(PublishedPlan):
    """bandwidth: of the kernel. inner: Algorithm 4 for the products."""

    bandwidth: float
    inner: WinsorizedPlan

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.inner.events

    def run(self, curator: Curator) -> Outcome:
        responses = collect_rows(curator.people, size_is_public=True)
        design = np.arange(1, self.n + 1) / self.n
        steps = (self.settings.at - design) / self.bandwidth
        weights = KERNEL * np.exp(-(steps**2) / 2) / self.bandwidth
        with np.errstate(all="ignore"):
            products = ArrayPersonTable(responses * weights[:, None], curator.people.columns)
        return self.inner.winsorized(curator, products, curator, products)


# --- Algorithms 10 to 14: a variance -------------------------------------------------------------
METHODS = ("coinpress", "bisection")


@dataclass(frozen=True)
class VarianceAsPublished:
    """Algorithms 10 (bisection) and 13 (coinpress): N = ceil(log2(largest^2/smallest^2)) rounds of
    two calls at epsilon/sqrt(16 N ln(1/delta)).

    smallest, largest: public range of the standard deviation. center: public rough center. gamma:
    chance per person of lying outside, which sets what coinpress clips and what bisection covers.
    refine_first: bisection refines the center before the first test of coverage (as printed, a
    center off by more than sqrt(2) largest deviations ends it at once).

    Guarantees: (epsilon, delta)-DP under replace-one, for any data. At most N rounds (spec 2.8,
    1 and 2): as printed, constant data never end the bisection, and its loss is not bounded. People
    without a value count as people at the center, but for coverage, which they are not in.
    """

    smallest: float
    largest: float
    center: float
    method: str = "coinpress"
    gamma: float = 0.05
    refine_first: bool = False

    def __post_init__(self) -> None:
        validate.choice("method", self.method, METHODS)
        validate.keep(self, validate.positive, "smallest", "largest")
        validate.keep(self, validate.number, "center")
        if not 1e-100 <= self.smallest < self.largest <= 1e100:
            raise ArgumentError(
                "smallest", self.smallest, "must be below the largest", "give a public range"
            )
        validate.keep(self, validate.fraction, "gamma")

    @property
    def name(self) -> str:
        return f"variance by {self.method}"

    @property
    def rounds(self) -> int:
        return math.ceil(2 * math.log2(self.largest / self.smallest))

    def plan(self, budget: Budget, shape: PublicShape) -> VariancePlan:
        """The plan; InfeasibleError if the budget has no delta. A small n is not refused."""
        epsilon, n = require_delta(budget), one_column(shape)
        each = epsilon / math.sqrt(16 * self.rounds * math.log(1 / budget.delta))
        made = VariancePlan(self, budget, n, 1, Fraction(math.floor(each * 2**50), 2**50))
        require_theorem(made.events, budget, SMALLER.format("pm.Variance"))
        return made


@dataclass(frozen=True)
class VariancePlan(PublishedPlan):
    """each: the printed epsilon of a call."""

    settings: VarianceAsPublished
    each: Fraction

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        second = "second moment" if self.settings.method == "coinpress" else "coverage"
        # the printed noise of the second call is twice what its sensitivity asks for (spec 2.8, 3)
        one = (*ClippedSums("midpoint", REPLACE_ONE, 1, epsilon=self.each).events,
               Laplace(second, Fraction(1), 2 / self.each, neighbors=REPLACE_ONE))  # fmt: skip
        return one * self.settings.rounds

    def run(self, curator: Curator) -> Outcome:
        """The estimate is a variance."""
        find = self._coinpress if self.settings.method == "coinpress" else self._bisection
        return self.outcome(np.array([find(curator)]), estimand="variance between people")

    def _coinpress(self, curator: Curator) -> float:
        """Algorithm 13: midpoint and second moment in turn, always N times."""
        s, n = self.settings, self.n
        log = math.log(1 / s.gamma)
        beta = math.sqrt(1 + 2 * math.sqrt(log) + 2 * log)
        center, sd = s.center, s.largest
        for _ in range(s.rounds):
            center = self.midpoint(curator, center, math.sqrt(2) * sd)
            moment = self.second_moment(curator, center, beta * sd) * beta**2 / n
            sd *= math.sqrt(max(0.0, moment) + 1 / math.sqrt(n) + 1 / (2 * n))
        return sd**2

    def _bisection(self, curator: Curator) -> float:
        """Algorithm 10: halve the variance until coverage fails, at most N times."""
        s = self.settings
        center, sd = s.center, s.largest
        for _ in range(s.rounds):
            if s.refine_first:
                center = self.midpoint(curator, center, math.sqrt(2) * sd)
            inside = self.inside(curator, center, math.sqrt(2) * sd)
            if inside < (1 - s.gamma) * self.n:
                break
            if not s.refine_first:
                center = self.midpoint(curator, center, math.sqrt(2) * sd)
            sd = max(sd / math.sqrt(2), s.smallest)
        return sd**2

    def midpoint(self, curator: Curator, center: float, radius: float) -> float:
        """Algorithm 12: the clipped mean around `center`."""
        box = box_around(center, radius)
        step = ClippedSums("midpoint", REPLACE_ONE, 1, epsilon=self.each).over([box])
        (sums,) = curator.ask(step, step.exact(curator.people.interval_sums([box])))
        return mean_within(box, sums, self.n)

    def second_moment(self, curator: Curator, center: float, radius: float) -> float:
        """Algorithm 14: noisy sum of squared deviations clipped at `radius`, in units of radius^2:
        one person's share is at most 1."""
        box = box_around(center, radius)
        (exact,) = curator.people.interval_sums([box])
        assert exact is not None
        step = LaplaceVector((box.steps**2,), (1,), self.each / 2, REPLACE_ONE, "second moment")
        (noisy,) = curator.ask(step, [exact.zz])
        return noisy

    def inside(self, curator: Curator, center: float, radius: float) -> float:
        """Algorithm 11: noisy number of people within `radius` of the center."""
        (exact,) = curator.people.interval_sums([box_around(center, radius)])
        assert exact is not None
        step = LaplaceVector((1,), (1,), self.each / 2, REPLACE_ONE, "coverage")
        (noisy,) = curator.ask(step, [exact.present - exact.above - exact.below])
        return noisy


# --- Lemma 6.3: votes of people who depend on each other -----------------------------------------
def vote_radius_dependent(
    round_: Round, reports: int, *, rho: float, density: float, beta: float | None = None
) -> float:
    """How far all shares of a vote may be off at once when people depend on each other.

    round_: a vote of one level and one coordinate (equal weights). rho: the log-Sobolev constant
    of the law of all values together (of Gaussian ones the largest eigenvalue of their covariance;
    of independent ones the largest of a person). density: a bound on the density of a value. The
    shares are those of the average of the people's laws. Holds with probability 1 - beta, at
    least. Unlike the radius of an estimate it does not need independent people.

    Source: Lemma 6.3, with the distribution function's bound of Bobkov and Gotze (2010); see
    docs/proofs/local-rounds.md.
    """
    failure = round_.beta if beta is None else validate.fraction("beta", beta)
    if round_.bins is None or len(round_.menu) > 1 or round_.coordinates > 1:
        raise ArgumentError(
            "round_", round_.mechanism, "must be a vote of one level", "use vote_round"
        )
    n = validate.whole("reports", reports, least=1)
    scale = validate.positive("rho", rho) * validate.positive("density", density) ** 2
    return 2 * _distribution_radius(n, scale, failure / 2) + _noise_radius(round_, n, failure / 2)


def _distribution_radius(people: int, scale: float, beta: float) -> float:
    """The r at which (4/r) exp(-(2/27) n r^3/(rho M^2)) is beta; scale: rho M^2."""

    def above(r: float) -> bool:
        return math.log(4 / r) - 2 / 27 * people * r**3 / scale > math.log(beta)

    if above(1.0):
        return 1.0
    return bisect(above, 1e-9, 1.0, 80)[1]


def _noise_radius(round_: Round, reports: int, beta: float) -> float:
    """Given the values the reports are independent: Hoeffding over all bins."""
    assert round_.items is not None
    width = item_law(round_, 0).reach
    return width * math.sqrt(math.log(2 * round_.items / beta) / (2 * reports))
