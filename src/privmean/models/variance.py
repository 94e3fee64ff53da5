"""The variance between persons, found privately: a scale to clip at, and an estimate of spread.

Three ways: the pair scale (one histogram, no centre), an adaptive refinement after CoinPress, and
bisection on coverage. Source: Roth and Avella-Medina, "Differential Privacy with Dependent Data"
(2025), Algorithms 10-14, with a cap on rounds, the centre refined first, exact sensitivities and
basic composition (docs/proofs/variance.md); Biswas, Dong, Kamath and Ullman (2020) for CoinPress.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import ndtri

from privmean import validate
from privmean.errors import ArgumentError, Infeasible
from privmean.mechanisms.pair_scale import DyadicBins, PairScale
from privmean.models.variance_intervals import VarianceIntervals
from privmean.models.variance_rounds import Found, bisection, clip_multiple, coinpress
from privmean.noise.base import Noise
from privmean.noise.exact import ExactNoise
from privmean.people.reductions import People
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation, relation_of
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.loss import Laplace, Loss
from privmean.release import OK, Release

METHODS = ("pair scale", "coinpress", "bisection")
FEWEST = {"pair scale": 100.0, "coinpress": 15.0, "bisection": 15.0}  # persons * epsilon of a call


@dataclass(frozen=True)
class Variance:
    """The variance of persons' values in one column.

    smallest, largest: public range of the standard deviation. method: "pair scale" (no centre; a
    power of two within a factor of about two of the deviation), "coinpress" or "bisection" (both
    need a public rough `center`; values should lie within a few `largest` of it). rounds: of
    coinpress. gamma: chance per person left outside, which sets what a round clips (coinpress) or
    the coverage that bisection asks for.

    Guarantees: pure epsilon-DP (delta is not used) or rho-zCDP under replace-one, for any data. The
    number of mechanism calls is fixed by the plan; those that do not run are not refunded.
    """

    smallest: float
    largest: float
    method: str = "pair scale"
    center: float | None = None
    rounds: int = 5
    gamma: float = 0.05

    def __post_init__(self) -> None:
        validate.choice("method", self.method, METHODS)
        small = validate.positive("smallest", self.smallest)
        large = validate.positive("largest", self.largest)
        validate.fraction("gamma", self.gamma)
        validate.whole("rounds", self.rounds, least=1)
        if not small < large or not (small >= 1e-100 and large <= 1e100):
            raise ArgumentError(
                "smallest", small, "must be below the largest deviation", "give a public range"
            )
        if self.method == "pair scale":
            DyadicBins.around(small, large)
        elif self.center is None:
            raise ArgumentError(
                "center", None, f"is needed by {self.method}", "give a public rough centre"
            )
        else:
            validate.number("center", self.center)

    @property
    def calls(self) -> int:
        """Mechanism calls, at most. Bisection halves the variance until it is the smallest."""
        if self.method == "pair scale":
            return 1
        if self.method == "coinpress":
            return 2 * self.rounds
        return 2 * math.ceil(2 * math.log2(self.largest / self.smallest))

    def plan(
        self,
        budget: Budget,
        *,
        persons: int | None = None,
        dimension: int = 1,
        relation: Relation = REPLACE_ONE,
        n_design: int | None = None,
    ) -> VariancePlan:
        """Everything decided before data are read. Infeasible if one call is mostly noise."""
        if relation != REPLACE_ONE or n_design is not None or persons is None:
            raise ArgumentError(
                "relation", relation, "is not offered for variances", "use replace-one"
            )
        if dimension != 1:
            raise ArgumentError("dimension", dimension, "must be 1", "give one column at a time")
        n = validate.whole("persons", persons, least=2)
        if budget.rho is None:
            each = budget.pure_epsilon() / self.calls
        else:
            # pure calls of epsilon each are calls * epsilon^2/2-zCDP
            each = Fraction(math.floor(math.sqrt(2 * budget.rho / self.calls) * 2**40), 2**40)
        if n * each < FEWEST[self.method]:
            raise Infeasible(
                f"{n} persons with {budget.describe()} cannot show a scale by {self.method}",
                f"about {math.ceil(FEWEST[self.method] / float(each))} persons would do, or a "
                "larger epsilon, or fewer rounds",
            )
        return VariancePlan(self, budget, n, each)


@dataclass(frozen=True)
class VariancePlan:
    """A variance with every scale decided. each: epsilon of one mechanism call."""

    settings: Variance
    budget: Budget
    persons: int
    each: Fraction

    @property
    def estimator(self) -> str:
        return f"variance by {self.settings.method}"

    @property
    def why(self) -> str:
        return {
            "pair scale": "one histogram of differences of pairs; needs no centre",
            "coinpress": "centre and spread refined in turn, a fixed number of rounds",
            "bisection": "the smallest variance whose interval still covers nearly everybody",
        }[self.settings.method]

    @property
    def losses(self) -> tuple[Loss, ...]:
        s = self.settings
        if s.method == "pair scale":
            return self._pairs().losses
        second = "second moment" if s.method == "coinpress" else "coverage"
        names = ("midpoint", second) * (s.calls // 2)
        return tuple(Laplace(name, Fraction(1), 1 / self.each) for name in names)

    def _pairs(self) -> PairScale:
        bins = DyadicBins.around(self.settings.smallest, self.settings.largest)
        return PairScale.of(self.each, bins)

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted errors of the variance for normal values, at a guessed standard deviation.

        Pair scale and bisection answer on a grid of octaves; their error counts as noise.
        """
        guess = validate.positive("guess_sd", guess_sd)
        if self.settings.method == "coinpress":
            multiple = clip_multiple(self.settings.gamma) ** 2
            relative = math.sqrt(2) * multiple / (self.persons * float(self.each))
        else:
            # the answer over the truth is log-uniform from `low` to one octave of deviation more
            low, octave = 0.93**2, 4.0
            if self.settings.method == "bisection":
                low, octave = float(ndtri(self.settings.gamma / 2)) ** 2 / 2, 2.0
            first = low * (octave - 1) / math.log(octave)
            second = low**2 * (octave**2 - 1) / (2 * math.log(octave))
            relative = math.sqrt(second - 2 * first + 1)
        noise, sampling = guess**2 * relative, guess**2 * math.sqrt(2 / self.persons)
        return {"rmse": math.hypot(noise, sampling), "noise": noise, "sampling": sampling}

    def describe(self) -> dict[str, Any]:
        return {
            "persons": self.persons,
            "budget": self.budget.to_dict(),
            "method": self.settings.method,
            "range_of_sd": [self.settings.smallest, self.settings.largest],
            "calls": self.settings.calls,
            "epsilon_of_one_call": float(self.each),
        }

    def release(self, people: People, noise: Noise | None = None) -> Release:
        """Execute the plan. The estimate is a variance; diagnostics hold the deviation."""
        source: Noise = ExactNoise() if noise is None else noise
        if len(people.columns) != 1 or people.size() != self.persons:
            raise ArgumentError(
                "people",
                (people.size(), len(people.columns)),
                f"is not {self.persons} persons and one column",
                "plan with persons=people.size(), one column at a time",
            )
        s = self.settings
        if s.method == "pair scale":
            scale = self._pairs().release(people, 0, source)
            found = Found(scale**2, self.losses, OK, None, scale)
        elif s.method == "coinpress":
            found = coinpress(s, people, self.persons, self.each, source)
        else:
            found = bisection(s, people, self.persons, self.each, source)
        return Release(
            estimate=np.array([found.variance]),
            columns=tuple(people.columns),
            estimator=self.estimator,
            guarantee=Guarantee.of(
                self.budget,
                REPLACE_ONE,
                found.bill,
                public=("column", "number of persons", "settings"),
            ).require(),
            intervals=VarianceIntervals(s, self.persons, self.each, found),
            plan=self,
            persons=self.persons,
            estimand="variance between persons",
            status=found.status,
            advice=ADVICE.get(found.status, ""),
            assumptions=("values close to normal", "unrelated persons"),
            shares={"each call": 1 / s.calls},
            diagnostics={"sd": math.sqrt(found.variance)}
            | ({} if found.center is None else {"center": found.center}),
            secure=source.secure,
        )


