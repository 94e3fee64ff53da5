"""What the release of a curve adds to a release: its table, its bands and its picture.

A point is a bin, a local line through the bins, or the difference of two such. Its interval holds
for any dependence between the bins, which share people (docs/proofs/groups.md, section 14).

Weighted sums of cells (`SmoothedIntervals`) share cells, so that errors of neighboring points go
together: the quantile of the largest of them, in deviations, is less than what Bonferroni's bound
gives. It is taken from fixed pseudo-random numbers, the same in every run
(docs/proofs/longitudinal.md, section 5). All of it is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from privmean.array_types import Flags, Floats
from privmean.inference.group_table import COUNTS, Errors, GroupTable, LinearCombination, each_of
from privmean.inference.interval import CLIPPED, NOISE, Ends, IntervalText, RowIntervals, Rows
from privmean.inference.laplace_normal import sum_quantiles
from privmean.inference.status import worst_status
from privmean.plain_data import plain_tree
from privmean.release.release import Release
from privmean.release.stored_release import NAN, Row

RUNS = 1 << 14  # simulated errors
FEWEST = 80  # of them beyond a quantile, for which it is taken from them
AT_ONCE = 1 << 11


@dataclass(frozen=True, eq=False)
class JointErrors:
    """weights: of cells at every point, shape (points, cells). noise: scale of the noise of each
    cell (a deviation if gaussian, else Laplace); spread: sampling variance of each."""

    weights: Floats
    noise: Floats
    spread: Floats
    gaussian: bool

    @cached_property
    def sd(self) -> Floats:
        """Deviations of the errors, a point."""
        unit = 1.0 if self.gaussian else 2.0
        result: Floats = np.sqrt(self.weights**2 @ (unit * self.noise**2 + self.spread))
        return result

    def alone(self, level: float) -> Floats:
        """Half lengths, each point for itself."""
        alpha = 1 - level
        if self.gaussian:
            result: Floats = -ndtri(alpha / 2) * self.sd
            return result
        scales = np.abs(self.weights) * self.noise
        return sum_quantiles(alpha / 2, scales, np.sqrt(self.weights**2 @ self.spread))

    def together(self, level: float) -> Floats:
        """Half lengths that hold at all points."""
        points = len(self.weights)
        bound = self.alone(1 - (1 - level) / points)
        if points == 1 or (1 - level) * RUNS < FEWEST:
            return bound
        at = math.ceil(level * (RUNS + 1)) - 1
        result: Floats = np.minimum(bound, self._largest[at] * self._unit)
        return result

    @cached_property
    def _unit(self) -> Floats:
        """The half lengths in which errors are measured: far out, where the shapes of Laplace sums
        differ, as the largest of several errors is."""
        return self.alone(1 - 0.05 / len(self.weights))

    @cached_property
    def _largest(self) -> Floats:
        """The largest error over the points in units of half lengths of one, simulated, sorted."""
        draws = np.random.Generator(np.random.PCG64(20250101))
        cells, found = self.weights.shape[1], []
        for _ in range(RUNS // AT_ONCE):
            errors = np.sqrt(self.spread) * draws.standard_normal((AT_ONCE, cells))
            if self.gaussian:
                errors += self.noise * draws.standard_normal((AT_ONCE, cells))
            else:
                up, down = (draws.standard_exponential((AT_ONCE, cells)) for _ in range(2))
                errors += self.noise * (up - down)
            found.append(np.max(np.abs(errors @ self.weights.T) / self._unit, axis=1))
        return np.sort(np.concatenate(found))


@dataclass(frozen=True, eq=False)
class CurveIntervals(RowIntervals):
    """table: what was released of all bins. at: middles of the bins. bandwidth: of local lines, 0
    for none. both: the bins of two groups, of which the second less the first is a point.
    """

    table: GroupTable
    at: tuple[float, ...]
    bandwidth: float = 0.0
    both: bool = False

    @property
    def number(self) -> int:
        return len(self.at)

    @cached_property
    def weights(self) -> Floats:
        """Of the bins in every point; none of bins without an estimate."""
        at = np.array(self.at)
        made = [local_lines(at, self.bandwidth, part) for part in self._shown]
        return np.hstack([-made[0], made[1]]) if self.both else made[0]

    @property
    def _shown(self) -> Flags:
        return self.table.shown.reshape(-1, len(self.at))

    @property
    def known(self) -> Flags:
        """The points whose own bin has an estimate, in both groups."""
        return np.asarray(self._shown.all(axis=0))

    @property
    def _carried(self) -> Flags:
        """The bins that carry a point: others give it no status."""
        size = np.abs(self.weights)
        return np.asarray(size >= COUNTS * size.max(axis=1, keepdims=True, initial=1e-300))

    @cached_property
    def statuses(self) -> tuple[str, ...]:
        """Of every point: the worst of the bins that carry it, without an estimate of its own."""
        status, size = self.table.status, len(self.at)
        return tuple(
            worst_status(
                status[g]
                for g in (np.flatnonzero(carried) if known else range(k, len(status), size))
            )
            for k, (known, carried) in enumerate(zip(self.known, self._carried, strict=True))
        )

    @property
    def n(self) -> Floats:
        """Noisy people in the bin of every point; NaN for a difference."""
        return self.table.weight[: len(self.at)] * (NAN if self.both else 1.0)

    def _errors(self, rows: Rows, *, clipped: bool = False) -> Errors:
        which = list(rows)
        weights = self.weights[which]
        places = np.broadcast_to(np.arange(weights.shape[1]), weights.shape)
        leaves_open = not clipped or self.table.bounds is not None
        open_at = self._carried[which] if leaves_open else False
        made = self.table.errors_of(places, weights, clipped=clipped, open_at=open_at)
        # an end that is open beside bounds stays open
        return replace(made, keeps_open=self.table.limits is None)

    def lines(
        self, level: float, *, clipped: bool = False, rows: Rows | None = None
    ) -> list[LinearCombination]:
        """Every point for itself."""
        rows = range(self.number) if rows is None else rows
        statuses = [self.statuses[row] for row in rows]
        made = self._errors(rows, clipped=clipped).lines(level, statuses)
        return [
            line if self.known[row] else LinearCombination(NAN, status=line.status)
            for line, row in zip(made, rows, strict=True)
        ]

    @property
    def estimate(self) -> Floats:
        return np.array([line.estimate for line in self.lines(0.95)])

    def row_errors(self, row: int) -> tuple[float, float]:
        if not self.known[row]:
            return NAN, NAN
        made = self._errors((row,))
        noise = math.sqrt(2 * float((made.scales**2).sum()) + float(made.normal[0]) ** 2)
        return noise, math.hypot(noise, float(made.sampling[0]))

    # --- as intervals of rows: all points together, each has its part of the chance of a miss -----
    def target(self, asked: str | None) -> str:
        return self.table.target(asked)

    def row_level(self, level: float, rows: Rows) -> float:
        return each_of(level, int(self.known[list(rows)].sum()))

    def ends(self, level: float, wanted: str, rows: Rows) -> list[Ends]:
        # privacy noise only is about the estimates, as those of the points
        clipped = not self.table.counted if wanted == NOISE else wanted == CLIPPED
        return [line.ends(wanted) for line in self.lines(level, clipped=clipped, rows=rows)]

    def words(self, wanted: str, rows: Rows) -> IntervalText:
        found = self.table.words(wanted, ())
        smoothed = "smoothed " if self.bandwidth and wanted != NOISE else ""
        status = worst_status(self.statuses[row] for row in rows)
        return {**found, "target": f"{smoothed}{found['target']}", "status": status}

    def regions(self, wanted: str, rows: Rows) -> Sequence[Ends]:
        """Of the bins, where points are bins."""
        if self.both or self.bandwidth or not self.table.shown.any():
            return ()
        return self.table.regions(wanted, rows)


def local_lines(at: Floats, bandwidth: float, used: Flags) -> Floats:
    """Weights of a local linear fit at every point, Gaussian kernel, over the bins used; rows add
    up to 1. The bin itself where there is no bandwidth, or none besides it."""
    found: Floats = np.eye(len(at))
    if bandwidth:
        for k, point in enumerate(at):
            x = (at - point) / bandwidth
            kernel = np.exp(-0.5 * np.minimum(x * x, 1400.0)) * used
            s0, s1, s2 = float(kernel.sum()), float(kernel @ x), float(kernel @ (x * x))
            spread = s0 * s2 - s1 * s1
            if spread > 1e-9 * s0 * s0:
                found[k] = kernel * (s2 - s1 * x) / spread
    return found * used


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

    question_kind = "curve"

    @property
    def times(self) -> tuple[float, ...]:
        return self.at

    def table(self, level: float | None = None) -> CurveTable:
        """Estimates with pointwise intervals and simultaneous bands."""
        band, (low, high) = self.interval(level), self.conf_int(level).T
        return CurveTable(
            np.array(self.at), np.array(self.estimate), low, high, np.array(band.lower),
            np.array(band.upper), tuple(row.status for row in self.rows(level)),
        )  # fmt: skip

    def unit_of(self, row: Row, place: int) -> object:
        """All points have the unit of the value."""
        return ""

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
        from privmean.release.charts import new_axes, shade

        axes, table = new_axes() if axes is None else axes, self.table()
        whole, each = (f"{100 * self.level:g} % for {x}" for x in ("the whole curve", "each point"))
        # a point that is NaN leaves a gap in the lines and the bands
        shade(axes.fill_between, table.at, table.band_lower, table.band_upper, 0.2, whole)
        shade(axes.fill_between, table.at, table.lower, table.upper, 0.35, each)
        bars = np.isfinite(table.lower) & ~np.isfinite(table.estimate)
        if bars.any():
            axes.vlines(table.at[bars], table.lower[bars], table.upper[bars], color="C0")
        axes.plot(table.at, table.estimate, color="C0", marker=".", label="private mean")
        axes.legend()
        return axes


@dataclass(frozen=True, eq=False)
class SmoothedIntervals(RowIntervals):
    """Intervals of weighted means of cells, together by the joint law of their errors: neighboring
    points share them. first: noise scale of a cell's mean (Laplace scale or deviation), spread:
    noisy sampling variance of a cell's mean."""

    estimate: Floats
    weights: Floats
    first: Floats
    spread: Floats
    gaussian: bool
    bounds: tuple[float, float]
    smoothed: bool
    targets = ("clipped mean curve",)

    @property
    def number(self) -> int:
        return len(self.estimate)

    def target(self, asked: str | None) -> str:
        """There is nothing to choose."""
        return self.targets[0]

    def _errors(self, rows: Rows, *, sampling: bool = True) -> JointErrors:
        spread = self.spread if sampling else np.zeros(len(self.spread))
        return JointErrors(self.weights[list(rows)], self.first, spread, self.gaussian)

    def row_errors(self, row: int) -> tuple[float, float]:
        noise, both = (self._errors((row,), sampling=item) for item in (False, True))
        return float(noise.sd[0]), float(both.sd[0])

    def row_level(self, level: float, rows: Rows) -> float:
        """The joint law is of all of them."""
        return level

    def ends(self, level: float, wanted: str, rows: Rows) -> list[Ends]:
        half, at = self._errors(rows, sampling=wanted != NOISE).together(level), list(rows)
        low, high = (self.estimate[at] + sign * half for sign in (-1.0, 1.0))
        return list(zip(np.clip(low, *self.bounds), np.clip(high, *self.bounds), strict=True))

    def words(self, wanted: str, rows: Rows) -> IntervalText:
        noise = wanted == NOISE
        target = "clipped mean of these responses" if noise else wanted
        return {
            "target": target + (" (smoothed)" if self.smoothed else ""),
            "assumption": "" if noise else "responses are independent",
        }

    def regions(self, wanted: str, rows: Rows) -> tuple[Ends, ...]:
        return (self.bounds,)
