"""The published algorithms for an unknown covariance (its Algorithms 2 to 7), for study.

With the corrections without which they are not private or do not find the large columns' scale:
noise of the sparse vector technique for counts out of m groups, a fresh threshold after each hit,
returned variances 2*4^b, halves and groups by position, one filter for both blocks. They need
hundreds of thousands of people; `Anisotropic()` needs a few thousand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from privmean.central.anisotropic.calibrate_filter import calibrate
from privmean.central.anisotropic.gaussian_box import GaussianBox
from privmean.central.anisotropic.known_covariance import weighed_alike
from privmean.central.anisotropic.unknown_covariance import HALVES
from privmean.data.collect_rows import collect_rows
from privmean.data.person_table import Floats, Integers, PersonTable
from privmean.data.public_shape import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.inference.status import FAILED, OK
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.filtered.filtered_mean import FilteredMean, Rows
from privmean.mechanisms.filtered.filtered_noise import FilterCalibration
from privmean.mechanisms.filtered.row_lattice import RADIUS, lattices
from privmean.mechanisms.likeliest_bin import LikeliestBin
from privmean.pipeline import PlanBase
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.calibrate import calibrate as strength_of
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.privacy.profile_events import ParallelCurve
from privmean.published.variance_stage import (
    BINS,
    group_pairs,
    group_variances,
    groups_above,
    kth_largest,
    stage_losses,
    top_columns,
    variance_bins,
    variance_of,
)
from privmean.release.outcome import Outcome


@dataclass(frozen=True)
class UnknownCovariancePlan(PlanBase):
    """Algorithms 2 to 7 with corrections, decided before data."""

    budget: Budget
    n: int
    dimension: int
    beta: float
    pairs: int
    k: int
    location: LikeliestBin
    hit_epsilon: Fraction
    single: LikeliestBin
    calibration: FilterCalibration
    estimator: str = "anisotropic, as published"
    rationale: str = "the published algorithms for an unknown covariance, for study"
    public = ("n", "columns", "positions")

    @property
    def groups(self) -> int:
        return (self.n - self.n // 2) // (2 * self.pairs)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        stage = stage_losses(self.location, self.hit_epsilon, self.single, self.k)
        return self._bill(stage, self.calibration.events)

    def _bill(
        self, scales: Sequence[PrivacyEvent], centre: Sequence[PrivacyEvent]
    ) -> tuple[PrivacyEvent, ...]:
        assert self.budget.epsilon is not None
        parts = tuple(part for part in (tuple(scales), tuple(centre)) if part)
        return (
            ParallelCurve(
                HALVES,
                Fraction(self.budget.epsilon),
                parts,
                neighbors=REPLACE_ONE,
            ),
        )

    def describe(self) -> dict[str, Any]:
        return {
            "method": "published",
            "dimension": self.dimension,
            "n": self.n,
            "pairs a group": self.pairs,
            "groups": self.groups,
            "columns": self.k,
            "multiplier": self.calibration.multiplier,
        }

    @property
    def shape(self) -> PublicShape:
        return PublicShape.of(self.dimension, self.n)

    def check_table(self, people: PersonTable) -> None:
        weighed_alike(people)

    def predict(self, guess_sd: float) -> dict[str, float]:
        raise ArgumentError(
            "guess_sd", guess_sd, "is not used by the published steps", "use pm.AnisotropicMean()"
        )

    def run(self, curator: Curator) -> Outcome:
        """Each step that fails ends the release, its accounting so far."""
        people = curator.people
        halves = (people.split(0, 2), people.split(1, 2))
        one, two = curator.parallel(HALVES, halves, join=self._joined)
        v = group_variances(collect_rows(one.people, size_is_public=True), self.pairs)
        level = self._variance(one, self.location, "largest variances", kth_largest(v, self.k))
        if level is None:
            return self._failure()
        hits = top_columns(self.k, self.hit_epsilon, len(v))
        top = one.ask(hits, groups_above(v, level / 16))
        rest = np.setdiff1d(np.arange(self.dimension), top)
        scales = np.empty(len(top))
        for position, column in enumerate(top):
            found = self._variance(one, self.single, "variance of a column", v[:, column])
            if found is None:
                return self._failure()
            scales[position] = max(found, 4.0**-BINS)
        both = v[:, rest].sum(axis=1)
        others = self._variance(one, self.single, "variance of the rest", both)
        if others is None:
            return self._failure()
        return self._mean(two, top, np.sqrt(scales), rest, others)

    def _variance(
        self, curator: Curator, histogram: LikeliestBin, name: str, values: Floats
    ) -> float | None:
        return variance_of(curator.ask(replace(histogram, name=name), variance_bins(values)))

    def _joined(self, bills: tuple[tuple[PrivacyEvent, ...], ...]) -> PrivacyEvent:
        return self._bill(*(*bills, ())[:2])[0]

    def _mean(
        self,
        curator: Curator,
        top: Integers,
        sigma: Floats,
        rest: Integers,
        others: float,
    ) -> Outcome:
        """Algorithm 1 on the second half, one filter for both blocks."""
        x = collect_rows(curator.people, size_is_public=True)
        tau = math.log(max(len(x) * (len(x) - 1), 2) / (2 * self.beta))
        factor = 4 * (2 + 4 * math.sqrt(tau) + 4 * tau)  # only traces are known, within 4
        blocks = [(top, sigma**-0.5, math.sqrt(factor * float(sigma.sum())))]
        blocks.append((rest, np.ones(len(rest)), math.sqrt(factor * max(others, 4.0**-BINS))))
        blocks = [item for item in blocks if len(item[0])]
        metrics, usable = lattices(
            x, [(columns, weight * (RADIUS / radius)) for columns, weight, radius in blocks]
        )
        cost = [radius * math.sqrt(float((weight**-2).sum())) for _, weight, radius in blocks]
        shares = [item / sum(cost) for item in cost]

        mechanism = FilteredMean(
            self.calibration,
            REPLACE_ONE,
            tuple(shares),
            work=float(len(x)) ** 2 * self.dimension,
        )
        found = curator.ask(mechanism, Rows(metrics, usable))
        if found is None:
            return self._failure()
        estimate, noise = np.empty(self.dimension), np.empty(self.dimension)
        spread = np.empty(self.dimension)
        for (columns, weight, radius), mean, sd in zip(
            blocks, found.means, found.deviations, strict=True
        ):
            estimate[columns] = mean * (radius / RADIUS) / weight
            noise[columns] = sd * (radius / RADIUS) / weight
            spread[columns] = 2 * weight**-2 if columns is top else 2 * math.sqrt(others)
        return self._told(
            GaussianBox(
                estimate,
                noise,
                spread / math.sqrt(len(x)),
                "columns near Gaussian",
                "mean of the people kept",
            )
        )

    def _failure(self) -> Outcome:
        nothing = np.full(self.dimension, np.nan)
        return self._told(GaussianBox(nothing, nothing, nothing, "", "mean", failed=True))

    def _told(self, box: GaussianBox) -> Outcome:
        return Outcome(
            box.estimate,
            box,
            n=self.n,
            status=FAILED if box.failed else OK,
            advice="There are too few people for the published steps." if box.failed else "",
            assumptions=("values are Gaussian",),
        )


def plan_published_unknown(
    budget: Budget, persons: int, dimension: int, beta: float
) -> UnknownCovariancePlan:
    """The plan of Algorithms 2 to 7. InfeasibleError where the groups are too few for the
    histograms."""
    if budget.neighbors != REPLACE_ONE:
        raise InfeasibleError(
            "the published variance stage requires neighbors='replace-one'",
            "use neighbors='replace-one'",
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

    def made(t: float) -> tuple[LikeliestBin, Fraction, LikeliestBin]:
        part = Fraction(t)
        return (
            LikeliestBin(part / 3, each),
            Fraction(t / (3 * k)).limit_denominator(2**40),
            LikeliestBin(Fraction(t / (3 * math.sqrt(k))).limit_denominator(2**40), each),
        )

    t = strength_of(lambda t: stage_losses(*made(t), k), budget, largest=100 * epsilon, grid=False)
    location, hit, single = made(t * (1 - 1e-6))
    if m < 2 * max(location.threshold, single.threshold):
        need = 2 * max(location.threshold, single.threshold)
        raise InfeasibleError(
            f"the published variance stage has {m} groups and requires about {need}",
            f"provide about {4 * pairs * need} people, or use pm.AnisotropicMean()",
        )
    mean = calibrate(epsilon, delta, persons // 2, REPLACE_ONE, dimension=dimension)
    return UnknownCovariancePlan(
        budget, persons, dimension, beta, pairs, k, location, hit, single, mean
    )
