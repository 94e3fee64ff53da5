"""A study run: charge, then one question after the other, each within its part."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from privmean.asking.terms import in_words, ledger_of
from privmean.mechanisms.curator import Draws
from privmean.noise.base import Noise
from privmean.noise.exact import ExactNoise
from privmean.privacy.words import warn_of_delta
from privmean.provenance import Provenance
from privmean.road import execute, taken
from privmean.study.draws import Gone
from privmean.study.looking import PREFIX, LookedPlan
from privmean.study.release import NOT_ANSWERED, Answer, StudyRelease

if TYPE_CHECKING:
    from privmean.asking.terms import Settled
    from privmean.central.location import Location
    from privmean.people.reductions import People
    from privmean.privacy.charges import Entry
    from privmean.privacy.ledger import Ledger
    from privmean.privacy.loss import Loss
    from privmean.release import Release
    from privmean.road import Plan
    from privmean.study.items import Item
    from privmean.study.parts import Part
    from privmean.study.plan import StudyPlan

LOST = (
    "an error after the charge, in the engine or in privmean; which one is not told, because it "
    "may depend on records"
)


class Asking(Protocol):
    """What a run reads of a study."""

    name: str
    simultaneous: bool
    card: dict[str, str]

    @property
    def said(self) -> Settled: ...
    @property
    def table_name(self) -> str: ...
    def people(self) -> dict[str, People]: ...
    def located(self, columns: Sequence[str]) -> dict[str, People]: ...
    def planned(self, people: dict[str, People]) -> StudyPlan: ...


def run(
    study: Asking,
    *,
    ledger: Ledger | str | None = None,
    noise: Noise | None = None,
    label: str | None = None,
    analyst: str = "",
    draws: Callable[[str], Draws] | None = None,
    run_id: str | None = None,
    claimed: Callable[[StudyPlan], None] | None = None,
    charged: Callable[[Entry | None], None] | None = None,
) -> StudyRelease:
    """See `Study.release`. draws: for every question, where its noisy answers are kept; run_id: of
    the run that is gone on with; claimed, charged: told of the plan before the charge, and of the
    charge before any noise."""
    said = study.said
    ledger = said.ledger if ledger is None else ledger_of(ledger)
    label = in_words("label", label) or said.label
    analyst = in_words("analyst", analyst) or said.analyst
    noise = said.noise if noise is None else noise
    people = study.people()
    plan = study.planned(people)
    looked = study.located([look.column for look in plan.looks])
    for part in plan.parts:
        part.plan.accepts(people[part.name])
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
        entry = ledger.charge(promise, label=label or study.name, about=told)
    if charged is not None:
        charged(entry)
    places: dict[str, Location] = {}
    for look in plan.looks:
        kept = None if draws is None else draws(f"{PREFIX}{look.column}")
        with _losing_all_but(Gone):  # a look that is lost leaves its questions without an answer
            places[look.column] = taken(look, looked[look.column], noise=noise, draws=kept)
    note = (
        f"part of the study {study.name!r}, charged with it: {promise.describe()} in all",
        f"study {study.name!r}, run {run}",
    )
    answers = []
    for item, part in zip(plan.items, plan.parts, strict=True):
        kept = None if draws is None else draws(item.name)
        answer = Answer(item, part, None, NOT_ANSWERED, LOST)
        with _losing_all_but(Gone):  # what was charged is spent: the other questions are owed
            made = _asked(item, part, places, people[item.name], said.level, noise, kept, note)
            answer = Answer(item, part, made) if made is not None else _unplaced(item, part)
        answers.append(answer)
    secure = (ExactNoise() if noise is None else noise).secure
    engine = next((getattr(item, "engine", None) for item in people.values()), None)
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
        provenance=Provenance().made_by(engine, entry),
    )
    return found.together() if study.simultaneous else found


def _asked(
    item: Item,
    part: Part,
    places: Mapping[str, Location],
    people: People,
    level: float,
    noise: Noise | None,
    draws: Draws | None,
    note: tuple[str, str],
) -> Release | None:
    """The release of one question; None where the looks that it works from found nothing."""
    plan: Plan = part.plan
    paid: tuple[Loss, ...] = ()
    if isinstance(plan, LookedPlan):
        paid, found = plan.paid, plan.after(places)
        if found is None:
            return None
        plan = found
    made = execute(plan, people, noise=noise, level=level, draws=draws, paid=paid)
    words, study = note
    promise = replace(made.guarantee, note=words, part_of=study)
    return item.question.told(replace(made, guarantee=promise))


def _unplaced(item: Item, part: Part) -> Answer:
    columns = ", ".join(look.column for look in part.looks)
    return Answer(
        item, part, None, NOT_ANSWERED,
        f"the look that it works from found no limits ({columns}): give bounds, a larger budget, "
        "or ask about more persons",
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
