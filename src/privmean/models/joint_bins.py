"""Curves over private times whose points share bins: smoothed ones, and the difference of two.

Every person adds one row: for each bin whether there are own records, and their mean, limited. The
sums of rows are released with the matrix of their products, so that the covariance of all bins is
known and any weighted sum of bins has its interval. docs/proofs/longitudinal.md, section 9.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from privmean import validate
from privmean.data.collect_rows import collect_rows as rows_of
from privmean.data.person_table import Floats
from privmean.data.public_shape import PublicShape
from privmean.errors import ArgumentError
from privmean.inference.assumptions import dependence
from privmean.inference.at_bound import Reached
from privmean.inference.group_table import COUNTS
from privmean.inference.interval import Interval
from privmean.inference.status import AT_BOUND, FAILED, OK, SUPPRESSED, release_status
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.moment_sums import RowProducts
from privmean.models.bin_suppression import TOO_FEW
from privmean.models.column_plan import ColumnPlan
from privmean.models.curve_release import SmoothedIntervals
from privmean.models.moment_rows import (
    ROW_STEPS,
    exact_sum,
    lattice_rows,
    triangle,
)
from privmean.models.noise_budget import NoiseBudget, plans_by_law
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.outcome import Outcome
from privmean.release.result_rows import NAN

Flags = npt.NDArray[np.bool_]

SEEN = 5.0  # deviations of its noise that the number of people in a bin must reach
MOST = 40  # bins, of both curves: the products of their rows are released too


@dataclass(frozen=True)
class JointBins:
    """The estimator. bounds: public limits of a person's mean in a bin. at: middles of the bins.
    bandwidth: of the local linear smoother, 0 for none. both: the columns are the bins of one
    group, then those of another, and the difference of the second and the first is asked for.
    declared: whether the type of the column implies the bounds.

    Guarantees: the budget given to `plan`, for one person with all records and any data. Public:
    settings and, under replace-one, the number of people.
    """

    bounds: tuple[float, float]
    at: tuple[float, ...]
    bandwidth: float = 0.0
    both: bool = False
    design_effect: float = 1.0
    declared: bool = False

    def __post_init__(self) -> None:
        validate.positive("design_effect", self.design_effect)
        validate.nonnegative("bandwidth", self.bandwidth)
        if self.bins > MOST:
            raise ArgumentError(
                "bins", self.bins, "are too many for their covariance",
                f'give at most {MOST} bins in both groups together',
            )  # fmt: skip

    @property
    def bins(self) -> int:
        return len(self.at) * (2 if self.both else 1)

    def plan(self, budget: Budget, shape: PublicShape) -> JointBinsPlan:
        """One release, with the law of the least noise."""
        if shape.dimension != self.bins:
            raise ArgumentError(
                "people", shape.dimension, "does not match the bins of the plan", "plan again"
            )
        n = shape.number()
        plan = partial(JointBinsPlan, budget, n, self, columns=self.bins)
        return min(plans_by_law(budget, plan), key=lambda plan: plan.value_sd)


@dataclass(frozen=True)
class JointBinsPlan(ColumnPlan):
    """The one release of all bins."""

    settings: JointBins
    parts: NoiseBudget
    estimator = "means of bins with their covariance"
    about = "columns"

    @property
    def rationale(self) -> str:
        law = self.parts.word
        return f"points share bins, so that sums and products of rows are released, {law} noise"

    @property
    def radius(self) -> float:
        """Of a row: a person may be in every bin, at a limit."""
        return self.parts.longest(2 * self.settings.bins)

    @property
    def sums(self) -> RowProducts:
        share = self.parts.sums(Fraction(1))
        return RowProducts(
            "bins and products", 2 * self.settings.bins, ROW_STEPS, self.relation, **share
        )

    @property
    def value_sd(self) -> float:
        """Deviation of the noise of a bin's sum, in half widths of the bounds."""
        return self.sums.scale * self.radius * self.parts.unit

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.sums.events

    def errors(self, guess: float) -> tuple[float, float]:
        """Of one bin that holds everybody."""
        low, high = self.settings.bounds
        noise = (high - low) / 2 * self.value_sd / self.n
        return noise, guess * math.sqrt(self.settings.design_effect / self.n)

    def describe(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "bins": self.settings.bins,
            "bandwidth": self.settings.bandwidth,
            "budget": self.budget.to_dict(),
            "law": self.parts.law,
            "mechanisms": [loss.to_dict() for loss in self.events],
        }

    def run(self, curator: Curator) -> Outcome:
        settings, d = self.settings, self.settings.bins
        low, high = settings.bounds
        middle, half = low + (high - low) / 2, (high - low) / 2
        values = rows_of(curator.people, size_is_public=self.relation == REPLACE_ONE)
        there = ~np.isnan(values)
        limited = (np.clip(np.where(there, values, middle), low, high) - middle) / half
        entries = [there[:, j].astype(float) for j in range(d)]
        entries += [np.where(there[:, j], limited[:, j], 0.0) for j in range(d)]
        whole = lattice_rows(entries, self.radius, self.parts.norm)
        answers = [exact_sum(item) for item in whole]
        answers += [exact_sum(whole[i] * whole[j]) for i, j in triangle(2 * d)]
        noisy = curator.ask(self.sums, answers)
        unit = self.radius
        sums = np.array(noisy[: 2 * d]) * unit
        second = np.zeros((2 * d, 2 * d))
        for (i, j), value in zip(triangle(2 * d), noisy[2 * d :], strict=True):
            second[i, j] = second[j, i] = value * unit * unit
        scale = self.sums.scale * unit
        seen = sums[:d] >= max(SEEN * self.parts.unit * scale, 1.0)
        count = np.maximum(sums[:d], 1.0)
        mean = np.clip(sums[d:] / count, -1.0, 1.0)
        weights, known = _weights(settings, seen)
        noise = (scale * self.parts.unit,) * 2
        # the products are far noisier than the sums, which decide alone
        sides = [Reached(m * c, c, c, noise, 0.0).side for m, c in zip(mean, count, strict=True)]
        below, above = _open_sides(weights, [0 if settings.declared else x for x in sides])
        # an error of a weighted sum of means, by the noise and the sampling of counts and sums
        first = np.hstack([-weights * mean / count, weights / count]) * half
        spectrum, vectors = np.linalg.eigh(second)  # of released numbers: no row depends on it
        root: Floats = first @ (vectors * np.sqrt(np.maximum(spectrum, 0.0)))
        # no mean within the bounds varies more than they allow, however noisy the products are
        most = (np.abs(weights) / np.sqrt(count)).sum(axis=1) * half
        size = np.sqrt((root**2).sum(axis=1))
        short = np.minimum(1.0, most / np.maximum(size, 1e-300))
        root = root * short[:, None] * math.sqrt(settings.design_effect)
        estimate = (weights @ mean) * half
        estimate = estimate + (0.0 if settings.both else middle)
        reach = (low - high, high - low) if settings.both else (low, high)
        smooth = SmoothedIntervals(
            np.clip(estimate, *reach), np.hstack([first, root]),
            np.concatenate([np.full(2 * d, scale), np.zeros(2 * d)]),
            np.concatenate([np.zeros(2 * d), np.ones(2 * d)]),
            not self.parts.laplace, reach, bool(settings.bandwidth), "people",
        )  # fmt: skip
        statuses = tuple(
            (AT_BOUND if b or a else OK) if x else SUPPRESSED if known.any() else FAILED
            for x, b, a in zip(known, below, above, strict=True)
        )
        status = release_status(statuses)
        return Outcome(
            np.where(known, smooth.estimate, math.nan),
            Points(smooth, tuple(known.tolist()), tuple(below.tolist()), tuple(above.tolist())),
            n=self.known,
            status=status,
            statuses=statuses,
            advice=TOO_FEW if status == FAILED else "",
            assumptions=(dependence(settings.design_effect),),
            shares={"bins": 1.0},
            diagnostics={"weight": np.where(seen, sums[:d], 0.0).tolist()},
            estimand="mean curve",
        )


