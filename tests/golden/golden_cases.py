"""What the golden releases are of: every case by its group and name, and what is kept of one.

Groups: `subjects` (all estimators that the audit knows, and those of the common suite beside them),
`calls` (all questions that it asks in whole calls, each field away from its default),
`assumptions` (questions with every assumption), `tables` (twelve questions on four tables),
`streams` and `local` (streams, withhold, reports of clients and their estimates), `studies`. All
noise, coins and tables are seeded.

Kept are the noisy answers of every mechanism in the order they were asked, everything that the
release says, and its text. Left out is what changes between two runs: provenance, run, digest.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import asked_calls
import privmean as pm
from auditing import rows as audited
from privmean.auditing import audit_local as audited_streams
from privmean.auditing import call_list
from privmean.auditing.findings import SUBJECTS
from privmean.data.array_table import ArrayPersonTable
from privmean.local.aggregators.aggregator import Aggregator
from privmean.local.clients.client import randomize
from privmean.local.exact_coins import SimulatedEntropy
from privmean.local.round_builders import ball_round, items_round, mean_round, vote_round
from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.noise_source import SimulatedNoise
from privmean.pipeline import execute
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from registry import ANY, MIXED, REGISTRY

Case = Callable[[], dict[str, Any]]
PERSONS = 600
LARGE = Budget(epsilon=8.0, delta=1e-6)
LEFT_OUT = {"provenance", "run", "digest"}
RUN = re.compile(r"\brun [0-9a-f]{32}\b")  # of a study, drawn anew
LONG = 64  # entries of an array that are kept one by one
FEW = 8  # first entries that are kept of a longer one


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


# --- all that is audited --------------------------------------------------------------------------


def subjects() -> Iterator[tuple[str, Case]]:
    """Every subject on a table of usual values: with every budget and relation at its first number
    of columns, and with its first budget and relation at the others."""
    for case in audited.every_case():
        subject = case.of
        first = (case.said, case.relation) == (subject.budgets[0], subject.relations[0])
        if case.table == USUAL and (first or case.dimension == subject.dimensions[0]):
            said = ", ".join(f"{name}={value:g}" for name, value in case.said if value)
            words = (subject.name, f"{case.dimension} columns", said, case.relation)
            name = " | ".join(words)
            yield name, _audited(case, unsteady=name in UNSTEADY)
    names = {subject.name for subject in SUBJECTS}
    for entry in REGISTRY:
        if entry.name not in names:
            for budget in entry.budgets:
                for relation in entry.relations:
                    words = (entry.name, budget.describe(), relation)
                    yield " | ".join(words), _registered(entry, budget, relation)


# calls that are gone, or came (below 0), by the call they stood before: the others keep their turns
RETIRED = {"saying hidden key": 1, "variance, value": -2, "variance, resolution": 3}


def called() -> Iterator[tuple[str, Case]]:
    """Every audited call on a table of usual values, under terms that go round."""
    number = -1
    for call in call_list.CALLS:
        number += 1 + RETIRED.get(call.name, 0)
        if (
            call.rows is None and call.name != "study, everything"
        ):  # the others have all of its questions
            yield call.name, _asking(call, number)


def _asking(call: call_list.Call, number: int) -> Case:
    return lambda: released(lambda: asked_calls.released(call, number, USUAL))


USUAL = "normal"
# on another machine a last digit of a limit moves the rounding of values in its regions
UNSTEADY = {"groups, private keys, many each | 5 columns | epsilon=6, delta=1e-06 | add-remove"}


def _audited(case: audited.Case, *, unsteady: bool) -> Case:
    def made() -> dict[str, Any]:
        plan, rows = audited.planned(case, 0)
        found = estimated(lambda: execute(plan, rows.people, noise=SimulatedNoise(1)))
        return found | ({"unsteady": True} if unsteady else {})

    return made


def _registered(entry: Any, budget: Budget, relation: str) -> Case:
    def made() -> dict[str, Any]:
        width = entry.dimensions[0]
        values = np.random.default_rng(1).normal(3.0, 1.0, (PERSONS, width))
        people = entry.table(values)
        plan = entry.plan(budget, relation, width, PERSONS)
        return estimated(lambda: plan.release(people, SimulatedNoise(1)))

    return made


# --- questions with every assumption --------------------------------------------------------------


def assumptions() -> dict[str, tuple[Any, tuple[Budget, ...]]]:
    """Questions with every assumption, and the budgets they are asked with."""
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
    weighted = pm.HeavyTailedMean(moment, weights=pm.RecordWeights(max_records=6, critical=4.0))
    edges = (0.0, 2.0, 4.0, 8.0)
    found: dict[str, tuple[Any, tuple[Budget, ...]]] = {}
    for name, item in assumed.items():
        budgets = ANY if name in ("nothing", "bounds", "moment") else (MIXED,)
        found[f"mean, {name}"] = (pm.Mean(("x",), assume=item), budgets)
        found[f"mean, {name}, two columns"] = (pm.Mean(columns, assume=item), budgets)
        if name not in ("moment", "covariance"):
            found[f"mean, {name}, records"] = (pm.Mean(("x",), "records", 4, assume=item), budgets)
        if callable(getattr(item, "radius", None)):  # a concentration; without delta, in a range
            ranged = pm.WinsorizedMean(item, range=near)
            found[f"mean, {name}, range"] = (pm.Mean(columns, method=ranged), ANY)
    found |= {
        "mean, weights": (pm.Mean(("x",), "records", 6, method=weighted), ANY),
        "mean, nothing, records of two columns": (pm.Mean(columns, "records", 4), ANY),
        "mean, related": (pm.Mean(("x",), clustering=4.0), (MIXED,)),
        "mean, related, bounds": (pm.Mean(("x",), assume=(0, 8), clustering=4.0), (MIXED,)),
        "mean, random effects": (pm.Mean(("x",), clustering=effects), (MIXED,)),
        "mean, random effects, range": (pm.Mean(("x",), clustering=grouped), ANY),
    }
    formula = "y ~ a + b"
    errors = pm.WorkingErrors(0.5, 1.0, coefficient_bounds=near)
    found |= {
        "regression, sub-Gaussian": (
            pm.Regression("y ~ a", effect="per_person", assume=pm.SubGaussian(2.0)),
            (MIXED,),
        ),
        "regression, errors": (
            pm.Regression(formula, effect="per_person", threshold=0.1, assume=errors),
            ANY,
        ),
        "curve": (pm.Curve("y", "time", edges), ANY),
        "curve, bounds": (pm.Curve("y", "time", edges, assume=(0, 8)), ANY),
        "curve, smoothed": (pm.Curve("y", "time", edges, smooth=2.0, max_bins=1), (MIXED,)),
        "quantile": (pm.Quantile("x", (0.1, 0.5, 0.9)), ANY),
        "quantile, bounds": (pm.Quantile("x", (0.25, 0.75), bounds=(0, 8)), ANY),
        "variance": (pm.Variance("x"), ANY),
    }
    return found


def assumed() -> Iterator[tuple[str, Case]]:
    """Every one of them with its budgets, and with the first of them under add-remove; regressions
    with one budget, since they take longest."""
    table = pm.Table(records(), person="who")
    for name, (question, budgets) in assumptions().items():
        asked = [(budget, REPLACE_ONE) for budget in budgets] + [(budgets[0], ADD_REMOVE)]
        if isinstance(question, pm.Regression):
            asked = [(MIXED, REPLACE_ONE)]
        for budget, relation in asked:
            words = (name, budget.describe(), relation)
            yield " | ".join(words), _asked(question, table, budget, relation)
    for name, budget in (("pure", Budget(epsilon=1.0)), ("zCDP", Budget(rho=0.5))):
        yield f"fixed design, {name}", _fixed(budget)


def _asked(question: Any, table: Any, budget: Budget, relation: str) -> Case:
    """From the engine with one budget and relation, from memory with the others (it is faster)."""
    engine = (budget, relation) == (MIXED, REPLACE_ONE) or isinstance(
        getattr(question, "clustering", None), pm.RandomEffects
    )
    terms: dict[str, Any] = {"rho": budget.rho}
    if budget.rho is None:
        terms = {"epsilon": budget.epsilon, "delta": budget.delta}
    if relation == ADD_REMOVE:
        terms["n_guess"] = PERSONS

    def made() -> dict[str, Any]:
        people = table if engine else _in_memory(table, question.summary)
        noise = SimulatedNoise(2)
        return released(lambda: pm.ask(people, question, neighbors=relation, noise=noise, **terms))

    return made


@cache
def _in_memory(table: Any, summary: Any) -> ArrayPersonTable:
    people = table.people(summary)
    return people if isinstance(people, ArrayPersonTable) else people.collect()


def _fixed(budget: Budget) -> Case:
    def made() -> dict[str, Any]:
        rng, times = np.random.default_rng(3), np.arange(400) / 400
        plan = pm.FixedDesign((-3.0, 3.0), 8, 0.1).plan(budget, times=times)
        values = rng.normal(0, 1, 400)
        return released(lambda: plan.release(values, SimulatedNoise(4)))

    return made


# --- twelve questions on four tables --------------------------------------------------------------

# name: records, the person's column, a value and its bounds, another value, a group and two of its
# keys, a time and its bins
TABLES: dict[str, dict[str, Any]] = {
    "ratings": {
        "person": "student", "value": "rating", "bounds": (1, 5), "other": "late",
        "group": "block", "keys": ("0", "1"), "time": "lecture", "bins": (0, 100, 200, 300),
    },
    "wages": {
        "person": "id", "value": "ln_wage", "bounds": (-1, 6), "other": "tenure",
        "group": "industry", "keys": ("manufacturing", "government"), "time": "year",
        "bins": (1968, 1974, 1981, 1989),
    },
    "nlswork": {
        "person": "person_id", "value": "ln_wage", "bounds": (0, 4), "other": "ttl_exp",
        "group": "race", "keys": ("1", "2"), "time": "year", "bins": (1968, 1975, 1982, 1989),
    },
    "gaps": {
        "person": "who", "value": "x", "bounds": (0, 8), "other": "a",
        "group": "group", "keys": ("1", "2"), "time": "time", "bins": (0, 2, 4, 8),
    },
}  # fmt: skip


@cache
def table(name: str) -> pm.Table:
    found = records() if name == "gaps" else dict(pm.example(name))
    if name == "ratings":
        found["block"] = np.asarray(found["student"]) % 3
        found["late"] = (np.asarray(found["lecture"]) > 150).astype(float)
    if name == "gaps":
        found["group"] = found["group"] % 4
    return pm.Table(found, person=TABLES[name]["person"])


def twelve(about: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """The questions, as functions of a table and terms that it is asked with."""
    value, other, group = about["value"], about["other"], about["group"]
    keys, bins, near = list(about["keys"]), list(about["bins"]), about["bounds"]
    pure, mixed, zcdp = {"epsilon": 2.0}, {"epsilon": 4.0, "delta": 1e-6}, {"rho": 1.0}
    formula = f"{value} ~ {other}"
    return {
        "mean": lambda t, **x: pm.mean(t, value, **pure, **x),
        "mean, bounds": lambda t, **x: pm.mean(t, value, bounds=near, **pure, **x),
        "mean, two columns": lambda t, **x: pm.mean(t, [value, other], **mixed, **x),
        "mean, records": lambda t, **x: pm.mean(
            t, value, estimand="records", max_records=4, **zcdp, **x
        ),
        "mean by group": lambda t, **x: pm.mean(
            t, value, by=group, keys=keys, contrasts=[f"{keys[1]} - {keys[0]}"], **pure, **x
        ),
        "mean by private group": lambda t, **x: pm.mean(t, value, by=group, **mixed, **x),
        "compare": lambda t, **x: pm.compare(t, value, by=group, pair=keys, **mixed, **x),
        "regression, pooled": lambda t, **x: pm.regress(t, formula, **mixed, **x),
        "regression, within": lambda t, **x: pm.regress(t, formula, effect="within", **mixed, **x),
        "curve": lambda t, **x: pm.curve(
            t, value, time=about["time"], bins=bins, bounds=near, **pure, **x
        ),
        "quantile": lambda t, **x: pm.quantile(t, value, **pure, **x),
        "variance": lambda t, **x: pm.variance(t, value, **pure, **x),
    }


def tables() -> Iterator[tuple[str, Case]]:
    for name, about in TABLES.items():
        for question, ask in twelve(about).items():
            yield f"{name} | {question}", _called(name, ask)


def _called(name: str, ask: Callable[..., Any]) -> Case:
    def made() -> dict[str, Any]:
        return released(lambda: ask(table(name), noise=SimulatedNoise(3)), whole=True)

    return made


# --- streams --------------------------------------------------------------------------------------


# an optimizer finds their strategies: on another machine it ends elsewhere, and numbers follow
SEARCHED = {"zero-out", "as planned", "half-life", "once", "by group"}


def streams() -> Iterator[tuple[str, Case]]:
    for item in audited_streams.STREAMED:
        yield item.name, _streamed(item)
    yield "two columns", _two_columns()
    yield "groups", _grouped()


def _run(stream: Any, who: list[Any], *arrivals: Any) -> dict[str, Any]:
    return _stated(stream, stream.extend(who, *arrivals), True)


def _stated(stream: Any, releases: Any, searched: bool) -> dict[str, Any]:
    said = [release.to_dict() for release in releases]
    stated = plain({"releases": said, "guarantee": stream.guarantee.to_dict()})
    return {"stated": stated, "unsteady": searched}


def _streamed(item: Any) -> Case:
    def made() -> dict[str, Any]:
        values = audited_streams.values(item, (3.0, 7.0, 5.0))
        stream, searched = item.make(SimulatedNoise(5)), item.name in SEARCHED
        return _stated(stream, item.extend(stream, item.arrivals, values), searched)

    return made


def _two_columns() -> Case:
    def made() -> dict[str, Any]:
        stream = pm.MeanStream(
            epsilon=2.0, delta=1e-6, steps=40, max_participations=2, min_separation=20,
            dimension=2, clip_radius=6.0, center=(4.0, 0.0), noise=SimulatedNoise(6),
        )  # fmt: skip
        rng = np.random.default_rng(6)
        values = np.column_stack([rng.normal(4, 2, 40), rng.normal(0, 0.4, 40)])
        return _run(stream, [k % 20 for k in range(40)], values)

    return made


def _grouped() -> Case:
    def made() -> dict[str, Any]:
        stream = pm.GroupMeanStream(
            groups=2, epsilon=2.0, delta=1e-6, steps=20, max_participations=2,
            min_separation=1, bounds=(0.0, 10.0), noise=SimulatedNoise(7),
        )  # fmt: skip
        rng = np.random.default_rng(7)
        groups = [("a", "b")[k % 2] for k in range(30)]
        return _run(stream, list(range(30)), groups, rng.normal(4, 2, 30))

    return made


# --- local reports --------------------------------------------------------------------------------

CLIENTS = 300


def rounds() -> Iterator[tuple[str, Case]]:
    """Reports of clients with seeded coins, byte by byte, and the estimate of the server."""
    menu, seed = [1, 3], bytes(32)
    said: dict[str, Any] = {"epsilon": menu, "persons": CLIENTS, "seed": seed}
    for name in ("one-bit", "piecewise", "hybrid"):
        yield f"mean, {name}", _reported(mean_round(0, 2, mechanism=name, **said), "number")
    for name in ("hadamard", "sketch", "subset"):
        yield f"items, {name}", _reported(items_round(12, mechanism=name, **said), "item")
    for name in ("ball-bit", "closest"):
        more = {"candidates": 8} if name == "closest" else {}
        round_ = ball_round(1, 3, mechanism=name, **more, **said)
        yield f"ball, {name}", _reported(round_, "vector")
    yield "votes, subset", _reported(vote_round(0, 2, 5, mechanism="subset", **said), "number")


def _reported(round_: Any, kind: str) -> Case:
    def made() -> dict[str, Any]:
        rng, coins = np.random.default_rng(9), SimulatedEntropy(9)
        reports = [
            randomize(round_, _own(rng, kind), epsilon=(1, 3)[k % 2], entropy=coins)
            for k in range(CLIENTS)
        ]
        server = Aggregator(round_)
        for report in reports:
            server.add(report)
        digest = hashlib.sha256(b"".join(reports)).hexdigest()[:16]
        found = {"first": reports[0].hex(), "bytes": sum(map(len, reports)), "all": digest}
        stated = {"round": json.loads(round_.to_json()), "estimate": server.estimate().to_dict()}
        return {"answers": [found], "stated": plain(stated), "text": str(server.estimate())}

    return made


def _own(rng: np.random.Generator, kind: str) -> Any:
    if kind == "item":
        return int(rng.integers(0, 12))
    if kind == "number":
        return round(float(rng.uniform(0, 1.5)), 3)
    return [round(float(x), 3) for x in rng.uniform(-0.5, 0.5, 3)]


# --- studies --------------------------------------------------------------------------------------


def studies() -> Iterator[tuple[str, Case]]:
    for name, about in TABLES.items():
        terms = {"epsilon": 4.0 if name == "wages" else 12.0}
        terms |= {} if name == "wages" else {"delta": 1e-6}
        yield f"{name}, shared looks", _studied(name, about, terms)
    yield "wages, zCDP", _studied("wages", TABLES["wages"], {"rho": 2.0})


def _studied(name: str, about: Mapping[str, Any], terms: dict[str, Any]) -> Case:
    def made() -> dict[str, Any]:
        study = pm.Study(table(name), name="golden", **terms)
        value, bins = about["value"], list(about["bins"])
        study.add("level", pm.Mean(value), weight=2)
        study.add("bounded", pm.Mean(value, assume=about["bounds"]))
        study.add("middle", pm.Quantile(value, q=(0.25, 0.5)))
        study.add("trend", pm.Curve(value, about["time"], bins))
        study.add("returns", pm.Regression(f"{value} ~ {about['other']}"))
        return released(lambda: study.release(noise=SimulatedNoise(10)))

    return made


GROUPS: dict[str, Callable[[], Iterator[tuple[str, Case]]]] = {
    "subjects": subjects,
    "calls": called,
    "assumptions": assumed,
    "tables": tables,
    "streams": streams,
    "local": rounds,
    "studies": studies,
}


# --- what is kept of a release --------------------------------------------------------------------


def released(make: Callable[[], Any], *, whole: bool = False) -> dict[str, Any]:
    """The noisy answers, what the release states, and its text (whole: its details too)."""
    with answering() as answers:
        release = make()
    kept = {"answers": answers, "stated": plain(release.to_dict()), "text": str(release)}
    return kept | ({"details": release.details()} if whole else {})


def estimated(make: Callable[[], Any]) -> dict[str, Any]:
    """The same of an estimator's release, whose rows only a question knows how to show."""
    with answering() as answers:
        release = make()
    stated = {
        "estimate": release.estimate,
        "interval": release.interval().to_dict(),
        "noise_interval": release.noise_interval().to_dict(),
        "guarantee": release.guarantee.to_dict(),
        "plan": {"rationale": release.plan.rationale, **release.plan.describe()},
        "secure": release.secure,
        **release.findings(),
    }
    return {"answers": answers, "stated": plain(stated)}


