"""Settings and plans under a bounded moment; the plan of one column.

Plans release clipped sums about a coarse center, by one round or by several. One column: a coarse
center, then one Laplace release of the clipped sums. Source: Agarwal et al. (2024), Algorithm 1,
Lemma 3.12 and Theorem 3.14; both steps read all people and their epsilons add, the coarse step gets
what it needs and no more (docs/proofs/heavy-tails.md).

`RecordWeights` are for people with different, private numbers of records: public weights and radii
by number, where the paper treats equal numbers (docs/proofs/heavy-tails-weights.md).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from privmean import validate
from privmean.array_types import Floats, Integers
from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_table import ClipInterval, PersonTable, tell
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError
from privmean.estimators.heavy_tailed.clipping_bias import BoundedMoment, Tail
from privmean.estimators.heavy_tailed.clipping_rounds import Choice, Round, Schedule
from privmean.estimators.heavy_tailed.coarse_center import (
    Coarse,
    CoarseNeeds,
    Outside,
    RadiusSearch,
)
from privmean.estimators.heavy_tailed.moment_intervals import OneColumn
from privmean.inference.interval import NoInterval
from privmean.inference.mean_interval import TOO_FEW, is_undetected
from privmean.inference.status import FAILED
from privmean.mechanisms.clipped_sum import ClippedSums, ColumnSums
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_vector import LARGEST_DIMENSION
from privmean.mechanisms.weighted_sums import UNIT, JointSums, Law
from privmean.pipeline import HasEvents, PlanBase, Step
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.release.result_numbers import Outcome


@dataclass(frozen=True)
class RecordWeights:
    """Public weights for people with different, private numbers of records.

    Parameters
    ----------
    max_records : int
        The most records that count. Longer records are averaged in full and count as `max_records`.
    critical : float, optional
        Weights are inverse variances up to this number of records, and inverse standard deviations
        above. Default: equal weights.
    least : int, default 1
        The fewest records of a person with a weight.

    Notes
    -----
    Unequal weights estimate the same mean only if all people share one mean.

    Examples
    --------
    reading = dict(estimand="records", max_records=12)
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage", **reading)
    weights = pm.RecordWeights(max_records=12)
    heavy = pm.HeavyTailedMean(pm.BoundedMoment(2, 1.0), weights=weights)
    pm.mean(people, method=heavy, epsilon=1.0, delta=1e-6)
    """

    max_records: int
    critical: float | None = None
    least: int = 1

    def __post_init__(self) -> None:
        most = validate.whole("max_records", self.max_records, least=1)
        object.__setattr__(self, "max_records", most)
        remedy = f"give 1 to max_records={most}"
        least = validate.whole("least", self.least, least=1, most=most, remedy=remedy)
        object.__setattr__(self, "least", least)
        if self.critical is not None:
            validate.keep(self, validate.positive, "critical")

    def weights(self, moment: BoundedMoment) -> tuple[int, ...]:
        """w(0..M) in units of 2^-20, the largest 2^20."""
        raw = np.zeros(self.max_records + 1)
        for m in range(self.least, self.max_records + 1):
            raw[m] = 1.0
            if self.critical is not None:
                ratio = moment.spread(self.critical) / moment.spread(m)
                raw[m] = min(ratio**2, ratio)
        return tuple(round(float(item)) for item in raw / raw.max() * UNIT)

    def typical(self, moment: BoundedMoment) -> int:
        """The number of records that planning takes every person to have."""
        return max(self.least, min(self.max_records, round(moment.effective_records)))

    def noise_factor(self, moment: BoundedMoment) -> float:
        """Noise relative to equal weights and radii, if every person has the typical number."""
        scaled = self.weights(moment)
        reach = [w * moment.spread(m) for m, w in enumerate(scaled)]
        return max(reach) / reach[self.typical(moment)]


def require_counts(people: PersonTable) -> None:
    """Refuses people without numbers of records (a public fact of how they were read)."""
    if people.max_records is None and getattr(people, "counts", None) is None:
        raise ArgumentError(
            "people",
            type(people).__name__,
            "requires the number of records per person for the weights",
            "use estimand='records' and max_records",
        )


def counted(people: PersonTable, *, size_is_public: bool) -> ArrayPersonTable:
    """The people as a matrix with the number of records of every value; refused without them."""
    require_counts(people)
    tell(people, size_is_public=size_is_public)
    found: ArrayPersonTable = people.collect() if hasattr(people, "collect") else people  # type: ignore[assignment]
    return found


def records_of(people: ArrayPersonTable, max_records: int) -> Integers:
    """min(m, cap) a person: the smallest positive count of the columns, 0 without any record."""
    counts = people.counts
    assert counts is not None
    known = np.where(counts > 0, counts, np.iinfo(np.int64).max).min(axis=1)
    known = np.where((counts > 0).any(axis=1), known, 0)
    return np.minimum(known, max_records).astype(np.int64)


def totals(
    people: PersonTable, records: Integers, sums: JointSums, center: Sequence[float]
) -> tuple[list[int], int]:
    """Exact weighted sum of clipped rows and exact sum of weights, person by number of records."""
    values = people.matrix()
    total, weight = [0] * sums.dimension, 0
    for m in np.unique(records).tolist():
        w = sums.weights[m]
        if not w:
            continue
        rows = ArrayPersonTable(values[records == m], people.columns)
        z = rows.ball_sums(sums.ball(center, m)).z
        total = [a + b for a, b in zip(total, z, strict=True)]
        weight += w * rows.size()
    return total, weight


NOT_FOUND = (
    "No bin of the coarse histogram held enough people. The moment bound may be far too small, or "
    "a column may have no values. A second try is a second charge."
)


@dataclass(frozen=True)
class HeavyTailedNumbers:
    """Public facts of a plan. persons: n, or under add-remove the design number."""

    budget: Budget
    relation: Relation
    n: int
    dimension: int
    moment: BoundedMoment
    beta: float

    @property
    def tails(self) -> tuple[Tail, ...]:
        return self.moment.tails(self.dimension)

    @property
    def spread(self) -> float:
        """Bound on the standard deviation of a person's value, in any direction."""
        return min(tail.spread for tail in self.tails)

    @property
    def bulk(self) -> float:
        """Bound on the root mean square l2 distance of one person's value from the mean."""
        return min(tail.size for tail in self.tails)

    def describe(self) -> dict[str, Any]:
        number = "n" if self.relation == REPLACE_ONE else "n, a public guess"
        return {
            number: self.n,
            "columns": self.dimension,
            "bias bounds": "calibrated",
            "beta": self.beta,
        }

    def within(self, estimate: Floats) -> Floats:
        """The estimate, moved into the public range."""
        ranges = self.moment.ranges(self.dimension)
        if ranges is None:
            return estimate
        low, high = np.array(ranges).T
        return np.clip(estimate, low, high)

    def released_persons(self, weight: float) -> int:
        """n where it is public, else the noisy number of people."""
        return self.n if self.relation == REPLACE_ONE else round(weight)

    def failed(self, shares: Mapping[str, float], advice: str = NOT_FOUND) -> Outcome:
        """The private outcome that there is no estimate. What was asked so far is spent."""
        return Outcome(
            np.full(self.dimension, np.nan),
            NoInterval(self.dimension, self.moment.ranges(self.dimension)),
            n=self.n if self.relation == REPLACE_ONE else None,
            status=FAILED,
            advice=advice,
            assumptions=(self.moment.describe(),),
            shares=shares,
            follows_from_answers=True,
        )


