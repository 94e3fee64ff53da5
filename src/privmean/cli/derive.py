"""Commands made from declarations: the fields of a question, of a table and of the terms.

Nothing is written twice: a field's type and words become an option here, the keyword in Python and
the key in a file. What one command adds of its own stands in `SHORT`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import typer

from privmean.asking.declared import Field, by_name, fields_of, question_class, question_of
from privmean.cli import options as opt
from privmean.errors import ArgumentError

Said = dict[str, Any]
KEYWORD = inspect.Parameter.KEYWORD_ONLY

PLACES = {"regression": "formula"}  # a question's argument beside the table
# options whose name is not the field's
CALLED = {"values": "--value", "contrasts": "--contrast", "levels": "--arm"}
TERMS: dict[str, tuple[Any, Any]] = {
    "epsilon": (opt.Epsilon, None),
    "delta": (opt.Delta, 0.0),
    "rho": (opt.Rho, None),
    "neighbors": (opt.Neighbors, None),
    "n_design": (opt.NDesign, None),
    "level": (opt.Level, 0.95),
    "ledger": (opt.LedgerFile, None),
    "label": (opt.Label, None),
    "analyst": (opt.Analyst, ""),
}
TABLE: dict[str, tuple[Any, Any]] = {
    "relation": (opt.DatabaseTable, None),
    "delimiter": (opt.Delimiter, None),
    "quote": (opt.Quote, None),
    "decimal": (opt.Decimal, None),
    "encoding": (opt.Encoding, None),
    "header": (opt.Header, None),
    "null_word": (opt.NullWord, None),
    "roster": (opt.Roster, None),
    "roster_column": (opt.RosterColumn, None),
    "memory": (opt.Memory, None),
    "threads": (opt.Threads, None),
    "spill": (opt.Spill, None),
}
SHOWN: dict[str, tuple[Any, Any]] = {
    "details": (opt.Details, False),
    "sign": (opt.Sign, None),
    "as_json": (opt.Json, False),
}
SHORT: dict[str, dict[str, tuple[Any, Any]]] = {
    "mean": {
        "values_from": (opt.ValuesFrom, None),
        "bounds": (opt.Bounds, None),
        "sd": (opt.Sd, None),
        "keys_file": (opt.KeysFile, None),
    },
    "curve": {"bounds": (opt.Bounds, None), "sd": (opt.Sd, None), "plot": (opt.Plot, None)},
    "quantile": {"plot": (opt.Plot, None)},
}


@dataclass(frozen=True)
class Asked:
    """What a command was told: the question, the table's own words, the terms, and how to show."""

    question: Any
    source: str
    person: str
    table: Said
    machine: Said
    terms: Said
    sign: str | None
    as_json: bool
    plot: str | None = None
    details: bool = False


def command(kind: str, act: Callable[[Asked], None]) -> Callable[..., None]:
    """A function that Typer makes into the command of one question."""
    cls = question_class(kind)
    own = fields_of(cls)
    place = PLACES.get(kind)
    parameters = [_argument("table", opt.TableFile)]
    parameters += [_argument(f.name, _positional(f)) for f in own if f.name == place]
    parameters.append(inspect.Parameter("person", KEYWORD, annotation=opt.Person))
    parameters += [_parameter(item) for item in own if item.name != place]
    for group in (SHORT.get(kind, {}), TERMS, TABLE, SHOWN):
        parameters += [
            inspect.Parameter(name, KEYWORD, default=default, annotation=annotation)
            for name, (annotation, default) in group.items()
        ]

    def run(**said: object) -> None:
        act(_asked(kind, said))

    run.__name__ = kind
    run.__doc__ = inspect.getdoc(cls).split("\n\n")[0]  # type: ignore[union-attr]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in parameters}
    return run


def _argument(name: str, annotation: object) -> inspect.Parameter:
    return inspect.Parameter(name, KEYWORD, annotation=annotation)


def _positional(item: Field) -> object:
    return Annotated[str, typer.Argument(help=item.help)]


def _parameter(item: Field) -> inspect.Parameter:
    """The option of one field."""
    flags = [CALLED[item.name]] if item.name in CALLED else []
    hint, default = _shell_type(item), None if item.required else item.default
    if item.required:
        return inspect.Parameter(
            item.name, KEYWORD, annotation=Annotated[hint, typer.Option(*flags, help=item.help)]
        )
    if not isinstance(default, hint if isinstance(hint, type) else ()):
        default, hint = None, hint | None
    return inspect.Parameter(
        item.name,
        KEYWORD,
        default=default,
        annotation=Annotated[hint, typer.Option(*flags, help=item.help)],
    )


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


def _asked(kind: str, said: Said) -> Asked:
    """What the options say, checked; opens nothing."""
    own = {item.name for item in fields_of(question_class(kind))}
    words = {name: said[name] for name in own if name in said}
    words = {name: None if value == [] else value for name, value in words.items()}
    if kind == "mean":
        words["values"] = [*(words.get("values") or []), *(said["values_from"] or [])]
        if not words["values"]:
            raise ArgumentError(
                "--value", None, "no column was named", "give --value COLUMN or --values-from ..."
            )
        words["keys"] = opt.keys(words.get("keys"), said["keys_file"])
    if "assume" in own and "bounds" in own:
        words["assume"] = opt.assumed(words.get("assume"), None, None)
    elif "assume" in own:
        words["assume"] = opt.assumed(words.get("assume"), said.get("bounds"), said.get("sd"))
    question = question_of(kind, words, "--{}")
    written = opt.text(
        said["delimiter"],
        said["quote"],
        said["decimal"],
        said["encoding"],
        said["header"],
        said["null_word"],
    )
    from privmean.people.databases import with_table

    table = {name: value for name, value in written.items() if value not in (None, ())}
    table["roster"] = opt.roster(said["roster"], said["roster_column"], said["person"], written)
    machine = {name: said[name] for name in ("memory", "threads", "spill")}
    terms = {name: said[name] for name in TERMS}
    return Asked(
        question,
        with_table(said["table"], said["relation"]),
        said["person"],
        table,
        machine,
        terms,
        said["sign"],
        said["as_json"],
        said.get("plot"),
        said["details"],
    )
