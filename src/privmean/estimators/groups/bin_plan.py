"""Means in public bins of time: means by group in which a person may be in many groups.

How many bins a person counts in fully follows from a noisy histogram, where it is not given; what
comes after is the plan of means by group. Proof: docs/proofs/groups.md, section 14.

Means by group of several values: people are counted once, every value has its own limits.

A pair of a person and a group belongs to the table if any of the values is usable there, so that
weights and masses are shared, and the claims for one value hold for each (docs/proofs/groups.md,
section 12).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.data.group_pairs import MOST_GROUPS, GroupWeights, pairs_of
from privmean.data.key_text import label
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError
from privmean.estimators.groups.build_table import in_words_of
from privmean.estimators.groups.group_plan import GroupPlan
from privmean.estimators.groups.group_stages import COUNTS, FEW, TOTAL, GroupRun, GroupSettings
from privmean.estimators.groups.run_groups import (
    GroupCounts,
    counted_groups,
    price,
    run_groups,
    run_value,
)
from privmean.estimators.pure_budget import PureBudgetSpender
from privmean.inference.group_table import GroupTable, SeveralTables
from privmean.inference.status import release_status
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import NoisyCounts, as_counts
from privmean.privacy.budget import REPLACE_ONE, Budget, floor_epsilon, require_epsilon
from privmean.privacy.privacy_events import Gaussian, Laplace, PrivacyEvent
from privmean.release.outcome import Outcome, by_cause

PRICE = 0.02  # of epsilon: people by the number of their bins
LATTICE = 2.0**53  # steps of Gaussian noise, unless that is finer
LESS = 0.05  # part of all pairs that may count less, which decides how many bins count fully
FEW_BINS = 4  # bins up to which a person counts fully in all of them


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
        if len(self.keys) > MOST_GROUPS:
            raise ArgumentError(
                "bins", len(self.keys), "are too many", f"give at most {MOST_GROUPS} bins in all"
            )
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
        labels = tuple(map(label, self.keys))
        return BinPlan(budget, shape, whole - first, settings, labels, first=first)


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
        known = tuple(in_words_of(self.settings, item) for item in super().public)
        return known[:-1] if self.first else known

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
        count = max(persons if persons is not None else self.shape.counted(), 1)
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
        told = {in_words_of(self.settings, key): item for key, item in super().describe().items()}
        return told | ({"bins a person counts fully in": "found privately"} if self.first else {})

    def run(self, curator: Curator) -> Outcome:
        with np.errstate(all="ignore"):  # a warning of NumPy could tell of values
            if not self.first:
                return self._told(self._run(curator))
            pairs = pairs_of(curator.people)
            noisy = curator.ask(self._numbers, as_counts(*pairs.group_numbers()))
            weights = GroupWeights(fully(noisy.astype(float)), True)
            plan = replace(self, settings=replace(self.settings, weights=weights))
            chosen = self if self.fixed else plan  # who says what kind of noise it is
            strength = plan.strength if chosen.gaussian else None
            found = run_groups(
                curator, plan.settings, plan.epsilon, strength, pairs=pairs.with_weights(weights)
            )
            made = plan.outcome(found, plan.settings, plan.labels, plan.epsilon)
            part = float(self.first / (self.first + self.epsilon))
            shares = {name: item * (1 - part) for name, item in made.shares.items()}
            shares = {"bins of a person": part, **shares}
            said = {"bins a person counts fully in": weights.max_groups, **made.diagnostics}
            return plan._told(replace(made, shares=shares, diagnostics=said))

    def _told(self, made: Outcome) -> Outcome:
        """In the words of a curve; the number of people as public as it is."""
        n = self.shape.n if self.relation == REPLACE_ONE else made.n
        table, settings = made.intervals, self.settings
        assert isinstance(table, GroupTable)
        table = replace(
            table,
            assumption=in_words_of(settings, table.assumption),
            brief=in_words_of(settings, table.brief),
        )
        return replace(
            made,
            n=n,
            intervals=table,
            assumptions=tuple(in_words_of(settings, text) for text in made.assumptions),
            advice=in_words_of(settings, made.advice),
            diagnostics={in_words_of(settings, k): x for k, x in made.diagnostics.items()},
            shares={in_words_of(settings, k): x for k, x in made.shares.items()},
        )

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


@dataclass(frozen=True)
class ValuesPlan(GroupPlan):
    """The plan of several values, which share the counts; see `GroupMeans`."""

    @property
    def values(self) -> int:
        return self.shape.dimension

    @property
    def rationale(self) -> str:
        return f"{super().rationale}; people are counted once for all values"

    def _part(self, left: Fraction) -> Fraction:
        """Of which the prices of one value are parts: under a rho budget squares add up."""
        parts = math.sqrt(self.values) if self.budget.rho is not None else self.values
        return floor_epsilon(left / Fraction(parts))

    @property
    def of_value(self) -> Fraction:
        purse, _ = self._shared()
        return self._part(purse.left)

    def _shared(self) -> tuple[PureBudgetSpender, list[PrivacyEvent]]:
        purse = self.settings.purse(self.epsilon)
        return purse, self.count_losses(purse)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """An accounting of one path; every path composes to at most the budget."""
        purse, shared = self._shared()
        bill, part = list(shared), self._part(purse.left)
        for column in range(self.values):
            own = self.settings.purse(part)
            bill += self.value_losses(own, part, partial(self._strength, shared), column)
        return tuple(bill)

    def _strength(
        self, shared: Sequence[PrivacyEvent], left: Fraction, bill: Sequence[PrivacyEvent]
    ) -> float:
        """mu of the last stage of one value. shared: the counts; accounting: of this value
        alone."""
        if self.budget.rho is not None:
            rho = (self.budget.rho - math.fsum(item.rho for item in shared)) / self.values
            return self.mu_of_rho(rho * (1 - 1e-12), bill)
        return self.mu_of_epsilon(left, self.budget.delta / self.values)

    def final_epsilon(self, persons: int) -> float:
        s = self.settings
        left = self.epsilon * (1 - Fraction(COUNTS) - Fraction(TOTAL) * s.total)
        return self.value_epsilon(float(self._part(left)), persons)

    def _run(self, curator: Curator) -> Outcome:
        settings = self.settings
        asking = GroupRun.start(curator, settings, self.epsilon)
        every = counted_groups(asking, self.epsilon)
        asking.spender.label_next("group counts")
        counts = GroupCounts(every.weight, every.sd, every.n, every.doubt, alike=False)
        shared = curator.events
        part, made = self._part(asking.spender.left), []
        for column in range(self.values):
            own = settings.purse(part)
            start = len(curator.events)

            def strength(left: Fraction, bill: Sequence[PrivacyEvent], start: int = start) -> float:
                return self._strength(shared, left, bill[start:])

            found = run_value(
                GroupRun(curator, settings, own, column=column), part, counts,
                strength if self.gaussian else None,
            )  # fmt: skip
            made.append(self.outcome(found, settings, self.labels, part, column=column))
        statuses = tuple(status for item in made for status in item.statuses)
        shares = asking.spender.shares | {
            f"{curator.people.columns[j]}: {name}": share * float(part / self.epsilon)
            for j, item in enumerate(made)
            for name, share in item.shares.items()
        }
        return Outcome(
            np.concatenate([item.estimate for item in made]),
            SeveralTables(tuple(item.intervals for item in made)),
            n=made[0].n,
            status=release_status(statuses),
            statuses=statuses,
            advice=" ".join(dict.fromkeys(item.advice for item in made if item.advice)),
            assumptions=made[0].assumptions,
            shares=shares,
            diagnostics={
                name: dict(item.diagnostics)
                for name, item in zip(curator.people.columns, made, strict=True)
            },
            estimand=made[0].estimand,
            follows_from_answers=True,
        )
