"""What must be on a tape, found in the code: mechanisms, fields of questions, statuses, budgets.

Nothing is listed by hand. A mechanism is a class with losses that draws; a field is one of a
question, away from its default; a status is a text that the code gives to something called a
status. What no tape has is named.
"""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import privmean
from privmean.asking.declared import QUESTIONS, fields_of, question_class
from privmean.privacy.budget import NEIGHBORS

Seen = set[tuple[str, str]]
# what no tape can have, with the reason
WORDS = "the same name holds another text in a place that gives statuses; no release says it"
APART: dict[tuple[str, str], str] = {
    ("mechanism", "PersonsCount"): "only its kind ClippedCount is asked",
    ("mechanism", "PublishedHistogram"): "of privmean.published, which no other room may import",
    ("status", "source changed"): "a table that changes while it is read; in tests/models",
    ("status", "fallback centre"): "of a plan's stages; no release says it",
    ("status", "two rays"): "of a set of ratios inside an interval; no release says it",
    ("status", "unbounded"): "of a set of ratios inside an interval; no release says it",
    ("status", "mean"): WORDS,
    ("status", "privmean study plan"): WORDS,
    ("status", "difference of the means over the persons of two arms"): WORDS,
}


@cache
def modules() -> tuple[Any, ...]:
    names = [item.name for item in pkgutil.walk_packages(privmean.__path__, "privmean.")]
    inner = ("privmean.auditing", "privmean.__main__", "privmean.cli", "privmean.local.collector")
    return tuple(import_module(name) for name in names if not name.startswith(inner))


@cache
def mechanisms() -> tuple[type, ...]:
    """Every class that has losses and draws noise."""
    found = {}
    for module in modules():
        for item in vars(module).values():
            if isinstance(item, type) and item.__module__.startswith("privmean."):
                own = all(hasattr(item, name) for name in ("draw", "losses"))
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
        "status": frozenset(statuses()),
        "relation": frozenset(NEIGHBORS),
        "budget": frozenset(("pure", "approximate", "zCDP")),
    }


def of_question(question: Any) -> Iterator[tuple[str, str]]:
    """Its fields that are not at their default."""
    for item in fields_of(type(question)):
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


def of_release(made: Any) -> Iterator[tuple[str, str]]:
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
        elif hasattr(item, "statuses"):
            stack.append({"status": item.status, "statuses": item.statuses})


@dataclass(frozen=True)
class Coverage:
    """seen: what was on tapes."""

    seen: frozenset[tuple[str, str]]

    def missing(self) -> dict[str, list[str]]:
        """What no tape had, but for what is set apart with a reason."""
        found = {}
        for kind, names in everything().items():
            left = {name for name in names if (kind, name) not in self.seen}
            found[kind] = sorted(name for name in left if (kind, name) not in APART)
        return found

    def rows(self) -> list[tuple[str, ...]]:
        """A line a kind: on tape, all, and what is missing."""
        found = []
        for kind, left in self.missing().items():
            apart = sum(place == kind for place, _ in APART)
            total = len(everything()[kind]) - apart
            share = f"{100 * (total - len(left)) / total:.0f} %"
            found.append((kind, str(total - len(left)), str(total), share, ", ".join(left)))
        return found


# --- statuses ---------------------------------------------------------------------------------
Place = tuple[str, str]  # of a constant: its module and name


def statuses() -> set[str]:
    """Every text that the code gives to something called a status."""
    trees = {module.__name__: _tree(module) for module in modules()}
    constants: dict[Place, str] = {}
    functions: dict[str, list[tuple[str, ast.AST]]] = {}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                functions.setdefault(node.name, []).append((name, node))
            for taker, place in _taking(node):
                functions.setdefault(f"{taker}(", []).append((str(place), node))
        for node in tree.body:
            if isinstance(node, ast.Assign):
                constants |= {(name, key): text for key, text in _texts(node)}
    known = {name: _aliases(name, tree) for name, tree in trees.items()}
    found: set[str] = set()
    for name, tree in trees.items():
        for at, node in _given(name, tree, functions):
            for part in ast.walk(node):
                if isinstance(part, ast.Name):
                    place = known[at].get(part.id, (at, part.id))
                    found |= {constants[place]} if place in constants else set()
    return found


def _tree(module: Any) -> ast.Module:
    return ast.parse(Path(module.__file__).read_text(encoding="utf-8"))


def _texts(node: ast.Assign) -> Iterator[tuple[str, str]]:
    target, value = node.targets[0], node.value
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts, strict=True))
    for one, text in pairs:
        if isinstance(one, ast.Name) and isinstance(text, ast.Constant):
            if isinstance(text.value, str) and text.value.replace(" ", "").isalpha():
                yield one.id, text.value


def _aliases(name: str, tree: ast.AST) -> dict[str, Place]:
    return {
        item.asname or item.name: (node.module, item.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for item in node.names
    }


def _given(
    name: str, tree: ast.AST, functions: Mapping[str, list[tuple[str, ast.AST]]]
) -> Iterator[tuple[str, ast.AST]]:
    """Expressions of which a status is made, and the modules that they stand in."""
    assigned: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for key in _named(*node.targets):
                assigned.setdefault(key, []).append(node.value)

    def all_of(value: ast.expr) -> Iterator[tuple[str, ast.AST]]:
        yield name, value
        inner = [x.id for x in ast.walk(value) if isinstance(x, ast.Name)]
        yield from ((name, item) for one in inner for item in assigned.get(one, ()))
        if isinstance(value, ast.Call):
            for at, function in functions.get(_called(value), ()):
                yield from ((at, item) for item in _returned(function))

    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in ("status", "statuses"):
            yield from all_of(node.value)
        elif isinstance(node, ast.FunctionDef) and "status" in node.name:
            yield from ((name, item) for item in _returned(node))
        elif isinstance(node, ast.Assign) and any("status" in one or one == "told" for one in _named(*node.targets)):
            yield from all_of(node.value)
        elif isinstance(node, ast.For) and "status" in _named(node.target):
            yield from all_of(node.iter)
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield from ((name, v) for k, v in pairs if getattr(k, "value", "") == "status")
        elif isinstance(node, ast.Call):
            for words in functions.get(f"{_called(node)}(", ()):
                place = int(words[0])
                yield from ((name, item) for item in node.args[place : place + 1])


def _called(node: ast.Call) -> str:
    found: str = getattr(node.func, "id", getattr(node.func, "attr", ""))
    return found


def _taking(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Functions and classes that take a status by its place, and the place."""
    if isinstance(node, ast.FunctionDef):
        words = [item.arg for item in node.args.args if item.arg != "self"]
    elif isinstance(node, ast.ClassDef):
        words = [x.target.id for x in node.body
                 if isinstance(x, ast.AnnAssign) and isinstance(x.target, ast.Name)]  # fmt: skip
    else:
        return
    if "status" in words:
        yield node.name, words.index("status")


def _named(*targets: ast.expr) -> list[str]:
    return [x.id for one in targets for x in ast.walk(one) if isinstance(x, ast.Name)]


def _returned(node: ast.AST) -> Iterator[ast.AST]:
    yield from (
        x.value for x in ast.walk(node) if isinstance(x, ast.Return) and x.value is not None
    )
