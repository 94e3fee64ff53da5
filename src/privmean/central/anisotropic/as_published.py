"""The published algorithms for an unknown covariance (its Algorithms 2 to 7), for study.

With the corrections without which they are not private or do not find the large columns' scale:
noise of the sparse vector technique for counts out of m groups, a fresh threshold after each hit,
returned variances 2*4^b, halves and groups by position, one filter for both blocks. They need
hundreds of thousands of persons; `method="auto"` needs a few thousand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.stats import chi2

from privmean.central.anisotropic import filter as keep
from privmean.central.anisotropic.average import kept_mean
from privmean.central.anisotropic.box import GaussianBox
from privmean.central.anisotropic.calibration import FilterCalibration, calibrate
from privmean.central.anisotropic.degrees import Progress, degrees
from privmean.central.anisotropic.known import check_people
from privmean.central.anisotropic.lattice import RADIUS, Metric, to_lattice, usable_rows
from privmean.errors import Infeasible
from privmean.noise.base import Noise
from privmean.noise.exact import ExactNoise
from privmean.people.reductions import Floats, Integers, People
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.privacy.calibrate import calibrate as strength_of
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.loss import Laplace, Loss, Parallel, Selection, Threshold
from privmean.release import FAILED, OK, Release

BINS = 200  # variances from 4^-200 to 4^200
ZERO_BIN = -BINS - 1


def group_pairs(dimension: int) -> int:
    """The least pairs a group for which all variances are right within 2 w.p. 7/8 or more.

    A union bound over columns, which may be dependent.
    """
    pairs = 1
    while True:
        wrong = float(chi2.sf(2 * pairs, pairs) + chi2.cdf(pairs / 2, pairs))
        if dimension * wrong <= 1 / 8:
            return pairs
        pairs += 1


def group_variances(x: Floats, pairs: int) -> Floats:
    """Variances by group of 2 `pairs` persons in the roster's order, shape (m, d)."""
    m = len(x) // (2 * pairs)
    rows = x[: 2 * pairs * m].reshape(m * pairs, 2, x.shape[1])
    with np.errstate(all="ignore"):
        square = (rows[:, 0] - rows[:, 1]) ** 2
    square = np.where(np.isfinite(square), square, 0.0)
    return np.asarray(square.reshape(m, pairs, -1).sum(axis=1) / (2 * pairs))


@dataclass(frozen=True)
class Histogram:
    """A stable histogram (Algorithm 6) at epsilon and delta: Laplace(2/epsilon), one threshold."""

    epsilon: Fraction
    delta: float

    @property
    def threshold(self) -> int:
        return 1 + math.ceil(2 * math.log(1 / self.delta) / float(self.epsilon))

    def losses(self, name: str) -> tuple[Loss, ...]:
        return (
            Laplace(name, Fraction(2), 2 / self.epsilon, spread=2),
            Threshold(name, self.delta, float(self.threshold)),
        )

    def bin(self, values: Floats, noise: Noise) -> int | None:
        """The bin b of the most values in [4^b, 4^(b+1)); ties to the smallest; None if too few."""
        with np.errstate(divide="ignore"):
            b = np.floor(np.log2(values) / 2)
        b = np.where(values > 0, np.clip(b, -BINS, BINS), ZERO_BIN).astype(np.int64)
        bins, counts = np.unique(b, return_counts=True)
        noisy = counts + noise.laplace(len(bins), 2 / self.epsilon)
        best = int(np.argmax(noisy)) if len(bins) else 0
        if not len(bins) or noisy[best] < self.threshold:
            return None
        return int(bins[best])

    def variance(self, values: Floats, noise: Noise) -> float | None:
        """2*4^b: between a quarter of and four times the truth where most groups are right."""
        found = self.bin(values, noise)
        if found is None:
            return None
        return 0.0 if found == ZERO_BIN else 2 * 4.0**found


def kth_largest(variances: Floats, k: int, histogram: Histogram, noise: Noise) -> float | None:
    """Algorithm 5: the k-th largest variance."""
    d = variances.shape[1]
    return histogram.variance(np.partition(variances, d - k, axis=1)[:, d - k], noise)


