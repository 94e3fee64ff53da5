"""Means by group with nothing given but the keys and the privacy budget.

People are counted by group, all values are located together once, and every group gets limits by
its size; three cells a group are released together, so that the whole table costs what one mean
costs. Claim and proof: docs/proofs/groups.md.

Means in public bins of time are means by group in which a person may be in many groups. How many
bins a person counts in fully follows from a noisy histogram, where it is not given (section 14).

Means by group of a column that was looked at already: several questions about it share the look.

A person is in one group. The look is at people's means over all their records, the table of means
over those in the group: limits and tails are taken from the former. docs/proofs/groups.md,
section 13.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.data.group_pairs import MOST_GROUPS, GroupWeights, pairs_of
from privmean.data.key_text import keys_of
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.column_plan import require_roster
from privmean.estimators.find_region import ClippingRegion
from privmean.estimators.groups.group_plan import GroupPlan, ValuesPlan
from privmean.estimators.groups.group_stages import FEW, GroupSettings
from privmean.estimators.groups.run_groups import GroupEstimates, price, run_groups
from privmean.estimators.means.region_mean import SingleRegionPlan
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import NoisyCounts, as_counts
from privmean.privacy.budget import REPLACE_ONE, Budget, require_epsilon
from privmean.privacy.privacy_events import Gaussian, Laplace, PrivacyEvent
from privmean.release.result_numbers import Outcome, by_cause

MOST_KEYS = 100_000
PRICE = 0.02  # of epsilon: people by the number of their bins
LATTICE = 2.0**53  # steps of Gaussian noise, unless that is finer
LESS = 0.05  # part of all pairs that may count less, which decides how many bins count fully
FEW_BINS = 4  # bins up to which a person counts fully in all of them


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
        remedy = f"give 1 to {MOST_KEYS} keys"
        validate.whole("keys", len(self.keys), least=1, most=MOST_KEYS, remedy=remedy)

    def plan(self, budget: Budget, shape: PublicShape) -> GroupPlan:
        """Prices of the stages, before any data; raises InfeasibleError from public numbers
        only."""
        epsilon = require_epsilon(budget.pure_epsilon())
        if self.keys is None and (budget.rho is not None or budget.delta <= 0):
            raise InfeasibleError(
                "private group keys require delta > 0",
                "pass delta=1e-6, or list public groups in keys",
            )
        if self.public_groups:
            require_roster(budget, "cannot have public groups", "membership='private'")
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
            return GroupPlan(budget, shape, epsilon, settings, self.simultaneous)
        if self.keys is None or self.simultaneous:
            name = "keys" if self.keys is None else "simultaneous"
            raise ArgumentError(
                name, getattr(self, name), "requires a single value",
                "name the public keys and remove simultaneous, or use one value",
            )  # fmt: skip
        return ValuesPlan(budget, shape, epsilon, settings)


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


@dataclass(frozen=True)
class BinMeans:
    """The estimator. keys: the bins in words. max_bins: in which a person counts fully, None: found
    privately. target: "clipped" for intervals of clipped means. given: whether the bounds are the
    caller's and not those of a type."""

    keys: tuple[tuple[str, ...], ...]
    max_bins: int | None = None
    target: str | None = None
    bounds: tuple[float, float] | None = None
    given: bool = False

    def __post_init__(self) -> None:
        remedy = f"give at most {MOST_GROUPS} bins in all"
        validate.whole("bins", len(self.keys), most=MOST_GROUPS, remedy=remedy)
        if self.max_bins is not None:
            validate.whole("max_bins", self.max_bins, least=1)

    @property
    def weights(self) -> GroupWeights:
        """Of a person, before the numbers of bins are known."""
        return GroupWeights(min(self.max_bins or len(self.keys), len(self.keys)), True)

    def plan(self, budget: Budget, shape: PublicShape) -> BinPlan:
        """Prices of the stages, before any data."""
        whole = require_epsilon(budget.pure_epsilon())
        found = self.max_bins is None and len(self.keys) > FEW_BINS
        first = price(PRICE, whole) if found else Fraction(0)
        settings = GroupSettings(
            self.keys, self.weights, budget.neighbors, counted=self.target is None,
            bounds=() if self.bounds is None else (self.bounds,), given=self.given, unit="bin",
        )  # fmt: skip
        return BinPlan(budget, shape, whole - first, settings, first=first)


