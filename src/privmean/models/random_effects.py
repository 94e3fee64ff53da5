"""The mean of persons in public groups that share a random effect (schools, firms, villages).

Model: record t of person u in group g is mean + U_g + V_u + error, with deviations group_sd,
person_sd and within_sd. Source: Roth and Avella-Medina, "Differential Privacy with Dependent Data"
(2025), Definition 5.8; the radius comes from the marginal variance of one person, which the number
of persons in a group does not enter, and the interval from the design effect of the groups
(docs/proofs/longitudinal.md, section 7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from privmean import validate
from privmean.central.concentration import Radii
from privmean.central.radii import gaussian_radii, log_term
from privmean.central.winsorized import Winsorized
from privmean.errors import ArgumentError
from privmean.intervals.design_effects import grouped_design_effect
from privmean.planning import within_budget
from privmean.privacy.budget import Budget, relation_of
from privmean.privacy.guarantee import Guarantee
from privmean.release import Release

FEWEST_GROUPS = 20.0


@dataclass(frozen=True)
class RandomEffects:
    """Persons' means vary by a random effect of their public group, one of their own, and errors.

    group_sd: deviation of the groups' effects; within_sd: of a person's independent records;
    records: public number of records a person, at least; person_sd: of persons' own effects.
    group_sizes: public numbers of persons a group (they add up to the number of persons).

    A concentration for `Winsorized`; accuracy rests on it, privacy never does. Group membership and
    sizes are public and the same for neighbours.
    """

    group_sd: float
    within_sd: float
    records: int
    group_sizes: tuple[int, ...]
    person_sd: float = 0.0

    def __post_init__(self) -> None:
        validate.positive("group_sd", self.group_sd)
        validate.nonnegative("within_sd", self.within_sd)
        validate.nonnegative("person_sd", self.person_sd)
        object.__setattr__(self, "records", validate.whole("records", self.records, least=1))
        sizes = tuple(validate.whole("group_sizes", n, least=1) for n in self.group_sizes)
        if not sizes:
            raise ArgumentError("group_sizes", sizes, "is empty", "give the size of every group")
        object.__setattr__(self, "group_sizes", sizes)

    @property
    def sd(self) -> float:
        """Marginal deviation of one person's mean."""
        own = self.within_sd / math.sqrt(self.records)
        return math.hypot(self.group_sd, self.person_sd, own)

    @property
    def icc(self) -> float:
        """Correlation of the means of two persons of a group."""
        return (self.group_sd / self.sd) ** 2

    @property
    def design_effect(self) -> float:
        """Variance of the mean over persons, over that of as many unrelated persons."""
        return grouped_design_effect(self.group_sizes, self.icc)

    @property
    def effective_groups(self) -> float:
        """n^2 over the sum of squared sizes: the number of equal groups with the same effect."""
        n = sum(self.group_sizes)
        return n * n / sum(size**2 for size in self.group_sizes)

    @property
    def interval_factor(self) -> float:
        """Variance of the mean over (expected sample variance)/n.

        The sample misses what persons of a group share: its expected variance is
        sd^2 (1 - (design effect)/n).
        """
        n = sum(self.group_sizes)
        effect = self.design_effect
        return effect / max(1 - effect / n, 1 / n)

    @property
    def words(self) -> str:
        few = "" if self.effective_groups >= FEWEST_GROUPS else "; too few for a reliable interval"
        return (
            f"{len(self.group_sizes)} groups (effectively {self.effective_groups:.3g}{few}) with "
            f"deviation {self.group_sd:g} between groups, {self.person_sd:g} between persons and "
            f"{self.within_sd:g} within {self.records} records"
        )

    def radius(
        self, n: int, dimension: int = 1, gamma: float = 0.05, *, jointly: bool = False
    ) -> Radii:
        """sqrt(2 sd^2 ln(2n/gamma)): the marginal rule, whatever the groups' sizes."""
        return gaussian_radii((self.sd,) * dimension, log_term(n, dimension, gamma, jointly))


def random_effects_mean(
    people: Any,
    effects: RandomEffects,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    neighbors: str = "replace-one",
    range: tuple[float, float] | Sequence[tuple[float, float]] | None = None,
    gamma: float | None = None,
    level: float = 0.95,
    ledger: Any = None,
    noise: Any = None,
) -> Release:
    """A differentially private mean of persons who share random effects of public groups.

    people: from `privmean.read`, or an array with one row a person, shape (n,) or (n, d). effects:
    the model; its group sizes add up to n. range: public interval of the centre, one or one a
    column (needed without delta). The design effect of the groups widens the interval and is shown
    in the release.

    Raises ArgumentError, Infeasible or BudgetExceeded before anything is spent.

    Guarantees: unit one person with all records (not a group); replace-one; the composed loss is at
    most the budget, for any data. Persons of a group may still tell of each other by what they
    share.
    """
    from privmean.api import as_people

    budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
    relation = relation_of(neighbors)
    confidence = validate.level("level", level)
    if relation != "replace-one":
        raise ArgumentError(
            "neighbors", neighbors, "is not offered with public group sizes", "use replace-one"
        )
    data = as_people(people)
    if not isinstance(effects, RandomEffects):
        raise ArgumentError(
            "effects", effects, "is no random effects model", "give RandomEffects(...)"
        )
    if sum(effects.group_sizes) != data.size():
        raise ArgumentError(
            "group_sizes",
            sum(effects.group_sizes),
            f"persons in groups, but there are {data.size()}",
            "give the size of every group",
        )
    given: Any = range
    estimator = Winsorized(effects, range=given, gamma=gamma, design_effect=effects.interval_factor)
    plan = estimator.plan(budget, persons=data.size(), dimension=len(data.columns))
    within_budget(plan, budget, relation)
    entry = None
    if ledger is not None:
        entry = ledger.charge(
            Guarantee.of(budget, relation, plan.losses), label="random effects mean"
        )
    release = plan.release(data, noise).concluded(data, entry, level=confidence)
    shown = {
        "design_effect": effects.design_effect,
        "icc": effects.icc,
        "effective_groups": effects.effective_groups,
    }
    return replace(release, diagnostics={**release.diagnostics, **shown})
