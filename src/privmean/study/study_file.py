"""A study in a TOML file: one table, one budget, the questions about it.

[table]                       [questions.wage]
source = "panel.parquet"      ask = "mean"
person = "idcode"             values = ["ln_wage"]
[budget]                      weight = 2
epsilon = 1.0

docs/schemas/study.schema.json is its schema (docs/site-tools/study_schema.py writes it); every key
that is not in it is refused.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from privmean.api.call_options import ReleaseOptions, ResourceOptions, TextOptions
from privmean.api.parse_question import QUESTIONS, fields_of, question_class, question_of
from privmean.data.table import Table
from privmean.errors import ArgumentError
from privmean.study.shared_locations import StudyQuestion
from privmean.study.study import CARD, Study
from privmean.validate import keyword_hint


def _words_of(*groups: Any) -> dict[str, tuple[Any, str]]:
    """The keys that stand for the words of these groups: type and help."""
    found = {}
    for item in (item for group in groups for item in fields_of(group) if item.help):
        kind = next(part for part in (*get_args(item.hint), item.hint) if part is not type(None))
        found[item.name] = (get_origin(kind) or kind, item.help)
    return found


TEXT: dict[str, tuple[Any, str]] = {
    "source": (str, "File, folder or pattern of CSV, Parquet or JSON lines, beside this file."),
    "person": (str, "Column that says whose a record is."),
    **_words_of(TextOptions, ResourceOptions),
}
BUDGET = _words_of(ReleaseOptions)
STUDY: dict[str, tuple[Any, str]] = {
    "name": (str, "Name of the study, in its report and on the ledger."),
    "simultaneous": (bool, "Whether intervals hold for all lines of the study together."),
    **{name: (str, f"Report: {text}.") for name, text in CARD.items()},
}
OWN: dict[str, tuple[Any, str]] = {
    "ask": (str, "Kind of question."),
    **_words_of(StudyQuestion),
}
PARTS = ("table", "budget", "questions", "study")
NEEDED = ("table", "budget", "questions")


def read_study(path: str | os.PathLike[str]) -> Study:
    """The study that a file declares; everything is checked, and no table is opened.

    A source that is a relative path is taken beside the file.

    Raises ArgumentError for a file that cannot be read, and for every word that is not known.
    """
    try:
        stated = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise ArgumentError(
            "file", str(path), f"cannot be read: {why}", "give a TOML file of questions"
        ) from None
    return study_of(stated, Path(path).parent)


def study_of(stated: Mapping[str, Any], folder: Path = Path()) -> Study:
    """The same from what the file says."""
    _known("", stated, PARTS)
    for part in PARTS:
        if part in NEEDED and (not isinstance(stated.get(part), dict) or not stated[part]):
            raise ArgumentError(part, stated.get(part), "is required", f"add [{part}] to the file")
        if not isinstance(stated.get(part, {}), dict):
            raise ArgumentError(part, stated[part], "is not a table", f"write [{part}]")
    table, budget, own = stated["table"], stated["budget"], stated.get("study", {})
    for place, said, known in (
        ("table", table, TEXT),
        ("budget", budget, BUDGET),
        ("study", own, STUDY),
    ):
        _typed(place, said, known)
    for name in ("source", "person"):
        if name not in table:
            raise ArgumentError(f"table.{name}", None, "is required", TEXT[name][1])
    kept = {name: value for name, value in table.items() if name not in ("source", "person")}
    resources = {name: kept.pop(name) for name in _words_of(ResourceOptions) if name in kept}
    source = os.path.expanduser(table["source"])
    if "://" not in source and not os.path.isabs(source):
        source = str(folder / source)
    made = Table(
        source, person=table["person"], resources=ResourceOptions(**resources).resources(), **kept
    )
    card = {name: own[name] for name in CARD if name in own}
    named = {name: value for name, value in own.items() if name not in CARD}
    study = Study(made, card=card, **named, **budget)
    for name, said in stated["questions"].items():
        place = f"questions.{name}"
        if not isinstance(said, dict) or "ask" not in said:
            raise ArgumentError(
                f"{place}.ask", None, "is required", 'write for example ask = "mean"'
            )
        ours = {word: value for word, value in said.items() if word in OWN}
        _typed(place, ours, OWN)
        kind = ours.pop("ask")
        words = {word: value for word, value in said.items() if word not in OWN}
        try:
            study.add(name, _question(kind, words, place), **ours)
        except ArgumentError as refused:  # by what does not know where it stands
            if refused.argument == "name" or refused.argument.startswith(place):
                raise
            raise ArgumentError(
                f"{place}.{refused.argument}", refused.value, refused.problem, refused.remedy
            ) from None
    return study


def _question(kind: str, words: Mapping[str, Any], place: str) -> Any:
    """The question; a word that is nearly one of the study's own is said so."""
    known = [item.name for item in fields_of(question_class(kind))]
    for word, value in words.items():
        if word not in known:
            remedy = keyword_hint(word, value, [*known, *OWN], "see the reference")
            raise ArgumentError(f"{place}.{word}", value, f"is not an argument of {kind}", remedy)
    return question_of(kind, words, place + ".{}")


