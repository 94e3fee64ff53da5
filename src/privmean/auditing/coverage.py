"""What must be on a tape, found in the code: mechanisms, fields of questions, relations, budgets.

Nothing is listed by hand. A mechanism is a class with losses that draws; a field is one of a
question, away from its default. What no tape has is named.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING
from functools import cache
from importlib import import_module
from typing import Any

from privmean.api.parse_question import QUESTIONS, fields_of, question_class
from privmean.auditing.fixed_noise import Asked
from privmean.inference.status import STATUSES
from privmean.privacy.budget import NEIGHBORS

Seen = set[tuple[str, str]]
# what no tape can have, with the reason
APART: dict[tuple[str, str], str] = {
    ("mechanism", "PublishedHistogram"): "of privmean.published, which no other room may import",
}


@cache
def modules() -> tuple[Any, ...]:
    names = [
        item.name for item in pkgutil.walk_packages(import_module("privmean").__path__, "privmean.")
    ]
    inner = ("privmean.auditing", "privmean.__main__", "privmean.cli", "privmean.local.collector")
    return tuple(import_module(name) for name in names if not name.startswith(inner))


@cache
def mechanisms() -> tuple[type, ...]:
    """Every class that has losses and draws noise."""
    found = {}
    for module in modules():
        for item in vars(module).values():
            if isinstance(item, type) and item.__module__.startswith("privmean."):
                named = {*dir(item), *getattr(item, "__dataclass_fields__", ())}
                own = {"draw", "events"} <= named  # a field has no value in its class
                if own and not getattr(item, "_is_protocol", False):
                    found[item.__name__] = item
    return tuple(found[name] for name in sorted(found))


@cache
def everything() -> dict[str, frozenset[str]]:
    """What there is, kind by kind."""
    fields = {
        f"{kind}.{item.name}" for kind in QUESTIONS for item in fields_of(question_class(kind))
    }
    return {
        "mechanism": frozenset(item.__name__ for item in mechanisms()),
        "field": frozenset(fields),
        "relation": frozenset(NEIGHBORS),
        "status": frozenset(row.code for row in STATUSES),
        "budget": frozenset(("pure", "approximate", "zCDP")),
    }


def of_question(question: Asked) -> Iterator[tuple[str, str]]:
    """Its fields that are not at their default."""
    kind: Any = type(question)
    for item in fields_of(kind):
        if item.required or item.default is MISSING or getattr(question, item.name) != item.default:
            yield "field", f"{question.kind}.{item.name}"


def of_terms(said: Mapping[str, float], relation: str) -> Iterator[tuple[str, str]]:
    """The relation and the kind of budget."""
    yield "relation", relation
    yield "budget", "zCDP" if said.get("rho") else "approximate" if said.get("delta") else "pure"


def of_answers(answers: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """The classes that drew."""
    for item in answers:
        for name in {type(item.mechanism).__name__}.union(*(x.by for x in item.requests)):
            yield "mechanism", name


def of_release(made: Asked) -> Iterator[tuple[str, str]]:
    """Every status that a release, an outcome, or one of a study says."""
    stack = [made]
    while stack:
        item = stack.pop()
        if hasattr(item, "to_dict"):
            item = item.to_dict()
        elif hasattr(item, "outcome") or hasattr(item, "statuses"):
            item = vars(getattr(item, "outcome", item))
        if isinstance(item, Mapping):
            codes = (item.get("status"), *(item.get("statuses") or ()))
            yield from (("status", code) for code in codes if code and isinstance(code, str))
            stack += item.values()
        elif isinstance(item, list | tuple):
            stack += item


def covered(
    seen: Seen,
    names: Mapping[str, frozenset[str]] | None = None,
    apart: Mapping[tuple[str, str], str] = APART,
) -> list[tuple[str, str, str, str]]:
    """One row per kind: how many of all are on tape, the share, and what is missing. seen: what was
    on tapes. names: what there is. apart: what no tape can have, and why."""
    found = []
    for kind, every in (names or everything()).items():
        wanted = sorted(name for name in every if (kind, name) not in apart)
        left = [name for name in wanted if (kind, name) not in seen]
        have, total = len(wanted) - len(left), len(wanted)
        found.append((kind, f"{have} of {total}", f"{100 * have / total:.0f} %", ", ".join(left)))
    return found
