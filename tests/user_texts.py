"""Texts that users read: prints of every estimator and question, statuses, help and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from typer.main import get_command

import privmean as pm
from privmean.cli.app import _add
from privmean.inference.status import STATUSES
from registry import REGISTRY

PEOPLE = 600
YEARS = [1968, 1975, 1982, 1989]
Texts = list[tuple[str, str]]


@cache
def releases() -> tuple[tuple[str, Any], ...]:
    """One release of every estimator of the registry and of every public question."""
    return (*_of_registry(), *_of_questions())


@cache
def advice() -> Texts:
    """What is said of releases of tables that give no good estimate: empty, constant, far, wild."""
    wild = np.random.default_rng(0).standard_cauchy((PEOPLE, 8)) * 1e6
    tables = {"empty": np.full_like(wild, np.nan), "constant": np.full_like(wild, 3.0)}
    tables |= {"far": np.full_like(wild, 1e30), "wild": wild}
    found = []
    for kind, values in tables.items():
        made = [*_of_registry(values), *_of_few(values)]
        found += [
            (f"{name}, {kind}", text)
            for name, release in made
            for text in dict.fromkeys((release.advice, release.interval().advice))
        ]
    return [(name, text) for name, text in found if text]


def prints() -> Texts:
    """What is printed of these releases, whole and in short, of plans and of a study."""
    made = [(name, str(release)) for name, release in releases()]
    made += [(f"{name}, details", release.details()) for name, release in releases()]
    plans = [("plan", pm.plan(pm.Mean("x"), n=4000, epsilon=1))]
    plans += [("plan of groups", pm.plan(pm.Mean("x", by="g", keys=["a"]), n=4000, epsilon=1))]
    return [*made, *((name, str(plan)) for name, plan in [*plans, *_of_study()])]


def status_texts() -> Texts:
    """Label, message and remedy of every status."""
    return [(row.code, f"{row.label}. {row.text()}") for row in STATUSES]


def help_texts() -> Texts:
    """The help of every command and of each of its options."""
    return list(_help(get_command(_add("")), "privmean"))


def docstrings() -> Texts:
    """Those of every public name, of its methods and properties."""
    found = []
    for name in sorted(set(pm.__all__) - {"__version__"}):
        public = getattr(pm, name)
        found.append((name, public.__doc__))
        if inspect.isclass(public):
            found += [(f"{name}.{member}", text) for member, text in _members(public)]
    return [(name, inspect.cleandoc(text)) for name, text in found if text]


def _of_registry(values: Any = None) -> Iterator[tuple[str, Any]]:
    """values: of people and columns; about normal unless given."""
    for entry in REGISTRY:
        relation, dimension = entry.relations[0], entry.dimensions[0]
        plan = entry.plan(entry.budgets[0], relation, dimension, PEOPLE)
        normal = np.random.default_rng(0).normal(3.0, 1.0, (PEOPLE, dimension))
        people = entry.table(normal if values is None else values[:, :dimension])
        yield entry.name, plan.release(people, pm.SimulatedNoise(1))


def _of_few(values: Any) -> Iterator[tuple[str, Any]]:
    """Questions about these values, with a group and a bin of nobody."""
    people = np.arange(len(values))
    rows = {"id": people, "y": values[:, 0], "x": values[:, 1], "g": people % 2, "t": people % 2}
    table, noise = pm.Table(rows, person="id"), pm.SimulatedNoise(1)
    groups = {"by": "g", "keys": [0, 1, 9]}
    asked = {
        "groups": pm.Mean("y", **groups), "groups of two": pm.Mean(["y", "x"], **groups),
        "private groups": pm.Mean("y", by="g"), "two columns": pm.Mean(["y", "x"]),
        "arms": pm.Compare("y", arms="g"), "other arms": pm.Compare("y", by="g", pair=(1, 9)),
        "curve": pm.Curve("y", "t", bins=[0, 1, 2, 3]), "variance": pm.Variance("y"),
        "curve within bounds": pm.Curve("y", "t", bins=[0, 1, 2, 3], assume=(0, 6)),
        "pooled": pm.Regression("y ~ x"),
        "within": pm.Regression("y ~ x", effect="per_person", fixed_effects=True),
    }  # fmt: skip
    for name, question in asked.items():
        yield name, pm.ask(table, question, epsilon=3, delta=1e-6, noise=noise)


def _of_questions() -> Iterator[tuple[str, Any]]:
    table = pm.Table(pm.example("nlswork"), person="person_id")
    terms: dict[str, Any] = {"epsilon": 1, "noise": pm.SimulatedNoise(1)}
    groups = {"by": "ind_code", "keys": [4, 6, 7, 99], "contrasts": ["7 - 6"]}
    few = {"epsilon": 0.05, "noise": pm.SimulatedNoise(1)}
    yield "mean", pm.mean(table, "ln_wage", **terms)
    yield "mean of few", pm.mean(table, "ln_wage", **few)
    yield "mean at a bound", pm.mean(table, "ln_wage", assume=(5, 9), **terms)
    yield "groups", pm.mean(table, "ln_wage", **groups, **terms)
    yield "groups of two values", pm.mean(table, ["ln_wage", "tenure"], **groups, **terms)
    yield "comparison", pm.compare(table, "ln_wage", arms="union", **terms)
    yield "curve", pm.curve(table, "ln_wage", time="year", bins=YEARS, bounds=(0, 4), **terms)
    yield "quantiles", pm.quantile(table, "ln_wage", [0.25, 0.5], **terms)
    yield "variance", pm.variance(table, "ln_wage", **terms)
    for effect in ("pooled", "within", "per_person"):
        made = pm.regress(
            table, "ln_wage ~ tenure + union", effect=effect, **terms | {"epsilon": 3}
        )
        yield f"regression, {effect}", made


def _of_study() -> Iterator[tuple[str, Any]]:
    study = pm.Study(pm.Table(pm.example("wages"), person="id"), epsilon=2, name="wages")
    study.add("level", pm.Mean("ln_wage"), weight=2)
    study.add("hours", pm.Mean("hours", assume=(0, 100)), error=0.5, guess_sd=8)
    study.add("trend", pm.Curve("ln_wage", "year", bins=YEARS, assume=(-3, 6)))
    study.add("quartiles", pm.Quantile("ln_wage"))
    yield "study plan", study.plan(4000)
    yield "study", study.release(noise=pm.SimulatedNoise(1))


def _help(command: Any, path: str) -> Iterator[tuple[str, str]]:
    yield path, command.help or ""
    for option in command.params:
        yield f"{path} {option.name}", getattr(option, "help", "") or ""
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from _help(command.get_command(None, name), f"{path} {name}")


def _members(public: type) -> Iterator[tuple[str, str | None]]:
    for name in dir(public):
        member = inspect.getattr_static(public, name)
        code = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if not name.startswith("_") and getattr(code, "__module__", "").startswith("privmean"):
            yield name, code.__doc__
