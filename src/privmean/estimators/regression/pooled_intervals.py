"""Intervals of regressions: coefficients and their covariance from what a pooled one released.

The covariance has three parts: sampling, from the products of score contributions that were
released with them; the noise of the sum; and what the noisy matrix of the step leaves of the
distance from its start. docs/proofs/pooled-regression.md, section 6. Eigenvectors are by Jacobi's
rotations in plain Python, with sums in a fixed order: a library's differ in the last bit from
machine to machine, and with them rows that are made from them.

Own coefficients: intervals for the mean itself of columns clipped around zero, tails included.

People beyond the limits add half of the largest mean excess that is assumed of them to the value,
and the other half to a noisy allowance by which the interval is longer (docs/proofs/intervals.md,
sections 2 and 6). Reads no data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtri

from privmean.array_types import Floats
from privmean.data.person_table import ClipInterval
from privmean.estimators.means.clipped_mean import ClippedMean
from privmean.inference.clipped_intervals import HIDDEN as HIDDEN_SCALES
from privmean.inference.clipped_intervals import OVERLOOKED
from privmean.inference.clipped_intervals import SEEN as SEEN_SCALES
from privmean.inference.interval import (
    CLIPPED,
    EVERYWHERE,
    INDEPENDENT,
    MEAN,
    NOISE,
    SHARED,
    THESE_PEOPLE,
    Ends,
    IntervalText,
    RowIntervals,
    Rows,
    assumed,
    contributions_within,
    joined,
    no_undetected,
    outliers_within_times,
    sidak_level,
)
from privmean.inference.laplace_normal import quantile
from privmean.inference.mean_interval import (
    ClippingBiasBound,
    RatioWithMissing,
    ends_of,
    noise_half,
)
from privmean.inference.status import (
    EXTREME_OUTLIERS,
    FAILED,
    MODIFIED_TARGET,
    OK,
    OUTLIERS_CLIPPED,
    POINT_MASS,
    release_status,
)
from privmean.privacy.budget import REPLACE_ONE

SWEEPS = 60


def eigen(matrix: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues, increasing, and eigenvectors as columns."""
    a = [[float(x) for x in row] for row in matrix]
    n = len(a)
    v = [[1.0 if i == j else 0.0 for j in range(n)] for i in range(n)]
    largest = max((abs(x) for row in a for x in row), default=0.0)
    for _ in range(SWEEPS):
        off = max((abs(a[i][j]) for i in range(n) for j in range(i + 1, n)), default=0.0)
        if off <= 1e-15 * largest:
            break
        for i in range(n):
            for j in range(i + 1, n):
                if abs(a[i][j]) > 1e-300:
                    _rotate(a, v, i, j)
    order = sorted(range(n), key=lambda k: a[k][k])
    values = np.array([a[k][k] for k in order])
    return values, np.array([[v[i][k] for k in order] for i in range(n)])


def _rotate(a: list[list[float]], v: list[list[float]], i: int, j: int) -> None:
    """The rotation that makes entry (i, j) zero."""
    theta = (a[j][j] - a[i][i]) / (2 * a[i][j])
    t = math.copysign(1.0, theta) / (abs(theta) + math.sqrt(theta * theta + 1))
    c = 1 / math.sqrt(t * t + 1)
    s = t * c
    for k in range(len(a)):
        x, y = a[k][i], a[k][j]
        a[k][i], a[k][j] = c * x - s * y, s * x + c * y
    for k in range(len(a)):
        x, y = a[i][k], a[j][k]
        a[i][k], a[j][k] = c * x - s * y, s * x + c * y
    for row in v:
        x, y = row[i], row[j]
        row[i], row[j] = c * x - s * y, s * x + c * y


def times(a: Floats, b: Floats) -> Floats:
    """The product of two small matrices, added in a fixed order."""
    total = np.zeros((len(a), b.shape[1]))
    for k in range(a.shape[1]):
        total = total + a[:, k : k + 1] * b[k : k + 1, :]
    return total


