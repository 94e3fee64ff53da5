"""The last part of the road: charge, run the plan before a curator, make the release, settle.

Nothing else charges a ledger, draws noise or makes a release. What a plan is for is checked here,
before the charge; what a release says of itself (accounting, guarantee, noise) is written here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from privmean.data.person_table import PersonTable
from privmean.errors import ArgumentError, PrivmeanError, PrivmeanWarning
from privmean.mechanisms.curator import AnswerStore, Curator, TrustedCurator
from privmean.noise.noise_source import ExactNoise, Noise
from privmean.output import HasOutput, Output
from privmean.privacy.budget import Budget, Relation
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release import result_numbers as released
from privmean.release.formatting import plan_output
from privmean.release.release import Release
from privmean.release.result_numbers import Outcome
from privmean.release.stored_release import Provenance

if TYPE_CHECKING:
    from privmean.data.schema import PublicShape
    from privmean.privacy.ledger import Ledger
    from privmean.privacy.ledger_charges import LedgerEntry

T = TypeVar("T")


class Plan(released.Plan, Protocol):
    """Everything decided before data are read; `run` is the only part that meets people.

    A plan is a frozen dataclass; it keeps the public values that it reads.
    """

    @property
    def budget(self) -> Budget: ...

    @property
    def shape(self) -> PublicShape:
        """The people it is for."""
        ...

    @property
    def unit(self) -> str:
        """Whose change the guarantee is about: "person", with all records."""
        ...

    @property
    def public(self) -> tuple[str, ...]:
        """What the guarantee treats as public."""
        ...

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """The worst-case accounting."""
        ...

    @property
    def fixed(self) -> bool:
        """Whether these lines, each used once and at a price that is a public number, cover the
        accounting of any run."""
        ...

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted errors at a guessed standard deviation between people."""
        ...

    def check_table(self, people: PersonTable) -> None:
        """Refuse people that lack what the plan asks of them; reads public facts only."""
        ...

    def run(self, curator: Curator) -> Outcome:
        """Ask the curator. Every branch depends on the plan and on noisy answers only."""
        ...


class Printed(Plan, Protocol):
    """A plan that states what `print` shows of it."""

    def expected(self) -> dict[str, dict[str, float]]: ...


class HasEvents(Protocol):
    """What has lines in the accounting: a mechanism, or a part of a plan."""

    @property
    def events(self) -> tuple[PrivacyEvent, ...]: ...


@dataclass(frozen=True)
class Step:
    """A priced step of a plan. name: what its part of the budget is for. price: that part (of
    epsilon, or of mu squared). mechanisms: what it asks at most, in order, each `times` times (once
    a column)."""

    name: str
    price: Fraction | float
    mechanisms: tuple[HasEvents, ...]
    times: int = 1

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return tuple(event for item in self.mechanisms for event in item.events) * self.times


class PlanBase(HasOutput):
    """What every plan of an estimator can do by itself. A plan states `steps`, in the order of its
    dearest run, and `details`; one whose lines do not follow from steps writes its own `events`."""

    unit = "person"

    if TYPE_CHECKING:

        @property
        def budget(self) -> Budget: ...

    @property
    def steps(self) -> tuple[Step, ...]:
        """The priced steps of the dearest run."""
        return ()

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """The worst-case accounting."""
        return tuple(event for step in self.steps for event in step.events)

    @property
    def shares(self) -> dict[str, float]:
        """What part of the budget each step has."""
        return {step.name: float(step.price) for step in self.steps}

    def details(self) -> dict[str, Any]:
        """Public facts of the plan besides its budget and its mechanisms."""
        return {}

    def describe(self) -> dict[str, Any]:
        """Public facts of the plan, for printing and JSON."""
        mechanisms = [event.to_dict() for event in self.events]
        return {"budget": self.budget.to_dict(), **self.details(), "mechanisms": mechanisms}

    @property
    def relation(self) -> Relation:
        """The neighbors of the guarantee."""
        return self.budget.neighbors

    def output(self: Printed) -> Output:
        """What `print` shows: the predicted error where people have a standard deviation of 1."""
        n = "" if self.shape.count is None else f"n = {self.shape.count:,}; "
        said = f"{n}errors in between-person standard deviations; planning charges nothing"
        return plan_output(self, said, self.expected(), declared=self.shape.declared)

    def expected(self: Plan) -> dict[str, dict[str, float]]:
        """Predicted errors of the rows that `print` shows, by label."""
        return {", ".join(self.shape.columns[:3]): self.predict(1.0)}

    @property
    def fixed(self) -> bool:
        """Most plans say nothing."""
        return False

    def check_table(self, people: PersonTable) -> None:
        """Any people of its shape will do."""

    def release(self: Plan, people: PersonTable, noise: Noise | None = None) -> Release:
        """Run the plan outside of any ledger, for studies and tests of one plan."""
        return execute(self, people, noise=noise)


