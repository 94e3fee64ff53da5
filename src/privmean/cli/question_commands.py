"""The commands that ask one question each: made from its declaration, shown in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from privmean.api.parse_question import QUESTIONS
from privmean.cli.derive_command import ParsedCommand, command

CALLED = {"regression": "regress"}  # commands whose name is not that of their question


def commands() -> dict[str, str]:
    """The command of every kind of question."""
    return {kind: CALLED.get(kind, kind) for kind in QUESTIONS}


def release_and_show(said: ParsedCommand) -> None:
    """Ask, print, and end with 3 where nothing that was asked has an estimate."""
    from privmean.api.call_options import check_options
    from privmean.api.functions import ask
    from privmean.api.run_question import run_question
    from privmean.data.table import Table

    key = said.shown.ready()
    terms = check_options(asdict(said.terms), ask, said.question.default_neighbors)
    table = Table(said.source, person=said.person, resources=said.reading.resources(), **said.table)
    said.shown.show(run_question(table, said.question, terms), key)


def question_command(kind: str) -> Callable[..., None]:
    """The command of a kind of question; imports what answers it."""
    return command(kind, release_and_show)
