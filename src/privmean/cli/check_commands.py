"""Commands that check: `privmean audit` what neighbors change, against what is declared; `verify`,
`sign` and `keygen` what a third party can tell of a release, and who signed it.

An audit ends with 0 only without violations, and not where nothing was audited: whoever looks at
the status alone is not told that all is well.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privmean.api import call_options as words
from privmean.cli import options as opt
from privmean.cli.options import grouped

if TYPE_CHECKING:
    from privmean.questions.base import Question


VIOLATED = 1
NOTHING_AUDITED = 2  # as where a release is refused: these arguments cannot work
OWN_SECONDS = 40.0  # for a table of one's own, unless a number of runs is asked for


@grouped
def audit(
    table: Annotated[
        str | None,
        typer.Argument(help="Audit a question on this table; else built-in tables."),
    ] = None,
    person: Annotated[str | None, "Name the column that identifies people."] = None,
    value: Annotated[list[str] | None, "Name a column to average; repeat for more."] = None,
    runs: Annotated[int | None, "Replay this often (5000; 2000 on a table of yours)."] = None,
    seed: Annotated[int, "Set the seed of neighbors and simulated noise."] = 0,
    processes: Annotated[int | None, "Use this many processes."] = None,
    *,
    budget: words.BudgetOptions,
    neighbors: Annotated[str | None, "Use replace-one or add-remove; the default is both."] = None,
    estimating: opt.Estimating,
    as_json: opt.Json = False,
) -> None:
    """Test the privacy guarantee on adversarial neighboring tables.

    Spends nothing, makes no release and prints nothing of the table. Exit status 0 if no violation
    was found, 1 if one was, 2 if nothing was audited (every plan was refused, say). For the full
    audit: --runs 100000.
    """
    from privmean.auditing.audit import audit as run
    from privmean.errors import ArgumentError

    question, terms = None, _terms(budget, neighbors)
    if table is None:
        for name, given in (("--person", person), ("--value", value)):
            if given:
                raise ArgumentError(name, given, "requires a table", "name its file first")
    else:
        question = _question(person, value, estimating)
    if processes is None:
        many = runs is not None and runs >= 20_000
        processes = (os.cpu_count() or 1) if many else 1
    report = run(
        question,
        table,
        person=person,
        runs=runs,
        seed=seed,
        processes=processes,
        seconds=OWN_SECONDS if table is not None and runs is None else None,
        **terms,
    )
    if as_json:
        typer.echo(json.dumps(report.to_dict(), allow_nan=False))
    else:
        typer.echo(str(report))
        if runs is None:
            typer.echo("\nmore neighbors: --runs 100000 (minutes); other ones: --seed")
    if report.violations:
        raise typer.Exit(VIOLATED)
    if not report.audited:
        raise typer.Exit(NOTHING_AUDITED)


def _terms(budget: words.BudgetOptions, neighbors: str | None) -> dict[str, Any]:
    from privmean.privacy.budget import relation_of

    terms: dict[str, Any] = {**asdict(budget), "delta": budget.delta or None}
    if neighbors is not None:
        terms["neighbors"] = relation_of(neighbors)
    return {name: given for name, given in terms.items() if given is not None}


def _question(person: str | None, value: list[str] | None, estimating: opt.Estimating) -> Question:
    from privmean.api.parse_question import question_of
    from privmean.errors import ArgumentError

    if person is None:
        raise ArgumentError(
            "--person", None, "is required", "name the column that identifies people"
        )
    if not value:
        raise ArgumentError("--value", None, "is required", "name the column to average")
    made: Question = question_of("mean", {"values": tuple(value), **estimating.words()}, "--{}")
    return made


WRONG = 1

ReleaseFile = Annotated[
    Path, typer.Argument(help="Read a release written by `privmean ... --json`.")
]


@grouped
def verify(
    release: ReleaseFile,
    key: Annotated[Path | None, "Check the signature with this public key (PEM)."] = None,
    ledger: Annotated[Path | None, "Check that this ledger holds the charge."] = None,
    as_json: opt.Json = False,
) -> None:
    """Verify a stored release without the data.

    Says what was checked and what cannot be. Exit status 0 if all is right, 1 if something is
    wrong, 2 if the file, key or ledger cannot be read.
    """
    from privmean.release.verification import verify as check

    found = check(release, key=key, ledger=ledger)
    typer.echo(json.dumps(found.to_dict()) if as_json else found.describe())
    if not found:
        raise typer.Exit(WRONG)


@grouped
def sign(
    release: ReleaseFile,
    key: Annotated[Path, "Sign with this private key (PEM, Ed25519)."],
    out: Annotated[Path | None, "Write the signed release to this file."] = None,
) -> None:
    """Sign a stored release; its digest changes."""
    from privmean.errors import ArgumentError
    from privmean.plain_data import parsed
    from privmean.release.signing import sign as signed

    try:
        stored = parsed(release.read_bytes())
    except (OSError, ValueError):
        stored = None
    if not isinstance(stored, dict):
        raise ArgumentError(
            "release",
            str(release),
            "is not a stored release",
            "give a file written by `privmean ... --json`",
        )
    text = json.dumps(signed(stored, key), allow_nan=False)
    if out is None:
        typer.echo(text)
        return
    opt.written_to(out, text + "\n")


def keygen(
    key: Annotated[
        Path, typer.Argument(help="Write the private key here and the public one to KEY.pub.")
    ],
) -> None:
    """Make a private and a public key for signatures (Ed25519)."""
    from privmean.release.signing import make_keys

    private, public = make_keys(key)
    typer.echo(f"private key: {private} (keep it)\npublic key: {public} (publish it)")