SEEN = 2.0  # deviations of its noise from which a number is called seen
# and of the largest group that may be overlooked, with Laplace noise
HIDDEN = SEEN + math.log(0.5 / OVERLOOKED) / math.sqrt(2)
CURVED = (
    "The interval assumes that clipping affects all coefficients alike. If the true "
    "relation may be curved, add a squared term or use clipping_bias='single' (wider intervals)."
)
NEAR = "Differences below a millionth of it are not seen: subtract a public number first."
HOW_FAR = (
    "More score contributions were clipped than expected, and how far they exceed the bound is "
    "not known. Scales or logarithms may help, too."
)
MOVED = 0.25  # of a step beyond that, which may still be missing
BORNE = 0.25  # of what matrices lost by shortening, what one direction bears


@dataclass(frozen=True, eq=False)
class Coefficients(RowIntervals):
    """names, statuses: of everything asked for. kept: the places of what was released; the arrays
    are for those. scales: of the noise of each (a deviation, or a Laplace scale). sampling,
    step_error: covariances. share: what clipping takes from each at most, for every part of the
    people that is beyond the limit; beyond, beyond_variance: the noisy part, and the variance of
    its error. moved: what the step shows clipping to have taken from the start. hidden: people
    beyond the limit whom noise may hide. without: terms that are not in the equation, so that
    nothing is adjusted for them. single: whether one coefficient may bear all that was clipped."""

    names: tuple[str, ...]
    statuses: tuple[str, ...]
    law: str
    kept: tuple[int, ...] = ()
    values: Floats = field(default_factory=lambda: np.zeros(0))
    sampling: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    step_error: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    scales: Floats = field(default_factory=lambda: np.zeros(0))
    share: Floats = field(default_factory=lambda: np.zeros(0))
    moved: Floats = field(default_factory=lambda: np.zeros(0))
    beyond: float = 0.0
    beyond_variance: float = 0.0
    tail: str = OK
    excess: float = 0.0
    hidden: float = 0.0
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    single: bool = False

    @classmethod
    def none(cls, names: tuple[str, ...], statuses: tuple[str, ...], law: str) -> Coefficients:
        return cls(names, statuses, law)

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        statuses: tuple[str, ...],
        law: str,
        *,
        kept: tuple[int, ...],
        start: Floats,
        units: Floats,
        step: Floats,
        second: Floats,
        scale: float,
        limit: float,
        squares: float,
        beyond: float,
        beyond_sd: float,
        tail: str,
        persons: int,
        leak: Floats,
        inverse: Floats,
        lost: Floats,
        backward: Floats,
        off: float,
        cut: float,
        size: float,
        design_effect: float,
        excess: float,
        single: bool = False,
        without: tuple[str, ...] = (),
    ) -> Coefficients:
        """From the numbers of the last release, in units of an influence's deviation; shares of
        people for `beyond`. tail: what they say. second: products of
        rows cut at half of the limit; squares: what those cut at the limit have more on the
        diagonal. size: squared length of the start and the response, over whose square root its
        noise is `off` an entry; cut: what its matrix lost by shortening; lost: what each direction
        is seen to have lost of it, which is at most that part of the step too much."""
        k = len(kept)
        sd = scale * (math.sqrt(2) if law == "laplace" else 1.0)
        values, vectors = eigen(second)
        psd = times(vectors * np.maximum(values, 0.0), np.ascontiguousarray(vectors.T))
        psd[np.diag_indices(k)] += squares
        sampling = design_effect * psd * (units[:, None] * units[None, :]) / persons
        # how far the start of the step was off: the step shows it, less its noise
        away = times(backward, (step * units)[:, None])[:, 0]
        noise = float(((backward * (units * sd)) ** 2).sum())
        distance = max(float((away**2).sum()) - noise, 0.0) + backward.shape[0] * off**2
        spread = off**2 * times(inverse, np.ascontiguousarray(inverse.T))
        # of each step so much is taken as makes the error of start and step least
        start_off = np.maximum(step**2 - sd**2, size * np.diagonal(spread) / units**2)
        taken = start_off / (start_off + sd**2)
        error = spread * (distance * (1 + (BORNE * cut / off) ** 2))
        error = error + times(lost, np.ascontiguousarray(lost.T)) * distance
        error[np.diag_indices(k)] += leak**2 + ((1 - taken) * units) ** 2 * start_off
        # a coefficient bears its share of what clipping takes from those beyond the limit
        parts = 1.0 if single else float(k) if law == "laplace" else math.sqrt(k)
        seen = max(beyond, 0.0)
        moved = MOVED * np.maximum(np.abs(step) - SEEN * sd, 0.0) * units
        return cls(
            names,
            statuses,
            law,
            kept,
            start + taken * step * units,
            sampling,
            error,
            scale * taken * units,
            excess * limit / parts * units,
            moved,
            seen,
            beyond_sd**2 + seen / persons,
            tail,
            excess,
            HIDDEN * beyond_sd * persons,
            {
                "shortened": beyond * persons,
                "limit": limit,
                "units": units.tolist(),
                "taken": taken.tolist(),
            },
            without,
            single,
        )

    # --- numbers ----------------------------------------------------------------------------------
    @property
    def shown(self) -> list[int | None]:
        """For everything asked for, its place in the arrays; None where nothing is shown."""
        place = {t: j for j, t in enumerate(self.kept)}
        return [place.get(t) if status == OK else None for t, status in enumerate(self.statuses)]

    @property
    def estimate(self) -> Floats:
        return np.array([math.nan if j is None else float(self.values[j]) for j in self.shown])

    @property
    def every_status(self) -> tuple[str, ...]:
        """Of everything asked for."""
        return tuple(self.status_of(column) for column in range(len(self.names)))

    @property
    def status(self) -> str:
        return release_status(self.every_status)

    @property
    def advice(self) -> str:
        """Which terms are not in the equation, so that nothing is adjusted for them; or what
        intervals assume of those that were clipped."""
        if self.without:
            return f"Nearly all people have the same value of {', '.join(self.without)}. {NEAR}"
        if self.tail == EXTREME_OUTLIERS:
            return HOW_FAR
        return CURVED if self.tail != OK and self.shares else ""

    @property
    def shares(self) -> bool:
        """Whether each of several coefficients bears an equal share of what was clipped."""
        return not self.single and len(self.names) > 1

    def status_of(self, column: int) -> str:
        own = self.statuses[column]
        return own if own != OK else MODIFIED_TARGET if self.without else self.tail

    @property
    def noise(self) -> Floats:
        """Covariance of what privacy adds: noise of the released sums, and of start and step."""
        factor = 2.0 if self.law == "laplace" else 1.0
        found: Floats = np.diag(factor * self.scales**2) + self.step_error
        return found

    @property
    def covariance(self) -> Floats:
        """Of everything asked for, sampling and noise together; NaN where nothing is shown."""
        whole = self.sampling + self.noise
        found = np.full((len(self.names), len(self.names)), math.nan)
        for a, i in enumerate(self.shown):
            for b, j in enumerate(self.shown):
                if i is not None and j is not None:
                    found[a, b] = whole[i, j]
        return found

    def combined(
        self,
        weights: Floats,
        level: float,
        *,
        sampling: bool = True,
        clipped: bool = False,
        biased: bool = True,
    ) -> tuple[float, float, float, float]:
        """Estimate, standard error and interval of a weighted sum of what was asked for. biased:
        with what the interval adds for clipped score contributions."""
        used = [(w, j) for w, j in zip(weights, self.shown, strict=True) if w]
        if any(j is None for _, j in used) or not used:
            return (math.nan,) * 4
        c = np.zeros(len(self.values))
        for w, j in used:
            assert j is not None
            c[j] += w
        value = float(c @ self.values)
        rest = self.step_error + (self.sampling if sampling else 0.0)
        variance = max(float(c @ rest @ c), 0.0)
        scales = np.abs(c * self.scales)
        laplace = self.law == "laplace"
        total = math.sqrt(variance + (2 if laplace else 1) * float((scales**2).sum()))
        adds = biased and sampling
        share = float(np.abs(c) @ self.share) if adds and not clipped else 0.0
        variance += share**2 * self.beyond_variance
        alpha = 1 - level
        if laplace:
            half = _laplace_half(scales[scales > 0], math.sqrt(variance), alpha)
        else:
            half = -float(ndtri(alpha / 2)) * math.sqrt(variance + float((scales**2).sum()))
        half += share * self.beyond + (float(np.abs(c) @ self.moved) if adds else 0.0)
        return value, total, value - half, value + half

    def causes(self, column: int, level: float) -> tuple[float, float]:
        """Of one coefficient: the standard error of sampling alone, and what its interval adds for
        clipped score contributions."""
        place = self.shown[column]
        if place is None:
            return math.nan, math.nan
        row = _unit(len(self.names), column)
        (_, _, _, high), (_, _, _, other) = (
            self.combined(row, level, biased=biased) for biased in (True, False)
        )
        return math.sqrt(max(float(self.sampling[place, place]), 0.0)), high - other

    # --- intervals --------------------------------------------------------------------------------
    @property
    def number(self) -> int:
        return len(self.names)

    def row_level(self, level: float, rows: Rows) -> float:
        """All that is shown together."""
        return sidak_level(level, max(1, sum(self.shown[row] is not None for row in rows)))

    def ends(self, level: float, wanted: str, rows: Rows) -> list[Ends]:
        noise = wanted == NOISE
        made = (
            self.combined(
                _unit(len(self.names), row), level, sampling=not noise, clipped=wanted != MEAN
            )
            for row in rows
        )
        return [(low, high) for _, _, low, high in made]

    def words(self, wanted: str, rows: Rows) -> IntervalText:
        if wanted == NOISE:
            return {"target": "coefficients of these people"}
        found: IntervalText = {"status": release_status(map(self.status_of, rows))}
        if len(rows) == len(self.names):
            found["advice"] = self.advice
        of = f" of the equation without {', '.join(self.without)}" if self.without else ""
        if wanted == CLIPPED:
            also = of + ", and" if of else " of the equation"
            target = f"coefficients{also} with large score contributions clipped"
            return {**found, "target": target, "assumption": INDEPENDENT}
        shared = SHARED if self.shares else ""
        words = INDEPENDENT, contributions_within(self.excess), shared, no_undetected(self.hidden)
        return {**found, "target": f"coefficients{of}", "assumption": joined(words)}

    def row_errors(self, row: int) -> tuple[float, float]:
        place = self.shown[row]
        if place is None:
            return math.nan, math.nan
        noise = math.sqrt(float(self.noise[place, place]))
        return noise, math.sqrt(float(self.covariance[row, row]))


