"""Questions in a TOML file: one table, one budget, the questions about it.

[table]                       [questions.wage]
source = "panel.parquet"      ask = "mean"
person = "idcode"             values = ["ln_wage"]
[budget]
epsilon = 1.0
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from privmean.asking.declared import question_of
from privmean.asking.terms import Settled, settled
from privmean.errors import ArgumentError
from privmean.people.table import Machine, Table
from privmean.questions.base import Question

TABLE = (
    "source", "person", "delimiter", "quote", "decimal", "encoding", "header", "null_words",
    "memory", "threads", "spill",
)  # fmt: skip
BUDGET = ("epsilon", "delta", "rho", "neighbors", "n_design", "level")
PARTS = ("table", "budget", "questions")


@dataclass(frozen=True)
class Declared:
    """What a file says: the table, the terms of the whole and the questions by name."""

    table: Table
    said: Settled
    questions: Mapping[str, Question]


def read_questions(path: str) -> Declared:
    """Read a file of questions; everything is checked, and no table is opened.

    Raises ArgumentError for a file that cannot be read, and for every word that is not known.
    """
    try:
        with Path(path).open("rb") as file:
            stated = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as problem:
        raise ArgumentError(
            "file", path, f"cannot be read ({problem})", "give a TOML file of questions"
        ) from None
    _known("", stated, PARTS)
    for part in PARTS:
        if not isinstance(stated.get(part), dict) or not stated[part]:
            raise ArgumentError(part, stated.get(part), "is missing", f"add [{part}] to the file")
    table, budget = stated["table"], stated["budget"]
    _known("table.", table, TABLE)
    _known("budget.", budget, BUDGET)
    if "source" not in table:
        raise ArgumentError("table.source", None, "is missing", "name the file of records")
    kept = {name: value for name, value in table.items() if name not in ("source", "person")}
    machine = {name: kept.pop(name) for name in ("memory", "threads", "spill") if name in kept}
    questions = {
        name: _question(f"questions.{name}", said) for name, said in stated["questions"].items()
    }
    return Declared(
        Table(table["source"], person=table.get("person"), machine=Machine(**machine), **kept),
        settled(budget, "budget", {}),
        questions,
    )


def _question(place: str, said: Any) -> Question:
    if not isinstance(said, dict) or "ask" not in said:
        raise ArgumentError(f"{place}.ask", None, "is missing", 'say ask = "mean", for example')
    words = {name: value for name, value in said.items() if name != "ask"}
    made: Question = question_of(said["ask"], words, place + ".{}")
    return made


def _known(place: str, said: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name, value in said.items():
        if name not in names:
            near = get_close_matches(name, names, n=1)
            remedy = f"did you mean {near[0]}?" if near else f"it takes {', '.join(names)}"
            raise ArgumentError(f"{place}{name}", value, "is not known", remedy)