def assumption_of(common: HeavyTailedNumbers) -> str:
    return f"people are independent; {common.moment.describe()}; calibrated bias bounds"


@dataclass(frozen=True)
class ClippingPlan(PlanBase):
    """schedule: of the sums. search: for a private radius of the last sum, where it is bought.
    nothing: predicted error of giving nothing."""

    common: HeavyTailedNumbers
    coarse: Coarse
    schedule: Schedule
    search: RadiusSearch | None = field(default=None, kw_only=True)
    rationale: str = field(default="", kw_only=True)
    nothing: float | None = field(default=None, kw_only=True)

    @property
    def budget(self) -> Budget:
        return self.common.budget

    @property
    def shape(self) -> PublicShape:
        known = self.common.n if self.common.relation == REPLACE_ONE else None
        return PublicShape.of(self.common.dimension, known, self.common.n)

    @property
    def public(self) -> tuple[str, ...]:
        known = ("n",) if self.common.relation == REPLACE_ONE else ()
        return (*known, "moment assumption and public range")

    @property
    def last(self) -> Round:
        return self.schedule.rounds[-1]

    @property
    def error(self) -> float:
        """Planned root mean square l2 error, sampling included."""
        return self.schedule.error

    @property
    @abstractmethod
    def usual(self) -> float:
        """Predicted l2 error for values of the assumed spread without large outliers."""

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted l2 error by cause, for a guess of the deviation of people's values a column."""
        guess, choice = validate.positive("guess_sd", guess_sd), self.last.choice
        sampling = guess * math.sqrt(self.common.dimension / self.common.n)
        rmse = math.hypot(choice.bias, choice.noise, sampling)
        causes = {"sampling": sampling, "privacy_noise": choice.noise, "bias_at_most": choice.bias}
        return {"rmse": rmse, **causes}

    @property
    @abstractmethod
    def asked(self) -> dict[str, HasEvents | None]:
        """What is asked, in order, by what it is for."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Priced in epsilon (pure laws) or in mu^2 (Gaussian law), as the accounting says."""
        gaussian = self.schedule.law == "gaussian"

        def cost(part: HasEvents) -> float:
            return math.fsum(2 * x.rho if gaussian else float(x.pure) for x in part.events)

        asked = {name: part for name, part in self.asked.items() if part and part.events}
        total = math.fsum(map(cost, asked.values()))
        return tuple(Step(name, cost(part) / total, (part,)) for name, part in asked.items())

    def told(self) -> dict[str, Any]:
        """What `describe` says of the coarse center and of the last sum."""
        return {
            "coarse form": self.coarse.form,
            "private radius": self.search is not None,
            "planned bias": self.last.choice.bias,
            "planned noise": self.last.choice.noise,
            "planned sampling error": self.last.choice.sampling,
            "planned error": self.error,
            "predicted error, usual values": self.usual,
            "predicted error, giving nothing": self.nothing,
        }

    def outside(self, found: float | None) -> Outside | None:
        """The bound on those beyond a radius that was found."""
        if found is None or self.search is None:
            return None
        return Outside(self.search, self.common.n, self.common.tails, self.last.offset)