def _unit(size: int, place: int) -> Floats:
    found = np.zeros(size)
    found[place] = 1.0
    return found


def _laplace_half(scales: Floats, sd: float, alpha: float) -> float:
    """Half length for a normal and independent Laplace variables: exactly for one or two; of more,
    all but the largest together are taken as normal."""
    order = np.sort(scales)
    if len(order) > 2:
        sd = math.hypot(sd, math.sqrt(2 * float((order[:-1] ** 2).sum())))
        order = order[-1:]
    return float(quantile(alpha / 2, tuple(map(float, order)), sd))


SEEN_PEOPLE = 5.0  # deviations of its noise that the number of people with a value must reach
FEWEST = 3.0  # noise scales that the number of people with a value must reach
MISSED = 1 / 2  # noisy share of people beyond the limits above which nothing is shown
THICKEST = 0.25  # noisy share of people beyond the limits above which no mean is shown
TOO_FEW = "Too few people have a value for the noise to show where they lie."
MOVED_STATUSES = (MODIFIED_TARGET, POINT_MASS)  # whose interval is for the clipped mean


@dataclass(frozen=True)
class TailInterval:
    """One column on [-R, R]. excess: those beyond R exceed it on average by at most excess * R.
    enough: whether as many people have a value as R is chosen by. atom: whether half of them share
    one value, as far as can be told."""

    box: ClipInterval
    joint: RatioWithMissing
    excess: float
    enough: bool = True
    atom: bool = False

    @property
    def empty(self) -> bool:
        """Whether no more people with a value were seen than noise by itself can show, or half of
        them beyond limits that half of them are to stay far below: then noise chose these."""
        least = max(1.0, FEWEST * self.joint.sums.count_scale)
        nobody = self.joint.missing and self.joint.present < least
        return nobody or not self.enough or self.beyond > self.joint.sums.n * MISSED

    @property
    def estimate(self) -> float:
        return math.nan if self.empty else self.box.middle + self.box.radius * self.joint.sums.mean

    @property
    def allowance(self) -> ClippingBiasBound:
        return ClippingBiasBound(
            self.joint.tail, self.joint.tail_scale, self.excess, corrected=True
        )

    @property
    def beyond(self) -> float:
        """Noisy number of people beyond the limits, and (next) its Laplace scale."""
        return 2 * self.joint.tail / self.excess

    @property
    def beyond_scale(self) -> float:
        return 2 * self.joint.tail_scale / self.excess

    @property
    def status(self) -> str:
        """What the noisy number of people beyond the limits says of an interval for the mean."""
        if self.empty:
            return FAILED
        if (self.beyond + self.beyond_scale) / self.joint.sums.n > THICKEST:
            return MODIFIED_TARGET
        if self.atom:
            return POINT_MASS
        return OUTLIERS_CLIPPED if self.beyond > SEEN_SCALES * self.beyond_scale else OK

    def limits(self, level: float, design_effect: float, *, clipped: bool) -> tuple[float, float]:
        """The ends for the mean, or for the clipped mean, of the population (for the latter too if
        the tail is too thick)."""
        if self.empty:
            return -math.inf, math.inf
        low, high = ends_of(self.joint.sums, level, design_effect, self.allowance)
        low, high = (self.box.middle + self.box.radius * item for item in (low, high))
        if clipped or self.status in MOVED_STATUSES:
            low, high = max(low, self.box.lower), min(high, self.box.upper)
        return float(low), float(high)

    def noise_half(self, level: float) -> float:
        """Half length for these people's corrected clipped mean: privacy noise only."""
        return math.inf if self.empty else self.box.radius * noise_half(self.joint.sums, level)

    def errors(self, design_effect: float) -> tuple[float, float]:
        """Standard deviations of privacy noise, and of noise and sampling together."""
        if self.empty:
            return math.nan, math.nan
        sums = self.joint.sums
        noise = math.sqrt(2) * math.hypot(*sums.scales(sums.mean))
        spread = design_effect * sums.variance * sums.n
        unit = self.box.radius / sums.n
        return unit * noise, unit * math.hypot(noise, math.sqrt(spread))