def _known(place: str, said: Mapping[str, Any], names: Any) -> None:
    for name, value in said.items():
        if name not in names:
            remedy = keyword_hint(name, value, list(names), f"use {', '.join(names)}")
            raise ArgumentError(f"{place}{name}", value, "is not known", remedy)


def _typed(place: str, said: Mapping[str, Any], known: Mapping[str, tuple[Any, str]]) -> None:
    """Refuse words that are not known, and values of another type."""
    _known(f"{place}.", said, known)
    for name, value in said.items():
        kind, words = known[name]
        fits = isinstance(value, int | float) if kind is float else isinstance(value, kind)
        if not fits or (isinstance(value, bool) and kind is not bool):
            raise ArgumentError(f"{place}.{name}", value, f"is not {TYPES[kind]}", words)


TYPES = {str: "string", float: "number", int: "integer", bool: "boolean", list: "array"}


# --- a first file ---------------------------------------------------------------------------------
def first_file(source: str, person: str, columns: list[str], header: bool | None = None) -> str:
    """A commented first study.toml, from the schema of the table alone. header: what was said of a
    text file's first line."""
    numbers = [name for name in columns if name != person]
    first = numbers[0] if numbers else "COLUMN"
    kinds = ", ".join(f'"{kind}"' for kind in QUESTIONS)
    lines = [
        "# A study: one table, one budget, the questions about it.",
        "#   privmean study plan study.toml            what each answer will cost, how exact it",
        "#                                             will be; spends nothing",
        "#   privmean study run study.toml --out DIR   release.json, report.html, CSVs",
        "",
        "[study]",
        'name = "study"              # in the report and on the ledger',
        '# purpose = "what it is for" # in the report, as are data, period, date and contact',
        "# simultaneous = true      # intervals that hold for all lines together",
        "",
        "[table]",
        f"source = {_quoted(source)}",
        f"person = {_quoted(person)}   # protected: each person with all records",
        *([] if header is None else [f"header = {str(header).lower()}"]),
        f"# columns: {', '.join(columns)}"
        if columns
        else "# columns are not shown: the first line of a text file could be a record;\n"
        "# `privmean study init --header` says that it is none",
        "",
        "[budget]",
        "epsilon = 1.0               # of the whole study: choose it before you see results",
        "# delta = 1e-6             # far below 1/n; some methods need it",
        '# neighbors = "add-remove" # where it is private who is in the table; with n_guess',
        "",
        f"# kinds of questions: {kinds}",
        "[questions.first]",
        'ask = "mean"',
        f"values = [{_quoted(first)}]",
        "# weight = 2               # of its squared error beside the others",
        "# error = 0.02             # or a wanted error, with guess_sd, a public guess",
        '# label = "log wage"        # for readers of the report, with unit and note',
        "",
    ]
    for kind in QUESTIONS:
        words = [item for item in fields_of(question_class(kind)) if item.help]
        lines.append(f"# {kind}:")
        lines += [
            f"#   {item.name}: {item.help}{' (needed)' if item.required else ''}" for item in words
        ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A TOML string."""
    import json

    return json.dumps(text, ensure_ascii=False)


def in_the_file(error: ArgumentError) -> ArgumentError:
    """The same with words of a table as the file says them: header=True as header = true."""
    names = "|".join(name for name in TEXT if name not in ("source", "person"))
    remedy = re.sub(
        rf"\b({names})=(True|False|)",
        lambda found: f"{found[1]} = {found[2].lower()}" if found[2] else found[1],
        error.remedy,
    )
    if remedy != error.remedy:
        remedy += ", under [table] in the study's file"
    return ArgumentError(error.argument, error.value, error.problem, remedy)
