"""The Winsorized mean: find a location privately, clip around it, release the clipped mean.

Source: Roth and Avella-Medina, "Differential Privacy with Dependent Data" (2025), Algorithms 2-5,
with small bins, the tight threshold, a recentering stage, shares from a planning rule, and for
several columns the cheaper of Laplace and Gaussian noise (docs/proofs/winsorized.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from privmean import validate
from privmean.bisection import smallest_int
from privmean.central.clipping_radii import numbers
from privmean.central.concentration import Bounded, Concentration, Radii, UnknownScale, clipped_at
from privmean.central.winsorized_options import (
    Range,
    WinsorizedOptions,
    best_way,
    ranges_of,
    ways_to_spend,
)
from privmean.central.winsorized_run import PublicFacts, WinsorizedPlan
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.plurals import count_noun
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation

CLOSE = 0.03  # a number of people that would do is this close to the smallest
USUAL_GAMMA = 0.05
LARGEST_RADIUS = 1e100
STEP = 1.5  # between tail probabilities that a plan tries
LARGEST_TAIL = 0.02  # of people clipped, at most, under the assumption


@dataclass(frozen=True)
class WinsorizedMean:
    """Mean of values that concentrate around a center, by clipping around it.

    Parameters
    ----------
    concentration : SubGaussian, LogSobolev, BetweenWithin, BoundedWithin, UnknownScale or Bounded
        The assumption that gives the clipping radius. `Bounded` requires no location.
    range : (float, float) or list of pairs, optional
        Public range of the center, for all columns or one per column. Without it delta > 0 is
        required.
    gamma : float, optional
        Probability that any value of a column is clipped. Default: the plan clips closer if its
        bound of the bias, which is in the interval, is small beside the noise saved.
    failure : float, default 0.01
        Acceptable probability that the location step fails.
    share, recenter : float, optional
        Shares of the budget for the location and recentering stages. Default: chosen by the plan.
    fallback : float or list of float, optional
        Public center if no location is found. Default: the release has no estimate.
    design_effect : float, default 1.0
        Design effect of clustered people.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    Person-level differential privacy within the budget, for any data. Public are the columns, the
    settings and, under replace-one, n; under add-remove `n_guess` replaces n.

    Notes
    -----
    Source: Roth and Avella-Medina, "Differential Privacy with Dependent Data" (2025), Section 5;
    changes in docs/proofs/winsorized.md.

    Examples
    --------
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    known = pm.WinsorizedMean(pm.SubGaussian(sd=0.5), range=(-5, 10))  # no delta is needed
    pm.mean(people, method=known, epsilon=1.0)
    """

    serves_records: ClassVar[bool] = True

    concentration: Concentration
    range: Range | tuple[Range, ...] | None = None
    gamma: float | None = None
    failure: float = 0.01
    share: float | None = None
    recenter: float | None = None
    fallback: float | tuple[float, ...] | None = None
    design_effect: float = 1.0

    def __post_init__(self) -> None:
        if not hasattr(self.concentration, "radius"):
            raise ArgumentError(
                "concentration",
                self.concentration,
                "is not an assumption about values",
                "give SubGaussian(sd=...), UnknownScale() or Bounded(lower, upper)",
            )
        if self.gamma is not None:
            validate.fraction("gamma", self.gamma)
        validate.fraction("failure", self.failure)
        validate.positive("design_effect", self.design_effect)
        if self.share is not None:
            validate.fraction("share", self.share)
        if self.range is not None:
            object.__setattr__(self, "range", _pairs(self.range))
        if self.fallback is not None:
            object.__setattr__(self, "fallback", numbers("fallback", self.fallback))
        if self.recenter is not None:
            validate.nonnegative("recenter", self.recenter)
        if isinstance(self.concentration, Bounded):
            self._only_limits()
        if (self.share or 0) + (self.recenter or 0) > 0.95:
            raise ArgumentError(
                "share", self.share, "leaves too little budget for the mean", "give smaller shares"
            )

    def _only_limits(self) -> None:
        """Refuse what known limits make of no use."""
        for name in ("range", "gamma", "share", "recenter", "fallback"):
            if getattr(self, name) is not None:
                raise ArgumentError(
                    name,
                    getattr(self, name),
                    "is not used where bounds are given",
                    "remove it, or give another assumption",
                )

    def plan(self, budget: Budget, shape: PublicShape) -> WinsorizedPlan:
        """Everything decided before data are read: mechanisms, scales, shares, predicted error.

        Raises
        InfeasibleError if no way to spend the budget finds the location with the wanted
        probability."""
        relation, d, n = budget.neighbors, shape.dimension, shape.number()
        if relation != REPLACE_ONE and isinstance(self.concentration, UnknownScale):
            raise ArgumentError(
                "concentration",
                self.concentration,
                "requires a public roster, hence neighbors='replace-one'",
                "give SubGaussian(sd=...) or Bounded(lower, upper)",
            )
        given = self.fallback
        if isinstance(given, tuple) and len(given) != d:
            raise ArgumentError(
                "fallback",
                given,
                f"has {count_noun(len(given), 'number')} for {count_noun(d, 'column')}",
                "give one number, or one per column",
            )
        best = best_way(ways_to_spend(self._wishes(), budget, self._facts(n, d, relation)))
        if best is None:
            raise self._infeasible(budget, n, d, relation)
        return WinsorizedPlan(
            budget, best[1], best[0], ranges_of(self.range, d), self.concentration, self.fallback
        )

    def _wishes(self) -> WinsorizedOptions:
        return WinsorizedOptions(self.concentration, self.range, self.share, self.recenter)

    def _facts(self, n: int, columns: int, relation: Relation) -> PublicFacts:
        gamma = USUAL_GAMMA if self.gamma is None else self.gamma
        if isinstance(self.concentration, Bounded):
            options: tuple[Radii, ...] = (self.concentration.radius(n, columns),)
        else:
            tails = [gamma / n]
            while self.gamma is None and tails[-1] * STEP <= LARGEST_TAIL:
                tails.append(tails[-1] * STEP)
            options = tuple(clipped_at(self.concentration, columns, tail) for tail in tails)
        reach = [r for radii in options for r in (*radii.tau, *radii.half)]
        if not (max(reach) <= LARGEST_RADIUS and min(reach) >= 1 / LARGEST_RADIUS):
            raise ArgumentError(
                "concentration",
                self.concentration,
                "requires clipping radii beyond the range of doubles",
                "measure values in another unit",
            )
        return PublicFacts(
            n, columns, relation, options[0], self.failure, self.design_effect, options
        )

    def _infeasible(
        self, budget: Budget, n: int, columns: int, relation: Relation
    ) -> InfeasibleError:
        if self.range is None and (budget.rho is not None or budget.delta == 0):
            return InfeasibleError(
                f"a search with {budget.describe()} requires delta > 0 or a public range",
                "pass delta=1e-6, or range=(lower, upper) for the center",
            )

        def enough(size: int) -> bool:
            facts = self._facts(size, columns, relation)
            return any(True for _ in ways_to_spend(self._wishes(), budget, facts))

        size = smallest_int(enough, n + 1, within=CLOSE)
        more = f"about {size} people, " if size is not None else ""
        return InfeasibleError(
            f"n={n} is too small to find the location with {budget.describe()}",
            f"provide {more}a larger epsilon, or range=(lower, upper) for the center",
        )


def _pairs(given: object) -> Range | tuple[Range, ...]:
    """One public range, or one a column."""
    items = validate.listed("range", given, "give (lower, upper), or one pair a column")
    if items and all(isinstance(item, tuple | list) for item in items):
        return tuple(validate.bounds("range", item) for item in items)
    return validate.bounds("range", items)
