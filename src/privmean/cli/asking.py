"""The commands that ask one question each: made from its declaration, shown in one place."""

from __future__ import annotations

from pathlib import Path

import typer

from privmean.cli import options as opt
from privmean.cli.derive import Asked, command
from privmean.errors import ArgumentError

PRIVATE_FAILURE = 3
COMMANDS = {"mean": "mean", "regression": "regress", "curve": "curve", "variance": "variance"}


def release_and_show(said: Asked) -> None:
    """Ask, print, and end with 3 where the private outcome is a failure."""
    import privmean as pm
    from privmean.asking.functions import MOVED
    from privmean.asking.road import asked
    from privmean.asking.terms import settled

    key = opt.signing_key(said.sign, said.as_json)
    if said.plot is not None:
        _ready(said.plot)  # before anything is spent
    ledger = said.terms.pop("ledger")
    terms = settled({**said.terms, "ledger": ledger and pm.Ledger.open(ledger)}, "this", MOVED)
    machine = pm.Machine(**said.machine, progress=opt.on_terminal())
    table = pm.Table(said.source, person=said.person, machine=machine, **said.table)
    release = asked(table, said.question, terms)
    if said.as_json:
        typer.echo(opt.stored(release, key))
    else:
        typer.echo(release.summary())
    if release.failed:
        raise typer.Exit(PRIVATE_FAILURE)
    if said.plot is not None:
        release.plot().figure.savefig(said.plot)  # type: ignore[attr-defined]


def _ready(plot: str) -> None:
    """Refuse a picture that could not be written."""
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise ArgumentError("--plot", plot, "needs matplotlib", "install privmean[plot]")
    path = Path(plot)
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ArgumentError("--plot", plot, "is no picture", "end it in .png, .svg or .pdf")
    if not path.parent.is_dir():
        raise ArgumentError("--plot", plot, "is in no folder", "make the folder first")


def add(app: typer.Typer) -> None:
    """Add a command for every kind of question."""
    for kind, name in COMMANDS.items():
        app.command(name)(command(kind, release_and_show))
