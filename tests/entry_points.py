"""The three doors of privmean: a question from Python, from a file of questions, from the shell.

What is said at a door is plain: numbers, texts, lists of them, as a file of questions has it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import privmean as pm
from privmean.api.parse_question import question_of
from privmean.api.run_question import run_question
from privmean.cli.app import run
from privmean.cli.derive_command import commands
from privmean.study.study_file import read_study

Said = Mapping[str, Any]
FUNCTIONS = {
    "mean": pm.mean, "regression": pm.regress, "curve": pm.curve, "variance": pm.variance,
    "quantile": pm.quantile,
}  # fmt: skip
FLAGS = {"values": "--value"}
PAIRS = ("bounds",)


class Refused(Exception):
    """What a door answers to wrong arguments, in the words that a user sees."""


def _refusing(asking: Any) -> dict[str, Any]:
    try:
        release = asking()
    except pm.PrivmeanError as error:
        raise Refused(str(error)) from error
    return dict(json.loads(json.dumps(release.to_dict())))


def by_question(table: str, kind: str, words: Said, terms: Said) -> dict[str, Any]:
    """`pm.ask(pm.Table(...), question)`."""

    def asking() -> pm.Release:
        return pm.ask(pm.Table(table, person="who"), question_of(kind, words), **terms)

    return _refusing(asking)


def by_function(table: str, kind: str, words: Said, terms: Said) -> dict[str, Any]:
    """`pm.mean(...)` and its sisters, with texts read as a file of questions has them."""

    def asking() -> pm.Release:
        question = question_of(kind, words)
        given = {name: getattr(question, name) for name in words}
        return FUNCTIONS[kind](table, person="who", **given, **terms)

    return _refusing(asking)


def by_file(path: Any, table: str, kind: str, words: Said, terms: Said) -> dict[str, Any]:
    """`read_study`; the file is written to `path`."""
    parts = {"table": {"source": table, "person": "who"}, "budget": terms}
    parts["questions.q"] = {"ask": kind, **words}
    lines = [
        line
        for part, said in parts.items()
        for line in (f"[{part}]", *(f"{name} = {_toml(value)}" for name, value in said.items()))
    ]
    path.write_text("\n".join(lines) + "\n")

    def asking() -> pm.Release:
        found = read_study(str(path))
        return run_question(found.source, found.questions["q"].question, found.options)

    return _refusing(asking)


def _toml(value: Any) -> str:
    text = json.dumps(value)
    return {"Infinity": "inf", "NaN": "nan"}.get(text, text)


def by_shell(capsys: Any, table: str, kind: str, words: Said, terms: Said) -> dict[str, Any]:
    arguments = [commands()[kind], table]
    said = dict(words)
    if "formula" in said:
        arguments.append(said.pop("formula"))
    arguments += ["--person", "who", "--json"]
    for name, value in {**said, **terms}.items():
        flag = FLAGS.get(name, "--" + name.replace("_", "-"))
        if value is True:
            arguments.append(flag)
        elif name in PAIRS and isinstance(value, list):
            arguments += [flag, *map(str, value)]
        elif isinstance(value, list) and value and isinstance(value[0], str):
            arguments += [part for item in value for part in (flag, item)]
        elif isinstance(value, list):
            arguments += [flag, ",".join(map(str, value))]
        else:
            arguments += [flag, str(value)]
    status = run(arguments)
    shown = capsys.readouterr()
    if status == 2:
        assert shown.out == ""
        raise Refused(shown.err)
    assert status == 0, shown.err
    return dict(json.loads(shown.out))
