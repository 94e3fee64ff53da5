"""What one question gets of a study's budget, and the lines that it puts in the study's accounting.

A line is fixed before any data are seen (docs/proofs/study.md, section 1). A plan whose every price
is a public number, and which asks all of its lines or bills them anyhow, puts its own lines on the
accounting. Any other plan is one line: it keeps its part on every path, whatever it asks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol, runtime_checkable

from privmean.central.shared_location import SharedLocationQuery
from privmean.pipeline import Plan
from privmean.privacy.budget import Budget, exact_fraction
from privmean.privacy.privacy_events import Approximate, Concentrated, PrivacyEvent, Pure
from privmean.study.shared_locations import SharedLocationPlan, shared_location_events

DIGITS = 12  # decimals of an epsilon, so that sums of parts are exact


@runtime_checkable
class FixedEvents(Protocol):
    """A plan whose every line has a price that is a public number, and whose accounting of any run
    is covered by them, each used once (`privmean.privacy.compose`)."""

    @property
    def fixed(self) -> bool: ...


@dataclass(frozen=True)
class QuestionShare:
    """One question's budget, its plan under it, and its lines in the accounting of the study. own:
    what those lines may cost; with what looks cost that it shares, that is its budget by itself."""

    name: str
    plan: Plan
    own: Budget
    lines: tuple[PrivacyEvent, ...]

    @classmethod
    def of(cls, name: str, plan: Plan, *, summed: bool = False) -> QuestionShare:
        """summed: its part adds up with others: lines that keep a delta by a curve of their own do
        not, and are one line."""
        inner = plan.inner if isinstance(plan, SharedLocationPlan) else plan
        own = plan.own if isinstance(plan, SharedLocationPlan) else plan.budget
        fixed = isinstance(inner, FixedEvents) and inner.fixed and not (summed and own.delta)
        lines = inner.events if fixed else (whole(own),)
        return cls(name, plan, own, tuple(_named(name, item) for item in lines))

    @property
    def budget(self) -> Budget:
        return self.plan.budget

    @property
    def looks(self) -> tuple[SharedLocationQuery, ...]:
        """The looks that the question works from."""
        return self.plan.looks if isinstance(self.plan, SharedLocationPlan) else ()

    @property
    def size(self) -> float:
        """How large its own part is: epsilon, or the epsilon of a pure part of that rho."""
        return float(self.own.pure_epsilon())

    @property
    def rho(self) -> float:
        """zCDP of its own lines."""
        return math.fsum(line.rho for line in self.lines)


def whole(budget: Budget) -> PrivacyEvent:
    """A question as one line: what it may lose on any path."""
    words = "all answers of the question, within its part of the budget"
    relation = budget.neighbors
    if budget.rho is not None:
        return Concentrated("whole", budget.rho, neighbors=relation, sensitivity_text=words)
    assert budget.epsilon is not None
    if budget.delta:
        return Approximate(
            "whole",
            exact_fraction(budget.epsilon),
            budget.delta,
            neighbors=relation,
            sensitivity_text=words,
        )
    return Pure("whole", exact_fraction(budget.epsilon), neighbors=relation, sensitivity_text=words)


def _named(name: str, loss: PrivacyEvent) -> PrivacyEvent:
    return replace(loss, name=f"{name}: {loss.name}")


def down(value: Fraction | float, digits: int = DIGITS) -> float:
    """The largest decimal of so many digits after the point that is at most `value`.

    It is its own shortest text, so that budgets made of such numbers add up exactly.
    """
    unit = 10**digits
    exact = Fraction(value)
    found = float(Fraction(exact.numerator * unit // exact.denominator, unit))
    return found if exact_fraction(found) <= exact else down(exact - Fraction(2, unit), digits)


def significant(value: float) -> float:
    """The same to DIGITS significant digits, for numbers as small as a delta."""
    text = f"{value:.{DIGITS - 1}e}"
    found = float(text)
    if exact_fraction(found) > Fraction(value):
        found = float(f"{found * (1 - 10.0 ** (1 - DIGITS)):.{DIGITS - 1}e}")
    return found


def bill(
    parts: Sequence[QuestionShare], looks: Sequence[SharedLocationQuery] = ()
) -> tuple[PrivacyEvent, ...]:
    """The lines of all looks, once each, then those of all questions."""
    return (*shared_location_events(looks), *(line for part in parts for line in part.lines))
