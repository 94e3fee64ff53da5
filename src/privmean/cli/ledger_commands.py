"""privmean ledger: make one, read it, check it, and ask what would still fit."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from privmean.api import call_options as words
from privmean.cli import options as opt
from privmean.cli.options import grouped
from privmean.errors import ArgumentError
from privmean.output import printable

if TYPE_CHECKING:
    from privmean.privacy.ledger_charges import Policy

TOO_MUCH = 3
SHOWN = ("analyst", "questions", "table")  # of what a charge was for

app = typer.Typer(
    no_args_is_help=True,
    help="Create, show and check ledgers of privacy budgets.",
)
Place = Annotated[str, typer.Argument(help="Give a file, or a database as sqlite:///team.db#name.")]
Limits = Annotated[
    list[str] | None,
    "Add a limit WHO/PERIOD=EPSILON[,DELTA]; repeat for more.",
    "--limit",
]


@app.command()
@grouped
def create(
    ledger: Place,
    *,
    budget: words.BudgetOptions,
    limit: Limits = None,
) -> None:
    """Create a ledger with a total and limits per analyst."""
    from privmean.privacy.ledger import Ledger, home_of

    if home_of(ledger).exists():
        raise ArgumentError("ledger", ledger, "already exists", "name a new one")
    policies = [policy_of(text, budget.rho is not None) for text in limit or ()]
    made = Ledger(ledger, **asdict(budget), policies=policies)
    typer.echo(f"{ledger}: {made.total.describe()} for one group of people")
    for policy in made.policies:
        typer.echo(f"  {policy.describe()}")


def policy_of(text: str, zcdp: bool) -> Policy:
    """WHO/PERIOD=EPSILON[,DELTA] as a policy."""
    from privmean.privacy.ledger_charges import Policy

    who, _, number = text.partition("=")
    name, _, period = who.partition("/")
    form = "WHO/PERIOD=RHO" if zcdp else "WHO/PERIOD=EPSILON[,DELTA]"
    example = "*/month=0.1" if zcdp else "*/month=1.0,1e-7"
    wrong = ArgumentError(
        "--limit", text, f"is not of the form {form}", f"use for example '{example}'"
    )
    try:
        first, *rest = [float(item) for item in number.split(",")]
    except ValueError:
        raise wrong from None
    if len(rest) > (0 if zcdp else 1):  # a number that is left out would be no limit
        raise wrong
    analyst = None if name in ("", "all") else name
    when = period or "always"
    try:
        if zcdp:
            return Policy(rho=first, analyst=analyst, period=when)
        return Policy(first, rest[0] if rest else 0.0, analyst=analyst, period=when)
    except ArgumentError as error:
        problem = f"has {error.argument}={error.value!r}, which {error.problem}"
        raise ArgumentError("--limit", text, problem, error.remedy) from None


@app.command()
@grouped
def show(ledger: Place, as_json: opt.Json = False) -> None:
    """Show the charges of a ledger and what is left."""
    from privmean.privacy.ledger import Ledger

    book = Ledger.open(ledger)
    entries, left = book.entries, book.left()
    if as_json:
        found = {
            "total": book.total.to_dict(),
            "policies": [policy.to_dict() for policy in book.policies],
            "left": left.to_dict(),
            "entries": [
                {
                    "number": entry.number,
                    "digest": entry.digest,
                    "label": entry.label,
                    "reserved": entry.amount.to_dict(),
                    "settled": None if entry.settlement is None else entry.counted.to_dict(),
                    "relation": entry.relation,
                    "unit": entry.unit,
                    "when": entry.when,
                    "about": dict(entry.about),
                }
                for entry in entries
            ],
        }
        typer.echo(json.dumps(found, allow_nan=False))
        return
    typer.echo(f"total {book.total.describe()}, left {left.describe()}")
    for policy in book.policies:
        typer.echo(f"  limit: {policy.describe()}")
    for entry in entries:
        said = [
            entry.label,
            *(f"{name} {entry.about[name]}" for name in SHOWN if name in entry.about),
        ]
        told = printable("; ".join(said))  # a label with a line end would look like more entries
        typer.echo(f"{entry.number:>5}  {entry.when}  {entry.describe()}  {told}")


@app.command()
def check(ledger: Place) -> None:
    """Check that no entry of a ledger was changed or removed."""
    from privmean.privacy.ledger import Ledger

    book = Ledger.open(ledger)
    entries = book.entries
    lines = [(item.number, item.digest) for item in entries]
    lines += [
        (item.settlement.number, item.settlement.digest) for item in entries if item.settlement
    ]
    _, last = max(lines, default=(0, "none"))
    typer.echo(
        f"{len(entries)} charges, each chained to the one before; {book.left().describe()} "
        f"of {book.total.describe()} is left\nlast digest: {last}\n"
        "it is the newest that you used on this machine; compare the last digest with other users"
    )


@app.command()
@grouped
def plan(
    ledger: Place,
    *,
    budget: words.BudgetOptions,
    analyst: opt.Analyst = "",
) -> None:
    """Check whether a budget fits (exit status 0) or not (3)."""
    from datetime import UTC, datetime

    from privmean.privacy.budget import Budget
    from privmean.privacy.ledger import Ledger

    book = Ledger.open(ledger)
    wanted = book.price_of(Budget(**asdict(budget)))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    rows = [("total", book.left())]
    rows += [
        (policy.describe(), policy.left(book.entries, analyst, now))
        for policy in book.policies
        if policy.concerns(analyst)
    ]
    fits = all(left.covers(wanted) for _, left in rows)
    for name, left in rows:
        word = "fits" if left.covers(wanted) else "does NOT fit"
        typer.echo(f"{word}: {left.describe()} left of {name}")
    if not fits:
        raise typer.Exit(TOO_MUCH)
