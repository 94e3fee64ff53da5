"""Many questions about one table, one budget, one guarantee: declared, planned, run.

A run charges, asks one question after the other, each within its part, and settles.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from privmean import validate
from privmean.api.call_options import CallOptions
from privmean.api.run_question import (
    CheckedOptions,
    awaited_keys,
    check_options,
    declared_of,
    in_words,
    ledger_of,
    source_of,
    to_person_table,
)
from privmean.data.schema import PublicShape, shape_of
from privmean.data.table import RecordMeans, Table
from privmean.errors import ArgumentError
from privmean.inference.status import FAILED
from privmean.noise.noise_source import ExactNoise
from privmean.pipeline import Performed, perform, run_step, settled
from privmean.privacy.budget import ADD_REMOVE
from privmean.privacy.guarantee import warn_of_delta
from privmean.release.stored_release import Provenance
from privmean.release.verify_study import UNPLACED
from privmean.study.shared_locations import PREFIX, SharedLocationPlan, StudyQuestion
from privmean.study.stored_answers import CannotResume, kept_only
from privmean.study.study_plan import StudyPlan, allot
from privmean.study.study_release import Answer, StudyRelease

if TYPE_CHECKING:
    from privmean.data.person_table import PersonTable
    from privmean.estimators.find_region import ClippingRegion
    from privmean.mechanisms.curator import AnswerStore
    from privmean.noise.noise_source import Noise
    from privmean.pipeline import Plan
    from privmean.privacy.ledger import Ledger
    from privmean.privacy.ledger_charges import LedgerEntry
    from privmean.privacy.privacy_events import PrivacyEvent
    from privmean.questions.base import Question
    from privmean.study.budget_shares import QuestionShare

LOST = (
    "An error occurred after the charge, in the engine or in privmean. Its text is withheld: it "
    "may depend on records."
)
CARD = {  # what a report says of its study
    "purpose": "what the study is for",
    "data": "name of the data set",
    "period": "the period that the data cover",
    "date": "the state of the data",
    "holder": "who holds the data",
    "audience": "who will see the outputs",
    "contact": "whom to ask",
}


def _card(given: Mapping[str, str]) -> dict[str, str]:
    validate.instance("card", given, Mapping, "give {field: text}")  # type: ignore[type-abstract]
    for name, text in given.items():
        if name not in CARD or not isinstance(text, str):
            raise ArgumentError(
                "card", name, "is not a field of the card", f"choose one of {', '.join(CARD)}"
            )
    return dict(given)


class Study:
    """Ask several questions about one table under one budget.

    Add questions by name (`add`), see the predicted errors (`plan`), and release all answers
    (`release`). A question without an estimate does not stop the others.

    Parameters
    ----------
    source : Table, path, DataFrame or people
        The records.
    person : str or array, optional
        Column that identifies people; required unless `source` says it.
    name : str, default "study"
        Name in releases and ledgers.
    simultaneous : bool, default False
        Make the intervals of all rows hold jointly (Bonferroni).
    card : dict, optional
        Texts of the report: purpose, data, period, date, holder, audience, contact.
    terms : float or str
        Budget and terms of the whole study; see `ask`.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    Person-level differential privacy: all releases of the study together keep the budget, for any
    data. The shares follow from public numbers. Source: docs/proofs/study.md.

    Examples
    --------
    study = pm.Study(pm.example("nlswork"), person="person_id", epsilon=2.0, delta=1e-6)
    study.add("wage", pm.Mean("ln_wage"), weight=2)
    bins = [1968, 1975, 1982, 1989]
    study.add("trend", pm.Curve("ln_wage", "year", bins=bins, assume=(0, 4)))
    print(study.plan())
    found = study.release()
    found["wage"].interval()
    """

    def __init__(
        self,
        source: Any,
        *,
        person: Any = None,
        name: str = "study",
        simultaneous: bool = False,
        card: Mapping[str, str] | None = None,
        **terms: Unpack[CallOptions],
    ) -> None:
        self._said = check_options(terms, Study)
        self.source = source_of(source, person)
        if not isinstance(name, str) or not name:
            raise ArgumentError("name", name, "is not a name", "name the study")
        self.name, self.simultaneous = name, validate.flag("simultaneous", simultaneous)
        self.card = _card(card or {})
        self._items: dict[str, StudyQuestion] = {}
        self._last: tuple[tuple[int, ...], dict[str, PublicShape], StudyPlan] | None = None

    @property
    def questions(self) -> Mapping[str, StudyQuestion]:
        """The questions by name, in the order in which they were added."""
        return dict(self._items)

    @property
    def options(self) -> CheckedOptions:
        """The terms of the study."""
        return self._said

    def add(
        self,
        name: str,
        question: Question,
        *,
        weight: float = 1.0,
        error: float | None = None,
        guess_sd: float | None = None,
        scale: float | None = None,
        label: str = "",
        unit: str = "",
        note: str = "",
    ) -> Study:
        """Add a question; returns the study.

        weight: of its error beside the others; 2 counts as two such questions.
        error: wanted root mean square error instead, with guess_sd, a public guess of the deviation
        between people (for planning only).
        scale: public guess of its sampling error, in the unit of the printed noise, which the split
        compares its noise with. Default: the predicted one.
        label, unit, note: for readers of the report: what the values are, such as "log wage", in
        which unit, and a remark.

        Raises ArgumentError for a name that is taken or is none.
        """
        item = StudyQuestion(name, question, weight, error, guess_sd, scale, label, unit, note)
        if name in self._items:
            raise ArgumentError("name", name, "is already used", "give every question its own name")
        self._items[name] = item
        return self

    def plan(self, n: int | None = None) -> StudyPlan:
        """Plan the budget split from public numbers; charges nothing.

        n: number of people, if public. Otherwise the column of people is counted; under add-remove
        `n_guess` replaces n. Raises InfeasibleError, with the least epsilon that is enough.
        """
        items = self._asked()
        if self._said.budget.neighbors == ADD_REMOVE:
            n = self._said.n_guess
            if n is None:
                return self.plan_for({})
        elif n is not None:
            n = validate.whole("n", n, least=1)
        elif isinstance(self.source, Table):
            n = self.source.count_people([pair for item in items for pair in item.columns])
        if n is None or any(item.question.summary.names is None for item in items):
            return self.plan_for(self.people(items))
        add_remove = self._said.budget.neighbors == ADD_REMOVE
        shapes = {}
        for item in items:
            columns = item.question.summary.names
            assert columns is not None
            max_records = getattr(item.question.summary, "max_records", None)
            known, guess = (None, n) if add_remove else (n, None)
            shapes[item.name] = PublicShape(columns, known, guess, max_records)
        return self._planned(items, shapes)

    def plan_for(self, people: Mapping[str, PersonTable]) -> StudyPlan:
        """The plan for people that were reduced: reads what is public of them."""
        items, budget = self._asked(), self._said.budget
        if budget.neighbors == ADD_REMOVE and self._said.n_guess is None:
            raise ArgumentError(
                "n_guess",
                None,
                "is required for a study under neighbors='add-remove'",
                "give a public guess of n",
            )
        shapes = {
            item.name: shape_of(people[item.name], budget.neighbors, self._said.n_guess)
            for item in items
        }
        return self._planned(items, shapes)

    def _planned(self, items: Sequence[StudyQuestion], shapes: dict[str, PublicShape]) -> StudyPlan:
        """The plan; the last one again where nothing has changed."""
        known, asked = self._last, tuple(map(id, items))  # items are held as long as the study
        if known is None or known[:2] != (asked, shapes):
            table = self.source if isinstance(self.source, Table) else None
            ready = tuple(
                replace(item, question=item.question.with_public_facts(table)) for item in items
            )
            typed = {
                item.name: replace(shapes[item.name], declared=declared_of(item.question))
                for item in ready
            }
            budget = self._said.budget
            shares = allot(ready, typed, budget, looking=table is not None)
            made = StudyPlan(ready, typed, budget, shares, self.name)
            known = self._last = asked, shapes, made
        return known[2]

    def people(self, items: Sequence[StudyQuestion] | None = None) -> dict[str, PersonTable]:
        """One row a person for every question; equal summaries are reduced once. Private."""
        source = self.source
        if not isinstance(source, Table):
            return {item.name: source for item in items or self._asked()}
        return {item.name: _reduced(source, item) for item in items or self._asked()}

    def release(
        self,
        *,
        ledger: Ledger | str | None = None,
        noise: Noise | None = None,
        label: str | None = None,
        analyst: str = "",
        draws: Callable[[str], AnswerStore] | None = None,
    ) -> StudyRelease:
        """Charge once, run every question, and give all releases under one guarantee.

        ledger, noise: as for every call. label, analyst: texts of the ledger entry. draws: for
        every question, where its noisy answers are kept.

        Raises ArgumentError, InfeasibleError or BudgetExceededError before anything is charged. A
        question without an estimate is not an error: its release says so, and the others are there.
        """
        return run(self, ledger=ledger, noise=noise, label=label, analyst=analyst, draws=draws)

    @property
    def table_name(self) -> str:
        """The table by its file's name and its person column; "" for what has neither."""
        return self.source.name if isinstance(self.source, Table) else ""

    def _asked(self) -> tuple[StudyQuestion, ...]:
        if not self._items:
            raise ArgumentError("questions", None, "are required", "add one: study.add(name, ...)")
        return tuple(self._items.values())

    def __repr__(self) -> str:
        asked = ", ".join(self._items)
        return f"Study({self.name}: {self._said.budget.describe()}, questions: {asked or 'none'})"


