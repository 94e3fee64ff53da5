"""Means by group of several values: people are counted once, every value has its own limits.

A pair of a person and a group belongs to the table if any of the values is usable there, so that
weights and masses are shared, and the claims for one value hold for each (docs/proofs/groups.md,
section 12).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from privmean.central.groups.group_plan import GroupPlan
from privmean.central.groups.group_stages import COUNTS, TOTAL, GroupRun
from privmean.central.groups.run_groups import GroupCounts, counted_groups, run_value
from privmean.estimators.pure_budget import PureBudgetSpender, floor_epsilon
from privmean.inference.group_table import SeveralTables
from privmean.inference.status import release_status
from privmean.mechanisms.curator import Curator
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.outcome import Outcome


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
