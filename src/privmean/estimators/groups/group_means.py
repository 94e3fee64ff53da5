"""Means by group with nothing given but the keys and the privacy budget.

People are counted by group, all values are located together once, and every group gets limits by
its size; three cells a group are released together, so that the whole table costs what one mean
costs. Claim and proof: docs/proofs/groups.md.

Means by group of a column that was looked at already: several questions about it share the look.

A person is in one group. The look is at people's means over all their records, the table of means
over those in the group: limits and tails are taken from the former. docs/proofs/groups.md,
section 13.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from privmean import validate
from privmean.data.group_pairs import GroupWeights
from privmean.data.key_text import keys_of, label
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.find_region import ClippingRegion
from privmean.estimators.groups.group_plan import GroupPlan
from privmean.estimators.groups.group_stages import GroupSettings
from privmean.estimators.means.region_mean import SingleRegionPlan
from privmean.mechanisms.curator import Curator
from privmean.privacy.budget import REPLACE_ONE, Budget, require_epsilon
from privmean.release.outcome import Outcome

MOST_KEYS = 100_000


@dataclass(frozen=True)
class GroupMeans:
    """Mean over people in every group of a list, as planned by `Mean(by=...)`.

    Parameters
    ----------
    keys : list of tuple of str, optional
        Public group keys, one text per column. None: keys are private, which requires delta > 0.
    weights : GroupWeights, optional
        How a person in several groups counts. Default: one group per person.
    target : {"clipped"}, optional
        Intervals for the clipped mean, with the least noise. Default: intervals for the mean, with
        a count of outliers.
    simultaneous : bool, default False
        Make the intervals of all groups hold jointly.
    public_groups : bool, default False
        Whether group membership is public (replace-one only), which has less noise.
    common : bool, default False
        Use the same clipping bounds for all groups, for comparisons of arms.
    bounds : list of (float, float), optional
        Public bounds of each value, in its unit. Default: found privately.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    Person-level differential privacy, whatever the groups of a person: add-remove, or replace-one
    with a public roster and private groups. Pure epsilon for any data; delta is charged for private
    keys, or for Gaussian noise with less error. Public are the settings and the listed keys.

    Notes
    -----
    Source: docs/proofs/groups.md.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    question = pm.Mean("ln_wage", by=("union",), keys=("0", "1"))  # plans a GroupMeans
    plan = pm.plan(question, n=4000, epsilon=1.0)
    plan.forecast([3000, 1000], guess_sd=0.4)
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
        """Prices of the stages, before any data; raises InfeasibleError from public numbers
        only."""
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
        from privmean.estimators.groups.bin_plan import ValuesPlan

        return ValuesPlan(budget, shape, epsilon, settings, self.labels)


SHARED = "limits and tails are those of person means over all records, from a shared location query"


@dataclass(frozen=True)
class RegionGroupMeans:
    """The estimator: `means` without a location of its own. A plan of it is given the place before
    it runs.

    Guarantees: the budget given to `plan`, besides what the look cost, for one person with all
    records and any data, under replace-one.
    """

    means: GroupMeans

    def plan(self, budget: Budget, shape: PublicShape) -> RegionGroupPlan:
        """Prices of its own stages. InfeasibleError without a public number of people."""
        if budget.neighbors != REPLACE_ONE or shape.n is None:
            raise InfeasibleError("means from a shared location require a public n", "")
        made = self.means.plan(budget, shape)
        return RegionGroupPlan(**{x.name: getattr(made, x.name) for x in fields(GroupPlan)})


@dataclass(frozen=True)
class RegionGroupPlan(SingleRegionPlan, GroupPlan):
    """The stages but for the location."""

    locates = False

    @property
    def rationale(self) -> str:
        return (
            "limits from a shared location query, chosen by the size of each "
            "group; then all groups are released at once"
        )

    @property
    def located(self) -> ClippingRegion | None:
        return self.place

    def _run(self, curator: Curator) -> Outcome:
        found = super()._run(curator)
        return replace(found, assumptions=(*found.assumptions, SHARED))
