"""What the release of a curve adds to a release: its table, its bands and its picture."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.special import ndtri

from privmean import validate
from privmean.errors import ArgumentError
from privmean.intervals.interval import FAILED, OK, Interval
from privmean.intervals.laplace_normal import quantile
from privmean.models.binned import TOO_FEW, BinnedIntervals
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


@dataclass(frozen=True)
class CurveRelease(Release):
    """A release whose columns are points or bins of time. at: their (middle) times."""

    at: tuple[float, ...] = ()

    def table(self, level: float | None = None) -> CurveTable:
        """Estimates with pointwise intervals and simultaneous bands."""
        confidence = validate.level("level", self.level if level is None else level)
        band = self.interval(confidence)
        one = self._pointwise(confidence)
        return CurveTable(
            np.array(self.at), np.array(self.estimate), np.array(one.lower), np.array(one.upper),
            np.array(band.lower), np.array(band.upper), self._statuses(confidence),
        )  # fmt: skip

    def _pointwise(self, level: float) -> Interval:
        made = self.intervals
        assert isinstance(made, SmoothedIntervals | BinnedIntervals)
        return made.pointwise(level)

    def _statuses(self, level: float) -> tuple[str, ...]:
        made = self.intervals
        return made.statuses(level) if isinstance(made, BinnedIntervals) else (OK,) * len(self.at)

    def rows(self, level: float | None = None) -> tuple[Row, ...]:
        """One row a point, with the interval of that point alone."""
        confidence = validate.level("level", self.level if level is None else level)
        made, noise = self.intervals, self.noise_interval(confidence)
        one, number = self._pointwise(confidence), len(self.at)
        persons: tuple[float, ...] = (math.nan,) * number
        errors = persons
        if isinstance(made, BinnedIntervals):
            persons, errors = made.persons, made.std_errors()
        found = zip(
            self.columns, self.estimate, errors, one.lower, one.upper, noise.lower, noise.upper,
            persons, self._statuses(confidence), strict=True,
        )  # fmt: skip
        return tuple(Row(term, "", float(value), *rest) for term, value, *rest in found)

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

    def summary(self) -> str:
        table = self.table()
        percent = f"{100 * self.level:g} %"
        lines = [f"{'at':>12}{'estimate':>12}   {percent} alone, {percent} of the whole curve"]
        for row in zip(*(getattr(table, item.name) for item in fields(table)), strict=True):
            at, value, low, high, band_low, band_high, status = row
            if status in (TOO_FEW, FAILED):
                lines.append(f"{at:>12.5g}{'-':>12}   {status}")
                continue
            text = f"{value:>12.5g}" if math.isfinite(value) else f"{'-':>12}"
            lines.append(
                f"{at:>12.5g}{text}   [{low:.5g}, {high:.5g}]   "
                f"[{band_low:.5g}, {band_high:.5g}]" + ("" if status == OK else f"   {status}")
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
