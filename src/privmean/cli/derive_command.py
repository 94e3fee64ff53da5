"""The commands that ask one question each, made from its declaration.

Nothing is written twice: a field's type and words become an option here, the keyword in Python and
the key in a file. What one command adds of its own stands in `SHORT`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, get_args

import typer

from privmean.api import call_options as words
from privmean.api.parse_question import (
    QUESTIONS,
    Field,
    by_name,
    fields_of,
    question_class,
    question_of,
)
from privmean.cli import options as opt
from privmean.cli.options import parameter, parameters_of, signed, taken
from privmean.errors import ArgumentError

Said = dict[str, Any]
DATA, QUESTION, PRIVACY, OUTPUT = opt.DATA, "Question", "Privacy", "Output"  # panels of the help

PLACES = {"regression": "formula"}  # a question's argument beside the table
# options whose name is not the field's
CALLED = {"values": "--value", "contrasts": "--contrast", "levels": "--arm"}


@dataclass(frozen=True)
class DatabaseTable:
    """The table in a database."""

    relation: Annotated[
        str | None, "Name the table of the database, or SCHEMA.TABLE.", "--table"
    ] = None


@dataclass(frozen=True)
class Wildcards:
    """Columns by a part of their names."""

    values_from: Annotated[list[str] | None, "Name columns by wildcard, such as 'word_freq_*'."] = (
        None
    )


SHORT: dict[str, tuple[type[Any], ...]] = {
    "mean": (Wildcards, opt.Limits, opt.KeysFile),
    "curve": (opt.Limits,),
}
SHOWN: dict[str, type[opt.Shown]] = {"curve": opt.Drawn, "quantile": opt.Drawn}


COMMAND_NAMES = {"regression": "regress"}  # commands whose name is not that of their question


def commands() -> dict[str, str]:
    """The command of every kind of question."""
    return {kind: COMMAND_NAMES.get(kind, kind) for kind in QUESTIONS}


def question_command(kind: str) -> Callable[..., None]:
    """A function that Typer makes into the command of one question."""
    cls = question_class(kind)
    own = fields_of(cls)
    place = PLACES.get(kind)
    shown = SHOWN.get(kind, opt.Shown)
    parameters = [parameter("table", opt.TableFile)]
    for item in own:
        if item.name == place:
            said = typer.Argument(help=item.help, rich_help_panel=QUESTION)
            parameters.append(parameter(item.name, Annotated[str, said]))
    parameters.append(parameter("person", opt.Person, panel=DATA))
    parameters += [_parameter(item) for item in own if item.name != place]
    groups: list[tuple[str, type[Any]]] = [(QUESTION, group) for group in SHORT.get(kind, ())]
    groups += [(PRIVACY, opt.Terms)]
    groups += [(DATA, DatabaseTable), (DATA, words.TextOptions), (DATA, opt.Listed)]
    groups += [(DATA, words.ResourceOptions), (OUTPUT, shown)]
    for panel, group in groups:
        parameters += parameters_of(group, panel)

    def run(**said: Any) -> None:
        _release_and_show(kind, said, taken(opt.Terms, said), taken(shown, said))

    run.__name__ = kind
    run.__doc__ = inspect.getdoc(cls).split("\n\n")[0]  # type: ignore[union-attr]
    signed(run, parameters)
    return run


def _parameter(item: Field) -> inspect.Parameter:
    """The option of one field."""
    flags = [CALLED[item.name]] if item.name in CALLED else []
    hint, default = _shell_type(item), item.default
    if item.required:
        return parameter(item.name, Annotated[hint, item.help, *flags], panel=QUESTION)
    if default is False:  # no option says it
        flags = [f"--{item.name.replace('_', '-')}"]
    if not isinstance(default, hint if isinstance(hint, type) else ()):
        default, hint = None, hint | None
    return parameter(item.name, Annotated[hint, item.help, *flags], default, QUESTION)


def _shell_type(item: Field) -> Any:
    """How a shell says a field: repeated texts, a pair of numbers, a number, or a text."""
    parts = [part for part in (item.hint, *get_args(item.hint)) if part is not type(None)]
    if by_name(item.hint) or (str, ...) in [get_args(part) for part in parts]:
        return list[str]
    if (float, float) in [get_args(part) for part in parts]:
        return tuple[float, float]
    if (float,) in [get_args(part) for part in parts]:
        return str  # numbers with commas
    alone = [part for part in parts if not get_args(part)]
    return alone[0] if len(alone) == 1 and alone[0] in (bool, int, float) else str


def _release_and_show(kind: str, said: Said, terms: opt.Terms, shown: opt.Shown) -> None:
    """Ask what the options say, print, and end with 3 where nothing that was asked has an estimate.
    All is checked before anything is opened."""
    from privmean.api.functions import ask
    from privmean.api.run_question import check_options, run_question
    from privmean.data.databases import with_table
    from privmean.data.table import Table

    question = question_of(kind, _words(kind, said), "--{}")
    table = taken(words.TextOptions, said).words()
    listed = taken(opt.Listed, said).ids(said["person"], table)
    source = with_table(said["table"], said["relation"])
    reading = taken(words.ResourceOptions, said)
    key = shown.ready()
    options = check_options(asdict(terms), ask, question.default_neighbors)
    read = {"person": said["person"], "resources": reading.resources(), **table, "roster": listed}
    shown.show(run_question(Table(source, **read), question, options), key)


def _words(kind: str, said: Said) -> Said:
    """The words of a question, also those that are said in short."""
    own = {item.name for item in fields_of(question_class(kind))}
    given = {name: said[name] for name in own if name in said}
    given = {name: None if value == [] else value for name, value in given.items()}
    short = SHORT.get(kind, ())
    if Wildcards in short:
        given["values"] = [*(given.get("values") or []), *(said["values_from"] or [])]
        if not given["values"]:
            raise ArgumentError(
                "--value", None, "is required", "give --value COLUMN or --values-from ..."
            )
    if opt.KeysFile in short:
        given["keys"] = taken(opt.KeysFile, said).beside(given.get("keys"))
    if opt.Limits in short:
        given["assume"] = taken(opt.Limits, said).assumed(given.get("assume"))
    return given