COARSE_SHARE = 0.6  # a coarse step that needs more than this share of the budget is refused
SEARCH_SHARE = Fraction(15, 100)
THRESHOLD_SHARE = 0.25  # of delta, for the thresholds of Gaussian histograms


class Settings:
    """What planning reads of the settings of `HeavyTailedMean`."""

    law: Literal["auto", "gaussian", "laplace", "k-norm"]
    rounds: int | None
    start: Literal["auto", "histogram", "public"]
    wide_buckets: bool
    private_radius: bool | None
    weights: RecordWeights | None

    def laws(self, budget: Budget, dimension: int) -> tuple[Law, ...]:
        pure: Law = "k-norm" if dimension <= LARGEST_DIMENSION else "laplace"
        if self.law != "auto":
            allowed = self.law != "gaussian" or not budget.is_pure
            allowed = allowed and (self.law != "k-norm" or dimension <= LARGEST_DIMENSION)
            return (self.law,) if allowed else ()
        if budget.is_pure:
            return (pure,)
        if budget.is_zcdp:
            return ("gaussian",)
        return ("gaussian", pure)

    def starts(self, law: Law, common: HeavyTailedNumbers) -> Iterator[Coarse]:
        """Coarse steps that fit the law, each with the budget that it needs."""
        needs = CoarseNeeds(
            common.dimension,
            common.n,
            common.spread,
            common.moment.ranges(common.dimension),
            common.relation,
            common.beta,
            self.wide_buckets,
        )
        found: list[Coarse | None] = []
        if self.start != "histogram":
            found.append(needs.public())
        if self.start != "public":
            delta = common.budget.delta
            if law == "gaussian":
                found += [needs.gaussian(), needs.gaussian_stable(delta * THRESHOLD_SHARE)]
            else:
                found += [needs.selection(), needs.stable(delta)]
        return (item for item in found if item is not None)