def top_columns(
    variances: Floats, level: float, k: int, epsilon: Fraction, noise: Noise
) -> Integers:
    """Algorithm 4: columns in order whose variance is above `level` in most groups, at most k.

    Above-threshold runs with fresh noise after each hit: Laplace(2/epsilon) on the threshold and
    Laplace(4/epsilon) on each count, each run epsilon-DP. In the order of columns, as published.
    """
    counts = np.count_nonzero(variances >= level, axis=0)
    half = len(variances) / 2
    hits: list[int] = []
    start = 0
    while len(hits) < k and start < len(counts):
        cut = half + int(noise.laplace(1, 2 / epsilon)[0])
        noisy = counts[start:] + noise.laplace(len(counts) - start, 4 / epsilon)
        above = np.flatnonzero(noisy >= cut)
        if len(above) == 0:
            break
        hits.append(start + int(above[0]))
        start = hits[-1] + 1
    return np.array(hits, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class PublishedPlan:
    """Algorithms 2 to 7 with corrections, decided before data."""

    budget: Budget
    persons: int
    dimension: int
    beta: float
    pairs: int
    k: int
    location: Histogram
    hit_epsilon: Fraction
    single: Histogram
    calibration: FilterCalibration
    estimator: str = "anisotropic, as published"
    relation: Relation = REPLACE_ONE
    why: str = "the published algorithms for an unknown covariance, for study"

    @property
    def groups(self) -> int:
        return (self.persons - self.persons // 2) // (2 * self.pairs)

    @property
    def losses(self) -> tuple[Loss, ...]:
        stage = stage_losses(self.location, self.hit_epsilon, self.single, self.k)
        return self._bill(stage, self.calibration.losses)

    def _bill(self, scales: Sequence[Loss], centre: Sequence[Loss]) -> tuple[Loss, ...]:
        assert self.budget.epsilon is not None
        parts = tuple(part for part in (tuple(scales), tuple(centre)) if part)
        return (Parallel("two halves of the persons", Fraction(self.budget.epsilon), parts),)

    def describe(self) -> dict[str, Any]:
        return {
            "method": "published",
            "dimension": self.dimension,
            "persons": self.persons,
            "pairs a group": self.pairs,
            "groups": self.groups,
            "columns": self.k,
            "multiplier": self.calibration.multiplier,
        }

    def release(
        self, people: People, noise: Noise | None = None, progress: Progress | None = None
    ) -> Release:
        """Run the plan on people; each step that fails ends the release, its bill so far."""
        source = ExactNoise() if noise is None else noise
        check_people(people, self.dimension, self.persons)
        bill: list[Loss] = []
        v = group_variances(people.part(0, 2).matrix(), self.pairs)
        bill += self.location.losses("largest variances")
        level = kth_largest(v, self.k, self.location, source)
        if level is None:
            return self._failure(people.columns, source.secure, bill)
        bill.append(Selection("columns", self.hit_epsilon, choices=self.k))
        top = top_columns(v, level / 16, self.k, self.hit_epsilon, source)
        rest = np.setdiff1d(np.arange(self.dimension), top)
        scales = np.empty(len(top))
        for position, column in enumerate(top):
            bill += self.single.losses("variance of a column")
            found = self.single.variance(v[:, column], source)
            if found is None:
                return self._failure(people.columns, source.secure, bill)
            scales[position] = max(found, 4.0**-BINS)
        bill += self.single.losses("variance of the rest")
        others = self.single.variance(v[:, rest].sum(axis=1), source)
        if others is None:
            return self._failure(people.columns, source.secure, bill)
        return self._mean(people, source, progress, bill, top, np.sqrt(scales), rest, others)

    def _mean(
        self,
        people: People,
        source: Noise,
        progress: Progress | None,
        bill: list[Loss],
        top: Integers,
        sigma: Floats,
        rest: Integers,
        others: float,
    ) -> Release:
        """Algorithm 1 on the second half, one filter for both blocks."""
        x = people.part(1, 2).matrix()
        tau = math.log(max(len(x) * (len(x) - 1), 2) / (2 * self.beta))
        factor = 4 * (2 + 4 * math.sqrt(tau) + 4 * tau)  # only traces are known, within 4
        blocks = [(top, sigma**-0.5, math.sqrt(factor * float(sigma.sum())))]
        blocks.append((rest, np.ones(len(rest)), math.sqrt(factor * max(others, 4.0**-BINS))))
        blocks = [item for item in blocks if len(item[0])]
        metrics = [
            Metric(to_lattice(x[:, columns], weight * (RADIUS / radius)))
            for columns, weight, radius in blocks
        ]
        friends = degrees(metrics, usable_rows(x), progress=progress)
        kept = keep.bernoulli(*keep.keep_odds(friends, REPLACE_ONE), source)
        cost = [radius * math.sqrt(float((weight**-2).sum())) for _, weight, radius in blocks]
        shares = [item / sum(cost) for item in cost]
        found = kept_mean(metrics, kept, self.calibration, source, shares)
        if found is None:
            return self._failure(people.columns, source.secure, bill, self.calibration.losses)
        estimate, noise = np.empty(self.dimension), np.empty(self.dimension)
        spread = np.empty(self.dimension)
        for (columns, weight, radius), mean, sd in zip(
            blocks, found.means, found.deviations, strict=True
        ):
            estimate[columns] = mean * (radius / RADIUS) / weight
            noise[columns] = sd * (radius / RADIUS) / weight
            spread[columns] = 2 * weight**-2 if columns is top else 2 * math.sqrt(others)
        return self._release(
            people.columns,
            source.secure,
            self._bill(bill, self.calibration.losses),
            GaussianBox(
                estimate,
                noise,
                spread / math.sqrt(len(x)),
                "columns near Gaussian",
                "mean of the persons kept",
            ),
        )

    def _failure(
        self, columns: tuple[str, ...], secure: bool, bill: list[Loss], mean: Sequence[Loss] = ()
    ) -> Release:
        nothing = np.full(self.dimension, np.nan)
        box = GaussianBox(nothing, nothing, nothing, "", "mean", failed=True)
        return self._release(columns, secure, self._bill(bill, mean), box)

    def _release(
        self, columns: tuple[str, ...], secure: bool, bill: tuple[Loss, ...], box: GaussianBox
    ) -> Release:
        return Release(
            estimate=box.estimate,
            columns=columns,
            estimator=self.estimator,
            guarantee=Guarantee.of(
                self.budget, REPLACE_ONE, bill, public=("persons", "columns", "positions")
            ).require(),
            intervals=box,
            plan=self,
            persons=self.persons,
            status=FAILED if box.failed else OK,
            advice="too few persons for the published steps" if box.failed else "",
            assumptions=("persons are Gaussian",),
            secure=secure,
        )


def stage_losses(
    location: Histogram, hit_epsilon: Fraction, single: Histogram, k: int
) -> tuple[Loss, ...]:
    """The worst-case bill of the variance stage."""
    bill = [*location.losses("largest variances"), Selection("columns", hit_epsilon, choices=k)]
    for _ in range(k + 1):
        bill += single.losses("variance of a column")
    return tuple(bill)


def plan_published_unknown(
    budget: Budget, persons: int, dimension: int, relation: Relation, beta: float
) -> PublishedPlan:
    """The plan of Algorithms 2 to 7. Infeasible where the groups are too few for the histograms."""
    if relation != REPLACE_ONE:
        raise Infeasible(
            "groups of persons by position shift when a person comes or goes",
            "use replace-one neighbours",
        )
    epsilon, delta = budget.epsilon, budget.delta
    assert epsilon is not None
    n = persons - persons // 2
    pairs = group_pairs(dimension)
    m = n // (2 * pairs)
    wanted = (epsilon * m) ** 2 / (
        math.log(1 / delta) * math.log(max(epsilon * n, 2) / (delta * beta)) ** 2
    )
    k = min(max(1, math.floor(wanted)), max(1, dimension - 1))
    each = delta / (2 * (k + 2))

    def made(t: float) -> tuple[Histogram, Fraction, Histogram]:
        part = Fraction(t)
        return (
            Histogram(part / 3, each),
            Fraction(t / (3 * k)).limit_denominator(2**40),
            Histogram(Fraction(t / (3 * math.sqrt(k))).limit_denominator(2**40), each),
        )

    t = strength_of(lambda t: stage_losses(*made(t), k), budget, largest=100 * epsilon, grid=False)
    location, hit, single = made(t * (1 - 1e-6))
    if m < 2 * max(location.threshold, single.threshold):
        need = 2 * max(location.threshold, single.threshold)
        raise Infeasible(
            f"the published variance stage has {m} groups and needs about {need}",
            f"use about {4 * pairs * need} persons, or method='auto', which needs far fewer",
        )
    mean = calibrate(epsilon, delta, persons // 2, REPLACE_ONE, dimension=dimension)
    return PublishedPlan(budget, persons, dimension, beta, pairs, k, location, hit, single, mean)
