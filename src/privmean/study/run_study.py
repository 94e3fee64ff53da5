"""A study run: charge, then one question after the other, each within its part; settle."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from privmean.api.call_options import in_words, ledger_of
from privmean.inference.status import FAILED
from privmean.mechanisms.curator import AnswerStore
from privmean.noise.exact import ExactNoise
from privmean.noise.noise_source import Noise
from privmean.pipeline import Performed, perform, run_step, settled
from privmean.privacy.guarantee import warn_of_delta
from privmean.release.provenance import Provenance
from privmean.release.verify_study import UNPLACED
from privmean.study.shared_locations import PREFIX, SharedLocationPlan
from privmean.study.stored_answers import CannotResume, kept_only
from privmean.study.study_release import Answer, StudyRelease

if TYPE_CHECKING:
    from privmean.api.call_options import CheckedOptions
    from privmean.data.person_table import PersonTable
    from privmean.estimators.find_region import ClippingRegion
    from privmean.pipeline import Plan
    from privmean.privacy.ledger import Ledger
    from privmean.privacy.ledger_charges import LedgerEntry
    from privmean.privacy.privacy_events import PrivacyEvent
    from privmean.study.budget_shares import QuestionShare
    from privmean.study.shared_locations import StudyQuestion
    from privmean.study.study_plan import StudyPlan

LOST = (
    "An error occurred after the charge, in the engine or in privmean. Its text is withheld: it "
    "may depend on records."
)


class StudyRun(Protocol):
    """What a run reads of a study."""

    name: str
    simultaneous: bool
    card: dict[str, str]

    @property
    def options(self) -> CheckedOptions: ...
    @property
    def table_name(self) -> str: ...
    def people(self) -> dict[str, PersonTable]: ...
    def table_with_regions(self, columns: Sequence[str]) -> dict[str, PersonTable]: ...
    def plan_for(self, people: dict[str, PersonTable]) -> StudyPlan: ...


def run(
    study: StudyRun,
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
    looked = study.table_with_regions([look.column for look in plan.shared_locations])
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
            places[look.column] = run_step(look, looked[look.column], noise=noise, draws=kept)
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
                answer, own = _unplaced(item, part), True
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
    provenance = Provenance().made_by(engine)
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


def _unplaced(item: StudyQuestion, part: QuestionShare) -> Answer:
    columns = ", ".join(look.column for look in part.looks)
    return Answer(
        item, part, None, FAILED,
        f"{UNPLACED} ({columns}). Give bounds, raise epsilon or add "
        "people.",
    )  # fmt: skip


@contextmanager
def _losing_all_but(kept: type[Exception]) -> Iterator[None]:
    """Which error it was may depend on the records: nobody is told."""
    try:
        yield
    except kept:
        raise
    except Exception:
        pass
