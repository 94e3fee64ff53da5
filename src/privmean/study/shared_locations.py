"""Looks at columns that several questions share, and plans of questions that work from them.

A shared location query is a step of the study: drawn once, before the questions, and in the
accounting once, in full; whatever questions make of what it found costs nothing more.
docs/proofs/study.md, section 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from privmean.api.run_question import make_plan, within_budget
from privmean.central.find_region import ClippingRegion
from privmean.central.shared_location import SharedLocationQuery
from privmean.data.schema import PublicShape
from privmean.errors import InfeasibleError
from privmean.pipeline import Plan, WrapperPlan
from privmean.privacy.budget import REPLACE_ONE, Budget, exact_fraction
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.questions.base import Question, RegionPlan, SharesLocation
from privmean.study.study_question import StudyQuestion

PREFIX = "look: "
DIGITS = 12
Looks = Mapping[str, SharedLocationQuery]
Places = Mapping[str, ClippingRegion]


@dataclass(frozen=True)
class SharedLocationPlan(WrapperPlan):
    """A question's plan, beside the looks that it works from. budget: of both together: what the
    question could claim by itself; own: of the question's own lines."""

    budget: Budget
    own: Budget
    inner: Plan
    looks: tuple[SharedLocationQuery, ...]

    def after(self, places: Places) -> SharedLocationPlan | None:
        """The plan to run; None where the looks found nothing that it can start from."""
        inner: Any = self.inner
        located: RegionPlan = inner
        found = located.after(tuple(places[look.column] for look in self.looks))
        return None if found is None else replace(self, inner=found)

    @property
    def paid(self) -> tuple[PrivacyEvent, ...]:
        """The mechanism calls of the shared location queries, in full, as a release by itself
        states them."""
        return shared_location_events(self.looks)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.paid + self.inner.events

    @property
    def rationale(self) -> str:
        columns = ", ".join(look.column for look in self.looks)
        return f"{self.inner.rationale} (look shared: {columns})"

    def describe(self) -> dict[str, Any]:
        told = self.inner.describe()
        if "budget" in told:  # of the release: that of its own lines is less
            told["budget"] = self.budget.to_dict()
        return {**told, "shared_locations": [look.name for look in self.looks]}


def shared_location_events(looks: Sequence[SharedLocationQuery]) -> tuple[PrivacyEvent, ...]:
    """Their lines in the study's accounting."""
    return tuple(
        replace(line, name=f"{PREFIX}{look.column}: {line.name}")
        for look in looks
        for line in look.events
    )


def columns_used(question: Question) -> tuple[str, ...]:
    """The columns at which a question can use a shared location query."""
    return question.shareable_columns if isinstance(question, SharesLocation) else ()


def plan_of(question: Question, shape: PublicShape, own: Budget, looks: Looks) -> Plan:
    """The plan of a question whose own lines get this budget: from looks where it can use some."""
    used = tuple(column for column in columns_used(question) if column in looks)
    if not used:
        return make_plan(question, shape, own)
    assert isinstance(question, SharesLocation)
    taken = tuple(looks[column] for column in used)
    if any(SharedLocationQuery.of(x.column, shape.counted(), x.epsilon) is None for x in taken):
        raise InfeasibleError("n is too small for a shared location query", "ask about more people")
    inner = within_budget(question.from_regions(used).plan(own, shape), own)
    return SharedLocationPlan(_with(own, taken), own, inner, taken)


def _with(own: Budget, looks: Sequence[SharedLocationQuery]) -> Budget:
    """What the question and its looks cost together, rounded up."""
    if own.rho is not None:
        spent = sum(line.rho for look in looks for line in look.events)
        return replace(own, rho=(own.rho + spent) * (1 + 1e-12))
    assert own.epsilon is not None
    whole = exact_fraction(own.epsilon) + sum((look.pure for look in looks), Fraction(0))
    unit = 10**DIGITS
    found = float(Fraction(-(-whole.numerator * unit // whole.denominator), unit))
    while exact_fraction(found) < whole:
        found = float(Fraction(exact_fraction(found)) + Fraction(1, unit))
    return replace(own, epsilon=found)


def shared_locations_for(
    items: Sequence[StudyQuestion],
    shapes: Mapping[str, PublicShape],
    shares: Mapping[str, Fraction],
    least: int,
) -> dict[str, SharedLocationQuery]:
    """A shared location query for every column that a question needs one for and at least so many
    can use. shares: epsilon of each question alone, by name; a query costs what its dearest user
    would spend."""
    users: dict[str, list[StudyQuestion]] = {}
    for item in items:
        for column in columns_used(item.question):
            users.setdefault(column, []).append(item)
    found: dict[str, SharedLocationQuery] = {}
    for column, asking in users.items():
        needed = [
            x
            for x in asking
            if isinstance(x.question, SharesLocation) and x.question.wants_shared_location
        ]
        persons = shapes[asking[0].name].n
        if len(asking) < least or not needed or persons is None:
            continue
        look = SharedLocationQuery.of(column, persons, max(shares[item.name] for item in needed))
        if look is not None:
            found[column] = look
    return found


def can_share_location(budget: Budget) -> bool:
    """Whether the number of people is public, on which the prices of looks depend."""
    return budget.neighbors == REPLACE_ONE
