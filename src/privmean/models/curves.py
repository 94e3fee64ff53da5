"""Mean curves over time: with one public time a response, and with many records a person.

`FixedDesign`: responses at public times, the unit of privacy is one response; clipped responses are
summed in disjoint cells of time at the full budget each (a response is in one public cell), then
smoothed. Source: Roth and Avella-Medina (2025), Definitions 4.7-4.8, in the clipped form of
docs/proofs/longitudinal.md, section 5.

`curve`: persons with records at any times. Times then belong to persons and are private, so that
cells are not disjoint: a person contributes one mean a public bin, a vector, and the means of bins
are released together (`Winsorized` or `Magnitudes` over many columns).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from privmean import validate
from privmean.central.clipped_mean import ClippedMeans
from privmean.errors import ArgumentError
from privmean.intervals.laplace_normal import quantile
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.noise.base import Noise
from privmean.noise.exact import ExactNoise
from privmean.people.matrix import MatrixPeople
from privmean.people.reductions import Box, Floats
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.loss import Loss
from privmean.release import Interval, Release


@dataclass(frozen=True)
class CurveTable:
    """A curve as arrays of one length. lower, upper: an interval for each point alone; band_lower,
    band_upper: for all points together."""

    at: Floats
    estimate: Floats
    lower: Floats
    upper: Floats
    band_lower: Floats
    band_upper: Floats


@dataclass(frozen=True)
class Curve(Release):
    """A release whose columns are points or bins of time. at: their (middle) times."""

    at: tuple[float, ...] = ()

    def table(self, level: float | None = None) -> CurveTable:
        """Estimates with pointwise intervals and simultaneous bands."""
        confidence = validate.fraction("level", self.level if level is None else level)
        band = self.interval(confidence)
        low, high = self._pointwise(confidence)
        return CurveTable(
            np.array(self.at), np.array(self.estimate), low, high,
            np.array(band.lower), np.array(band.upper),
        )  # fmt: skip

    def _pointwise(self, level: float) -> tuple[Floats, Floats]:
        made = self.intervals
        if isinstance(made, SmoothedIntervals):
            one = made.pointwise(level)
            return np.array(one.lower), np.array(one.upper)
        assert isinstance(made, ClippedMeans)
        beyond = made.beyond or (0.0,) * len(self.columns)
        ends = []
        for column, extra in zip(made.columns, beyond, strict=True):
            if column is None:
                ends.append((-math.inf, math.inf))
                continue
            low, high = column.limits(1 - level, made.design_effect)
            ends.append((low - extra, high + extra))
        table = np.array(ends)
        return table[:, 0], table[:, 1]

    def to_dict(self) -> dict[str, Any]:
        result = super().to_dict()
        table = self.table()
        result["curve"] = {
            item.name: [x if math.isfinite(x) else None for x in getattr(table, item.name).tolist()]
            for item in fields(table)
        }
        return result

    def summary(self) -> str:
        table = self.table()
        percent = f"{100 * self.level:g} %"
        lines = [f"{'at':>12}{'estimate':>12}   {percent} alone, {percent} of the whole curve"]
        for row in zip(*(getattr(table, item.name) for item in fields(table)), strict=True):
            at, value, low, high, band_low, band_high = row
            lines.append(
                f"{at:>12.5g}{value:>12.5g}   [{low:.5g}, {high:.5g}]   "
                f"[{band_low:.5g}, {band_high:.5g}]"
            )
        rest = super().summary().splitlines()
        kept = [
            line for line in rest if not line.startswith(tuple(f"  {c}:" for c in self.columns))
        ]
        return "\n".join(lines + kept)

    def __str__(self) -> str:
        return self.summary()

    def plot(self, axes: Any = None) -> Any:
        """Draw the curve with both bands (needs privmean[plot]); returns the axes."""
        try:
            from matplotlib.figure import Figure
        except ModuleNotFoundError:
            raise ArgumentError(
                "plot", None, "needs matplotlib", "install privmean[plot]"
            ) from None
        if axes is None:
            axes = Figure(layout="constrained").subplots()
        table = self.table()
        axes.fill_between(
            table.at, table.band_lower, table.band_upper, alpha=0.2, color="C0", linewidth=0,
            label=f"{100 * self.level:g} % for the whole curve",
        )  # fmt: skip
        axes.fill_between(
            table.at, table.lower, table.upper, alpha=0.35, color="C0", linewidth=0,
            label=f"{100 * self.level:g} % for each point",
        )  # fmt: skip
        axes.plot(table.at, table.estimate, color="C0", marker=".", label="private mean")
        axes.legend()
        return axes


# --- responses at public times --------------------------------------------------------------------
@dataclass(frozen=True)
class FixedDesign:
    """A mean curve from responses at public times; one response is one unit.

    bounds: public limits of a response; what lies beyond is clipped. cells: of equal width between
    the first and last time. bandwidth: of the Gaussian kernel that smooths cells (0: none). at:
    points of the curve (default: middles of cells).

    Guarantees: the budget given to `plan` for one response, with times and roster public and fixed,
    replace-one, for any responses. Pure epsilon needs no delta. Not for times that belong to
    persons.
    """

    bounds: tuple[float, float]
    cells: int
    bandwidth: float = 0.0
    at: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", validate.bounds("bounds", self.bounds))
        object.__setattr__(self, "cells", validate.whole("cells", self.cells, least=1))
        validate.nonnegative("bandwidth", self.bandwidth)
        if self.at is not None:
            points = tuple(validate.number("at", x) for x in self.at)
            if not points or not self.bandwidth:
                raise ArgumentError(
                    "at", self.at, "needs points and a bandwidth", "give bandwidth=0.1"
                )
            object.__setattr__(self, "at", points)

    def plan(self, budget: Budget, *, times: npt.ArrayLike) -> FixedDesignPlan:
        """times: shape (n,), public. Everything but the responses is decided here."""
        moments = np.asarray(times, dtype=float)
        if moments.ndim != 1 or len(moments) == 0 or not np.isfinite(moments).all():
            raise ArgumentError(
                "times", moments.shape, "are no public times", "give one finite time a response"
            )
        low, high = float(moments.min()), float(moments.max())
        width = (high - low) / self.cells or 1.0
        cell = np.clip(np.floor((moments - low) / width), 0, self.cells - 1).astype(np.int64)
        counts = np.bincount(cell, minlength=self.cells)
        used = np.flatnonzero(counts)
        middles: Floats = np.array([low + (k + 0.5) * width for k in used.tolist()])
        points: Floats = np.array(self.at) if self.at is not None else middles
        weights = _weights(points, middles, counts[used], self.bandwidth)
        return FixedDesignPlan(self, budget, cell, used, counts[used], points, weights)


def _weights(points: Floats, middles: Floats, counts: Any, bandwidth: float) -> Floats:
    """Public weights of the cells' means, shape (points, cells); rows add up to 1."""
    if not bandwidth:
        return np.eye(len(middles))
    gap = (points[:, None] - middles[None, :]) / bandwidth
    # the nearest cell keeps weight 1 before scaling, however far it is
    kernel = np.exp(-0.5 * (gap**2 - np.min(gap**2, axis=1, keepdims=True)))
    raw = kernel * counts[None, :]
    result: Floats = raw / raw.sum(axis=1, keepdims=True)
    return result