def _weights(settings: JointBins, seen: Flags) -> tuple[Floats, Flags]:
    """Weights of the bins at every point, and which points have one: those of a bin that holds
    people. Public but for the bins that hold nobody."""
    at = np.array(settings.at)
    size = len(at)
    parts = [seen[:size], seen[size:]] if settings.both else [seen]
    made = [local_lines(at, settings.bandwidth, part) for part in parts]
    known = parts[0] & parts[-1]
    return (np.hstack([-made[0], made[1]]) if settings.both else made[0]), known


def _open_sides(weights: Floats, sides: list[int]) -> tuple[Flags, Flags]:
    """Of every point: whether nothing is known below it, or above it, because a bin that carries
    it is at a bound."""
    size = np.abs(weights)
    carried = size >= COUNTS * size.max(axis=1, keepdims=True, initial=1e-300)
    at = np.array(sides)
    moved = np.sign(weights) * at
    return (carried & (moved < 0)).any(axis=1), (carried & (moved > 0)).any(axis=1)


def local_lines(at: Floats, bandwidth: float, used: Flags) -> Floats:
    """Weights of a local linear fit at every point, Gaussian kernel, over the bins used; rows add
    up to 1. The bin itself where there is no bandwidth, or none besides it."""
    found: Floats = np.eye(len(at))
    if not bandwidth:
        return _over(found, used)
    for k, point in enumerate(at):
        x = (at - point) / bandwidth
        kernel = np.exp(-0.5 * np.minimum(x * x, 1400.0)) * used
        s0, s1, s2 = float(kernel.sum()), float(kernel @ x), float(kernel @ (x * x))
        spread = s0 * s2 - s1 * s1
        if spread > 1e-9 * s0 * s0:
            found[k] = kernel * (s2 - s1 * x) / spread
    return _over(found, used)


