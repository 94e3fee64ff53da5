"""What must be on a tape, found in the code: mechanisms, fields of questions, relations, budgets.

Nothing is listed by hand. A mechanism is a class with losses that draws; a field is one of a
question, away from its default. What no tape has is named.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field
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
    ("mechanism", "PersonsCount"): "only its kind ClippedCount is asked",
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
                own = {"draw", "losses"} <= named  # a field has no value in its class
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
        if isinstance(item, Mapping):
            stack += item.values()
            if isinstance(item.get("status"), str):
                yield "status", item["status"]
            stack += [{"status": text} for text in item.get("statuses") or () if text]
        elif isinstance(item, list | tuple):
            stack += item
        elif hasattr(item, "to_dict"):
            stack.append(item.to_dict())
        elif hasattr(item, "outcome"):
            stack.append(item.outcome)
        elif hasattr(item, "statuses"):
            stack.append({"status": item.status, "statuses": item.statuses})


@dataclass(frozen=True)
class Coverage:
    """seen: what was on tapes. names: what there is. apart: what no tape can have, and why."""

    seen: frozenset[tuple[str, str]]
    names: Mapping[str, frozenset[str]] = field(default_factory=everything)
    apart: Mapping[tuple[str, str], str] = field(default_factory=lambda: APART)

    def missing(self) -> dict[str, list[str]]:
        """What no tape had, but for what is set apart with a reason."""
        return {
            kind: sorted(x for x in names if (kind, x) not in self.seen | self.apart.keys())
            for kind, names in self.names.items()
        }

    def rows(self) -> list[tuple[str, ...]]:
        """A line a kind: how many are on tape, of all, and which are not."""
        found: list[tuple[str, ...]] = []
        for kind, left in self.missing().items():
            total = len(self.names[kind]) - sum(place == kind for place, _ in self.apart)
            share = f"{100 * (total - len(left)) / total:.0f} %"
            found.append((kind, f"{total - len(left)} of {total}", share, ", ".join(left)))
        return found
