"""Releases at fixed seeds, kept so that a change of any of them is seen.

`releases.json` holds one line a release: its estimate and interval, so that a difference can be
read, and a digest of every other part of `to_dict()` but the provenance. Digests are of numbers to
twelve digits, the same wherever privmean runs; "bits" is of all digits, and is compared where the
numerical libraries and the processor are those it was made with.

Written again, after a change that was meant (say in the commit what changed and why):

    PYTHONPATH=src python tests/golden/golden_cases.py
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from platform import machine, processor
from typing import Any

import numpy as np
import scipy

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import privmean as pm
from plans import planned
from privmean.noise.simulated import SimulatedNoise
from privmean.people.matrix import MatrixPeople
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.published import AsPublished
from registry import ANY, BOTH, MIXED, PURE, REGISTRY

FILE = Path(__file__).with_name("releases.json")
PERSONS = 600
SHOWN = ("estimate", "lower", "upper", "persons", "status")
WORDS = ("schema", "columns", "estimator", "estimand", "why", "assumptions", "advice", "warning")
LONG = re.compile(r"\d+\.\d{5,}(?:e[+-]?\d+)?")  # a number in a text
LARGE = Budget(epsilon=8.0, delta=1e-6)


def records() -> dict[str, np.ndarray]:
    """A panel with unequal numbers of records, gaps in the values, and persons in 40 groups."""
    rng = np.random.default_rng(11)
    sizes = rng.integers(1, 9, PERSONS)
    who = np.repeat(np.arange(PERSONS), sizes)
    n, own = len(who), np.repeat(rng.normal(3, 1, PERSONS), sizes)
    x = np.round(own + rng.normal(0, 0.5, n), 3)
    a, b = np.round(rng.normal(0, 1, n), 3), np.round(rng.normal(0, 1, n), 3)
    y = np.round(own + 0.5 * a - b + rng.normal(0, 0.5, n), 3)
    x[rng.random(n) < 0.05] = np.nan
    time = np.concatenate([rng.permutation(size) for size in sizes]).astype(float)
    return {"who": who, "group": who % 40, "x": x, "y": y, "a": a, "b": b, "time": time}


def questions() -> dict[str, tuple[Any, tuple[Budget, ...]]]:
    """Every question with every assumption, and the budgets it is asked with."""
    near = (-9.0, 9.0)
    moment = pm.BoundedMoment(4, 2.0, range=near)
    assumed = {
        "nothing": None,
        "bounds": (0.0, 8.0),
        "sub-Gaussian": pm.SubGaussian(sd=1.2),
        "log-Sobolev": pm.LogSobolev(4.0, records=3),
        "between and within": pm.BetweenWithin(between_sd=1.0, within_sd=0.6, records=2),
        "bounded within": pm.BoundedWithin(1.0, 0.0, 8.0, records=2),
        "unknown scale": pm.UnknownScale(),
        "moment": moment,
        "covariance": pm.Covariance(1.5),
    }
    columns = ("x", "y")
    effects = pm.RandomEffects(0.2, 0.6, 3, group="group", person_sd=1.0)
    grouped = pm.RandomEffects(0.2, 0.6, 3, group="group", person_sd=1.0, range=near)
    weighted = pm.HeavyTailed(moment, weights=pm.RecordWeights(cap=6, critical=4.0))
    published = AsPublished(pm.SubGaussian(sd=1.2))
    edges = (0.0, 2.0, 4.0, 8.0)
    found: dict[str, tuple[Any, tuple[Budget, ...]]] = {}
    for name, item in assumed.items():
        budgets = ANY if name in ("nothing", "bounds", "moment") else (MIXED,)
        found[f"mean, {name}"] = (pm.Mean(("x",), assume=item), budgets)
        found[f"mean, {name}, two columns"] = (pm.Mean(columns, assume=item), budgets)
        if name not in ("moment", "covariance"):
            found[f"mean, {name}, records"] = (pm.Mean(("x",), "records", 4, assume=item), budgets)
        if callable(getattr(item, "radius", None)):  # a concentration; without delta, in a range
            ranged = pm.Winsorized(item, range=near)
            found[f"mean, {name}, range"] = (pm.Mean(columns, method=ranged), ANY)
    found |= {
        "mean, weights": (pm.Mean(("x",), "records", 6, method=weighted), ANY),
        "mean, nothing, records of two columns": (pm.Mean(columns, "records", 4), ANY),
        "mean, related": (pm.Mean(("x",), related=4.0), (MIXED,)),
        "mean, related, bounds": (pm.Mean(("x",), assume=(0, 8), related=4.0), (MIXED,)),
        "mean, random effects": (pm.Mean(("x",), related=effects), (MIXED,)),
        "mean, random effects, range": (pm.Mean(("x",), related=grouped), ANY),
        "mean, as published": (pm.Mean(("x",), method=published), (MIXED,)),
        "mean, cover": (pm.Mean(("x",), method=pm.PureCover(moment, work=4e6)), (PURE,)),
    }
    formula = "y ~ a + b"
    errors = pm.Errors(0.5, 1.0, range=near)
    found |= {
        "regression": (pm.Regression(formula, effect="own", records=3), ANY),
        "regression, fixed effects": (
            pm.Regression(formula, effect="own", fixed_effects=True),
            ANY,
        ),
        "regression, exchangeable": (
            pm.Regression(formula, effect="own", working=pm.Exchangeable(0.3)),
            ANY,
        ),
        "regression, AR(1)": (
            pm.Regression("y ~ a", effect="own", working=pm.AR1(0.4), time="time"),
            ANY,
        ),
        "regression, limits": (pm.Regression(formula, effect="own", assume=(-9, 9)), ANY),
        "regression, sub-Gaussian": (
            pm.Regression("y ~ a", effect="own", assume=pm.SubGaussian(2.0)),
            (MIXED,),
        ),
        "regression, errors": (
            pm.Regression(formula, effect="own", threshold=0.1, assume=errors),
            ANY,
        ),
        "regression, clipped": (
            pm.Regression("y ~ a", effect="own", method=pm.Magnitudes(target="clipped")),
            ANY,
        ),
        "curve": (pm.Curve("y", "time", edges), ANY),
        "curve, bounds": (pm.Curve("y", "time", edges, assume=(0, 8)), ANY),
        "curve, sub-Gaussian": (pm.Curve("y", "time", edges, assume=pm.SubGaussian(2.0)), (MIXED,)),
        "quantile": (pm.Quantile("x", (0.1, 0.5, 0.9)), ANY),
        "quantile, bounds": (pm.Quantile("x", (0.25, 0.75), bounds=(0, 8)), ANY),
        "variance": (pm.Variance("x", (0.01, 100.0)), ANY),
        "variance, CoinPress": (pm.Variance("x", (0.1, 10.0), "coinpress", 3.0), ANY),
    }
    return found


Case = tuple[str, Callable[[], Any]]


def cases() -> Iterator[Case]:
    """Every release by name, and what makes it."""
    yield from _registered()
    table = pm.Table(records(), person="who")
    for name, (question, budgets) in questions().items():
        for budget in budgets:
            for relation in BOTH:
                yield _asked(name, question, table, budget, relation)
    yield "fixed design, pure", _fixed(Budget(epsilon=1.0))
    yield "fixed design, zCDP", _fixed(Budget(rho=0.5))


def _registered() -> Iterator[Case]:
    for entry in REGISTRY:
        for dimension in entry.dimensions:
            values = np.random.default_rng(1).normal(3.0, 1.0, (PERSONS, dimension))
            people = MatrixPeople(values, tuple(f"c{j}" for j in range(dimension)))
            for budget in entry.budgets:
                for relation in entry.relations:
                    name = f"{entry.name} | {dimension} | {budget.describe()} | {relation}"
                    yield name, _run(entry, people, budget, relation)


def _run(entry: Any, people: MatrixPeople, budget: Budget, relation: str) -> Callable[[], Any]:
    def made() -> Any:
        estimator, width = entry.make(1.0), len(people.columns)
        plan = planned(estimator, budget, count=PERSONS, dimension=width, relation=relation)
        return plan.release(people, SimulatedNoise(1))

    return made


def _asked(name: str, question: Any, table: Any, budget: Budget, relation: str) -> Case:
    """From the engine with one budget and relation, from memory with the others (it is faster)."""
    engine = (budget, relation) == (MIXED, REPLACE_ONE) or isinstance(
        getattr(question, "related", None), pm.RandomEffects
    )
    terms: dict[str, Any] = {"rho": budget.rho}
    if budget.rho is None:
        terms = {"epsilon": budget.epsilon, "delta": budget.delta}
    if relation == ADD_REMOVE:
        terms["n_design"] = PERSONS

    def made() -> Any:
        people = table if engine else _in_memory(table, question.summary)
        return pm.ask(people, question, neighbors=relation, noise=SimulatedNoise(2), **terms)

    return f"{name} | {budget.describe()} | {relation}", made


@cache
def _in_memory(table: Any, summary: Any) -> MatrixPeople:
    people = table.people(summary)
    return people if isinstance(people, MatrixPeople) else people.collect()


def _fixed(budget: Budget) -> Callable[[], Any]:
    def made() -> Any:
        rng, times = np.random.default_rng(3), np.arange(400) / 400
        plan = pm.FixedDesign((-3.0, 3.0), 8, 0.1).plan(budget, times=times)
        return plan.release(rng.normal(0, 1, 400), SimulatedNoise(4))

    return made


# --- what is kept of a release --------------------------------------------------------------------


def kept(make: Callable[[], Any]) -> dict[str, Any]:
    """The line of a release: numbers to read, a digest a part. What is refused is kept as such."""
    try:
        stated = make().to_dict()
    except pm.PrivmeanError as refusal:
        return {"refused": type(refusal).__name__}
    del stated["provenance"]
    facts = json.loads(json.dumps(stated))
    rounded = _rounded(facts)
    interval = rounded["interval"]
    shown = dict(rounded, lower=interval["lower"], upper=interval["upper"])
    words = {name: rounded.pop(name) for name in WORDS if name in rounded}
    parts = {name: _digest(part) for name, part in rounded.items() if name not in SHOWN}
    parts["words"] = _digest(words)
    return {name: shown[name] for name in SHOWN} | {"bits": _digest(facts), "parts": parts}


def _rounded(tree: Any) -> Any:
    if isinstance(tree, dict):  # a digest is of all digits of what is compared beside it
        return {name: _rounded(item) for name, item in tree.items() if name != "digest"}
    if isinstance(tree, list):
        return [_rounded(item) for item in tree]
    if isinstance(tree, str):
        return LONG.sub(lambda number: f"{float(number[0]):.12g}", tree)
    return float(f"{tree:.12g}") if isinstance(tree, float) else tree


def _digest(tree: Any) -> str:
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def platform() -> dict[str, Any]:
    """What the last digits of a number depend on."""
    found: Any = np.show_config(mode="dicts")
    return {
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": ".".join(map(str, sys.version_info[:2])),
        "processor": found["SIMD Extensions"].get("found", []),
        "model": _model(),
    }


def _model() -> list[str]:
    """Sums of products are ordered by the model of the processor, whatever it is capable of."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return [machine(), processor()]
    told = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    wanted = ("vendor_id", "cpu family", "model", "stepping")
    values = {name.strip(): value.strip() for name, value in told.items()}
    flags = hashlib.sha256(values.get("flags", "").encode()).hexdigest()[:8]
    return [*(values.get(name, "") for name in wanted), flags]


def write() -> None:
    lines = [
        f"  {json.dumps(name)}: {json.dumps(kept(make), ensure_ascii=False)}"
        for name, make in cases()
    ]
    head = f'"platform": {json.dumps(platform())},\n"releases": {{\n'
    FILE.write_text("{\n" + head + ",\n".join(lines) + "\n}\n}\n")
    print(f"{len(lines)} releases in {FILE}")


if __name__ == "__main__":
    write()