@contextmanager
def answering() -> Iterator[list[Any]]:
    """Every noisy answer that a curator gives, in order: the one place that knows of curators."""
    kept: list[Any] = []
    ask = TrustedCurator.ask

    def asked(self: Any, mechanism: Any, exact: Any) -> Any:
        noisy = ask(self, mechanism, exact)
        kept.append(plain(noisy))
        return noisy

    TrustedCurator.ask = asked  # type: ignore[method-assign]
    try:
        yield kept
    finally:
        TrustedCurator.ask = ask  # type: ignore[method-assign]


def plain(value: Any) -> Any:
    """As JSON holds it; of long arrays the first entries, and a digest of all."""
    if isinstance(value, np.ndarray):
        return _listed(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Mapping):
        found = {_key(key): plain(item) for key, item in value.items() if key not in LEFT_OUT}
        return found if len(found) <= LONG else _listed([[k, found[k]] for k in sorted(found)])
    if isinstance(value, list | tuple | set | frozenset):
        return _listed(list(value))
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, float):
        return value if value - value == 0 else repr(value)  # JSON has no infinity
    if isinstance(value, str):
        return RUN.sub("run", value)
    return value if isinstance(value, int | bool) or value is None else repr(value)


def _key(key: Any) -> str:
    return key if isinstance(key, str) else json.dumps(plain(key))


def _listed(items: list[Any]) -> Any:
    entries = [plain(item) for item in items]
    if len(entries) <= LONG or any(isinstance(item, dict) for item in entries):
        return entries
    text = json.dumps(entries, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {"first": entries[:FEW], "length": len(entries), "all": digest}


def kept(case: Case) -> dict[str, Any]:
    """The record of a case; what is refused is kept as such."""
    try:
        return case()
    except pm.PrivmeanError as refusal:
        return {"refused": type(refusal).__name__, "text": str(refusal)}
