"""Looks at columns that several questions share, and plans of questions that work from them.

A look is a step of the study: drawn once, before the questions, and on the bill once, in full;
whatever questions make of what it found costs nothing more. docs/proofs/study.md, section 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from privmean.asking.road import planned, within_budget
from privmean.central.location import Location
from privmean.central.look import Look
from privmean.errors import Infeasible
from privmean.people.shape import Shape
from privmean.privacy.budget import REPLACE_ONE, Budget, as_written
from privmean.privacy.loss import Loss
from privmean.questions.base import LocatedPlan, Looking, Question
from privmean.road import Enclosing, Plan
from privmean.study.items import Item

PREFIX = "look: "
DIGITS = 12
Looks = Mapping[str, Look]
Places = Mapping[str, Location]


@dataclass(frozen=True)
class LookedPlan(Enclosing):
    """A question's plan, beside the looks that it works from. budget: of both together: what the
    question could claim by itself; own: of the question's own lines."""

    budget: Budget
    own: Budget
    inner: Plan
    looks: tuple[Look, ...]

    def after(self, places: Places) -> LookedPlan | None:
        """The plan to run; None where the looks found nothing that it can start from."""
        inner: Any = self.inner
        located: LocatedPlan = inner
        found = located.after(tuple(places[look.column] for look in self.looks))
        return None if found is None else replace(self, inner=found)

    @property
    def paid(self) -> tuple[Loss, ...]:
        """The lines of the looks, in full, as a release by itself states them."""
        return look_lines(self.looks)

    @property
    def losses(self) -> tuple[Loss, ...]:
        return self.paid + self.inner.losses

    @property
    def why(self) -> str:
        columns = ", ".join(look.column for look in self.looks)
        return f"{self.inner.why} (look shared: {columns})"

    def describe(self) -> dict[str, Any]:
        told = self.inner.describe()
        if "budget" in told:  # of the release: that of its own lines is less
            told["budget"] = self.budget.to_dict()
        return {**told, "looks": [look.name for look in self.looks]}


def look_lines(looks: Sequence[Look]) -> tuple[Loss, ...]:
    """Their lines on the study's bill."""
    return tuple(
        replace(line, name=f"{PREFIX}{look.column}: {line.name}")
        for look in looks
        for line in look.losses
    )


def columns_used(question: Question) -> tuple[str, ...]:
    """The columns at which a question can use a look."""
    return question.looked_at if isinstance(question, Looking) else ()


def plan_of(question: Question, shape: Shape, own: Budget, looks: Looks) -> Plan:
    """The plan of a question whose own lines get this budget: from looks where it can use some."""
    used = tuple(column for column in columns_used(question) if column in looks)
    if not used:
        return planned(question, shape, own)
    assert isinstance(question, Looking)
    taken = tuple(looks[column] for column in used)
    if any(Look.of(x.column, shape.counted(), x.epsilon) is None for x in taken):
        raise Infeasible("the persons are too few to look at a column", "ask about more persons")
    inner = within_budget(question.located(used).plan(own, shape), own)
    return LookedPlan(_with(own, taken), own, inner, taken)


def _with(own: Budget, looks: Sequence[Look]) -> Budget:
    """What the question and its looks cost together, rounded up."""
    if own.rho is not None:
        spent = sum(line.rho for look in looks for line in look.losses)
        return replace(own, rho=(own.rho + spent) * (1 + 1e-12))
    assert own.epsilon is not None
    whole = as_written(own.epsilon) + sum((look.pure for look in looks), Fraction(0))
    unit = 10**DIGITS
    found = float(Fraction(-(-whole.numerator * unit // whole.denominator), unit))
    while as_written(found) < whole:
        found = float(Fraction(as_written(found)) + Fraction(1, unit))
    return replace(own, epsilon=found)


def looks_for(
    items: Sequence[Item], shapes: Mapping[str, Shape], shares: Mapping[str, Fraction], least: int
) -> dict[str, Look]:
    """A look for every column that a question needs one for and at least so many can use. shares:
    epsilon of each question alone, by name; a look costs what its dearest user would spend."""
    users: dict[str, list[Item]] = {}
    for item in items:
        for column in columns_used(item.question):
            users.setdefault(column, []).append(item)
    found: dict[str, Look] = {}
    for column, asking in users.items():
        needed = [x for x in asking if isinstance(x.question, Looking) and x.question.needs_look]
        persons = shapes[asking[0].name].persons
        if len(asking) < least or not needed or persons is None:
            continue
        look = Look.of(column, persons, max(shares[item.name] for item in needed))
        if look is not None:
            found[column] = look
    return found


def can_look(budget: Budget) -> bool:
    """Whether the number of persons is public, on which the prices of looks depend."""
    return budget.neighbors == REPLACE_ONE
