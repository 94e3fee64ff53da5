"""Private scales of columns, from the differences of public pairs of people, which are free of the
mean.

A column's score is the mean log2 of its pairs' differences, limited to a public window; one
replaced person moves every score by at most window/m. Valid for replace-one neighbors with pairs
fixed by position. Columns that share a radius make a block of what follows. Proofs:
docs/proofs/anisotropic.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

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
from privmean.mechanisms.choices import TopChoices
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.filtered_mean import FilterCalibration, of_columns, slices
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

    pairs: m. window: octaves of the scores. top: columns whose scale is estimated, all of them or
    the k chosen ones. unit: noise of the step that finds the unit (None if it is public).
    rho_values, rho_choice: zCDP of the values and of the choice of columns. center, clip,
    middle, rest: the bisections for radii of the columns with a scale (two metrics, and the median
    in the second) and of the others.
    """

    dimension: int
    pairs: int
    window: float
    top: int
    rho_values: float
    rho_choice: float
    centre: Counting | None
    clip: Counting | None
    middle: Counting | None
    rest: Counting | None
    unit: Counting | None

    @property
    def chooses(self) -> bool:
        return 0 < self.top < self.dimension

    @property
    def span(self) -> int:
        """The largest change of one pair's level, in lattice steps."""
        return round(self.window * SCORE_STEPS)

    @property
    def epsilon(self) -> Fraction:
        """epsilon of one choice, rounded down."""
        if not self.chooses:
            return Fraction(0)
        return Fraction(math.floor(math.sqrt(8 * self.rho_choice / self.top) * 2**40), 2**40)

    @property
    def value_scale(self) -> float:
        """Noise of the summed scores, in lattice steps."""
        return self.span * math.sqrt(self.top / (2 * self.rho_values))

    @property
    def value_deviation(self) -> float:
        """Noise of a column's log2 standard deviation."""
        return self.value_scale / SCORE_STEPS / self.pairs if self.top else 0.0

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        bill: list[PrivacyEvent] = []
        if self.unit is not None:
            bill.append(self.unit.loss(UNIT))
        if self.chooses:
            bill += self.choice.events
        if self.top:
            bill += self.values.events
        for name, counting in (
            (NEAR, self.centre),
            (CLIP, self.clip),
            (MEDIAN, self.middle),
            (OTHERS, self.rest),
        ):
            if counting is not None:
                bill.append(counting.loss(name))
        return tuple(bill)

    @property
    def choice(self) -> TopChoices:
        """Which columns have a scale of their own."""
        moved = f"the scores of one pair, by {self.span} steps at most"
        return TopChoices("columns", self.epsilon, self.top, moved, self.span)

    @property
    def values(self) -> LatticeSums:
        """The scores of those columns."""
        spread = root_above(self.top * self.span**2)
        return LatticeSums(
            (Gaussian("column scales", spread, self.value_scale, self.top, neighbors=REPLACE_ONE),)
        )

    def choice_error(self, beta: float) -> float:
        """How far below the best, in octaves, a chosen column can lie (w.p. 1 - beta)."""
        if not self.chooses:
            return 0.0
        size = 2 * self.window / self.pairs / float(self.epsilon)
        return size * 2 * math.log(self.dimension * self.top / beta) / 2


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

    unit: the scale of everything else. top: indices of the columns with a scale of their own.
    deviations: their standard deviations in units. center, clip: quantiles of pair distances of
    those columns in the two metrics, middle: their median in the second; rest: quantile of the
    other columns' plain norm.
    """

    unit: float
    top: Integers
    deviations: Floats
    centre: float
    clip: float
    middle: float
    rest: float


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
    top = np.arange(stage.dimension)
    deviations = np.ones(0)
    if stage.top:
        scores = log_scores(differences, low, low + stage.window)
        if stage.chooses:
            top = np.sort(np.array(curator.ask(stage.choice, scores), dtype=np.int64))
        (noisy,) = curator.ask(stage.values, [scores[top]])
        level = noisy / SCORE_STEPS / stage.pairs + (low - high) - LOG_BIAS
        level = denoised(level, stage.value_deviation)
        deviations = 2.0 ** np.clip(level, -stage.window - 2, 4.0)
    else:
        top = top[:0]
    centre = clip = middle = rest = 0.0
    if stage.centre is not None and stage.clip is not None and stage.middle is not None:
        mine = of_columns(differences, top)
        near = norms(mine, deviations ** (-exponent / 2) / unit)
        centre = curator.ask(NoisyQuantile(NEAR, QUANTILE, stage.centre), near)
        near = norms(mine, deviations**-0.5 / unit)
        clip = curator.ask(NoisyQuantile(CLIP, QUANTILE, stage.clip), near)
        middle = curator.ask(NoisyQuantile(MEDIAN, 0.5, stage.middle), near)
    if stage.rest is not None:
        others = np.setdiff1d(np.arange(stage.dimension), top)
        bare = norms(differences[:, others], np.full(len(others), 1 / unit))
        rest = curator.ask(NoisyQuantile(OTHERS, QUANTILE, stage.rest), bare)
    return Scales(unit, top, deviations, centre, clip, middle, rest)


SHARES = (0.05, 0.07, 0.1, 0.14, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
EXPONENT = 1.5  # shape of the center's noise: Sigma^(3/4) needs the least total
MOST_SUMS = 2  # clipped sums one after the other


@dataclass(frozen=True, eq=False)
class Block:
    """Columns that share a radius. weights: of the center's and the clip's metric (units out)."""

    columns: Integers
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
        d = len(self.columns)
        return math.sqrt(self.reach**2 + noise**2 * (d + 2 * math.sqrt(3 * d) + 6))


def blocks_of(scales: Scales, dimension: int) -> list[Block]:
    """The metrics that the released scales give."""
    result = []
    if len(scales.top):
        sigma = scales.deviations
        result.append(
            Block(
                scales.top,
                FACTOR * scales.centre,
                tail_reach(scales.clip, scales.middle) / math.sqrt(2),
                sigma ** (-EXPONENT / 2),
                sigma**-0.5,
            )
        )
    if len(scales.top) < dimension:
        rest = np.setdiff1d(np.arange(dimension), scales.top)
        one = np.ones(len(rest))
        result.append(
            Block(rest, FACTOR * scales.rest, FACTOR * scales.rest / math.sqrt(2), one, one)
        )
    return result


def centre_shares(blocks: Sequence[Block]) -> list[float]:
    """How the center's precision is split: least total radius of the clip that follows."""
    cost = [
        item.radius * math.sqrt(item.inflation * math.sqrt(item.spread) / item.reach)
        for item in blocks
    ]
    return [item / sum(cost) for item in cost]


def clip_shares(blocks: Sequence[Block], radii: Sequence[float]) -> list[float]:
    """How the sums' precision is split: least total noise."""
    cost = [r * math.sqrt(item.spread) for item, r in zip(blocks, radii, strict=True)]
    return [item / sum(cost) for item in cost]


@dataclass(frozen=True)
class Stage:
    """The mean half at one share of epsilon for the center. mu: of all clipped sums together."""

    share: float
    epsilon: float
    calibration: FilterCalibration
    mu: float


def clip_losses(
    mu: float, dimensions: Sequence[int], shares: Sequence[float]
) -> tuple[Gaussian, ...]:
    """The accounting of one clipped sum, by block. shares: of its mu^2."""
    return tuple(
        Gaussian(
            "clipped sum", 2.0 * STEPS, 2 * STEPS / (mu * math.sqrt(part)), d, neighbors=REPLACE_ONE
        )
        for d, part in zip(dimensions, shares, strict=True)
    )


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
