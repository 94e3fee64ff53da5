"""Questions made from texts and plain values: what a command line or a TOML file says of them.

The fields of a question are its words everywhere: the keywords in Python, the options on a command
line, the keys in a file. What they may hold follows from their types here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Any, Literal, get_args, get_origin, get_type_hints

from privmean.api.parse_assumption import assumption_of, method_of, related_of, working_of
from privmean.errors import ArgumentError
from privmean.signatures import keyword_hint

QUESTIONS = {
    "mean": "privmean.questions.mean:Mean",
    "regression": "privmean.questions.regression:Regression",
    "curve": "privmean.questions.curve:Curve",
    "variance": "privmean.questions.variance:Variance",
    "compare": "privmean.questions.compare:Compare",
    "quantile": "privmean.questions.quantile:Quantile",
}


@dataclass(frozen=True)
class Field:
    """One word of a question. required: it has no default."""

    name: str
    hint: Any
    help: str
    default: Any
    required: bool


def question_class(kind: str) -> Any:
    """The class of a kind of question."""
    if kind not in QUESTIONS:
        near = get_close_matches(str(kind), QUESTIONS, n=1)
        remedy = f"did you mean {near[0]}?" if near else f"give one of {', '.join(QUESTIONS)}"
        raise ArgumentError("ask", kind, "is not a kind of question", remedy)
    module, _, name = QUESTIONS[kind].partition(":")
    return getattr(import_module(module), name)


@cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """The words of a question, in the order of its fields."""
    from dataclasses import MISSING

    hints = get_type_hints(cls, include_extras=True)
    found = []
    for item in fields(cls):
        hint = hints[item.name]
        words = ""
        if hasattr(hint, "__metadata__"):
            words, hint = hint.__metadata__[0], get_args(hint)[0]
        found.append(Field(item.name, hint, words, item.default, item.default is MISSING))
    return tuple(found)


def question_of(kind: str, said: Mapping[str, Any], word: str = "{}") -> Any:
    """A question from what is said of it; None counts as not said.

    word: how an argument is called in messages ("--{}" on a command line). Texts are read as
    `privmean.api.parse_assumption` has them; other values are taken as they are.
    """
    cls = question_class(kind)
    known = {item.name: item for item in fields_of(cls)}
    given = {name: value for name, value in said.items() if value is not None}
    for name, value in given.items():
        if name not in known:
            remedy = keyword_hint(name, value, known, f"see help(pm.{cls.__name__})")
            raise ArgumentError(word.format(name), value, f"is not an argument of {kind}", remedy)
    for name, item in known.items():
        if item.required and name not in given:
            raise ArgumentError(word.format(name), None, "is required", item.help)
        if name in given:
            given[name] = _read(word.format(name), item, given[name])
    if isinstance(given.get("method"), str) and "assume" in known:
        names = _words_of(known["method"].hint)
        method, assume = method_of(
            word.format("method"), given["method"], given.get("assume"), names
        )
        given["method"] = method
        given["assume"] = assume
    return cls(**given)


def _read(name: str, item: Field, value: object) -> Any:
    """A value of the field's type from a text or a plain value of TOML."""
    if isinstance(value, str):
        if item.name == "assume":
            return assumption_of(name, value)
        if item.name == "working":
            return working_of(name, value)
        if item.name == "keys":
            return tuple(value.split(","))
        if item.name == "clustering":
            return related_of(name, value)
        if item.name == "contrasts" and not _names(item.hint):
            from privmean.questions.regression_options import contrasts_of

            return contrasts_of(name, value)
        if item.name == "bins" and re.match(r"\d{4}-\d", value):  # dates
            return tuple(value.split(","))
        if _numbers(item.hint):
            return numbers_of(name, value)
        if _names(item.hint):
            return (value,)
        return value
    if item.name in ("scales", "bounds") and isinstance(value, list) and by_name(item.hint):
        return _sizes_of(name, value)
    if isinstance(value, list):
        return tuple(tuple(x) if isinstance(x, list) else x for x in value)
    return value


def _numbers(hint: object) -> bool:
    """Whether a field holds numbers in a row."""
    return any(
        get_origin(part) is not None and float in get_args(part) and str not in get_args(part)
        for part in (hint, *get_args(hint))
    )


def _words_of(hint: object) -> tuple[str, ...]:
    """The words that a field may hold: those of its literals."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(word for part in get_args(hint) for word in _words_of(part))


def _names(hint: object) -> bool:
    return any(get_args(part) == (str, ...) for part in (hint, *get_args(hint)))


def numbers_of(name: str, text: str) -> tuple[float, ...]:
    """Numbers with commas."""
    try:
        return tuple(float(item) for item in text.split(","))
    except ValueError:
        raise ArgumentError(name, text, "must be numbers", "use for example 0,1,2") from None


def by_name(hint: object) -> bool:
    """Whether a field holds numbers by the name of a column or term."""
    parts = (part for part in (hint, *get_args(hint)) if get_origin(part) is Mapping)
    return any(get_origin(get_args(part)[1]) is not Mapping for part in parts)


def _sizes_of(name: str, given: list[str]) -> dict[str, float | tuple[float, ...]]:
    result: dict[str, float | tuple[float, ...]] = {}
    for item in given:
        term, _, number = item.rpartition("=")
        try:
            numbers = tuple(float(part) for part in number.split(","))
        except ValueError:
            raise ArgumentError(
                name, item, "is not TERM=NUMBER", "use for example tenure=4, or tenure=4,2"
            ) from None
        if term in result:
            raise ArgumentError(name, item, f"must set {term} once", "set it once")
        result[term] = numbers[0] if len(numbers) == 1 else numbers
    return result
