"""Means by group with nothing given but the keys and the privacy budget.

People are counted by group, all values are located together once, and every group gets limits by
its size; three cells a group are released together, so that the whole table costs what one mean
costs. Claim and proof: docs/proofs/groups.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from privmean import validate
from privmean.central.groups.group_plan import GroupPlan
from privmean.central.groups.group_settings import GroupSettings
from privmean.central.pure_budget import require_epsilon
from privmean.data.group_pairs import GroupWeights
from privmean.data.key_text import keys_of, label
from privmean.data.public_shape import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.privacy.budget import REPLACE_ONE, Budget

MOST_KEYS = 100_000


@dataclass(frozen=True)
class GroupMeans:
    """The mean over people in every group of a public list.

    keys: public keys as texts, one a column, or None: then keys are private, and only those of
    enough people are shown (needs delta). weights: how a person of several groups counts.
    target: None for intervals for the mean, which count the people beyond the limits; "clipped"
    for the least noise and intervals for the mean of limited values. simultaneous: rows hold
    together at the level. public_groups: who has records in which group is public (replace-one
    only), so that sizes cost nothing and the noise is less. common: the same limits for all groups,
    for comparisons of arms: what they cut off cancels where the arms have one law of values.
    bounds: public bounds of each value, None where it has none: nothing is then looked for.

    Example:
        table = pm.Table(pm.example("nlswork"), person="person_id")
        question = pm.Mean("ln_wage", by=("union",), keys=("0", "1"))  # plans a GroupMeans
        plan = pm.plan(question, persons=4000, epsilon=1.0)
        plan.forecast([3000, 1000], guess_sd=0.4)

    **Guarantees.** Unit: one person with all records, in whatever groups. Neighbours: add-remove
    (nothing reads a number of people) or replace-one (the roster is public; the groups of a person
    are private). Pure epsilon for any data; a delta is spent on thresholds of private keys, or on
    Gaussian noise in the last stage where that is less, which a rho budget always has. Public are
    the settings and the keys that were named.
    """

    keys: tuple[tuple[str, ...], ...] | None
    weights: GroupWeights = field(default_factory=GroupWeights)
    target: str | None = None
    simultaneous: bool = False
    public_groups: bool = False
    common: bool = False
    bounds: tuple[tuple[float, float] | None, ...] = ()

    def __post_init__(self) -> None:
        validate.choice("target", self.target, [None, "clipped"])
        for name in ("simultaneous", "public_groups", "common"):
            validate.flag(name, getattr(self, name))
        validate.instance(
            "weights", self.weights, GroupWeights, "remove it, for one group per person"
        )
        if self.keys is None:
            return
        object.__setattr__(self, "keys", keys_of("keys", self.keys))
        if not 0 < len(self.keys) <= MOST_KEYS:
            raise ArgumentError(
                "keys",
                len(self.keys),
                "must be a positive number of groups",
                f"give 1 to {MOST_KEYS} keys",
            )

    @property
    def labels(self) -> tuple[str, ...]:
        """The public keys as they are shown."""
        return tuple(label(key) for key in self.keys or ())

    def plan(self, budget: Budget, shape: PublicShape) -> GroupPlan:
        """Prices of the stages, before any data; raises Infeasible from public numbers only."""
        epsilon = require_epsilon(budget.pure_epsilon())
        if self.keys is None and (budget.rho is not None or budget.delta <= 0):
            raise InfeasibleError(
                "private group keys require delta > 0",
                "pass delta=1e-6, or list public groups in keys",
            )
        if self.public_groups and budget.neighbors != REPLACE_ONE:
            raise ArgumentError(
                "neighbors",
                budget.neighbors,
                "cannot have public groups",
                "use neighbors='replace-one', or membership='private'",
            )
        settings = GroupSettings(
            self.keys or (),
            self.weights,
            budget.neighbors,
            counted=self.target is None,
            public_keys=self.keys is not None,
            public_groups=self.public_groups,
            common=self.common,
            bounds=self.bounds,
        )
        if shape.dimension == 1:
            return GroupPlan(budget, shape, epsilon, settings, self.labels, self.simultaneous)
        if self.keys is None or self.simultaneous:
            name = "keys" if self.keys is None else "simultaneous"
            raise ArgumentError(
                name, getattr(self, name), "requires a single value",
                "name the public keys and remove simultaneous, or use one value",
            )  # fmt: skip
        from privmean.central.groups.multi_value_plan import ValuesPlan

        return ValuesPlan(budget, shape, epsilon, settings, self.labels)
