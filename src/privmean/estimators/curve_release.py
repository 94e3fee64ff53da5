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
from scipy.optimize import brentq
from scipy.special import ndtri

from privmean import validate
from privmean.array_types import Floats
from privmean.errors import ArgumentError
from privmean.inference.group_table import (
    CLIPPED,
    COUNTS,
    MEAN,
    Errors,
    Flags,
    GroupTable,
    LinearCombination,
    each_of,
    target_of,
)
from privmean.inference.interval import Interval
from privmean.inference.laplace_normal import quantile
from privmean.inference.status import worst_status
from privmean.plain_data import plain_tree
from privmean.release.release import Release
from privmean.release.result_rows import NAN, Row

RUNS = 1 << 14  # simulated errors
FEWEST = 80  # of them beyond a quantile, for which it is taken from them
AT_ONCE = 1 << 11
STEP, LAST = 0.04, 60.0  # of the integral over frequencies, of errors of deviation 1
SMALL = 1e-4  # chance below which a bound stands for the integral


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
        halves = []
        for row in self.weights:
            scales = np.abs(row) * self.noise
            scales = scales[scales > 0]
            sd = math.sqrt(float(row**2 @ self.spread))
            if len(scales) == 1:
                halves.append(float(quantile(alpha / 2, (float(scales[0]),), sd)))
            else:
                halves.append(half_of_sum(scales, sd, alpha))
        return np.array(halves)

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


def half_of_sum(scales: Floats, sd: float, alpha: float) -> float:
    """The half length that a sum of independent Laplace noises and a normal one exceeds with chance
    alpha, by the integral over its characteristic function; at small alpha an upper bound."""
    bound = _chernoff(scales, sd, alpha)
    if alpha < SMALL:
        return bound
    whole = math.hypot(sd, math.sqrt(2) * float(np.sqrt((scales**2).sum())))
    t = np.arange(STEP / 2, LAST, STEP)
    log = -0.5 * (t * sd / whole) ** 2 - np.log1p(np.outer(t, scales / whole) ** 2).sum(axis=1)
    weight = np.exp(log) / t

    def beyond(x: float) -> float:
        return 1 - 2 / math.pi * STEP * float(np.sin(t * x) @ weight)

    return float(brentq(lambda x: beyond(x) - alpha, 0.0, bound / whole, xtol=1e-9)) * whole


def _chernoff(scales: Floats, sd: float, alpha: float) -> float:
    """Chernoff's bound, at the best of many exponents."""
    largest = float(scales.max())
    share = np.linspace(0.001, 0.999, 999)
    s = share / largest
    log_mgf = 0.5 * (s * sd) ** 2 - np.log1p(-np.square(np.outer(s, scales))).sum(axis=1)
    return float(np.min((log_mgf + math.log(2 / alpha)) / s))