@dataclass(frozen=True, eq=False)
class FixedDesignPlan:
    """Cells, weights and noise of a curve at public times. cell: of every response; used: cells
    that have responses, counts: how many; weights: of the cells' means at every point."""

    settings: FixedDesign
    budget: Budget
    cell: npt.NDArray[np.int64]
    used: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    points: Floats
    weights: Floats

    @property
    def estimator(self) -> str:
        return "clipped means of cells" + (", smoothed" if self.settings.bandwidth else "")

    @property
    def why(self) -> str:
        return (
            "every response is in one public cell, so that each cell is released at the full budget"
        )

    @property
    def sums(self) -> ClippedSums:
        """One cell's release."""
        if self.budget.rho is not None:
            mu = self.budget.gaussian_mu() * (1 - 1e-9)
            return ClippedSums("cell", REPLACE_ONE, 1, mu=mu)
        return ClippedSums("cell", REPLACE_ONE, 1, epsilon=self.budget.pure_epsilon())

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Parallel composition: cells hold disjoint responses at public places, so that one
        response changes one cell, and the dearest cell is the bill."""
        return self.sums.losses

    def describe(self) -> dict[str, Any]:
        return {
            "responses": len(self.cell),
            "cells": len(self.used),
            "bounds": list(self.settings.bounds),
            "bandwidth": self.settings.bandwidth,
            "budget": self.budget.to_dict(),
            "predicted_noise_sd": self.noise.tolist(),
            "mechanisms": [loss.to_dict() for loss in self.losses],
        }

    @property
    def noise(self) -> Floats:
        """Standard deviation of the privacy noise at every point (all responses present)."""
        box = Box(*self.settings.bounds)
        each = box.radius * self.sums.value_sd / self.counts
        result: Floats = np.sqrt((self.weights**2) @ (each**2))
        return result

    def release(self, responses: npt.ArrayLike, noise: Noise | None = None) -> Curve:
        """responses: shape (n,), in the order of the times; NaN (missing) counts as the middle of
        the bounds, since times and numbers are public."""
        source: Noise = ExactNoise() if noise is None else noise
        values = np.asarray(responses, dtype=float)
        if values.shape != self.cell.shape:
            raise ArgumentError(
                "responses",
                values.shape,
                f"are not {len(self.cell)} numbers",
                "give one response a time",
            )
        box = Box(*self.settings.bounds)
        sums = self.sums
        means, spreads = [], []
        for place, count in zip(self.used, self.counts, strict=True):
            people = MatrixPeople(values[self.cell == place][:, None], ("response",))
            exact = people.box_sums([box])[0]
            assert exact is not None
            noisy = sums.release([box], [exact], source)[0]
            z = min(1.0, max(-1.0, noisy.value / int(count)))
            means.append(box.middle + box.radius * z)
            # the square has noise of its own; what it says of one cell is kept positive
            unit = (noisy.square + noisy.square_noise) / int(count) - z * z
            spreads.append(box.radius**2 * min(1.0, max(unit, 0.0)) / int(count))
        estimate = self.weights @ np.array(means)
        first = sums.noise()[0] * box.radius / self.counts
        intervals = SmoothedIntervals(
            estimate, self.weights, first, np.array(spreads), sums.epsilon is None,
            self.settings.bounds, bool(self.settings.bandwidth),
        )  # fmt: skip
        names = tuple(f"{x:.6g}" for x in self.points)
        return Curve(
            estimate=estimate,
            columns=names,
            estimator=self.estimator,
            guarantee=Guarantee.of(
                self.budget,
                REPLACE_ONE,
                self.losses,
                unit="response",
                public=("times", "number of responses", "settings"),
            ).require(),
            intervals=intervals,
            plan=self,
            persons=len(self.cell),
            estimand="mean response over time",
            assumptions=("unrelated responses", "times are public and fixed"),
            shares={"each cell": 1.0},
            secure=source.secure,
            at=tuple(self.points.tolist()),
        )


@dataclass(frozen=True, eq=False)
class SmoothedIntervals:
    """Intervals of weighted means of cells. first: noise scale of a cell's mean (Laplace scale or
    deviation), spread: noisy sampling variance of a cell's mean."""

    estimate: Floats
    weights: Floats
    first: Floats
    spread: Floats
    gaussian: bool
    bounds: tuple[float, float]
    smoothed: bool

    def _half(self, level: float, sampling: bool) -> Floats:
        alpha = 1 - level
        halves = []
        for row in self.weights:
            scales = np.abs(row) * self.first
            sd = math.sqrt(float(row**2 @ self.spread)) if sampling else 0.0
            if not self.gaussian and np.count_nonzero(row) == 1:
                halves.append(float(quantile(alpha / 2, (float(scales.max()),), sd)))
                continue
            if not self.gaussian:
                halves.append(_laplace_sum(scales, sd, alpha))
                continue
            halves.append(float(-ndtri(alpha / 2)) * math.hypot(sd, *scales))
        return np.array(halves)

    def _made(self, level: float, alone: float, sampling: bool) -> Interval:
        half = self._half(alone, sampling)
        low, high = self.bounds
        target = "clipped mean of these responses" if not sampling else "clipped mean curve"
        return Interval(
            tuple(np.clip(self.estimate - half, low, high).tolist()),
            tuple(np.clip(self.estimate + half, low, high).tolist()),
            level,
            kind="interval" if sampling else "noise_interval",
            target=target + (" (smoothed)" if self.smoothed else ""),
            assumption="unrelated responses" if sampling else "",
            region=(self.bounds,),
        )

    def pointwise(self, level: float) -> Interval:
        """Each point alone."""
        return self._made(level, level, True)

    def interval(self, level: float, target: str | None = None) -> Interval:
        """All points together (Bonferroni: errors of neighbouring points are shared)."""
        return self._made(level, 1 - (1 - level) / len(self.estimate), True)

    def noise_interval(self, level: float) -> Interval:
        return self._made(level, 1 - (1 - level) / len(self.estimate), False)


