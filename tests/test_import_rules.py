"""Floors, circles, private names and draws of noise: read from the syntax trees, late imports and
those for type checkers included. No exceptions."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src"
ROOT = "privmean"
FACE = ROOT  # the names that users type: may name every room, and no room imports it

# from the ground up; rooms of one floor stand side by side and know nothing of each other
FLOORS = (
    (
        "errors",
        "_version",
        "array_types",
        "bisection",
        "lazy_imports",
        "output",
        "plain_data",
    ),
    ("storage", "noise"),
    ("validate",),
    ("examples",),
    ("privacy",),
    ("data",),
    ("mechanisms",),
    ("inference",),
    ("release",),
    ("pipeline",),
    ("estimators",),
    ("questions",),
    ("api",),
    ("study",),
    ("auditing",),
    ("cli",),
    ("__main__",),
)


def up_to(last):
    """The rooms of all floors up to that of `last`."""
    most = next(k for k, rooms in enumerate(FLOORS) if last in rooms)
    return {name for floor in FLOORS[: most + 1] for name in floor}


# apart: a room, and all that it may import
APART = {
    "streams": {
        "errors", "array_types", "lazy_imports", "output", "validate", "storage", "noise",
        "privacy", "data", "mechanisms", "inference",
    },
    "local": {
        "errors", "array_types", "bisection", "lazy_imports", "output", "plain_data", "validate",
        "storage", "noise", "inference",
    },
    "collector": {
        "errors", "_version", "array_types", "plain_data", "validate", "storage", "local",
    },
    "experimental": {
        "errors", "array_types", "bisection", "plain_data", "validate", "noise", "privacy",
        "mechanisms",
    },
    "auditing": up_to("study") | {"streams", "local"},
    "published": up_to("estimators") | {"streams", "local"},
}  # fmt: skip
OVER_ALL = {"auditing", "cli"}  # may use what stands apart; nothing uses `published`
ENGINES = {
    "duckdb", "narwhals", "polars", "pandas", "pyarrow", "pyspark", "ibis", "sqlglot", "psycopg",
    "clickhouse_connect",
}  # fmt: skip
DRAWS = {"laplace", "gaussian", "argmax", "below", "bernoulli", "bits64", "draw"}
# local's clients randomize by integer coins; the audit draws on tables that it makes up; one of two
# servers has a share and no people, so that no curator can stand before it
DRAWING = {"mechanisms", "noise", "local", "auditing", "experimental"}


class House:
    """The modules of a tree, what they import and what they call."""

    def __init__(self, files: dict[str, str]) -> None:
        self.trees = {name: ast.parse(text) for name, text in files.items()}
        self.imports = {name: list(self._imported(name)) for name in self.trees}

    @classmethod
    def at(cls, source: Path) -> House:
        files = {}
        for path in sorted((source / ROOT).rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            files[".".join(parts).removesuffix(".__init__")] = path.read_text()
        return cls(files)

    def _imported(self, name):
        """(module, name or None) of every import of the tree's own modules."""
        for node in ast.walk(self.trees[name]):
            if isinstance(node, ast.Import):
                for item in node.names:
                    if item.name.split(".")[0] == ROOT:
                        yield item.name, None
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name}: relative import"
                if node.module and node.module.split(".")[0] == ROOT:
                    for item in node.names:
                        full = f"{node.module}.{item.name}"
                        yield (full, None) if full in self.trees else (node.module, item.name)

    def engines(self):
        for name, tree in self.trees.items():
            for node in ast.walk(tree):
                named = [item.name for item in node.names] if isinstance(node, ast.Import) else []
                named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                found = {item.split(".")[0] for item in named} & ENGINES
                yield from (f"{name} -> {item}" for item in found if room(name) != "data")

    def edges(self):
        return {(name, to) for name, found in self.imports.items() for to, _ in found}

    # --- the rules, each a list of what breaks it -------------------------------------------------
    def upward(self):
        level = {room: k for k, rooms in enumerate(FLOORS) for room in rooms}
        for name, to in sorted(self.edges()):
            here, there = room(name), room(to)
            if here == there or name == FACE:
                continue
            words = f"{name} -> {to}"
            if here not in level and here not in APART:
                yield f"{words}: {here} is on no floor"
            elif there == "published" or to == FACE:
                yield words
            elif here in APART:
                if there not in APART[here]:
                    yield words
            elif there in APART:
                if here not in OVER_ALL:
                    yield words
            elif there not in level or level[there] >= level[here]:
                yield words

    def circles(self):
        """The modules of a circle of imports, the first again at its end."""
        graph = {name: set() for name in self.trees}
        for name, to in self.edges():
            if name not in (FACE, to) and to in graph:
                graph[name].add(to)
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as found:
            return found.args[1]
        return []

    def private(self):
        for name, found in self.imports.items():
            for module, item in found:
                for part in (*module.split("."), item or ""):
                    hidden = part.startswith("_") and not part.startswith("__")
                    if hidden and part != "_version":
                        yield f"{name} -> {module}.{item}"
            named = {item for _, item in found} | {to.split(".")[-1] for to, _ in found}
            for node in ast.walk(self.trees[name]):
                if (
                    isinstance(node, ast.Attribute)
                    and node.attr.startswith("_")
                    and not node.attr.startswith("__")
                    and isinstance(node.value, ast.Name)
                    and node.value.id in named
                ):
                    yield f"{name}: {node.value.id}.{node.attr}"

    def draws(self):
        for name, tree in self.trees.items():
            if room(name) in DRAWING:
                continue
            for node in ast.walk(tree):
                called = node.func if isinstance(node, ast.Call) and node.args else None
                if not isinstance(called, ast.Attribute) or called.attr not in DRAWS:
                    continue
                if not harmless(called.value):
                    yield f"{name}:{node.lineno}: .{called.attr}("