class WrapperPlan(PlanBase):
    """A plan around another, `inner`, whose words and shape it takes over."""

    inner: Plan

    @property
    def shape(self) -> PublicShape:
        return self.inner.shape

    @property
    def estimator(self) -> str:
        return self.inner.estimator

    @property
    def rationale(self) -> str:
        return self.inner.rationale

    @property
    def public(self) -> tuple[str, ...]:
        return self.inner.public

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted errors of the plan inside."""
        return self.inner.predict(guess_sd)

    def describe(self) -> dict[str, Any]:
        return self.inner.describe()

    def check_table(self, people: PersonTable) -> None:
        self.inner.check_table(people)

    def run(self, curator: Curator) -> Outcome:
        return self.inner.run(curator)


def execute(
    plan: Plan,
    people: PersonTable,
    *,
    noise: Noise | None = None,
    ledger: Ledger | None = None,
    label: str | None = None,
    about: Mapping[str, str] | None = None,
    level: float = 0.95,
) -> Release:
    """Charge, run, release and settle. noise None means exact noise from the system's entropy."""
    _check(plan, people)
    if ledger is None:
        return perform(plan, people, noise=noise, level=level).release
    worst = Guarantee.of(plan.budget, plan.budget.neighbors, plan.events, unit=plan.unit)
    entry = ledger.charge(worst, label=label or plan.estimator, about=about)
    made = perform(plan, people, noise=noise, level=level)
    entry = settled(ledger, entry, made.asked, follows=made.follows_from_answers)
    return replace(made.release, provenance=made.release.provenance.charged_to(entry))


@dataclass(frozen=True)
class Performed:
    """A release; the lines that were asked for it, without those paid before; and whether it
    follows from noisy answers alone."""

    release: Release
    asked: tuple[PrivacyEvent, ...]
    follows_from_answers: bool


def perform(
    plan: Plan,
    people: PersonTable,
    *,
    noise: Noise | None = None,
    level: float = 0.95,
    draws: AnswerStore | None = None,
    paid: Sequence[PrivacyEvent] = (),
) -> Performed:
    """Run and release what was charged. draws: where noisy answers are kept before they are seen,
    if a run that was stopped is to go on. paid: lines of steps taken before (`run_step`) from which
    the plan works."""
    _check(plan, people)
    curator = TrustedCurator(people, ExactNoise() if noise is None else noise, draws, paid)
    outcome = plan.run(curator)
    promise = Guarantee.of(
        plan.budget, plan.budget.neighbors, curator.events, unit=plan.unit,
        public=(*plan.public, *plan.shape.declared),
    )  # fmt: skip
    found = outcome.findings()
    found["assumptions"] = (*outcome.assumptions, *plan.shape.declared)
    release = Release(
        estimate=outcome.shown,
        columns=tuple(people.columns),
        estimator=plan.estimator,
        guarantee=promise.require(),
        intervals=outcome.intervals,
        plan=plan,
        secure=curator.secure,
        level=level,
        provenance=Provenance().made_by(getattr(people, "engine", None)),
        **found,
    )
    asked = curator.events[len(paid) :]
    return Performed(release, asked, outcome.follows_from_answers)


def settled(
    ledger: Ledger, entry: LedgerEntry, asked: Sequence[PrivacyEvent], *, follows: bool
) -> LedgerEntry:
    """The entry of a run that has ended, after what it did not ask came back. Nothing does where
    the run does not follow from noisy answers alone, or where the ledger cannot be written."""
    if not follows:
        return entry
    try:
        return ledger.settle(entry, asked)
    except PrivmeanError as error:  # the release is owed all the same
        text = f"the whole charge stays, since the ledger could not be settled. {error}"
        warnings.warn(text, PrivmeanWarning, stacklevel=5)
        return entry


def run_step(
    run: Callable[[Curator], T],
    events: tuple[PrivacyEvent, ...],
    people: PersonTable,
    *,
    noise: Noise | None = None,
    draws: AnswerStore | None = None,
) -> T:
    """What one private step shows, whose answer several plans work from: drawn once. Whoever runs
    it has charged its lines (events), all of which it asks."""
    curator = TrustedCurator(people, ExactNoise() if noise is None else noise, draws)
    found = run(curator)
    if curator.events != events:
        raise PrivmeanError(
            "internal: a step asked for other mechanism calls than it was charged for"
        )
    return found


def _check(plan: Plan, people: PersonTable) -> None:
    """Whether these are the people of the plan; reads their number only where it is public."""
    width = plan.shape.dimension
    if len(people.columns) != width:
        raise ArgumentError(
            "people",
            len(people.columns),
            f"must match the number of columns of the plan, {width}",
            "plan with dimension=len(people.columns)",
        )
    persons = plan.shape.n
    if persons is not None and people.size() != persons:
        raise ArgumentError(
            "people",
            people.size(),
            f"does not match the plan for n={persons}",
            "plan again",
        )
    plan.check_table(people)
