"""Points of a curve as weighted sums of means of bins: post-processing, reads no data.

A point is a bin, a local line through the bins, or the difference of two such. Its interval holds
for any dependence between the bins, which share people (docs/proofs/groups.md, section 14).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from privmean.array_types import Floats
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
from privmean.inference.status import worst_status
from privmean.release.result_rows import NAN


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
