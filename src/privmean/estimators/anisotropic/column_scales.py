"""Private scales of columns, from the differences of public pairs of people, which are free of the
mean.

A column's score is the mean log2 of its pairs' differences, limited to a public window; one
replaced person moves every score by at most window/m. Valid for replace-one neighbors with pairs
fixed by position. Where people are too few for a scale of every column, all share one radius.
Proofs: docs/proofs/anisotropic-unknown.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.special import digamma

from privmean.array_types import Floats, Integers
from privmean.data.grids import pair_multiplier
from privmean.errors import InfeasibleError
from privmean.estimators.anisotropic.calibrate_filter import (
    STEPS,
    TooFewPeople,
    calibrate,
    gaussian_after,
)
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.filtered_mean import FilterCalibration, slices
from privmean.mechanisms.noisy_counts import FINE, Counting, NoisyQuantile
from privmean.mechanisms.noisy_vector import LatticeSums, root_above
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.gdp import gaussian_mu
from privmean.privacy.privacy_events import Gaussian, PrivacyEvent, PrivacyProfile

SCORE_STEPS = 2**20  # lattice steps a unit of log2
LOG_BIAS = (float(digamma(0.5)) + math.log(2)) / math.log(4)  # E log2 |g| for standard normal g
QUANTILE = 0.85
FACTOR = 2.0  # the friendship radius over the quantile of pair distances


TAIL = 1.0  # how far beyond the quantile the gap from the median is continued
LEAST_COLUMNS = 8  # below this many columns there is no law to fit
EM_ROUNDS = 300
UNIT, NEAR, CLIP = "unit", "radius of the filter", "radius of the clip"
MEDIAN, OTHERS = "median for the clip", "radius of the other columns"
WINDOW = 8.0  # octaves of standard deviation that matter below the largest


def pairs(x: Floats) -> Floats:
    """Differences of public pairs, shape (n // 2, d); a null or infinite difference counts as 0."""
    n = len(x)
    rank = np.arange(n, dtype=np.int64) * pair_multiplier(n) % max(n, 1)
    ordered = np.empty(n, dtype=np.int64)
    ordered[rank] = np.arange(n)
    m = n // 2
    result = np.empty((m, x.shape[1]))
    for where in slices(result):
        with np.errstate(all="ignore"):
            gap = x[ordered[0 : 2 * m : 2][where]] - x[ordered[1 : 2 * m : 2][where]]
        result[where] = np.where(np.isfinite(gap), gap, 0.0)
    return result


def log_scores(differences: Floats, low: float, high: float) -> Integers:
    """Sums over pairs of log2(|difference|/sqrt 2) in [low, high], in steps above low."""
    total = np.zeros(differences.shape[1], dtype=np.int64)
    for where in slices(differences):
        with np.errstate(divide="ignore"):
            size = np.log2(np.abs(differences[where])) - 0.5
        level = np.rint((np.clip(size, low, high) - low) * SCORE_STEPS)
        total += level.astype(np.int64).sum(axis=0)
    return total


def norms(differences: Floats, factor: Floats) -> Floats:
    """l2 norms of the scaled rows."""
    result = np.empty(len(differences))
    for where in slices(differences):
        with np.errstate(over="ignore"):
            row = differences[where] * factor
            result[where] = np.sqrt(np.einsum("ij,ij->i", row, row))
    return result


@dataclass(frozen=True)
class ScaleNoise:
    """The variance stage decided before data.

    pairs: m. window: octaves of the scores. rho_values: zCDP of the scales. radius: the bisections
    for the radii in the metrics of center and clip, or for the one that columns share; middle: that
    for the median in the second metric, None where they share it. unit: noise of the step that
    finds the unit (None if it is public).
    """

    dimension: int
    pairs: int
    window: float
    rho_values: float
    radius: Counting
    middle: Counting | None
    unit: Counting | None

    @property
    def own(self) -> bool:
        """Whether every column gets a scale of its own."""
        return self.middle is not None

    @property
    def span(self) -> int:
        """The largest change of one pair's level, in lattice steps."""
        return round(self.window * SCORE_STEPS)

    @property
    def value_scale(self) -> float:
        """Noise of the summed scores, in lattice steps."""
        return self.span * math.sqrt(self.dimension / (2 * self.rho_values))

    @property
    def value_deviation(self) -> float:
        """Noise of a column's log2 standard deviation."""
        return self.value_scale / SCORE_STEPS / self.pairs if self.own else 0.0

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        unit = () if self.unit is None else (self.unit.loss(UNIT),)
        if self.middle is None:
            return (*unit, self.radius.loss(OTHERS))
        radii = self.radius.loss(NEAR), self.radius.loss(CLIP), self.middle.loss(MEDIAN)
        return (*unit, *self.values.events, *radii)

    @property
    def values(self) -> LatticeSums:
        """The scores of the columns."""
        d, spread = self.dimension, root_above(self.dimension * self.span**2)
        return LatticeSums(
            (Gaussian("column scales", spread, self.value_scale, d, neighbors=REPLACE_ONE),)
        )


def tail_reach(quantile: float, median: float) -> float:
    """A distance that holds nearly all, from two quantiles of pair distances.

    The gap between median and 85 % is continued by as much again, and a grid step is added: 2.3
    times the quantile for one normal column (3.3 deviations), hardly more than the quantile where
    many columns make distances alike, many times it for heavy tails.
    """
    return float(quantile * (1 + TAIL * max(quantile / median - 1, 0.0)) * FINE.radius(1))


def denoised(level: Floats, deviation: float) -> Floats:
    """log2 scales from noisy ones: half of log2 E[4^level | noisy level], free post-processing.

    The law of the levels among the columns is fitted by maximum likelihood on a grid (Kiefer and
    Wolfowitz 1956), so that many alike columns are seen to be alike and a few large ones stay.
    """
    if len(level) < LEAST_COLUMNS or deviation <= 0:
        return level
    step = max(deviation / 4, 0.05)
    grid = np.arange(level.min(), level.max() + step, step)
    exponent = -0.5 * ((level[:, None] - grid[None, :]) / deviation) ** 2
    likelihood = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    weight = np.full(len(grid), 1 / len(grid))
    for _ in range(EM_ROUNDS):
        joint = likelihood * weight
        joint /= joint.sum(axis=1, keepdims=True)
        weight = joint.mean(axis=0)
    joint = likelihood * weight
    joint /= joint.sum(axis=1, keepdims=True)
    top = float(grid.max())
    return np.asarray(top + 0.5 * np.log2(joint @ 4.0 ** (grid - top)))


@dataclass(frozen=True, eq=False)
class Scales:
    """What the variance stage releases; all of it paid.

    unit: the scale of everything else. deviations: standard deviations of the columns in units,
    none where columns share a radius. center, clip: quantiles of pair distances in the two metrics,
    middle: the median in the second; rest: quantile of the plain norm, where columns share it.
    """

    unit: float
    deviations: Floats = field(default_factory=lambda: np.ones(0))
    centre: float = 0.0
    clip: float = 0.0
    middle: float = 0.0
    rest: float = 0.0


def run(
    stage: ScaleNoise,
    x: Floats,
    curator: Curator,
    public: tuple[float, float] | None,
    exponent: float,
) -> Scales:
    """The variance stage on the rows x of one half, asked of those who hold it."""
    differences = pairs(x)
    if public is not None:
        low, high = math.log2(public[0]), math.log2(public[1])
    else:
        assert stage.unit is not None
        whole = norms(differences, np.full(stage.dimension, math.sqrt(0.5)))
        # the median row holds the largest deviation within a factor 1.5: half an octave, and one
        high = math.log2(curator.ask(NoisyQuantile(UNIT, 0.5, stage.unit), whole)) + 1.5
        low = high - stage.window
    unit = 2.0**high
    if stage.middle is None:
        bare = norms(differences, np.full(stage.dimension, 1 / unit))
        rest = curator.ask(NoisyQuantile(OTHERS, QUANTILE, stage.radius), bare)
        return Scales(unit, rest=rest)
    (noisy,) = curator.ask(stage.values, [log_scores(differences, low, low + stage.window)])
    level = noisy / SCORE_STEPS / stage.pairs + (low - high) - LOG_BIAS
    level = denoised(level, stage.value_deviation)
    deviations = 2.0 ** np.clip(level, -stage.window - 2, 4.0)
    near = norms(differences, deviations ** (-exponent / 2) / unit)
    centre = curator.ask(NoisyQuantile(NEAR, QUANTILE, stage.radius), near)
    near = norms(differences, deviations**-0.5 / unit)
    clip = curator.ask(NoisyQuantile(CLIP, QUANTILE, stage.radius), near)
    middle = curator.ask(NoisyQuantile(MEDIAN, 0.5, stage.middle), near)
    return Scales(unit, deviations, centre, clip, middle)


SHARES = (0.05, 0.07, 0.1, 0.14, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
EXPONENT = 1.5  # shape of the center's noise: Sigma^(3/4) needs the least total
MOST_SUMS = 2  # clipped sums one after the other


@dataclass(frozen=True, eq=False)
class ColumnMetrics:
    """The metrics of the center and of the clip: their radii and weights (units out)."""

    radius: float
    reach: float
    centre_weight: Floats
    clip_weight: Floats

    @property
    def spread(self) -> float:
        """tr of the clip's noise shape."""
        return float((self.clip_weight**-2).sum())

    @property
    def inflation(self) -> float:
        """tr W: how the center's noise appears in the clip's metric."""
        return float(((self.clip_weight / self.centre_weight) ** 2).sum())

    def clip_radius(self, noise: float) -> float:
        """A radius around a center with this noise: the people's own reach, and the center's."""
        w = (self.clip_weight / self.centre_weight) ** 2
        slack = 2 * math.sqrt(3 * float((w**2).sum())) + 6 * float(w.max())
        return math.sqrt(self.reach**2 + noise**2 * (self.inflation + slack))

    def next_radius(self, noise: float) -> float:
        """The same around a clipped sum, whose noise has the clip's own metric."""
        d = len(self.clip_weight)
        return math.sqrt(self.reach**2 + noise**2 * (d + 2 * math.sqrt(3 * d) + 6))


def metrics_of(scales: Scales, dimension: int) -> ColumnMetrics:
    """The metrics that the released scales give."""
    sigma = scales.deviations
    if len(sigma):
        reach = tail_reach(scales.clip, scales.middle) / math.sqrt(2)
        return ColumnMetrics(FACTOR * scales.centre, reach, sigma ** (-EXPONENT / 2), sigma**-0.5)
    one, radius = np.ones(dimension), FACTOR * scales.rest
    return ColumnMetrics(radius, radius / math.sqrt(2), one, one)


@dataclass(frozen=True)
class Stage:
    """The mean half at one share of epsilon for the center. mu: of all clipped sums together."""

    share: float
    epsilon: float
    calibration: FilterCalibration
    mu: float


def clip_loss(mu: float, dimension: int) -> Gaussian:
    """The accounting of one clipped sum."""
    return Gaussian("clipped sum", 2.0 * STEPS, 2 * STEPS / mu, dimension, neighbors=REPLACE_ONE)


def mean_stages(epsilon: float, delta: float, persons: int, dimension: int) -> tuple[Stage, ...]:
    """Feasible shares of epsilon for a center of `persons`, and what is left for clipped sums."""
    made = []
    whole = gaussian_mu(epsilon, delta)
    for share in SHARES:
        try:
            calibration = calibrate(
                share * epsilon, delta / 2, persons, REPLACE_ONE, dimension=dimension
            )
        except InfeasibleError:
            continue
        (curve,) = calibration.events
        assert isinstance(curve, PrivacyProfile)
        mu = gaussian_after(curve, epsilon, delta, MOST_SUMS * dimension)
        if mu > 0:
            made.append(Stage(1 - (mu / whole) ** 2, share * epsilon, calibration, mu))
    if not made:
        raise TooFewPeople(
            f"{2 * persons} people are too few for an unknown covariance at epsilon={epsilon:g}",
            "use more people, a larger epsilon, or give a public bound on the covariance",
        )
    return tuple(made)