@dataclass(frozen=True)
class TailIntervals(RowIntervals):
    """The intervals of several columns, each released with Laplace noise of its own."""

    columns: tuple[TailInterval, ...]
    design_effect: float = 1.0

    @property
    def number(self) -> int:
        return len(self.columns)

    def row_errors(self, row: int) -> tuple[float, float]:
        return self.columns[row].errors(self.design_effect)

    def ends(self, level: float, wanted: str, rows: Rows) -> list[Ends]:
        clipped, used = wanted == CLIPPED, [self.columns[row] for row in rows]
        if wanted != NOISE:
            return [item.limits(level, self.design_effect, clipped=clipped) for item in used]
        halves = [(item.estimate, item.noise_half(level)) for item in used]
        return [EVERYWHERE if half == math.inf else (x - half, x + half) for x, half in halves]

    def words(self, wanted: str, rows: Rows) -> IntervalText:
        used = [self.columns[row] for row in rows]
        status = release_status(FAILED if item.empty else OK for item in used)
        if wanted == NOISE:
            return {"target": f"corrected {THESE_PEOPLE}", "status": status}
        words = assumed(self.design_effect)
        if wanted != CLIPPED:
            status = release_status(item.status for item in used)
            hidden = no_undetected(max(HIDDEN_SCALES * item.beyond_scale for item in used))
            words = assumed(self.design_effect, outliers_within_times(used[0].excess), hidden)
        moved = f"mean, the clipped mean where the status is {status!r}"
        target = moved if status in MOVED_STATUSES else wanted
        return {"target": target, "assumption": words, "status": status}

    def regions(self, wanted: str, rows: Rows) -> list[Ends]:
        return [(self.columns[row].box.lower, self.columns[row].box.upper) for row in rows]

    def parts(self, level: float, wanted: str, rows: Rows) -> dict[str, list[float]]:
        if wanted == NOISE:
            return {}
        used = [self.columns[row] for row in rows]
        extra = [x.box.radius * max(x.joint.tail, 0.0) / x.joint.sums.n for x in used]
        return {"noise": [x.noise_half(level) for x in used], "clipping allowance": extra}


def _counted(column: ClippedMean | TailInterval | None) -> tuple[float, float]:
    """The noisy number of people with a value, and the deviation of its noise."""
    if column is None:
        return math.nan, math.inf
    if isinstance(column, TailInterval):
        return column.joint.present, math.sqrt(2) * column.joint.sums.count_scale
    sums = column.sums
    law = 1.0 if sums.gaussian else math.sqrt(2)
    scales = sums.noise[2:] if sums.relation == REPLACE_ONE else sums.noise
    return sums.weight, law * math.hypot(*scales)


def unseen(column: ClippedMean | TailInterval | None) -> bool:
    """Whether the people with a value are no more than noise."""
    number, sd = _counted(column)
    return not number >= max(SEEN_PEOPLE * sd, 1.0)
