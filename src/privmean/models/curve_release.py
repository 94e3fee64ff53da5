"""What the release of a curve adds to a release: its table, its bands and its picture."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from privmean import validate
from privmean.data.person_table import Floats
from privmean.errors import ArgumentError
from privmean.inference.interval import Interval
from privmean.models.curve_intervals import CurveIntervals
from privmean.models.joint_quantiles import JointErrors
from privmean.plain_data import plain_tree
from privmean.release.release import Release
from privmean.release.result_rows import Row


@dataclass(frozen=True)
class CurveTable:
    """A curve as arrays of one length. lower, upper: an interval for each point alone; band_lower,
    band_upper: for all points together. status: of each point; "low_precision"
    is an interval longer than half of the bounds."""

    at: Floats
    estimate: Floats
    lower: Floats
    upper: Floats
    band_lower: Floats
    band_upper: Floats
    status: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class CurveRelease(Release):
    """A release whose rows are points or bins of time.

    Attributes
    ----------
    at : tuple of float
        The times, or the middle times of the bins.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    bins = [1968, 1975, 1982, 1989]
    made = pm.curve(table, "ln_wage", time="year", bins=bins, bounds=(0, 4), epsilon=1.0)
    made.at, made.table()
    """

    at: tuple[float, ...] = ()

    @property
    def question_kind(self) -> str:
        return "curve"

    @property
    def times(self) -> tuple[float, ...]:
        return self.at

    def table(self, level: float | None = None) -> CurveTable:
        """Estimates with pointwise intervals and simultaneous bands."""
        confidence = validate.level("level", self.level if level is None else level)
        band = self.interval(confidence)
        low, high = self.conf_int(confidence).T
        return CurveTable(
            np.array(self.at), np.array(self.estimate), low, high,
            np.array(band.lower), np.array(band.upper), self._statuses(confidence),
        )  # fmt: skip

    def unit_of(self, row: Row, place: int) -> object:
        """All points have the unit of the value."""
        return ""

    def _statuses(self, level: float) -> tuple[str, ...]:
        return tuple(row.status for row in self.rows(level))

    def _rows(self, level: float) -> tuple[Row, ...]:
        """One row a point, with the interval of that point alone."""
        made = self.intervals
        if not isinstance(made, CurveIntervals):
            return super()._rows(level)
        lines = made.lines(level, clipped=not made.table.counted)
        return tuple(
            Row(name, "", x.estimate, x.std_error, x.lower, x.upper, x.noise_lower, x.noise_upper,
                n, x.status)
            for name, x, n in zip(self.columns, lines, made.n.tolist(), strict=True)
        )  # fmt: skip

    def facts(self) -> dict[str, Any]:
        result = super().facts()
        table = self.table()
        result["curve"] = {
            item.name: plain_tree(getattr(table, item.name)) for item in fields(table)
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
        raise ArgumentError("plot", None, "requires matplotlib", "install privmean[plot]") from None
    return Figure(layout="constrained").subplots()


@dataclass(frozen=True, eq=False)
class SmoothedIntervals:
    """Intervals of weighted means of cells. first: noise scale of a cell's mean (Laplace scale or
    deviation), spread: noisy sampling variance of a cell's mean. units: what is averaged."""

    estimate: Floats
    weights: Floats
    first: Floats
    spread: Floats
    gaussian: bool
    bounds: tuple[float, float]
    smoothed: bool
    units: str = "responses"

    @cached_property
    def _errors(self) -> JointErrors:
        return JointErrors(self.weights, self.first, self.spread, self.gaussian)

    @cached_property
    def _noise(self) -> JointErrors:
        return JointErrors(self.weights, self.first, np.zeros(len(self.spread)), self.gaussian)

    def _made(self, level: float, half: Floats, kind: str) -> Interval:
        low, high = self.bounds
        sampling = kind == "interval"
        target = f"clipped mean of these {self.units}" if not sampling else "clipped mean curve"
        return Interval(
            tuple(np.clip(self.estimate - half, low, high).tolist()),
            tuple(np.clip(self.estimate + half, low, high).tolist()),
            level,
            kind=kind,
            target=target + (" (smoothed)" if self.smoothed else ""),
            assumption=f"{self.units} are independent" if sampling else "",
            clip_bounds=(self.bounds,),
        )

    def column(self, index: int) -> SmoothedIntervals:
        """The intervals of one point for itself."""
        at = slice(index, index + 1)
        return replace(self, estimate=self.estimate[at], weights=self.weights[at])

    def errors(self) -> tuple[float, float]:
        """Of one point: deviations by privacy noise, and by noise and sampling together."""
        return float(self._noise.sd[0]), float(self._errors.sd[0])

    def pointwise(self, level: float) -> Interval:
        """Each point alone."""
        return self._made(level, self._errors.alone(level), "interval")

    def interval(self, level: float, target: str | None = None) -> Interval:
        """All points together, by the joint law of their errors: neighboring points share them."""
        return self._made(level, self._errors.together(level), "interval")

    def noise_interval(self, level: float) -> Interval:
        return self._made(level, self._noise.together(level), "noise_interval")
