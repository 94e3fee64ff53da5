"""The mean of people in public groups that share a random effect (schools, firms, villages).

Model: record t of person u in group g is mean + U_g + V_u + error, with deviations group_sd,
person_sd and within_sd. Source: Roth and Avella-Medina, "Differential Privacy with Dependent Data"
(2025), Definition 5.8; the radius comes from the marginal variance of one person, which the number
of people in a group does not enter, and the interval from the design effect of the groups
(docs/proofs/longitudinal.md, section 7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privmean import validate
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError
from privmean.estimators.concentration import FromDeviations
from privmean.estimators.winsorized import WinsorizedMean
from privmean.estimators.winsorized_run import WinsorizedPlan
from privmean.inference.interval import grouped_design_effect
from privmean.privacy.budget import REPLACE_ONE, Budget

FEWEST_GROUPS = 20.0


@dataclass(frozen=True)
class RandomEffects(FromDeviations):
    """Person means vary by a random effect of their public group, of the person, and by errors.

    Parameters
    ----------
    group_sd : float
        Standard deviation of the group effects, in the unit of the value.
    within_sd : float
        Standard deviation of a person's independent records.
    records : int
        Public minimum of records per person.
    group_sizes : list of int, optional
        Public n of each group; they add up to n. Either this or `group` is required.
    person_sd : float, default 0.0
        Standard deviation of the person effects.
    group : str, optional
        Public column of the table in which the groups are counted.
    range : (float, float) or list of pairs, optional
        Public range of the center. Without it delta > 0 is required.
    gamma : float, optional
        Clipping probability, as in `WinsorizedMean`.

    Privacy
    -------
    Accuracy depends on this assumption; privacy holds for any data. Group membership and sizes are
    public and the same for neighbors.

    Notes
    -----
    Source: Roth and Avella-Medina, "Differential Privacy with Dependent Data" (2025), Definition
    5.8; docs/proofs/longitudinal.md, section 7.

    Examples
    --------
    schools = pm.RandomEffects(group_sd=0.5, within_sd=1.0, records=10, group_sizes=(25,) * 80)
    assert schools.design_effect > 1
    scores = np.random.default_rng(1).normal(50, 1, 2000)
    pm.mean(scores, clustering=schools, epsilon=1.0, delta=1e-6)
    """

    group_sd: float
    within_sd: float
    records: int
    group_sizes: tuple[int, ...] | None = None
    person_sd: float = 0.0
    group: str | None = None
    range: Any = None
    gamma: float | None = None

    def __post_init__(self) -> None:
        validate.positive("group_sd", self.group_sd)
        validate.nonnegative("within_sd", self.within_sd)
        validate.nonnegative("person_sd", self.person_sd)
        object.__setattr__(self, "records", validate.whole("records", self.records, least=1))
        if self.group_sizes is None:
            if self.group is None:
                raise ArgumentError(
                    "group_sizes", None, "are required", "give them, or a public column as group"
                )
            return
        given = validate.listed("group_sizes", self.group_sizes, "give the size of every group")
        sizes = tuple(validate.whole("group_sizes", n, least=1) for n in given)
        if not sizes:
            raise ArgumentError("group_sizes", sizes, "is empty", "give the size of every group")
        object.__setattr__(self, "group_sizes", sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Public n of each group, once known."""
        if self.group_sizes is None:
            raise ArgumentError(
                "group_sizes", None, "are required here", "give them, or ask with a table"
            )
        return self.group_sizes

    @property
    def sd(self) -> float:
        """Marginal deviation of one person's mean."""
        own = self.within_sd / math.sqrt(self.records)
        return math.hypot(self.group_sd, self.person_sd, own)

    @property
    def icc(self) -> float:
        """Correlation of the means of two people in a group."""
        return (self.group_sd / self.sd) ** 2

    @property
    def design_effect(self) -> float:
        """Variance of the mean over people, over that of as many independent people."""
        return grouped_design_effect(self.sizes, self.icc)

    @property
    def effective_groups(self) -> float:
        """n^2 over the sum of squared sizes: the number of equal groups with the same effect."""
        n = sum(self.sizes)
        return n * n / sum(size**2 for size in self.sizes)

    @property
    def interval_factor(self) -> float:
        """Variance of the mean over (expected sample variance)/n.

        The sample misses what people in a group share: its expected variance is sd^2 (1 - (design
        effect)/n).
        """
        n = sum(self.sizes)
        effect = self.design_effect
        return effect / max(1 - effect / n, 1 / n)

    @property
    def words(self) -> str:
        few = "" if self.effective_groups >= FEWEST_GROUPS else "; too few for a reliable interval"
        return (
            f"{len(self.sizes)} groups (effectively {self.effective_groups:.3g}{few}) with "
            f"deviation {self.group_sd:g} between groups, {self.person_sd:g} between people and "
            f"{self.within_sd:g} within {self.records} records"
        )

    def deviations(self, dimension: int) -> tuple[float, ...]:
        """The marginal rule, whatever the groups' sizes."""
        return (self.sd,) * dimension

    def estimator(self) -> RandomEffectsMean:
        """Who answers under this model."""
        return RandomEffectsMean(self)

    def shown(self) -> dict[str, float]:
        """What a release says of the groups."""
        return {
            "design_effect": self.design_effect,
            "icc": self.icc,
            "effective_groups": self.effective_groups,
        }


@dataclass(frozen=True)
class RandomEffectsMean:
    """The Winsorized mean whose interval is widened by the design effect of the groups.

    Guarantees: unit one person with all records (not a group); replace-one; the budget given to
    `plan`, for any data. People of a group may still tell of each other by what they share.
    """

    effects: RandomEffects

    def plan(self, budget: Budget, shape: PublicShape) -> WinsorizedPlan:
        effects = self.effects
        if budget.neighbors != REPLACE_ONE:
            raise ArgumentError(
                "neighbors",
                budget.neighbors,
                "is not supported with public group sizes",
                "use neighbors='replace-one'",
            )
        if sum(effects.sizes) != shape.n:
            raise ArgumentError(
                "group_sizes",
                sum(effects.sizes),
                f"must add up to n={shape.n}",
                "give the size of every group",
            )
        winsorized = WinsorizedMean(
            effects,
            range=effects.range,
            gamma=effects.gamma,
            design_effect=effects.interval_factor,
        )
        return winsorized.plan(budget, shape)