def _laplace_sum(scales: Floats, sd: float, alpha: float) -> float:
    """A half length that a sum of independent Laplace noises and a normal one exceeds with
    probability at most alpha: Chernoff's bound, at the best of many exponents."""
    largest = float(scales.max())
    share = np.linspace(0.001, 0.999, 999)
    s = share / largest
    log_mgf = 0.5 * (s * sd) ** 2 - np.log1p(-np.square(np.outer(s, scales))).sum(axis=1)
    return float(np.min((log_mgf + math.log(2 / alpha)) / s))


# --- persons with records at private times --------------------------------------------------------
def curve(
    source: Any,
    value: str | None = None,
    *,
    time: str,
    bins: Sequence[float],
    person: str,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    bounds: tuple[float, float] | None = None,
    concentration: Any = None,
    range: Any = None,
    resolution: float = 2.0**-20,
    level: float = 0.95,
    design_effect: float = 1.0,
    roster: Any = None,
    delimiter: str | None = None,
    ledger: Any = None,
    noise: Any = None,
) -> Curve:
    """A differentially private mean of persons over time, in public bins.

    source, person, roster: as for `privmean.regress`. value, time: columns. bins: public edges,
    increasing; bin j holds edges[j] <= time < edges[j + 1].
    A person counts in a bin with the mean of own records there; persons without one are left out of
    that bin. One person can be in all bins, so that the bins share the budget.
    bounds: public limits of a person's mean in a bin; or a concentration (`SubGaussian`, ...) with
    an optional public range of the centres; or neither: the magnitude of values is found privately
    and they are clipped around zero.

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent.

    Guarantees: unit one person with all records, times included; replace-one; the composed loss of
    all bins is at most the budget, for any data. Public: bins, settings, roster. Source: the binned
    form of docs/proofs/longitudinal.md, section 6.
    """
    from privmean.central.concentration import Bounded
    from privmean.central.winsorized import Winsorized
    from privmean.models.magnitudes import Magnitudes

    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    confidence = validate.fraction("level", level)
    edges = _edges(bins)
    d = len(edges) - 1
    effect = validate.positive("design_effect", design_effect)
    estimator: Any
    if bounds is not None and concentration is not None:
        raise ArgumentError("bounds", bounds, "are given beside a concentration", "give one")
    if bounds is not None:
        estimator = Winsorized(Bounded(*validate.bounds("bounds", bounds)), design_effect=effect)
    elif concentration is not None:
        estimator = Winsorized(concentration, range=range, design_effect=effect)
    else:
        estimator = Magnitudes()
    if not isinstance(value, str):
        raise ArgumentError("value", value, "is no column", "name the column to average")
    people = binned_means(
        source, value, time=time, edges=edges, person=person, resolution=resolution,
        roster=roster, delimiter=delimiter,
    )  # fmt: skip
    plan = estimator.plan(budget, persons=people.size(), dimension=d)
    if ledger is not None:
        ledger.charge(Guarantee.of(budget, REPLACE_ONE, plan.losses), label="curve")
    made: Release = replace(plan.release(people, noise), level=confidence)
    found = made.intervals
    if isinstance(found, ClippedMeans):
        made = replace(made, intervals=replace(found, design_effect=effect))
    middles = tuple((a + b) / 2 for a, b in pairwise(edges))
    kept = {item.name: getattr(made, item.name) for item in fields(Release)}
    return Curve(**kept | {"estimand": f"mean {value} over persons by {time}"}, at=middles)


