"""What the release of a curve adds to a release: its table, its bands and its picture."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from privmean import validate
from privmean.errors import ArgumentError
from privmean.intervals.interval import OK, Interval
from privmean.intervals.laplace_normal import quantile
from privmean.models.binned import BinnedIntervals
from privmean.people.reductions import Floats
from privmean.release import Release
from privmean.rows import Row


@dataclass(frozen=True)
class CurveTable:
    """A curve as arrays of one length. lower, upper: an interval for each point alone; band_lower,
    band_upper: for all points together. status: "ok"; "too few persons" or "failed" (nothing is
    shown); "thin" (the interval is longer than half of the bounds)."""

    at: Floats
    estimate: Floats
    lower: Floats
    upper: Floats
    band_lower: Floats
    band_upper: Floats
    status: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class CurveRelease(Release):
    """A release whose columns are points or bins of time. at: their (middle) times.

    Example:
        table = pm.Table(pm.example("nlswork"), person="person_id")
        bins = [1968, 1975, 1982, 1989]
        made = pm.curve(table, "ln_wage", time="year", bins=bins, bounds=(0, 4), epsilon=1.0)
        made.at, made.table()
    """

    at: tuple[float, ...] = ()
    tabled: ClassVar[bool] = True

    def table(self, level: float | None = None) -> CurveTable:
        """Estimates with pointwise intervals and simultaneous bands."""
        confidence = validate.level("level", self.level if level is None else level)
        band = self.interval(confidence)
        low, high = self.conf_int(confidence).T
        return CurveTable(
            np.array(self.at), np.array(self.estimate), low, high,
            np.array(band.lower), np.array(band.upper), self._statuses(confidence),
        )  # fmt: skip

    def title(self) -> str:
        """What is estimated, and that bins are lines."""
        return f"{self.estimand}; a line a bin or point of time"

    def _statuses(self, level: float) -> tuple[str, ...]:
        made = self.intervals
        return made.statuses(level) if isinstance(made, BinnedIntervals) else (OK,) * len(self.at)

    def rows(self, level: float | None = None) -> tuple[Row, ...]:
        """One row a point, with the interval of that point alone."""
        rows, made = super().rows(level), self.intervals
        if not isinstance(made, BinnedIntervals):
            return rows
        known = zip(rows, made.persons, made.statuses(self._level(level)), strict=True)
        return tuple(replace(row, persons=number, status=said) for row, number, said in known)

    def facts(self) -> dict[str, Any]:
        result = super().facts()
        table = self.table()
        result["curve"] = {
            item.name: list(getattr(table, item.name))
            if item.name == "status"
            else [x if math.isfinite(x) else None for x in getattr(table, item.name).tolist()]
            for item in fields(table)
        }
        return result

    def plot(self, axes: Any = None) -> Any:
        """Draw the curve with both bands (needs privmean[plot]); returns the axes."""
        axes = new_axes() if axes is None else axes
        table = self.table()
        # a point that is NaN leaves a gap in the lines and the bands
        axes.fill_between(
            table.at, table.band_lower, table.band_upper, alpha=0.2, color="C0", linewidth=0,
            label=f"{100 * self.level:g} % for the whole curve",
        )  # fmt: skip
        axes.fill_between(
            table.at, table.lower, table.upper, alpha=0.35, color="C0", linewidth=0,
            label=f"{100 * self.level:g} % for each point",
        )  # fmt: skip
        bars = np.isfinite(table.lower) & ~np.isfinite(table.estimate)
        if bars.any():
            axes.vlines(table.at[bars], table.lower[bars], table.upper[bars], color="C0")
        axes.plot(table.at, table.estimate, color="C0", marker=".", label="private mean")
        axes.legend()
        return axes


def new_axes() -> Any:
    """Axes of a figure of their own; ArgumentError where there is no matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ArgumentError("plot", None, "needs matplotlib", "install privmean[plot]") from None
    return Figure(layout="constrained").subplots()


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

    def column(self, index: int) -> SmoothedIntervals:
        """The intervals of one point for itself."""
        at = slice(index, index + 1)
        return replace(self, estimate=self.estimate[at], weights=self.weights[at])

    def errors(self) -> tuple[float, float]:
        """Of one point: deviations by privacy noise, and by noise and sampling together."""
        row = self.weights[0]
        unit = 1.0 if self.gaussian else math.sqrt(2)
        noise = unit * math.sqrt(float(row**2 @ self.first**2))
        return noise, math.hypot(noise, math.sqrt(float(row**2 @ self.spread)))

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
