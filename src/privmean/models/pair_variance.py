"""The variance between people from the pair scale: one histogram of differences, no center.

Source: docs/proofs/variance.md and docs/proofs/pair-scale.md. The searches of Roth and
Avella-Medina (2025), Algorithms 10-14, are `privmean.published.VarianceAsPublished`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import ndtr

from privmean import validate
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError
from privmean.inference.assumptions import INDEPENDENT, NEAR_NORMAL, joined
from privmean.inference.interval import Interval
from privmean.inference.laplace_normal import quantile
from privmean.inference.mean_interval import no_interval
from privmean.inference.status import FAILED, OK
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.searches import DyadicBins, PairScale
from privmean.models.center_scale import refuse_unseen
from privmean.models.column_plan import ColumnPlan, one_column
from privmean.privacy.budget import ADD_REMOVE, Budget
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.outcome import Outcome

METHOD = "pair scale"
FEWEST = 100.0  # people * epsilon
ANY = (0.0, math.inf)  # a variance of which nothing is known
NORMAL = joined((INDEPENDENT, NEAR_NORMAL))
NO_SPREAD = "No spread is seen: too few people have a value, or most have the same one."


@dataclass(frozen=True)
class PairVariance:
    """Variance of people's values in one column: a power of two within a factor of about two.

    smallest, largest: public range of the standard deviation, in the unit of the value.

    Guarantees: pure DP, which leaves delta unspent, or zCDP, under replace-one for any data (the
    pairs are public).
    """

    smallest: float
    largest: float

    def __post_init__(self) -> None:
        small = validate.positive("smallest", self.smallest)
        large = validate.positive("largest", self.largest)
        if not small < large or not (small >= 1e-100 and large <= 1e100):
            raise ArgumentError(
                "smallest", small, "must be below the largest", "give a public range"
            )
        DyadicBins.around(float(small), float(large))

    def plan(self, budget: Budget, shape: PublicShape) -> PairVariancePlan:
        """Everything decided before data are read. InfeasibleError if it is mostly noise."""
        one_column(shape)
        if budget.neighbors == ADD_REMOVE:
            raise ArgumentError(
                "method",
                METHOD,
                "requires a public roster, hence neighbors='replace-one'",
                "use method='moment', or neighbors='replace-one'",
            )
        design, epsilon = shape.number(least=2), _epsilon(budget)
        refuse_unseen(
            design, budget, epsilon, FEWEST, f"find a scale by {METHOD}", "a larger epsilon"
        )
        return PairVariancePlan(budget, design, self, epsilon)


def _epsilon(budget: Budget) -> Fraction:
    if budget.rho is None:
        return budget.pure_epsilon()
    # a pure loss of epsilon is epsilon^2/2-zCDP
    return Fraction(math.floor(math.sqrt(2 * budget.rho) * 2**40), 2**40)


@dataclass(frozen=True)
class PairVariancePlan(ColumnPlan):
    """A variance with its noise decided."""

    settings: PairVariance
    epsilon: Fraction
    estimator = f"variance by {METHOD}"
    rationale = "one histogram of differences of pairs; needs no center"
    fixed = False

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self._pairs().events

    def _pairs(self) -> PairScale:
        bins = DyadicBins.around(self.settings.smallest, self.settings.largest)
        return PairScale.of(self.epsilon, bins)

    def errors(self, guess: float) -> tuple[float, float]:
        """Of the variance for normal values. It is on a grid of octaves; that error counts as
        noise: the answer over the truth is log-uniform over one octave of the deviation."""
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
            "method": METHOD,
            "range_of_sd": [self.settings.smallest, self.settings.largest],
            "calls": 1,
            "epsilon_of_a_call_by_round": [float(self.epsilon)],
        }

    def run(self, curator: Curator) -> Outcome:
        """The estimate is a variance; diagnostics hold the deviation."""
        pairs = self._pairs()
        scale = curator.ask(pairs, pairs.exact(curator.people, 0))
        found = scale > pairs.bins.smallest
        return Outcome(
            np.array([scale**2]),
            PairIntervals(self.epsilon, scale, self.n, found),
            n=self.n,
            status=OK if found else FAILED,
            advice="" if found else NO_SPREAD,
            assumptions=(INDEPENDENT, NEAR_NORMAL),
            shares={METHOD: 1.0},
            diagnostics={"sd": scale if found else math.nan},
            estimand="variance between people",
            follows_from_answers=True,
        )


@dataclass(frozen=True)
class PairIntervals:
    """Intervals for a variance on the grid of octaves: post-processing, for values close to
    normal."""

    epsilon: Fraction
    scale: float
    n: int
    found: bool

    def interval(self, level: float, target: str | None = None) -> Interval:
        """For the variance of the law that values come from, if it is close to normal."""
        if not self.found:
            return no_interval(level, bounds=ANY, target="variance")
        return Interval.one(self._ends(level), level, target="variance", assumption=NORMAL)

    def noise_interval(self, level: float) -> Interval:
        """The same: the bin says no more of these people than of the law."""
        kind, target = "noise_interval", "variance as these people show it"
        if not self.found:
            return no_interval(level, bounds=ANY, kind=kind, target=target)
        ends = self._ends(level)
        return Interval.one(ends, level, kind=kind, target=target, assumption=NEAR_NORMAL)

    def _ends(self, level: float) -> tuple[float, float]:
        """All deviations under which the bin found could have the largest noisy count.

        Its expected count may fall short of the largest by the noise of two counts and the sampling
        error of their difference.
        """
        ratio = np.geomspace(0.05, 20.0, 2001)  # deviation over the scale found
        edges = 2.0 ** np.arange(-12, 13)
        # mass of (edge/2, edge] times the scale found, for a normal of each deviation
        steps = np.concatenate([[0.0], edges])[None, :] / ratio[:, None]
        mass = 2 * np.diff(ndtr(steps), axis=1)
        pairs = self.n // 2
        here, best = mass[:, edges == 1.0][:, 0], mass.max(axis=1)
        noise = 2 / float(self.epsilon)
        some = np.arange(0, len(ratio), 200)
        room = [
            quantile((1 - level) / 2, (noise, noise), math.sqrt(pairs * float(best[k] + here[k])))
            for k in some
        ]
        inside = ratio[(best - here) * pairs <= np.interp(np.arange(len(ratio)), some, room)]
        return float(inside.min() * self.scale) ** 2, float(inside.max() * self.scale) ** 2