def room(name):
    return name.split(".")[1] if name != ROOT else ROOT


def harmless(value):
    """NumPy's argmax of public or released numbers; a class that makes a mechanism."""
    return isinstance(value, ast.Name) and (value.id == "np" or value.id[:1].isupper())


@pytest.fixture(scope="module")
def house():
    return House.at(SOURCE)


def test_the_trees_are_those_of_the_package(house):
    assert len(house.trees) > 200
    assert (f"{ROOT}.pipeline", f"{ROOT}.mechanisms.curator") in house.edges()
    drawn = House({name: HOUSE_TEXT for name in [f"{ROOT}.estimators.one"]})
    assert list(drawn.draws())


def test_floors(house):
    assert list(house.upward()) == []


def test_no_circle(house):
    assert house.circles() == []


def test_no_private_name_crosses_a_module(house):
    assert list(house.private()) == []


def test_engines_are_imported_by_data_only(house):
    assert list(house.engines()) == []


def test_nothing_is_drawn_outside_the_mechanisms(house):
    assert list(house.draws()) == []


# --- the test can fail: one broken tree a rule ---------------------------------------------------

HOUSE_TEXT = "def f(noise):\n    return noise.laplace(3, 2)\n"
LATE = "def f():\n    from privmean.api.run_question import run_question\n"
TYPES = (
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from privmean.estimators.b import B\n"
)
EMPTY = {
    f"{ROOT}.{name}": ""
    for name in ("api.run_question", "estimators.a", "estimators.b", "published")
}


@pytest.mark.parametrize(
    ("module", "text", "rule"),
    [
        ("estimators.a", LATE, House.upward),
        ("mechanisms.a", TYPES, House.upward),
        ("noise.a", "from privmean.privacy.privacy_events import PrivacyEvent\n", House.upward),
        ("data.a", "import privmean.mechanisms.curator\n", House.upward),
        ("local.a", "from privmean.privacy.privacy_events import PrivacyEvent\n", House.upward),
        ("local.a", "from privmean.collector.store import Store\n", House.upward),
        ("collector.a", "from privmean.privacy.privacy_events import PrivacyEvent\n", House.upward),
        ("streams.a", "from privmean.pipeline import execute\n", House.upward),
        ("estimators.a", "from privmean.streams import plan\n", House.upward),
        ("cli.a", "from privmean.published import PureCover\n", House.upward),
        ("estimators.a", "from privmean import mean\n", House.upward),
        ("elsewhere.a", "from privmean.errors import ArgumentError\n", House.upward),
        ("estimators.a", "from privmean.estimators.b import _hidden\n", House.private),
        ("estimators.a", "from privmean.estimators import b\nb._hidden()\n", House.private),
        ("estimators.a", "def f():\n    from duckdb import connect\n", House.engines),
        ("estimators.a", HOUSE_TEXT, House.draws),
        ("estimators.a", "def f(self):\n    self._noise.gaussian(1, 2.0)\n", House.draws),
        ("questions.a", "def f(x, step, noise):\n    return step.draw(x, noise)\n", House.draws),
        ("streams.a", "def f(noise, x):\n    noise.argmax(x, 1)\n", House.draws),
        ("published.a", "def f(noise):\n    noise.below(2, 3)\n", House.draws),
    ],
)
def test_a_broken_tree_is_seen(module, text, rule):
    assert list(rule(House({**EMPTY, f"{ROOT}.{module}": text})))
    assert not list(rule(House({**EMPTY, f"{ROOT}.{module}": "import numpy as np\n"})))


@pytest.mark.parametrize(
    "back",
    ["from privmean.estimators.a import A\n", LATE.replace("api.run_question", "estimators.a")],
)
def test_a_circle_is_seen(back):
    assert House({f"{ROOT}.estimators.a": TYPES, f"{ROOT}.estimators.b": back}).circles()
    assert not House({f"{ROOT}.estimators.a": TYPES, f"{ROOT}.estimators.b": ""}).circles()
