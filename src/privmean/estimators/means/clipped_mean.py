"""Estimate and intervals of a clipped mean from its noisy sums: post-processing, no data.

The last stage of the default mean over records: a ratio of capped sums, and its intervals.

A person counts with weight u = min(records, C)/C. One joint release gives the sums of u z, u^2 z^2,
u, u^2 z and u^2 (z: the person's limited mean in units of the box), so that the sampling variance
of the ratio follows without an assumption. Claim and proof: docs/proofs/default-mean.md, section 6.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privmean.array_types import Floats
from privmean.bisection import bisect
from privmean.data.person_table import ClipInterval
from privmean.inference.clipped_intervals import (
    OutlierCheck,
    at_bound_advice,
    bound_reached,
    opened,
)
from privmean.inference.interval import (
    CLIPPED,
    EVERYWHERE,
    MEAN,
    NOISE,
    THESE_PEOPLE,
    UNDETECTED,
    Ends,
    IntervalText,
    RowIntervals,
    Rows,
    assumed,
    limit,
    no_undetected,
    outliers_within,
)
from privmean.inference.laplace_normal import (
    allowance_miss,
    gaussian_margin,
    margin,
    margin_of,
    normal_quantile,
    survival,
)
from privmean.inference.mean_interval import Law, NoisySums, half_of, is_undetected, noise_half
from privmean.inference.status import AT_BOUND, FAILED, OK, OUTLIERS_UNCHECKED, release_status
from privmean.mechanisms.clipped_sum import ColumnSums

SURE = 3.9  # Laplace scales that noise exceeds one time in a hundred; deviations: far less often
KEPT = 8  # intervals of a column that are kept
PAST = 1e6  # how far a half length is searched, in units of the clipping radius


@dataclass(frozen=True)
class TailPart:
    """What people beyond the limits may do to the sum of y, over records: move it by `bias` at
    most, by a noisy count of Laplace scale `scale` in the same unit, and add `variance`."""

    bias: float
    scale: float
    variance: float


@dataclass(frozen=True)
class ClippedMean:
    """One column: middle + radius * value/weight.

    persons: n where it is public and the weights count people, so that n may be divided by; the
    noisy weight is used instead if `by_records`, under add-remove, or if it shows that people
    without a value are among the n. found: whether the box was; there is no
    estimate if noise chose it.
    """

    box: ClipInterval
    sums: ColumnSums
    n: int | None
    by_records: bool = False
    found: bool = True

    @property
    def public_weight(self) -> bool:
        """Whether the estimate divides by the public number of people."""
        if self.n is None or self.by_records:
            return False
        # not where the noisy weight shows that some of them have no value
        return not self.sums.weight < self.n - SURE * self.sums.weight_noise

    @property
    def empty(self) -> bool:
        """Whether there is no estimate: nobody with a value is seen, or the box is noise."""
        return not self.found or (not self.public_weight and is_undetected(self.sums))

    @property
    def weight(self) -> float:
        if self.public_weight:
            assert self.n is not None
            return float(self.n)
        return max(self.sums.weight, 1.0)

    @property
    def present(self) -> float:
        """Noisy number of people with a value (sum of weights)."""
        return self.sums.weight

    @property
    def z(self) -> float:
        """The clipped mean in units of the box, within [-1, 1]."""
        return min(1.0, max(-1.0, self.sums.value / self.weight))

    @property
    def side(self) -> int:
        """-1 or 1 where nobody is seen away from that limit of the box, else 0."""
        theta = math.copysign(1.0, self.sums.value)
        scales = self.sums.ratio_noise(0.0 if self.public_weight else theta)
        value = self.z * self.weight
        return bound_reached(value, self.sums.square, self.weight, scales, self.sums.square_noise)

    @property
    def estimate(self) -> float:
        return self.box.middle + self.box.radius * self.z

    @property
    def region(self) -> tuple[float, float]:
        return self.box.lower, self.box.upper

    def errors(self, design_effect: float) -> tuple[float, float]:
        """Deviations by privacy noise, and by noise and sampling together; NaN for the latter where
        noise hides the sampling variance."""
        sums, z = self.sums, self.z
        scales = sums.ratio_noise(0.0 if self.public_weight else z)
        noise = math.hypot(*scales) * (1.0 if sums.gaussian else math.sqrt(2))
        unit = self.box.radius / self.weight
        known = sums.spread(z)
        spread = sums.square - z * z * self.weight if known is None else known[0]
        if spread <= 0 or (self.by_records and known is None):
            return unit * noise, math.nan
        return unit * noise, unit * math.sqrt(noise**2 + design_effect * spread)

    # --- intervals in units of z ------------------------------------------------------------------
    def limits(
        self, alpha: float, design_effect: float | None, tail: TailPart | None = None
    ) -> tuple[float, float]:
        """The ends of the interval of level 1 - alpha, in the units of the data.

        design_effect None leaves sampling out: the interval for these very people. tail: of
        an allowance for people beyond the limits, for records and Laplace noise.
        """
        if self.public_weight:
            half = self._public_half(alpha, design_effect)
            low, high = self.z - half, self.z + half
        elif self.sums.weight <= 0:
            return -math.inf, math.inf
        else:
            asked = alpha, design_effect, tail
            if asked not in self._kept:
                if len(self._kept) >= KEPT:
                    self._kept.clear()
                self._kept[asked] = self._end(-1.0, *asked), self._end(1.0, *asked)
            low, high = self._kept[asked]
        middle, radius = self.box.middle, self.box.radius
        return middle + radius * low, middle + radius * high

    @cached_property
    def _kept(self) -> dict[tuple[float, float | None, TailPart | None], Ends]:
        """The ends that were searched last: the text, the rows and the table of a release ask for
        the same."""
        return {}

    def _end(
        self, sign: float, alpha: float, design_effect: float | None, tail: TailPart | None
    ) -> float:
        """The last accepted theta on one side, by doubling and bisection."""

        def holds(distance: float) -> bool:
            return self.accepts(self.z + sign * distance, alpha, design_effect, tail)

        inside, outside = 0.0, max(1e-9, self.sums.noise[0] / self.weight)
        while holds(outside):
            inside, outside = outside, 2 * outside
            if outside > PAST:
                return sign * math.inf
        return self.z + sign * bisect(holds, inside, outside, 30)[1]

    def _public_half(self, alpha: float, design_effect: float | None) -> float:
        s = self.sums
        law: Law = "gaussian" if s.gaussian else "laplace"
        known = NoisySums(s.value, s.square, self.weight, s.noise[0], s.noise[1], law)
        if design_effect is None:
            return noise_half(known, 1 - alpha)
        return half_of(known, 1 - alpha, design_effect)

    def _sampling_variance(self, theta: float, kappa: float) -> float:
        """Of the sum of y - theta u over people drawn at random, with a margin for its noise."""
        s = self.sums
        known = s.spread(theta)
        if known is not None:
            return max(known[0], 0.0) + margin_of(kappa, known[1])
        square = max(s.square, 0.0) + kappa * s.square_noise
        weight = max(s.weight, 0.0) + kappa * s.weight_noise
        if self.by_records:
            # sum (y - theta u)^2 <= (sqrt sum y^2 + |theta| sqrt sum u^2)^2, and u^2 <= u
            return (math.sqrt(square) + abs(theta) * math.sqrt(weight)) ** 2
        return max(s.square - 2 * theta * s.value + theta**2 * s.weight, 0.0) + kappa * (
            s.square_noise
        )

    def accepts(
        self, theta: float, alpha: float, design_effect: float | None, tail: TailPart | None
    ) -> bool:
        """Whether value - theta*weight is within noise and sampling of 0."""
        s = self.sums
        noise = tuple(scale for scale in s.ratio_noise(theta) if scale)
        sd = 0.0
        if design_effect is not None:
            kappa = (gaussian_margin if s.gaussian else margin)(1 - alpha)
            variance = self._sampling_variance(theta, kappa) + (tail.variance if tail else 0.0)
            sd = math.sqrt(design_effect * variance)
        gap = abs(s.value - theta * s.weight)
        if tail is not None:
            unit, gap = s.noise[0], gap - tail.bias
            scales = tuple(scale / unit for scale in noise)
            return gap <= 0 or allowance_miss(gap / unit, sd / unit, tail.scale / unit, scales) > (
                alpha
            )
        if s.gaussian:
            return gap <= -normal_quantile(alpha / 2) * math.hypot(sd, *noise)
        return float(survival(gap, noise, sd)) >= alpha / 2


def seen(columns: Iterable[ClippedMean | None]) -> tuple[ClippedMean | None, ...]:
    """The columns, None for those in which nobody is seen."""
    return tuple(None if item is None or item.empty else item for item in columns)


@dataclass(frozen=True)
class ClippedMeans(RowIntervals):
    """The intervals of a release: one `ClippedMean` a column, None where there is no estimate.

    public_persons: n where it is public. about: what intervals are for; said: the assumption under
    which nothing is clipped, so that the interval is for the mean itself; bounds: public limits of
    the values, if known; beyond: public bound on what clipping moves the mean by, a column, under
    the assumption. declared:
    whether the types of the columns imply the bounds. placed: whether each column was located, or
    is clipped about a public center that was given for that case (none: all were).
    """

    columns: tuple[ClippedMean | None, ...]
    public_persons: int | None
    design_effect: float
    about: str
    said: str
    bounds: tuple[tuple[float, float], ...] | None = None
    beyond: tuple[float, ...] = ()
    declared: bool = False
    placed: tuple[bool, ...] = ()

    @cached_property
    def seen(self) -> tuple[ClippedMean | None, ...]:
        """The columns that have an estimate: None where nobody is seen, too."""
        return seen(self.columns)

    @property
    def number(self) -> int:
        return len(self.columns)

    def row_errors(self, row: int) -> tuple[float, float]:
        column = self.seen[row]
        return (math.nan, math.nan) if column is None else column.errors(self.design_effect)

    @property
    def statuses(self) -> tuple[str, ...]:
        """Failed where there is no estimate, unchecked where the column was not located, at a bound
        where the estimate is a public one."""
        placed = self.placed or (True,) * len(self.columns)
        return tuple(
            FAILED if item is None else (AT_BOUND if side else OK) if here else OUTLIERS_UNCHECKED
            for item, side, here in zip(self.seen, self.sides, placed, strict=True)
        )

    @property
    def sides(self) -> tuple[int, ...]:
        """The public bound (-1 or 1) that nobody is seen away from, column by column; 0: none."""
        if self.bounds is None or self.declared:
            return (0,) * len(self.columns)
        return tuple(0 if item is None else item.side for item in self.seen)

    def bound_advice(self, names: Sequence[str]) -> list[str]:
        """What is said of the columns at a public bound."""
        pairs = self.bounds or ()
        return [
            at_bound_advice(side, pair, name if len(names) > 1 else "")
            for side, pair, name in zip(self.sides, pairs, names, strict=False)
            if side
        ]

    @property
    def estimate(self) -> Floats:
        """NaN where there is none."""
        return np.array([math.nan if item is None else item.estimate for item in self.seen])

    @property
    def n(self) -> int | None:
        """n if it is public, else the noisy number of people of the first column that stands."""
        if self.public_persons is not None:
            return self.public_persons
        first = next((item for item in self.seen if item is not None), None)
        if first is None or first.by_records:
            return None
        return max(0, round(first.sums.weight))

    def ends(self, level: float, wanted: str, rows: Rows) -> list[Ends]:
        """Each widened by its bias bound `beyond`, where the interval is for the mean."""
        if not any(self.seen[row] for row in rows):
            return [EVERYWHERE] * len(rows)
        return [self._ends(level, wanted, row) for row in rows]

    def _ends(self, level: float, wanted: str, row: int) -> Ends:
        column, bounds = self.seen[row], None if self.bounds is None else self.bounds[row]
        if column is None:
            return EVERYWHERE if bounds is None else bounds
        low, high = column.limits(1 - level, None if wanted == NOISE else self.design_effect)
        extra = self._extra(wanted, row)
        found = limit(low - extra, high + extra, bounds)
        return found if wanted == NOISE else opened(found, self.sides[row])

    def _extra(self, wanted: str, row: int) -> float:
        clipped = wanted == NOISE or (wanted == CLIPPED and self.bounds is None)
        return 0.0 if clipped or not self.beyond else self.beyond[row]

    def words(self, wanted: str, rows: Rows) -> IntervalText:
        statuses = [self.statuses[row] for row in rows]
        if wanted == NOISE:
            lost = any(self.seen[row] is None for row in rows)
            return {"target": THESE_PEOPLE, "status": FAILED if lost else OK}
        clipped = wanted == CLIPPED and self.bounds is None
        bare = clipped or self.bounds is not None or FAILED in statuses
        return {
            "target": CLIPPED if clipped else self.about,
            "assumption": assumed(self.design_effect, *([] if bare else [self.said])),
            "status": release_status(statuses),
        }

    def regions(self, wanted: str, rows: Rows) -> list[Ends]:
        if not any(self.seen[row] for row in rows):
            return []
        used = [self.seen[row] for row in rows]
        return [EVERYWHERE if column is None else column.region for column in used]

    def parts(self, level: float, wanted: str, rows: Rows) -> dict[str, list[float]]:
        if not any(self.seen[row] for row in rows):
            return {}
        noise = []
        for column in (self.seen[row] for row in rows):
            low, high = EVERYWHERE if column is None else column.limits(1 - level, None)
            noise.append((high - low) / 2)
        extra = [self._extra(wanted, row) for row in rows]
        return {"noise": noise, **({"clipping": extra} if any(extra) else {})}


@dataclass(frozen=True)
class RecordIntervals(RowIntervals):
    """Intervals of a ratio. reach: what those beyond the limits exceed them by, on average over
    their records, at most (by assumption); nearer: the same beyond the nearer limit, if said.
    check: the noisy count of people beyond. clipped: the default target is the clipped mean."""

    ratio: ClippedMean
    reach: float
    check: OutlierCheck
    design_effect: float
    clipped: bool
    nearer: float | None = None

    number = 1

    @property
    def targets(self) -> tuple[str, ...]:  # type: ignore[override]
        return (CLIPPED, MEAN) if self.clipped else (MEAN, CLIPPED)

    def _tail(self, wanted: str) -> TailPart | None:
        """Of an interval for the mean: people beyond add at most `unit` each to the sum of y, and
        its square on top of 1."""
        if wanted != MEAN or not self.check.stands:
            return None
        unit, seen = self.reach / self.ratio.box.radius, max(self.check.beyond, 0.0)
        return TailPart(unit * seen, unit * self.check.beyond_scale, (2 * unit + unit**2) * seen)

    def ends(self, level: float, wanted: str, rows: Rows = (0,)) -> list[Ends]:
        if wanted == NOISE:
            return [self.ratio.limits(1 - level, None)]
        tail = self._tail(wanted)
        ends = self.ratio.limits(1 - level, self.design_effect, tail)
        return [ends if tail is not None else limit(*ends, self.ratio.region)]

    def words(self, wanted: str, rows: Rows = (0,)) -> IntervalText:
        if wanted == NOISE:
            return {"target": "clipped mean of these people's records"}
        status, advice = (self.check.status, self.check.advice) if wanted == MEAN else (OK, "")
        found: IntervalText = {"status": status, "advice": advice}
        if self._tail(wanted) is None:
            return {**found, "target": CLIPPED, "assumption": assumed(self.design_effect)}
        words = f"records of {outliers_within(self.reach, self.nearer)}"
        hidden = no_undetected(self.check.hidden, self.ratio.region)
        short = self.check.short_assumption(words, hidden)
        return {
            **found,
            "target": MEAN,
            "assumption": assumed(self.design_effect, words, hidden),
            "short_assumption": assumed(self.design_effect, *short),
        }

    def regions(self, wanted: str, rows: Rows = (0,)) -> list[Ends]:
        return [self.ratio.region]

    def parts(self, level: float, wanted: str, rows: Rows = (0,)) -> dict[str, list[float]]:
        below, above = self.ratio.limits(1 - level, None)
        found, tail = {"noise": [(above - below) / 2]}, self._tail(wanted)
        if tail is not None:
            unit = self.ratio.box.radius / self.ratio.weight
            found["clipping allowance"] = [unit * tail.bias]
            found[UNDETECTED] = [unit * tail.scale * math.log(1 / (1 - level))]
        return found

    def row_errors(self, row: int) -> tuple[float, float]:
        return self.ratio.errors(self.design_effect)
