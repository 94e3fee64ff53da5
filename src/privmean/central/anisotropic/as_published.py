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

from privmean.central.anisotropic import filter as keep
from privmean.central.anisotropic.average import kept_mean
from privmean.central.anisotropic.box import GaussianBox
from privmean.central.anisotropic.calibration import FilterCalibration, calibrate
from privmean.central.anisotropic.degrees import degrees
from privmean.central.anisotropic.known import check_people
from privmean.central.anisotropic.lattice import RADIUS, lattices
from privmean.central.anisotropic.progress import Progress, shown
from privmean.central.anisotropic.published_steps import (
    BINS,
    Histogram,
    group_pairs,
    group_variances,
    hits_loss,
    kth_largest,
    stage_losses,
    top_columns,
)
from privmean.errors import Infeasible
from privmean.noise.base import Noise
from privmean.noise.exact import ExactNoise
from privmean.people.collecting import rows
from privmean.people.reductions import Floats, Integers, People
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.privacy.calibrate import calibrate as strength_of
from privmean.privacy.curves import ParallelCurve
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.loss import Loss
from privmean.release import FAILED, OK, Release


@dataclass(frozen=True)
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
        return (
            ParallelCurve(
                "two halves of the persons",
                Fraction(self.budget.epsilon),
                parts,
                relation=REPLACE_ONE,
            ),
        )

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
        self, people: People, noise: Noise | None = None, progress: bool | Progress | None = None
    ) -> Release:
        """Run the plan on people; each step that fails ends the release, its bill so far."""
        source = ExactNoise() if noise is None else noise
        check_people(people, self.dimension, self.persons)
        bill: list[Loss] = []
        v = group_variances(rows(people.part(0, 2), size_is_public=True), self.pairs)
        bill += self.location.losses("largest variances")
        level = kth_largest(v, self.k, self.location, source)
        if level is None:
            return self._failure(people.columns, source.secure, bill)
        bill.append(hits_loss(self.hit_epsilon, self.k))
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
        progress: bool | Progress | None,
        bill: list[Loss],
        top: Integers,
        sigma: Floats,
        rest: Integers,
        others: float,
    ) -> Release:
        """Algorithm 1 on the second half, one filter for both blocks."""
        x = rows(people.part(1, 2), size_is_public=True)
        tau = math.log(max(len(x) * (len(x) - 1), 2) / (2 * self.beta))
        factor = 4 * (2 + 4 * math.sqrt(tau) + 4 * tau)  # only traces are known, within 4
        blocks = [(top, sigma**-0.5, math.sqrt(factor * float(sigma.sum())))]
        blocks.append((rest, np.ones(len(rest)), math.sqrt(factor * max(others, 4.0**-BINS))))
        blocks = [item for item in blocks if len(item[0])]
        metrics, usable = lattices(
            x, [(columns, weight * (RADIUS / radius)) for columns, weight, radius in blocks]
        )
        with shown(progress, float(len(x)) ** 2 * self.dimension) as tell:
            friends = degrees(metrics, usable, progress=tell)
        kept = keep.basic_keep(friends, usable, REPLACE_ONE, source)
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