ADVICE = {
    "not covered": (
        "even the largest variance did not cover the asked share around the centre: it is "
        "returned; give a better centre or a larger range"
    )
}


def variance(
    people: Any,
    *,
    smallest: float,
    largest: float,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    neighbors: str = "replace-one",
    method: str = "pair scale",
    center: float | None = None,
    level: float = 0.95,
    ledger: Any = None,
    noise: Any = None,
) -> Release:
    """A differentially private variance of persons' values in one column.

    people: from `privmean.read`, or an array with one row a person. smallest, largest: public range
    of the standard deviation; method, center: see `Variance`. epsilon (delta stays unspent) | rho:
    the budget of this call; ledger: charged before noise is drawn; noise: for studies only.

    A mean that clips at this scale is charged on top: the totals add. Use
    `SubGaussian(sd=safety * sqrt(estimate))` with a safety of 1.1 (pair scale) to 1.5.

    Guarantees: unit one person with all records, replace-one; the composed loss is at most the
    budget, for any data.
    """
    from privmean.api import as_people

    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    relation = relation_of(neighbors)
    confidence = validate.fraction("level", level)
    data = as_people(people)
    estimator = Variance(smallest, largest, method, center)
    plan = estimator.plan(
        budget, persons=data.size(), dimension=len(data.columns), relation=relation
    )
    if ledger is not None:
        ledger.charge(Guarantee.of(budget, relation, plan.losses), label=plan.estimator)
    return replace(plan.release(data, noise), level=confidence)
