"""The variance between people, found privately: a scale to clip at, and an estimate of spread.

Three ways: the pair scale (one histogram, no center), an adaptive refinement after CoinPress, and
bisection on coverage. Source: Roth and Avella-Medina, "Differential Privacy with Dependent Data"
(2025), Algorithms 10-14, with a fixed number of rounds, the center refined first, exact
sensitivities and basic composition (docs/proofs/variance.md; as printed: `VarianceAsPublished`);
Biswas, Dong, Kamath and Ullman (2020) for CoinPress.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np

from privmean import validate
from privmean.data.public_shape import PublicShape
from privmean.errors import ArgumentError
from privmean.inference.assumptions import INDEPENDENT, NEAR_NORMAL
from privmean.inference.status import FAILED, OK
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.pair_scale import DyadicBins, PairScale
from privmean.models.center_scale import refuse_unseen
from privmean.models.column_plan import ColumnPlan, one_column
from privmean.models.variance_intervals import VarianceIntervals
from privmean.models.variance_rounds import (
    FINE,
    GROWTH,
    Found,
    Scope,
    Search,
    bisection,
    bisection_error,
    clip_multiple,
    coinpress,
    levels,
)
from privmean.privacy.budget import (
    ADD_REMOVE,
    Budget,
)
from privmean.privacy.privacy_events import Laplace, PrivacyEvent
from privmean.release.outcome import Outcome

Method = Literal["pair scale", "coinpress", "bisection"]
METHODS: tuple[Method, ...] = get_args(Method)
FEWEST = {"pair scale": 100.0, "coinpress": 15.0, "bisection": 15.0}  # people * epsilon of a call


NO_SPREAD = "No spread is seen: too few people have a value, or most have the same one."
UNCOVERED = (
    "Even the largest variance did not cover the asked share around the center: it is returned."
)


@dataclass(frozen=True)
class Deviations:
    """A public range of a standard deviation."""

    smallest: float
    largest: float

    def __post_init__(self) -> None:
        small = validate.positive("smallest", self.smallest)
        large = validate.positive("largest", self.largest)
        if not small < large or not (small >= 1e-100 and large <= 1e100):
            raise ArgumentError(
                "smallest", small, "must be below the largest", "give a public range"
            )


@dataclass(frozen=True)
class VarianceSearch(Deviations):
    """Variance of people's values in one column, within a public range.

    Parameters
    ----------
    smallest, largest : float
        Public range of the standard deviation, in the unit of the value.
    method : {"pair scale", "coinpress", "bisection"}, default "pair scale"
        "pair scale" returns a power of two within a factor of about two, without a center. The
        other methods require a center.
    center : float, optional
        Public rough center; the values should lie within a few `largest` of it.
    rounds : int, default 5
        Rounds of coinpress.
    gamma : float, default 0.05
        Probability per person of lying outside: it sets what coinpress clips and what bisection
        covers.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    Pure DP, which leaves delta unspent, or zCDP, under replace-one for any data. Add-remove is for
    all methods except the pair scale, whose pairs are public. The plan fixes the mechanism calls.

    Notes
    -----
    Source: docs/proofs/variance.md and docs/proofs/pair-scale.md.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    search = pm.Variance("hours", within=(1, 10_000), method="coinpress", center=40)
    print(pm.ask(table, search, epsilon=1.0))  # runs a VarianceSearch
    """

    method: Method = "pair scale"
    center: float | None = None
    rounds: int = 5
    gamma: float = 0.05

    def __post_init__(self) -> None:
        validate.choice("method", self.method, METHODS)
        super().__post_init__()
        validate.fraction("gamma", self.gamma)
        object.__setattr__(self, "rounds", validate.whole("rounds", self.rounds, least=1))
        if self.method == "pair scale":
            if self.center is not None:
                raise ArgumentError(
                    "center", self.center, "is not used by the pair scale", "remove it"
                )
            DyadicBins.around(float(self.smallest), float(self.largest))
        elif self.center is None:
            raise ArgumentError(
                "center",
                None,
                f"is required by method={self.method!r}",
                "give a public rough center",
            )
        else:
            validate.number("center", self.center)

    @property
    def scope(self) -> Scope:
        """Range of the search."""
        return Scope(self.smallest, self.largest, self.center or 0.0, self.gamma)

    @property
    def calls(self) -> int:
        """Mechanism calls. Bisection halves the deviation until it is the smallest, and then the
        octave found."""
        if self.method == "pair scale":
            return 1
        if self.method == "coinpress":
            return 2 * self.rounds
        return 2 * (len(levels(self.smallest, self.largest)) + FINE)

    def weights(self) -> list[Fraction]:
        """Epsilon of the rounds, each of one or two calls, up to a factor."""
        if self.method == "pair scale":
            return [Fraction(1)]
        if self.method == "coinpress":
            return [GROWTH**r for r in range(self.rounds)]
        return [Fraction(1)] * (self.calls // 2)

    def plan(self, budget: Budget, shape: PublicShape) -> VariancePlan:
        """Everything decided before data are read. InfeasibleError if one call is mostly noise."""
        relation = budget.neighbors
        one_column(shape)
        if relation == ADD_REMOVE and self.method == "pair scale":
            raise ArgumentError(
                "method",
                self.method,
                "requires a public roster, hence neighbors='replace-one'",
                "use method='coinpress' with a public center, or neighbors='replace-one'",
            )
        design = shape.number(least=2)
        spending = self._spending(budget)
        average = sum(spending) / len(spending)
        refuse_unseen(
            design, budget, average, FEWEST[self.method], f"find a scale by {self.method}",
            "a larger epsilon, or fewer rounds",
        )  # fmt: skip
        return VariancePlan(budget, design, self, spending)

    def _spending(self, budget: Budget) -> tuple[Fraction, ...]:
        """Epsilon of one call in each round."""
        weights = self.weights()
        both = 1 if self.method == "pair scale" else 2
        if budget.rho is None:
            unit = budget.pure_epsilon() / (both * sum(weights))
        else:
            # pure calls of epsilon_i are sum(epsilon_i^2)/2-zCDP
            squares = both * sum(w * w for w in weights)
            unit = Fraction(math.floor(math.sqrt(2 * budget.rho / squares) * 2**40), 2**40)
        return tuple(unit * w for w in weights)


@dataclass(frozen=True)
class VariancePlan(ColumnPlan):
    """A variance with every scale decided. spending: epsilon of one call in each round."""

    settings: VarianceSearch
    spending: tuple[Fraction, ...]
    fixed = False

    @property
    def estimator(self) -> str:
        return f"variance by {self.settings.method}"

    @property
    def rationale(self) -> str:
        return {
            "pair scale": "one histogram of differences of pairs; needs no center",
            "coinpress": "center and spread refined in turn, a fixed number of rounds",
            "bisection": "the smallest interval that still covers nearly all people",
        }[self.settings.method]

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        s = self.settings
        if s.method == "pair scale":
            return self._pairs().events
        second = "second moment" if s.method == "coinpress" else "coverage"
        bill: list[PrivacyEvent] = []
        for epsilon in self.spending:
            bill += ClippedSums("midpoint", self.relation, 1, epsilon=epsilon).events
            bill.append(Laplace(second, Fraction(1), 1 / epsilon, neighbors=self.relation))
        return tuple(bill)

    def _pairs(self) -> PairScale:
        bins = DyadicBins.around(self.settings.smallest, self.settings.largest)
        return PairScale.of(self.spending[0], bins)

    def errors(self, guess: float) -> tuple[float, float]:
        """Of the variance for normal values. The pair scale answers on a grid of octaves; that
        error counts as noise."""
        unit = math.sqrt(2) / (self.n * float(self.spending[-1]))
        if self.settings.method == "coinpress":
            relative = unit * clip_multiple(self.settings.gamma) ** 2
        elif self.settings.method == "bisection":
            relative = bisection_error(self.settings.gamma, unit)
        else:
            # the answer over the truth is log-uniform over one octave of the deviation
            low, octave = 0.93**2, 4.0
            first = low * (octave - 1) / math.log(octave)
            second = low**2 * (octave**2 - 1) / (2 * math.log(octave))
            relative = math.sqrt(second - 2 * first + 1)
        return guess**2 * relative, guess**2 * math.sqrt(2 / self.n)

    def describe(self) -> dict[str, Any]:
        return {
            "n": self.known,
            "n_planned_for": self.n,
            "budget": self.budget.to_dict(),
            "method": self.settings.method,
            "range_of_sd": [self.settings.smallest, self.settings.largest],
            "calls": self.settings.calls,
            "epsilon_of_a_call_by_round": [float(item) for item in self.spending],
        }

    def run(self, curator: Curator) -> Outcome:
        """The estimate is a variance; diagnostics hold the deviation."""
        s = self.settings
        if s.method == "pair scale":
            pairs = self._pairs()
            scale = curator.ask(pairs, pairs.exact(curator.people, 0))
            spread = scale > pairs.bins.smallest
            found = Found(scale**2, OK if spread else FAILED, None, scale, n=self.n)
        else:
            search = Search(curator, self.known, self.relation)
            way = coinpress if s.method == "coinpress" else bisection
            found = way(s.scope, search, self.spending)
        failed = found.status == FAILED
        return Outcome(
            np.array([found.variance]),
            VarianceIntervals(s.method, s.scope, self.spending[-1], found),
            n=self.counted(found.n),
            status=found.status,
            advice=NO_SPREAD if failed else "" if found.status == OK else UNCOVERED,
            assumptions=(INDEPENDENT, NEAR_NORMAL),
            shares=_shares(s),
            diagnostics={"sd": math.nan if failed else math.sqrt(found.variance)}
            | ({} if failed or found.center is None else {"center": found.center}),
            estimand="variance between people",
        )


def _shares(settings: VarianceSearch) -> dict[str, float]:
    if settings.method == "pair scale":
        return {"pair scale": 1.0}
    second = "second moments" if settings.method == "coinpress" else "coverage"
    return {"midpoints": 0.5, second: 0.5}
