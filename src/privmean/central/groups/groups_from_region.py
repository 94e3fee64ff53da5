"""Means by group of a column that was looked at already: several questions about it share the look.

A person is in one group. The look is at people's means over all their records, the table of means
over those in the group: limits and tails are taken from the former. docs/proofs/groups.md,
section 13.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from privmean.central.find_region import ClippingRegion
from privmean.central.groups.group_means import GroupMeans
from privmean.central.groups.group_plan import GroupPlan
from privmean.central.shared_location import SingleRegionPlan
from privmean.data.schema import PublicShape
from privmean.errors import InfeasibleError
from privmean.mechanisms.curator import Curator
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.release.outcome import Outcome

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
