"""privmean study: many questions about one table under one budget, from a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from privmean.api import call_options as words
from privmean.cli import options as opt
from privmean.cli.options import grouped
from privmean.errors import ArgumentError

app = typer.Typer(
    no_args_is_help=True,
    help="Plan and run a study of many questions from study.toml.",
)
StudyFile = Annotated[Path, typer.Argument(help="Read the study from this TOML file.")]
Persons = Annotated[int | None, "Give the public n; the roster is not read then."]


@app.command()
@grouped
def init(
    table: opt.TableFile,
    person: opt.Person,
    out: Annotated[Path, "Write the study to this file."] = Path("study.toml"),
    header: words.Header = None,
) -> None:
    """Write a first study file from the schema of a table."""
    from privmean.data.open_source import column_names
    from privmean.study.study_file import first_file

    if out.exists():
        raise ArgumentError("--out", str(out), "already exists", "name another file")
    text = first_file(table, person, column_names(table, person, header), header)
    opt.written_to(out, text)
    typer.echo(f"{out}: edit it, then `privmean study plan {out}`")


@app.command()
@grouped
def plan(
    study: StudyFile,
    n: Persons = None,
    as_json: opt.Json = False,
) -> None:
    """Predict the budget share and error of each question."""
    from privmean.study.study_file import read_study

    with _in_the_file():
        found = read_study(study).plan(n)
    typer.echo(json.dumps(found.describe(), allow_nan=False) if as_json else str(found))


@app.command()
@grouped
def run(
    study: StudyFile,
    out: Annotated[Path, "Write release.json, the report and CSVs to this folder."],
    ledger: opt.Ledger = None,
    label: Annotated[str | None, "Label the charge."] = None,
    analyst: Annotated[str, "Name the analyst in the ledger and the report."] = "",
    moved: Annotated[
        bool,
        "Accept a moved folder; never use the original again.",
        "--moved",
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """Run a study, or continue a run that was stopped.

    Exit status 0 if every question has an answer, 2 if nothing was spent or a run cannot go on, 3
    if a question has no estimate (the others are there).
    """
    from privmean.privacy.ledger import Ledger
    from privmean.study.run_folder import run_in
    from privmean.study.study_file import read_study

    book = None if ledger is None else Ledger.open(ledger)
    before = (out / "release.json").exists()
    with _in_the_file():
        stored = run_in(
            read_study(study), out, ledger=book, label=label, analyst=analyst, moved=moved
        )
    typer.echo(json.dumps(stored, allow_nan=False) if as_json else told(stored, out, before))
    if not all(answered(question) for question in stored["questions"]):
        raise typer.Exit(opt.PRIVATE_FAILURE)


@contextmanager
def _in_the_file() -> Iterator[None]:
    """What is refused of the table, in the words of the study's file."""
    from privmean.study.study_file import in_the_file

    try:
        yield
    except ArgumentError as refused:
        raise in_the_file(refused) from None


def answered(question: dict[str, Any]) -> bool:
    """Whether a stored question has an estimate of what it asked."""
    from privmean.release.release import Release

    release = question["release"]
    return release is not None and Release.from_dict(release).answered


def told(stored: dict[str, Any], out: Path, before: bool = False) -> str:
    """What a run prints: all questions in a table, the guarantee, where the files are. before:
    whether it was finished before."""
    from privmean.output import percent
    from privmean.privacy.guarantee import Guarantee
    from privmean.release.formatting import study_output
    from privmean.release.release import Release, provenance_of

    told_before = "Finished before; nothing was drawn or charged again. Read from"
    how = told_before if before else "Written to"
    joint = "simultaneous" if stored["simultaneous"] else "pointwise"
    parts = [
        (
            item["name"],
            None if item["release"] is None else Release.from_dict(item["release"]),
            item["status"],
        )
        for item in stored["questions"]
    ]
    return study_output(
        stored["name"],
        parts,
        Guarantee.from_dict(stored["guarantee"]),
        f"{percent(stored['level'])} confidence intervals, {joint}",
        [f"{how} {out}: release.json, the report (report.html), one CSV per question."],
        stored.get("warning", ""),
        provenance_of(stored["provenance"]),
    ).text()
