"""The default mean: nothing given but the privacy budget.

One column, or each of a few: four fixed steps (`estimators/means/default_mean_plan.py`). More
columns are located together (`default_vector`). Claim and proof: docs/proofs/default-mean.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from privmean import validate
from privmean.data.schema import PublicShape
from privmean.errors import InfeasibleError
from privmean.estimators.means.default_mean_plan import FEWEST, DefaultMeanPlan, epsilon_of_one
from privmean.estimators.pure_budget import require_epsilon
from privmean.inference.clipped_intervals import MEAN
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.signatures import known_keywords

if TYPE_CHECKING:
    from privmean.central.default_vector import DefaultVectorPlan

MOST_COLUMNS = 3  # epsilon is split over columns up to here,
MOST_SPLIT = 400.0  # with at least so many people*epsilon for each


@known_keywords
@dataclass(frozen=True)
class DefaultMean:
    """Mean of people's values without given bounds, spread or location.

    Parameters
    ----------
    target : {"mean", "clipped"}, optional
        What the interval is for. Default: the mean, at little cost to the estimate. "mean" spends
        more on the count of outliers, so that the interval for the mean is shorter where noise
        matters. "clipped": the clipped mean, with the least noise.
    excess_ratio : float, default 1.0
        Assumed average distance of outliers beyond the bound, relative to its distance from the
        center. 1 allows Pareto tails of index 2.
    design_effect : float, default 1.0
        Design effect of clustered people.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    Pure epsilon for any data under replace-one (n is public) or add-remove (a noisy count is
    charged). Delta is left unspent, and a rho budget runs at epsilon = sqrt(2 rho).

    Notes
    -----
    Source: docs/proofs/default-mean.md.

    Examples
    --------
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    pm.mean(people, method=pm.DefaultMean(target="clipped"), epsilon=1.0)
    """

    target: str | None = None
    excess_ratio: float = 1.0
    design_effect: float = 1.0

    def __post_init__(self) -> None:
        validate.choice("target", self.target, [None, MEAN, "clipped"])
        validate.positive("excess_ratio", self.excess_ratio)
        validate.positive("design_effect", self.design_effect)

    serves_records: ClassVar[bool] = (
        True  # it answers for the mean over records too (one to three columns)
    )

    def plan(self, budget: Budget, shape: PublicShape) -> DefaultMeanPlan | DefaultVectorPlan:
        """Prices of all stages, before any data. A guess of the number of people is used to
        predict errors only.

        Columns up to 3, with at least 400 people*epsilon for each, are located one by
        one with their share of epsilon; more are looked at together with Gaussian noise, which
        needs delta > 0 or rho. Raises InfeasibleError from public numbers only.
        """
        epsilon = epsilon_of_one(budget, shape.dimension)
        if shape.dimension > 1 and self._together(epsilon, shape, budget.neighbors):
            from privmean.central.default_vector import vector_plan

            return vector_plan(budget, shape, self.target, self.excess_ratio, self.design_effect)
        self.check_alone(budget, shape.n, shape.dimension)
        return self.alone(budget, shape)

    def alone(self, budget: Budget, shape: PublicShape) -> DefaultMeanPlan:
        """The plan that locates columns one by one."""
        return DefaultMeanPlan(
            budget=budget,
            shape=shape,
            epsilon=epsilon_of_one(budget, shape.dimension),
            target=self.target,
            excess=self.excess_ratio,
            design_effect=self.design_effect,
        )

    def check_alone(self, budget: Budget, persons: int | None, dimension: int) -> None:
        """Raise InfeasibleError if so many columns cannot be located singly."""
        epsilon = epsilon_of_one(budget, dimension)
        each = " per column" if dimension > 1 else ""
        require_epsilon(epsilon, each)
        needed = FEWEST if dimension == 1 else MOST_SPLIT
        if persons is not None and float(persons * epsilon) < needed:
            least = needed / persons
            if budget.is_zcdp:
                given, more = budget.describe(), f"rho={dimension * least**2 / 2:.3g}"
            else:
                given = f"epsilon={float(epsilon):g}{each}"
                more = f"epsilon={dimension * least:.3g}"
            raise InfeasibleError(
                f"n={persons} is too small at {given}",
                f"provide at least {math.ceil(needed / epsilon)} people, {more}, or bounds",
            )

    def _together(self, epsilon: Fraction, shape: PublicShape, relation: Relation) -> bool:
        if shape.dimension > MOST_COLUMNS:
            return True
        return relation == REPLACE_ONE and float((shape.n or 0) * epsilon) < MOST_SPLIT
