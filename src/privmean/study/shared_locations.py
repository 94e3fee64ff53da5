"""Looks at columns that several questions share, and plans of questions that work from them.

A shared location query is a step of the study: drawn once, before the questions, and in the
accounting once, in full; whatever questions make of what it found costs nothing more.
docs/proofs/study.md, section 5.

One question of a study, with what the study says of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from fractions import Fraction
from typing import Annotated, Any

from privmean import validate
from privmean.api.run_question import make_plan, within_budget
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.find_region import ClippingRegion
from privmean.estimators.means.region_mean import SharedLocationQuery
from privmean.pipeline import Plan, WrapperPlan
from privmean.privacy.budget import REPLACE_ONE, Budget, exact_fraction
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.questions.base import COLUMNS, Question, RegionPlan, SharesLocation

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,63}")


@dataclass(frozen=True)
class StudyQuestion:
    """One question of a study. Without a wanted error it has a share of what the others leave. A
    study does not depend on what is for readers of its report."""

    name: str
    question: Question
    weight: Annotated[float, "Weight of its squared error beside the others."] = 1.0
    error: Annotated[float | None, "Wanted root mean square error, instead of a weight."] = None
    guess_sd: Annotated[
        float | None, "Public guess of the deviation between people, for planning only."
    ] = None
    scale: Annotated[
        float | None, "Public guess of its sampling error, which the split compares noise with."
    ] = None
    label: Annotated[str, "What the values are, for readers of the report."] = field(
        default="", repr=False
    )
    unit: Annotated[str, "Unit of the values, for readers of the report."] = field(
        default="", repr=False
    )
    note: Annotated[str, "Remark for readers of the report."] = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise ArgumentError(
                "name",
                self.name,
                "is not a name of a question",
                "begin with a letter or digit, and use at most 64 letters, digits, ' ', "
                "'_', '-' or '.'",
            )
        if self.name == "look":
            raise ArgumentError(
                "name", self.name, "is reserved for shared location queries", "choose another name"
            )
        if not hasattr(self.question, "estimator") or isinstance(self.question, type):
            raise ArgumentError(
                "question", self.question, "is not a question", "use for example pm.Mean(...)"
            )
        for word in ("label", "unit", "note"):
            if not isinstance(getattr(self, word), str):
                raise ArgumentError(word, getattr(self, word), "is not text", "give text")
        validate.keep(self, validate.positive, "weight")
        if self.guess_sd is not None:
            validate.keep(self, validate.positive, "guess_sd")
        if self.scale is not None:
            validate.keep(self, validate.positive, "scale")
        if self.error is None:
            return
        validate.keep(self, validate.positive, "error")
        for name, value, unset in (("weight", self.weight, 1.0), ("scale", self.scale, None)):
            if value != unset:
                raise ArgumentError(name, value, "cannot be combined with error", "use one of them")
        if self.guess_sd is None:
            raise ArgumentError(
                "guess_sd",
                None,
                f"is required with error ({self.name})",
                "give a public guess of the standard deviation between people",
            )

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The columns that the question names, each after its word; patterns are left out."""
        found: dict[str, str] = {}
        question: object = self.question
        if is_dataclass(question):
            said = {item.name: getattr(question, item.name) for item in fields(question)}
            for word in COLUMNS:
                named = said.get(word)
                for name in (named,) if isinstance(named, str) else tuple(named or ()):
                    found.setdefault(name, f"{self.name}.{word}")
        for name in (
            self.question.shareable_columns if isinstance(self.question, SharesLocation) else ()
        ):
            found.setdefault(name, f"{self.name}.formula")
        return [(word, name) for name, word in found.items() if "*" not in name and "?" not in name]


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
    if any(SharedLocationQuery.of(x.column, shape.number(), x.epsilon) is None for x in taken):
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