def _reduced(source: Table, item: StudyQuestion) -> PersonTable:
    """One row a person for a question, which an error names."""
    try:
        return to_person_table(source, awaited_keys(source, item.question))
    except ArgumentError as refused:
        name = f"{item.name}.{refused.argument}"
        raise ArgumentError(name, refused.value, refused.problem, refused.remedy) from None


# --- a run ----------------------------------------------------------------------------------------
def run(
    study: Study,
    *,
    ledger: Ledger | str | None = None,
    noise: Noise | None = None,
    label: str | None = None,
    analyst: str = "",
    draws: Callable[[str], AnswerStore] | None = None,
    run_id: str | None = None,
    claimed: Callable[[StudyPlan], None] | None = None,
    charged: Callable[[LedgerEntry | None], None] | None = None,
) -> StudyRelease:
    """See `Study.release`. draws: for every question, where its noisy answers are kept; run_id: of
    the run that is gone on with; claimed, charged: told of the plan before the charge, and of the
    charge before any noise."""
    said = study.options
    ledger = said.ledger if ledger is None else ledger_of(ledger)
    label = in_words("label", label) or said.label
    analyst = in_words("analyst", analyst) or said.analyst
    noise = said.noise if noise is None else noise
    people = study.people()
    plan = study.plan_for(people)
    looked = {}
    if isinstance(study.source, Table):  # looks are at columns of a table
        for look in plan.shared_locations:
            looked[look.column] = study.source.people(RecordMeans((look.column,)))
    for part in plan.parts:
        part.plan.check_table(people[part.name])
    promise, entry, run = plan.guarantee, None, run_id or uuid.uuid4().hex
    warn_of_delta(promise, plan.parts[0].plan.shape.count)
    if claimed is not None:
        claimed(plan)
    if ledger is not None:
        about = {
            "analyst": analyst,
            "questions": ", ".join(f"{item.name} ({item.question.kind})" for item in plan.items),
            "table": study.table_name,
            "plan": plan.digest,
            "run": run,
        }
        told = {name: text for name, text in about.items() if text}
        entry = ledger.charge(
            promise, label=label or study.name, about=told, replay=draws is not None
        )
        if draws is not None and entry.settlement is not None:
            draws = kept_only(draws)
    if charged is not None:
        charged(entry)
    places: dict[str, ClippingRegion] = {}
    asked: list[PrivacyEvent] = []
    follows = True  # from noisy answers alone: not if anything was lost to an error
    for look in plan.shared_locations:
        kept = None if draws is None else draws(f"{PREFIX}{look.column}")
        with _losing_all_but(
            CannotResume
        ):  # a look that is lost leaves its questions without an answer
            places[look.column] = run_step(
                look.run, look.events, looked[look.column], noise=noise, draws=kept
            )
            asked += look.events
        follows &= look.column in places
    note = (
        f"part of the study {study.name!r}, charged with it: {promise.describe()} in all",
        f"study {study.name!r}, run {run}",
    )
    answers = []
    for item, part in zip(plan.items, plan.parts, strict=True):
        kept = None if draws is None else draws(item.name)
        answer, own = Answer(item, part, None, FAILED, LOST), False
        with _losing_all_but(CannotResume):  # the study was charged: the other questions are owed
            made = _asked(item, part, places, people[item.name], said.level, noise, kept)
            if made is None:
                columns = ", ".join(look.column for look in part.looks)
                text = f"{UNPLACED} ({columns}). Give bounds, raise epsilon or add people."
                answer, own = Answer(item, part, None, FAILED, text), True
            else:
                words, parent = note
                own_part = replace(made.release.guarantee, note=words, parent_run=parent)
                release = replace(made.release, guarantee=own_part)
                answer = Answer(item, part, item.question.to_release(release))
                asked, own = [*asked, *made.asked], made.follows_from_answers
        follows &= own
        answers.append(answer)
    secure = (ExactNoise() if noise is None else noise).secure
    engine = next((getattr(item, "engine", None) for item in people.values()), None)
    provenance = Provenance.made_by(engine)
    if ledger is not None and entry is not None:
        entry = settled(ledger, entry, asked, follows=follows)
        provenance = provenance.charged_to(entry)
    found = StudyRelease(
        name=study.name,
        answers=tuple(answers),
        plan=plan,
        guarantee=promise,
        level=said.level,
        simultaneous=study.simultaneous,
        secure=secure,
        run_id=run,
        card=study.card,
        provenance=provenance,
    )
    return found.with_simultaneous() if study.simultaneous else found


def _asked(
    item: StudyQuestion,
    part: QuestionShare,
    places: Mapping[str, ClippingRegion],
    people: PersonTable,
    level: float,
    noise: Noise | None,
    draws: AnswerStore | None,
) -> Performed | None:
    """The release of one question; None where the looks that it works from found nothing."""
    plan: Plan = part.plan
    paid: tuple[PrivacyEvent, ...] = ()
    if isinstance(plan, SharedLocationPlan):
        paid, found = plan.paid, plan.after(places)
        if found is None:
            return None
        plan = found
    return perform(plan, people, noise=noise, level=level, draws=draws, paid=paid)


@contextmanager
def _losing_all_but(kept: type[Exception]) -> Iterator[None]:
    """Which error it was may depend on the records: nobody is told."""
    try:
        yield
    except kept:
        raise
    except Exception:
        pass
