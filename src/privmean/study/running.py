"""A study run: charge, then one question after the other, each within its part."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from privmean.asking.terms import ledger_of
from privmean.mechanisms.curator import Draws
from privmean.noise.base import Noise
from privmean.noise.exact import ExactNoise
from privmean.privacy.words import warn_of_delta
from privmean.provenance import Provenance
from privmean.road import execute
from privmean.study.draws import Gone
from privmean.study.release import NOT_ANSWERED, Answer, StudyRelease

if TYPE_CHECKING:
    from privmean.asking.terms import Settled
    from privmean.people.reductions import People
    from privmean.privacy.charges import Entry
    from privmean.privacy.ledger import Ledger
    from privmean.study.plan import StudyPlan

LOST = (
    "an error after the charge, in the engine or in privmean; its words are withheld because they "
    "may quote records"
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
    label, analyst = label or said.label, analyst or said.analyst
    noise = said.noise if noise is None else noise
    people = study.people()
    plan = study.planned(people)
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
    answers = []
    for item, part in zip(plan.items, plan.parts, strict=True):
        try:
            made = execute(
                part.plan,
                people[item.name],
                noise=noise,
                level=said.level,
                draws=None if draws is None else draws(item.name),
            )
            note = f"part of the study {study.name!r}, charged with it: {promise.describe()} in all"
            made = replace(made, guarantee=replace(made.guarantee, note=note))
            answers.append(Answer(item, part, item.question.told(made)))
        except Gone:
            raise
        except Exception as error:  # what was charged is spent: the other questions are owed
            answers.append(Answer(item, part, None, NOT_ANSWERED, LOST, type(error).__name__))
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