@dataclass(frozen=True)
class BinPlan(GroupPlan):
    """The stages and their prices. first: what people by the number of their bins cost; 0 where it
    is known in how many bins a person counts fully. epsilon: of the stages after that."""

    first: Fraction = Fraction(0)
    estimator = "means by bin"

    @property
    def rationale(self) -> str:
        return (
            "values are located together, unless there are bounds, and all bins are released at "
            "once"
        )

    @property
    def public(self) -> tuple[str, ...]:
        return super().public[:-1] if self.first else super().public

    @property
    def fixed(self) -> bool:
        """Within public bounds nothing is located, so that every price is a public number."""
        return self.settings.bounds_of(0) is not None

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        lines = super().events
        return tuple(map(self._for_any_k, lines)) if self.fixed and self.first else lines

    def _for_any_k(self, line: PrivacyEvent) -> PrivacyEvent:
        """A line that covers this one for every number of bins that may be found: the worst of its
        epsilon, or Gaussian noise on the coarsest lattice (docs/proofs/study.md, section 1)."""
        if isinstance(line, Gaussian):
            scale = min(line.scale / len(self.labels), LATTICE)
            return replace(line, scale=scale, sensitivity=line.mu * (1 + 1e-10) * scale)
        if isinstance(line, Laplace) and line.name == "group counts":
            return replace(line, sensitivity=Fraction(1), scale=1 / line.pure, joint=True)
        return line

    @property
    def before(self) -> tuple[PrivacyEvent, ...]:
        return self._numbers.events if self.first else ()

    @property
    def _numbers(self) -> NoisyCounts:
        moved = self.settings.moves  # a person is in one cell
        return NoisyCounts.at("bins of a person", self.first, self.relation, moved, moved)

    def predict(self, guess_sd: float, persons: int | None = None) -> dict[str, float]:
        """Of one bin that holds everybody."""
        count = max(persons if persons is not None else self.shape.number(), 1)
        told, bounds = self.predicted(guess_sd, count, count), self.settings.bounds_of(0)
        noise, usual = told["privacy_noise"], self._reach / self.final_epsilon(count)
        if bounds is not None:  # two of the three cells are in a sum
            noise = (bounds[1] - bounds[0]) * self._scale / count
        elif self.budget.rho is not None:  # with a delta a study would give up composing for it
            noise *= self._scale / usual
        return by_cause(told["sampling"], noise)

    @property
    def least_persons(self) -> int:
        """Of one bin, within public bounds: with fewer it is hardly ever shown."""
        if not self.fixed:
            return super().least_persons
        return math.ceil(FEW * 6**0.5 * self._scale)

    @property
    def _reach(self) -> int:
        """The largest change of all weights together, in people."""
        return self.settings.most * self.settings.moves

    @property
    def _scale(self) -> float:
        """The Laplace scale of a cell in the last stage, in people, or that of as much noise."""
        last = super().events[-1]
        if isinstance(last, Gaussian):
            return math.sqrt(self._reach / 2) / last.mu
        return self._reach / float(last.pure)

    def describe(self) -> dict[str, Any]:
        found = {"bins a person counts fully in": "found privately"} if self.first else {}
        return super().describe() | found

    def _run(self, curator: Curator) -> Outcome:
        if not self.first:
            return super()._run(curator)
        pairs = pairs_of(curator.people)
        noisy = curator.ask(self._numbers, as_counts(*pairs.group_numbers()))
        weights = GroupWeights(fully(noisy.astype(float)), True)
        plan = replace(self, settings=replace(self.settings, weights=weights))
        chosen = self if self.fixed else plan  # who says what kind of noise it is
        strength = plan.strength if chosen.gaussian else None
        found = run_groups(
            curator, plan.settings, plan.epsilon, strength, pairs=pairs.with_weights(weights)
        )
        made = plan.outcome(found, plan.settings, plan.epsilon)
        part = float(self.first / (self.first + self.epsilon))
        shares = {name: item * (1 - part) for name, item in made.shares.items()}
        shares = {"bins of a person": part, **shares}
        said = {"bins a person counts fully in": weights.max_groups, **made.diagnostics}
        return replace(made, shares=shares, diagnostics=said)

    def _number(self, found: GroupEstimates) -> int | None:
        """As public as it is."""
        return self.shape.n if self.relation == REPLACE_ONE else super()._number(found)

    def _estimand(self) -> str:
        k = self.settings.weights.max_groups
        if k >= self.settings.groups:
            return "mean"
        return f"mean, people in more than {k} bin{'s' * (k > 1)} weighted less"


def fully(persons: Floats) -> int:
    """In how many bins a person counts fully: the fewest with which at most a small part of all
    pairs counts less. persons: noisy numbers of people in one bin, in two, and so on."""
    known, size = np.maximum(persons, 0.0), np.arange(1, len(persons) + 1)
    whole = max(float(known @ size), 1.0)
    for k in size.tolist():
        if float(known @ np.maximum(size - k, 0)) <= LESS * whole:
            break
    return int(k)