def _edges(bins: Sequence[float]) -> tuple[float, ...]:
    try:
        edges = tuple(validate.number("bins", item) for item in bins)
    except TypeError:
        edges = ()
    if len(edges) < 2 or any(b <= a for a, b in pairwise(edges)):
        raise ArgumentError("bins", bins, "are no increasing edges", "give bins=[0, 1, 2]")
    return edges


def binned_means(
    source: Any,
    value: str,
    *,
    time: str,
    edges: Sequence[float],
    person: str,
    resolution: float = 2.0**-20,
    roster: Any = None,
    delimiter: str | None = None,
) -> MatrixPeople:
    """People with the mean of own records in every bin (null without one); private, spends
    nothing. Sums are exact integers, counted and added inside the engine."""
    import ast

    from privmean.people.products import person_products

    step = validate.power_of_two("resolution", resolution)
    x, t = ast.Name(value), ast.Name(time)
    # an indicator of a bin is the product of two comparisons
    indicators = [
        (
            ast.Compare(t, [ast.GtE()], [ast.Constant(a)]),
            ast.Compare(t, [ast.Lt()], [ast.Constant(b)]),
        )
        for a, b in pairwise(edges)
    ]
    d = len(indicators)
    made = person_products(
        source,
        person=person,
        columns=tuple(dict.fromkeys((value, time))),
        products=[*indicators, *((*item, x) for item in indicators)],
        steps=[1.0] * d + [step] * d,
        roster=roster,
        delimiter=delimiter,
        squares=False,
    )
    count, total = made.sums[:, :d], made.sums[:, d:]
    with np.errstate(all="ignore"):
        rows = np.where(count > 0, total / count, np.nan)
    names = tuple(f"[{a:g}, {b:g})" for a, b in pairwise(edges))
    return MatrixPeople(rows, names)
