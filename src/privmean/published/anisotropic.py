"""Dagan, Jordan, Yang, Zakynthinou and Zhivotovskiy, "Dimension-free Private Mean Estimation for
Anisotropic Distributions" (2024): the filtered mean, and scales from half of the people.

Algorithm 1 runs for a known covariance, Algorithms 2 to 7 for an unknown one. Corrections, by the
numbers of the specification:

* Algorithm 1 is given epsilon/21 and delta/e^10, for which it is proved to be (epsilon, delta)-DP;
  a noisy count below 1 is no estimate (3.1, 3.3).
* Algorithm 3: noise for counts of m groups, of which one person changes one (E1), and a fresh
  threshold after each hit (E2).
* Algorithm 2: the number of columns k (E5) and of pairs a group (E6) of the derivation; halves and
  groups are public positions (E8), so that both halves have the whole budget (E9).
* Algorithms 5 and 7 return 2*4^b (E7), and the radii follow from that (E10).
* One filter for both blocks of columns (E11), with its threshold for replaced people (3.2).

One step is not as printed, without need: Algorithm 6 has the threshold of its histogram's exact
tail, which is the lower one.

`pm.AnisotropicMean` is better in every respect: the unknown covariance asks for hundreds of
thousands of people here (E4), and columns in order may miss the largest (E3). Claims and proofs:
docs/proofs/anisotropic.md, docs/proofs/anisotropic-unknown.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy.stats import chi2

from privmean import validate
from privmean.array_types import Floats, Integers
from privmean.data.person_table import PersonTable, collect_rows
from privmean.data.schema import PublicShape
from privmean.errors import InfeasibleError
from privmean.estimators.anisotropic.calibrate_filter import SAFETY, calibrate, count_lattice
from privmean.estimators.anisotropic.known_covariance import Centre, weighed_alike
from privmean.estimators.anisotropic.spectrum import spectrum_of
from privmean.estimators.anisotropic.unknown_covariance import HALVES
from privmean.inference.status import FAILED
from privmean.mechanisms.choices import HitsAbove
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.filtered_mean import (
    RADIUS,
    FilterCalibration,
    FilteredMean,
    Rows,
    lattices,
)
from privmean.mechanisms.histograms import StableHistogram, top_bin
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.privacy.compose import calibrate as strength_of
from privmean.privacy.privacy_events import Approximate, PrivacyEvent
from privmean.privacy.profile_events import ParallelCurve
from privmean.published.terms import PublishedPlan, require_delta
from privmean.release.result_numbers import Outcome

LARGEST = 10.0  # epsilon: the published amplification assumes epsilon/21 at most 1/2
BINS = 200  # variances from 4^-200 to 4^200
ZERO_BIN = -BINS - 1
LEVEL, COLUMN, REST = "largest variances", "variance of a column", "variance of the rest"


@dataclass(frozen=True, eq=False)
class AnisotropicAsPublished:
    """Algorithm 1 for a known covariance, Algorithm 2 without one.

    covariance: as for `AnisotropicMean`, or None. beta: chance that some person is filtered out.

    Guarantees: (epsilon, delta)-DP for any data, delta > 0: under add-remove with a covariance
    (epsilon up to 10), under replace-one without one. Public: the columns, all arguments, and the
    number of people under replace-one, a guess of it under add-remove.
    """

    name: ClassVar[str] = "anisotropic mean"

    covariance: object = None
    beta: float = 0.05

    def __post_init__(self) -> None:
        validate.keep(self, validate.fraction, "beta")

    def plan(self, budget: Budget, shape: PublicShape) -> KnownCovariance | UnknownCovariance:
        """Everything decided before data. Raises InfeasibleError from public numbers alone."""
        if self.covariance is None:
            return _unknown(self, budget, shape.number(least=2), shape.dimension)
        if budget.neighbors != ADD_REMOVE or not 0 < (budget.epsilon or 0) <= LARGEST:
            raise InfeasibleError(
                f"the published constants require add-remove neighbors and epsilon <= {LARGEST:g}",
                "use pm.AnisotropicMean",
            )
        require_delta(budget, ADD_REMOVE)
        guess, spectrum = shape.number(least=2), spectrum_of(self.covariance, shape.dimension)
        radius = published_radius(spectrum.deviations, guess, self.beta)
        constants = published_constants(budget)
        centre = Centre(spectrum, 1.0, guess, radius, ADD_REMOVE, constants)
        return KnownCovariance(self, budget, guess, shape.dimension, centre)


# --- Algorithm 1: the filtered mean ---------------------------------------------------------------
def published_constants(budget: Budget) -> FilterCalibration:
    """Noise and offset at e = epsilon/21 and d = e^-10 delta, for which the whole is proved to be
    (21 e, e^10 d)-DP: s = sqrt(2 ln(1.25/d))/e and t = ln(1/d)/e, with a Laplace count."""
    assert budget.epsilon is not None
    e, inner = Fraction(budget.epsilon) / 21, math.exp(-10) * budget.delta
    steps = count_lattice(1 / float(e))
    loss = Approximate(
        "published filtered mean", Fraction(budget.epsilon), budget.delta, neighbors=ADD_REMOVE,
        sensitivity_text="who is kept, their number and their mean, as published",
    )  # fmt: skip
    return FilterCalibration(
        steps,
        float(steps / e),
        math.ceil(math.log(1 / inner) / float(e) * steps),
        math.sqrt(2 * math.log(1.25 / inner)) / float(e) * (1 + SAFETY),
        (loss,),
        law="laplace",
    )


def published_radius(eigenvalues: Floats, n_guess: float, beta: float) -> float:
    """sqrt(2 tr) + 2 sqrt(2 top log(n/beta)), 10 to 14 % above that of `AnisotropicMean`."""
    top = 2 * float(eigenvalues.max())
    return math.sqrt(2 * float(eigenvalues.sum())) + 2 * math.sqrt(top * math.log(n_guess / beta))


@dataclass(frozen=True)
class KnownCovariance(PublishedPlan):
    """Algorithm 1. n: the public guess that the radius is made for."""

    centre: Centre
    public = ("columns", "covariance bound", "n_guess")

    @property
    def shape(self) -> PublicShape:
        return PublicShape.of(self.dimension, None, self.n)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.centre.events

    def check_table(self, people: PersonTable) -> None:
        weighed_alike(people)

    def run(self, curator: Curator) -> Outcome:
        """Keep people with many friends, count them, and release their mean."""
        axes = self.centre.spectrum
        x = axes.along(collect_rows(curator.people, size_is_public=False))
        found = self.centre.found(curator.ask(self.centre.mechanism(1), self.centre.rows(x)))
        if found is None:
            return replace(_nothing(self), n=None)
        noise = np.sqrt(axes.column_variances(found.deviations**2))
        count = max(found.count + self.centre.calibration.offset, 1.0)
        return replace(self.outcome(axes.columns(found.values), noise_sd=noise), n=round(count))


# --- Algorithm 2: scales from one half of the people, the mean from the other ---------------------
@dataclass(frozen=True)
class UnknownCovariance(PublishedPlan):
    """Algorithm 2. pairs: of people a group; k: columns that have scales of their own; location,
    single: the histograms of Algorithms 5 and 7; hit_epsilon: of one run of Algorithm 3."""

    pairs: int
    k: int
    location: StableHistogram
    hit_epsilon: Fraction
    single: StableHistogram
    calibration: FilterCalibration
    public = ("n", "columns", "positions")

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        stage = stage_losses(self.location, self.hit_epsilon, self.single, self.k)
        return (self._joined((stage, self.calibration.events)),)

    def _joined(self, bills: tuple[tuple[PrivacyEvent, ...], ...]) -> PrivacyEvent:
        """The loss of halves by position: the larger of both (E9)."""
        assert self.budget.epsilon is not None
        parts = tuple(bill for bill in bills if bill)
        return ParallelCurve(HALVES, Fraction(self.budget.epsilon), parts, neighbors=REPLACE_ONE)

    def check_table(self, people: PersonTable) -> None:
        weighed_alike(people)

    def run(self, curator: Curator) -> Outcome:
        """Each step that fails ends the release, its accounting so far."""
        people = curator.people
        halves = (people.split(0, 2), people.split(1, 2))
        one, two = curator.parallel(HALVES, halves, join=self._joined)
        v = group_variances(collect_rows(one.people, size_is_public=True), self.pairs)
        level = self._scale(one, self.location, LEVEL, kth_largest(v, self.k))
        if level is None:
            return _nothing(self)
        hits = top_columns(self.k, self.hit_epsilon, len(v))
        top = one.ask(hits, groups_above(v, level / 16))
        rest = np.setdiff1d(np.arange(self.dimension), top)
        scales = np.empty(len(top))
        for position, column in enumerate(top):
            found = self._scale(one, self.single, COLUMN, v[:, column])
            if found is None:
                return _nothing(self)
            scales[position] = max(found, 4.0**-BINS)
        others = self._scale(one, self.single, REST, v[:, rest].sum(axis=1))
        if others is None:
            return _nothing(self)
        return self._mean(two, top, np.sqrt(scales), rest, others)

    def _scale(
        self, curator: Curator, histogram: StableHistogram, name: str, values: Floats
    ) -> float | None:
        """Algorithm 6 on one variance a group: its likeliest power of 4."""
        kept = curator.ask(replace(histogram, name=name), variance_bins(values))
        return variance_of(top_bin(kept))

    def _mean(
        self, curator: Curator, top: Integers, sigma: Floats, rest: Integers, others: float
    ) -> Outcome:
        """Algorithm 1 on the second half, one filter for both blocks (E11)."""
        x = collect_rows(curator.people, size_is_public=True)
        tau = math.log(max(len(x) * (len(x) - 1), 2) / (2 * self.settings.beta))
        factor = 4 * (2 + 4 * math.sqrt(tau) + 4 * tau)  # only traces are known, within 4 (E10)
        blocks = [
            (top, sigma**-0.5, math.sqrt(factor * float(sigma.sum()))),
            (rest, np.ones(len(rest)), math.sqrt(factor * max(others, 4.0**-BINS))),
        ]
        blocks = [item for item in blocks if len(item[0])]
        metrics, usable = lattices(
            x, [(columns, weight * (RADIUS / radius)) for columns, weight, radius in blocks]
        )
        cost = [radius * math.sqrt(float((weight**-2).sum())) for _, weight, radius in blocks]
        shares, work = [item / sum(cost) for item in cost], float(len(x)) ** 2 * self.dimension
        mechanism = FilteredMean(self.calibration, REPLACE_ONE, tuple(shares), work=work)
        found = curator.ask(mechanism, Rows(metrics, usable))
        if found is None:
            return _nothing(self)
        estimate, noise = np.empty(self.dimension), np.empty(self.dimension)
        for (columns, weight, radius), mean, sd in zip(
            blocks, found.means, found.deviations, strict=True
        ):
            estimate[columns] = mean * (radius / RADIUS) / weight
            noise[columns] = sd * (radius / RADIUS) / weight
        return self.outcome(estimate, noise_sd=noise)


def _nothing(plan: PublishedPlan) -> Outcome:
    """The outcome of a step that found nothing."""
    return plan.outcome(np.full(plan.dimension, np.nan), (FAILED,) * plan.dimension)


def _unknown(
    settings: AnisotropicAsPublished, budget: Budget, n: int, dimension: int
) -> UnknownCovariance:
    """The plan of Algorithm 2; refuses groups that are too few for the histograms."""
    epsilon, delta = require_delta(budget), budget.delta
    half, pairs = n - n // 2, group_pairs(dimension)
    m = half // (2 * pairs)
    wanted = (epsilon * m) ** 2 / (
        math.log(1 / delta) * math.log(max(epsilon * half, 2) / (delta * settings.beta)) ** 2
    )
    k = min(max(1, math.floor(wanted)), max(1, dimension - 1))
    each = delta / (2 * (k + 2))

    def made(t: float) -> tuple[StableHistogram, Fraction, StableHistogram]:
        return (
            likeliest(Fraction(t) / 3, each),
            Fraction(t / (3 * k)).limit_denominator(2**40),
            likeliest(Fraction(t / (3 * math.sqrt(k))).limit_denominator(2**40), each),
        )

    t = strength_of(lambda t: stage_losses(*made(t), k), budget, largest=100 * epsilon, grid=False)
    location, hit, single = made(t * (1 - 1e-6))
    need = 2 * max(location.threshold, single.threshold)
    if m < need:
        raise InfeasibleError(
            f"the published variance stage has {m} groups and requires about {need}",
            f"provide about {4 * pairs * need} people, or use pm.AnisotropicMean()",
        )
    mean = calibrate(epsilon, delta, n // 2, REPLACE_ONE, dimension=dimension)
    return UnknownCovariance(settings, budget, n, dimension, pairs, k, location, hit, single, mean)


def stage_losses(
    location: StableHistogram, hit_epsilon: Fraction, single: StableHistogram, k: int
) -> tuple[PrivacyEvent, ...]:
    """The worst-case accounting of the variance stage."""
    each, rest = (replace(single, name=name) for name in (COLUMN, REST))
    hits = top_columns(k, hit_epsilon, 0)
    return (*replace(location, name=LEVEL).events, *hits.events, *each.events * k, *rest.events)


# --- Algorithms 3 to 7: the variance stage --------------------------------------------------------
def group_pairs(dimension: int) -> int:
    """The least pairs a group for which all variances are right within 2 w.p. 7/8 or more (E6): a
    union bound over columns, which may be dependent."""
    pairs = 1
    while dimension * float(chi2.sf(2 * pairs, pairs) + chi2.cdf(pairs / 2, pairs)) > 1 / 8:
        pairs += 1
    return pairs


def group_variances(x: Floats, pairs: int) -> Floats:
    """Variances by group of 2 `pairs` people in the roster's order, shape (m, d)."""
    m = len(x) // (2 * pairs)
    rows = x[: 2 * pairs * m].reshape(m * pairs, 2, x.shape[1])
    with np.errstate(all="ignore"):
        square = (rows[:, 0] - rows[:, 1]) ** 2
    square = np.where(np.isfinite(square), square, 0.0)
    return np.asarray(square.reshape(m, pairs, -1).sum(axis=1) / (2 * pairs))


