"""A study run in a folder: release.json, the report, a CSV a question; goes on if stopped."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from privmean.data.table import Table
from privmean.release.result_rows import NAMES
from privmean.study.run_folder import RunFolder, held
from privmean.study.run_study import run
from privmean.study.study_release import stored_questions
from privmean.study.study_report import pages

if TYPE_CHECKING:
    from privmean.noise.noise_source import Noise
    from privmean.privacy.ledger import Ledger
    from privmean.study.study import Study


def run_in(
    study: Study,
    out: str | os.PathLike[str],
    *,
    ledger: Ledger | None = None,
    noise: Noise | None = None,
    label: str | None = None,
    analyst: str = "",
    moved: bool = False,
) -> dict[str, Any]:
    """Run a study in a folder, or go on with the run that was begun there, or give its result.

    moved: the caller's word that the folder, moved from another machine, is the newest copy.

    Returns what release.json holds. Raises ArgumentError, InfeasibleError or BudgetExceededError
    before anything is charged; CannotResume where a run was begun that cannot go on, saying why.
    """
    with held(out, moved=moved) as folder:
        folder.bind(declared(study, noise))
        if not folder.finished:
            _run(study, folder, ledger, noise, label, analyst)
        return folder.result()


def declared(study: Study, noise: Noise | None = None) -> dict[str, Any]:
    """What a study says, beside its table's content: a folder holds the run of one study."""
    said, source = study.options, study.source
    noise = said.noise if noise is None else noise
    table: dict[str, Any] = {}
    if isinstance(source, Table):  # ids that are no column lie in memory
        person = source.person if isinstance(source.person, str) else None
        table = {"person": person, "text options": repr(sorted(source.text.items()))}
    return table | {
        "name": study.name,
        "budget": said.budget.to_dict(),
        "neighbors": said.budget.neighbors,
        "n_guess": said.n_guess,
        "level": said.level,
        "simultaneous": study.simultaneous,
        "questions": [repr(item) for item in study.questions.values()],
        "secure noise": noise is None or noise.secure,
    }


def _run(
    study: Study,
    folder: RunFolder,
    ledger: Ledger | None,
    noise: Noise | None,
    label: str | None,
    analyst: str,
) -> None:
    draws = folder.draws()
    found = run(
        study,
        ledger=ledger,
        noise=noise,
        label=label,
        analyst=analyst,
        run_id=folder.run_id,
        draws=draws.of,
        claimed=lambda plan: folder.claim(plan.digest, study.source),
        charged=folder.charged,
    )
    stored = found.to_dict()
    for question in stored_questions(stored):
        folder.write(f"{question['name']}.csv", csv_of(question))
    facts = {"table": study.table_name, "analyst": analyst}
    for name, text in pages(stored, **facts).items():
        folder.write(name, text)
    folder.finish(json.dumps(stored, allow_nan=False) + "\n")


def csv_of(question: Mapping[str, Any]) -> str:
    """The rows of one stored question; empty cells where there is no number."""
    release = question.get("release")
    rows = release["rows"] if isinstance(release, Mapping) else []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(NAMES)
    for row in rows:
        writer.writerow(["" if row[name] is None else row[name] for name in NAMES])
    return text.getvalue()
