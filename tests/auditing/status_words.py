"""Every status of the package, found in its code: texts given to something called a status."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from privmean.auditing.coverage import modules

WORDS = "the same name holds another text in a place that gives statuses; no release says it"
APART: dict[tuple[str, str], str] = {
    ("status", "failed"): "a table that changes while it is read; in tests/models",
    (
        "status",
        "extreme_outliers",
    ): "needs a table made for it; in tests/central/test_group_tails.py",
    ("status", "low_precision"): "needs a table made for it; in tests/models/test_curves.py",
    (
        "status",
        "not_identified",
    ): "needs a table made for it; in tests/models/test_moment_variance.py",
    (
        "status",
        "failed",
    ): "needs a table made for it; in tests/study/test_shared_locations.py",
    ("status", "low_precision"): "of the slow anisotropic estimator on one table",
    ("status", "outliers_unchecked"): "of a plan's stages; no release says it",
    ("status", "low_precision"): "of a set of ratios inside an interval; no release says it",
    ("status", "unbounded"): "of a set of ratios inside an interval; no release says it",
    ("status", "mean"): WORDS,
    ("status", "privmean study plan"): WORDS,
    ("status", "difference of the means over the persons of two arms"): WORDS,
}
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
        found = text.value if isinstance(text, ast.Constant) else None
        if (
            isinstance(one, ast.Name)
            and isinstance(found, str)
            and found.replace(" ", "").isalpha()
        ):
            yield one.id, found


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
        elif isinstance(node, ast.Assign) and any(
            "status" in one or one == "told" for one in _named(*node.targets)
        ):
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