def _over(weights: Floats, used: Flags) -> Floats:
    """The weights of used bins."""
    kept: Floats = weights * used
    return kept


@dataclass(frozen=True, eq=False)
class Points:
    """The intervals of the points that have an estimate; NaN for the others. below, above: the
    points whose interval is open on that side, because a bin is at a public bound."""

    made: SmoothedIntervals
    known: tuple[bool, ...]
    below: tuple[bool, ...]
    above: tuple[bool, ...]

    def column(self, index: int) -> Points:
        """The intervals of one point for itself."""
        at = slice(index, index + 1)
        return Points(self.made.column(index), self.known[at], self.below[at], self.above[at])

    def errors(self) -> tuple[float, float]:
        """Of one point: deviations by privacy noise, and by noise and sampling together."""
        return self.made.errors() if self.known[0] else (math.nan, math.nan)

    def interval(self, level: float, target: str | None = None) -> Interval:
        """All points together, by the joint law of their errors."""
        if not any(self.known):
            return self._nothing(level, "interval")
        made = self._masked(self._shown.interval(level))
        return replace(
            made,
            lower=tuple(-math.inf if x else y for x, y in zip(self.below, made.lower, strict=True)),
            upper=tuple(math.inf if x else y for x, y in zip(self.above, made.upper, strict=True)),
        )

    def noise_interval(self, level: float) -> Interval:
        if not any(self.known):
            return self._nothing(level, "noise_interval")
        return self._masked(self._shown.noise_interval(level))

    def _nothing(self, level: float, kind: str) -> Interval:
        none = (NAN,) * len(self.known)
        return Interval(none, none, level, kind=kind, target="clipped mean curve", status=FAILED)

    @property
    def _shown(self) -> SmoothedIntervals:
        """Of the points that have an estimate alone: the others take no part in the band."""
        at = np.array(self.known)
        return replace(self.made, estimate=self.made.estimate[at], weights=self.made.weights[at])

    def _masked(self, made: Interval) -> Interval:
        ends = iter(zip(made.lower, made.upper, strict=True))
        pairs = [next(ends) if known else (NAN, NAN) for known in self.known]
        return replace(
            made, lower=tuple(low for low, _ in pairs), upper=tuple(high for _, high in pairs)
        )