@dataclass(frozen=True, eq=False)
class CurveIntervals:
    """table: what was released of all bins. at: middles of the bins. bandwidth: of local lines, 0
    for none. both: the bins of two groups, of which the second less the first is a point. points:
    which of the points these are.
    """

    table: GroupTable
    at: tuple[float, ...]
    bandwidth: float = 0.0
    both: bool = False
    points: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, table: GroupTable, at: Sequence[float], bandwidth: float, *, both: bool
    ) -> CurveIntervals:
        return cls(table, tuple(at), bandwidth, both, tuple(range(len(at))))

    @cached_property
    def weights(self) -> Floats:
        """Of the bins in every point; none of bins without an estimate."""
        at, shown = np.array(self.at), self.table.shown.reshape(-1, len(self.at))
        made = [local_lines(at, self.bandwidth, part) for part in shown]
        whole = np.hstack([-made[0], made[1]]) if self.both else made[0]
        rows: Floats = whole[list(self.points)]
        return rows

    @property
    def known(self) -> Flags:
        """The points whose own bin has an estimate, in both groups."""
        shown = self.table.shown.reshape(-1, len(self.at))[:, list(self.points)]
        found: Flags = np.all(shown, axis=0)
        return found

    @property
    def _carried(self) -> Flags:
        """The bins that carry a point: others give it no status."""
        size = np.abs(self.weights)
        found: Flags = size >= COUNTS * size.max(axis=1, keepdims=True, initial=1e-300)
        return found

    @property
    def statuses(self) -> tuple[str, ...]:
        """Of every point: the worst of the bins that carry it, without an estimate of its own."""
        status, size = self.table.status, len(self.at)
        found = []
        for point, known, carried in zip(self.points, self.known, self._carried, strict=True):
            own = range(point, len(status), size)
            found.append(
                worst_status(status[g] for g in (np.flatnonzero(carried) if known else own))
            )
        return tuple(found)

    @property
    def n(self) -> Floats:
        """Noisy people in the bin of every point; NaN for a difference."""
        found: Floats = self.table.weight[list(self.points)] * (NAN if self.both else 1.0)
        return found

    def _errors(self, *, clipped: bool = False) -> Errors:
        table, weights = self.table, self.weights
        size, rising, falling = np.abs(weights), np.maximum(weights, 0), np.maximum(-weights, 0)
        shown = table.shown
        mean = table.estimate - table.corrected if clipped else table.estimate
        above, below, sampling, mean, scales, normal = (
            np.where(shown, item.T, 0.0).T
            for item in (
                table.above, table.below, table.sampling, mean, table.scales, table.normal,
            )
        )  # fmt: skip
        if clipped:
            above, below = np.zeros(len(shown)), np.zeros(len(shown))
        up, down = rising @ above + falling @ below, rising @ below + falling @ above
        high, low = table.open_above & shown, table.open_below & shown
        far_up, far_down = (rising > 0) & high | (falling > 0) & low, (rising > 0) & low
        far_down |= (falling > 0) & high
        if not clipped or table.bounds is not None:
            up = np.where((self._carried & far_up).any(axis=1), math.inf, up)
            down = np.where((self._carried & far_down).any(axis=1), math.inf, down)
        return Errors(
            weights @ mean,
            (size[:, :, None] * scales).reshape(len(size), -1),
            np.sqrt(weights**2 @ normal**2),
            size @ sampling,
            up,
            down,
        )

    def lines(self, level: float, *, clipped: bool = False) -> list[LinearCombination]:
        """Every point for itself."""
        made = self._errors(clipped=clipped).lines(level, self.statuses)
        return [
            self._within(line, row) if known else LinearCombination(NAN, status=line.status)
            for line, row, known in zip(made, self.weights, self.known, strict=True)
        ]

    def _within(self, line: LinearCombination, weights: Floats) -> LinearCombination:
        """The line within what public bounds and types allow it; an end that is open beside bounds
        stays open."""
        rising, falling = float(np.maximum(weights, 0).sum()), float(np.maximum(-weights, 0).sum())
        allowed, typed = self.table.allowed(rising, falling), self.table.limits is not None
        if allowed is None:
            return line
        least, most = allowed
        names = ("estimate", "lower", "upper", "noise_lower", "noise_upper")
        ends = {name: getattr(line, name) for name in names}
        kept = {
            k: min(max(x, least), most)
            for k, x in ends.items()
            if math.isfinite(x) or (typed and not math.isnan(x))
        }
        return replace(line, **kept)

    @property
    def estimate(self) -> Floats:
        return np.array([line.estimate for line in self.lines(0.95)])

    def column(self, index: int) -> CurveIntervals:
        """The intervals of one point for itself."""
        return replace(self, points=self.points[index : index + 1])

    def errors(self) -> tuple[float, float]:
        """Of one point: deviations by privacy noise, and by noise and sampling together."""
        if not self.known[0]:
            return NAN, NAN
        made = self._errors()
        noise = math.sqrt(2 * float((made.scales**2).sum()) + float(made.normal[0]) ** 2)
        return noise, math.hypot(noise, float(made.sampling[0]))

    def interval(self, level: float, target: str | None = None) -> Interval:
        """All points together: each has its part of the chance of a miss."""
        wanted = target_of(target, self.table.counted)
        clipped = wanted == CLIPPED
        lines = self.lines(self._each(level), clipped=clipped)
        return Interval(
            tuple(line.lower for line in lines),
            tuple(line.upper for line in lines),
            level,
            target=f"smoothed {wanted}" if self.bandwidth else wanted,
            assumption=self.table.assumption if wanted == MEAN else "",
            short_assumption=self.table.brief if wanted == MEAN else "",
            clip_bounds=self._clip_bounds,
            status=worst_status(self.statuses),
        )

    def noise_interval(self, level: float) -> Interval:
        """About the estimates, as those of the points."""
        lines = self.lines(self._each(level), clipped=not self.table.counted)
        return Interval(
            tuple(line.noise_lower for line in lines),
            tuple(line.noise_upper for line in lines),
            level,
            kind="noise_interval",
            target="clipped mean of these people",
            status=worst_status(self.statuses),
        )

    def _each(self, level: float) -> float:
        return each_of(level, int(self.known.sum()))

    @property
    def _clip_bounds(self) -> tuple[tuple[float, float], ...]:
        """Of the bins, where points are bins."""
        if self.both or self.bandwidth or not self.table.shown.any():
            return ()
        ends = zip(self.table.lower.tolist(), self.table.upper.tolist(), strict=True)
        every = list(ends)
        return tuple(every[point] for point in self.points)


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
    kept: Floats = found * used
    return kept


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
    deviation), spread: noisy sampling variance of a cell's mean."""

    estimate: Floats
    weights: Floats
    first: Floats
    spread: Floats
    gaussian: bool
    bounds: tuple[float, float]
    smoothed: bool

    @cached_property
    def _errors(self) -> JointErrors:
        return JointErrors(self.weights, self.first, self.spread, self.gaussian)

    @cached_property
    def _noise(self) -> JointErrors:
        return JointErrors(self.weights, self.first, np.zeros(len(self.spread)), self.gaussian)

    def _made(self, level: float, half: Floats, kind: str) -> Interval:
        low, high = self.bounds
        sampling = kind == "interval"
        target = "clipped mean of these responses" if not sampling else "clipped mean curve"
        return Interval(
            tuple(np.clip(self.estimate - half, low, high).tolist()),
            tuple(np.clip(self.estimate + half, low, high).tolist()),
            level,
            kind=kind,
            target=target + (" (smoothed)" if self.smoothed else ""),
            assumption="responses are independent" if sampling else "",
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