AGREE = 2.0  # noise scales by which the noisy number of people may fall short of n


@dataclass(frozen=True)
class OneDimensionPlan(ClippingPlan):
    """Everything decided before data are read, for one column and Laplace noise."""

    epsilon: Fraction
    estimator = "heavy-tailed mean, one column"

    @property
    def choice(self) -> Choice:
        """The radius of the sum, with what it is planned to cost."""
        return self.last.choice

    @property
    def usual(self) -> float:
        return math.hypot(self.choice.noise, self.choice.sampling)

    @property
    def sums(self) -> ClippedSums:
        return ClippedSums("clipped sum", self.common.relation, epsilon=self.epsilon)

    @property
    def asked(self) -> dict[str, HasEvents | None]:
        return {
            "coarse center": self.coarse,
            "private radius": self.search,
            "clipped sum": self.sums,
        }

    def describe(self) -> dict[str, Any]:
        return {
            **self.common.describe(),
            "bucket width": self.coarse.width,
            "planned center error": self.coarse.offset,
            "clip radius": self.choice.radius,
            **self.told(),
        }

    def run(self, curator: Curator) -> Outcome:
        """People without a value are left out of the mean."""
        center = self.coarse.find(curator, curator.people)
        if center is None:
            return self.common.failed(self.shares)
        radius, diagnostics = self.choice.radius, dict[str, Any](center=center[0])
        outside = None
        if self.search is not None:
            found = self.search.find(curator, center)
            radius = min(radius, self._stretched(found))
            outside = self.outside(found)
            diagnostics["private radius"] = radius
        # a radius below the spacing of doubles at the center would leave an empty box
        radius = max(radius, abs(center[0]) * 2.0**-48)
        box = ClipInterval(center[0] - radius, center[0] + radius)
        exact = curator.people.interval_sums([box])[0]
        assert exact is not None
        over = self.sums.over([box])
        (sums,) = curator.ask(over, over.exact([exact]))
        weight = self._divisor(sums)
        if weight != self.common.n and is_undetected(sums):
            return self.common.failed(self.shares, TOO_FEW)
        share = min(max(sums.value / weight, -1.0), 1.0)
        return Outcome(
            self.common.within(np.array([box.middle + box.radius * share])),
            OneColumn(
                sums,
                share,
                weight,
                box,
                self.common.tails,
                assumption_of(self.common),
                self._bounds(),
                outside,
            ),
            n=self.common.released_persons(weight),
            assumptions=(self.common.moment.describe(),),
            shares=self.shares,
            diagnostics=diagnostics,
            follows_from_answers=True,
        )

    def _divisor(self, sums: ColumnSums) -> float:
        """What divides the sum: n where it is public and the noisy number of people agrees.

        The noise of the number would otherwise move the answer by its part of the distance from
        the center; the intervals allow for people without a value that the noise may hide.
        """
        persons = self.common.n
        if self.common.relation == REPLACE_ONE and sums.weight >= persons - AGREE * sums.noise[2]:
            return float(persons)
        return max(sums.weight, 1.0)

    def _stretched(self, found: float | None) -> float:
        """The radius for a search result: extrapolated along a tail of order 4, as planned."""
        if found is None or self.search is None:
            return self.choice.radius
        ratio = self.search.outside * float(self.epsilon) / 4
        return float(found * max(1.0, ratio) ** 0.25)

    def _bounds(self) -> tuple[float, float] | None:
        ranges = self.common.moment.ranges(1)
        return None if ranges is None else ranges[0]