def groups_above(variances: Floats, level: float) -> Integers:
    """In how many groups each column's variance is above `level`."""
    return np.asarray(np.count_nonzero(variances >= level, axis=0))


def top_columns(k: int, epsilon: Fraction, groups: int) -> HitsAbove:
    """Algorithm 4: the first k columns, in order, whose variance is above a level in most groups,
    by k runs of Algorithm 3 with fresh thresholds (E1, E2)."""
    moved = "each count of groups, by one (above a noisy threshold, one answer a run)"
    return HitsAbove("columns", epsilon, k, moved, groups / 2)


def kth_largest(variances: Floats, k: int) -> Floats:
    """Algorithm 5 before its histogram: the k-th largest variance of every group."""
    d = variances.shape[1]
    return np.asarray(np.partition(variances, d - k, axis=1)[:, d - k])


def likeliest(epsilon: Fraction, delta: float) -> StableHistogram:
    """The histogram of Algorithm 6, of which the fullest bin counts."""
    return StableHistogram.of(epsilon, delta, REPLACE_ONE)


def variance_bins(values: Floats) -> dict[int, int]:
    """Algorithm 6 before its noise: how many values lie in each occupied [4^b, 4^(b+1))."""
    with np.errstate(divide="ignore"):
        b = np.floor(np.log2(values) / 2)
    b = np.where(values > 0, np.clip(b, -BINS, BINS), ZERO_BIN).astype(np.int64)
    bins, counts = np.unique(b, return_counts=True)
    return dict(zip(bins.tolist(), counts.tolist(), strict=True))


def variance_of(found: int | None) -> float | None:
    """2*4^b: between a quarter of and four times the truth where most groups are right (E7)."""
    if found is None:
        return None
    return 0.0 if found == ZERO_BIN else 2 * 4.0**found
