"""Stored releases with one leaf edited and both digests made anew: what a careful liar tries.

A leaf is a number, a text, a truth value or a null anywhere in the JSON but the digests. Its class
is where it stands and what it is; `REASONS` says of the classes that may pass why they may.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

import privmean as pm
from privmean.plain_data import canonical, digest
from privmean.privacy.guarantee import PURPOSE
from privmean.release.stored_release import PROVENANCE, digest_of

N, RECORDS = 600, 3
Path = tuple[str | int, ...]


@cache
def columns() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    person = np.repeat(np.arange(N), RECORDS)
    x = rng.normal(size=len(person))
    return {
        "person": person,
        "group": person % 3,
        "school": person % 20,
        "arm": person % 2,
        "t": rng.uniform(0, 3, len(person)),
        "x": x,
        "y": 3 + x + rng.normal(size=N)[person] + rng.normal(size=len(person)),
    }


@cache
def table() -> pm.Table:
    return pm.Table(columns(), person="person")


def _study() -> pm.StudyRelease:
    study = pm.Study(table(), epsilon=8.0)
    study.add("mean", pm.Mean("y", assume=(-10.0, 20.0)))
    study.add("spread", pm.Variance("y"))
    return study.release()


KINDS = {
    "mean": lambda: pm.mean(table(), "y", epsilon=1.0),
    "bounded mean": lambda: pm.mean(table(), "y", epsilon=1.0, bounds=(-10, 20)),
    "add-remove": lambda: pm.mean(
        table(), "y", epsilon=1.0, bounds=(-10, 20), neighbors="add-remove", n_guess=N
    ),
    "groups": lambda: pm.mean(
        table(), "y", by="group", keys=[0, 1, 2], contrasts=["0 - 1", "0 / 1"], epsilon=3.0
    ),
    "private keys": lambda: pm.mean(table(), "y", by="group", epsilon=3.0, delta=1e-6),
    "arms": lambda: pm.compare(table(), "y", arms="arm", epsilon=3.0),
    "curve": lambda: pm.curve(table(), "y", time="t", bins=[0, 1, 3], epsilon=3.0),
    "quantile": lambda: pm.quantile(table(), "y", [0.25, 0.5], epsilon=3.0),
    "variance": lambda: pm.variance(table(), "y", epsilon=3.0),
    "regression": lambda: pm.regress(table(), "y ~ x", effect="pooled", epsilon=6.0, delta=1e-6),
    "study": _study,
}


def _wide() -> pm.Release:
    rows = np.random.default_rng(6).normal(size=(600, 4)) * [1, 2, 3, 4]
    return pm.mean(rows, epsilon=4.0, delta=1e-4, covariance=[1.0, 4.0, 9.0, 16.0])


def _clustered() -> pm.Release:
    effects = pm.RandomEffects(0.1, 1.0, RECORDS, group_sizes=(N // 20,) * 20, person_sd=1.0)
    return pm.mean(table(), "y", clustering=effects, epsilon=1.0, delta=1e-6)


def _charged() -> pm.Release:
    ledger = pm.Ledger(epsilon=5.0, delta=1e-5)
    assumed = pm.SubGaussian(sd=2.0)
    return pm.mean(table(), "y", epsilon=1.0, delta=1e-6, assume=assumed, ledger=ledger)


def _design() -> pm.Release:
    values = np.random.default_rng(7).uniform(0, 1, 400)
    plan = pm.FixedDesign((0.0, 1.0), cells=4).plan(
        pm.Budget(epsilon=4.0), times=np.arange(1, 401) / 400
    )
    return plan.release(values)


# releases of one question: with those above, of every kind of accounting and of estimator
RELEASES = {name: made for name, made in KINDS.items() if name != "study"} | {
    "zCDP": lambda: pm.mean(table(), "y", rho=0.5, bounds=(-10, 20)),
    "columns": lambda: pm.mean(table(), ["x", "y"], epsilon=2.0, delta=1e-6),
    "charged": _charged,
    "heavy tails": lambda: pm.mean(
        table(), "y", epsilon=1.0, assume=pm.BoundedMoment(4, 3.0, range=(-50, 50))
    ),
    "filter": _wide,
    "clustered": _clustered,
    "own coefficients": lambda: pm.regress(table(), "y ~ x", effect="per_person", epsilon=4.0),
    "fixed design": _design,
}


@cache
def text(kind: str) -> str:
    """A release that has an estimate, as it is stored."""
    for _ in range(20):
        found = (RELEASES | KINDS)[kind]().to_dict()
        releases = [item["release"] for item in found.get("questions", ())] or [found]
        if all(item and any(x is not None for x in item["estimate"]) for item in releases):
            break
    return json.dumps(found, allow_nan=False)


def stored(kind: str) -> dict[str, Any]:
    return json.loads(text(kind))


def leaves(value: Any, before: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Everything in a value that holds nothing else, but the digests."""
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in entries:
        if isinstance(inner, dict | list):
            yield from leaves(inner, (*before, key))
        elif not (key == "digest" and before and before[-1] in (PROVENANCE, "guarantee")):
            yield (*before, key), inner


def others(value: Any) -> list[Any]:
    """What can stand in a leaf's place."""
    if isinstance(value, bool):
        return [not value, None, "true"]
    if value is None:
        return [0.0, 1.5, -2.0, "x"]
    if isinstance(value, int):
        return [
            value + 1, value - 1, -value - 1, 2 * value + 3, 0, 7, 10**9, 10**30, 10**400,
            value + 0.5, None,
        ]  # fmt: skip
    if isinstance(value, float):
        size = abs(value) or 1.0
        return [
            value + 1e-5 * size, value + 0.05 * size, value - 0.05 * size, value / 2,
            1.2 * value - 0.1, value - 3.0, 10 * size, -value - 1.0, 2 * value + 1, 100 * size,
            1e-9 * size, 0.0, 1e30, None, 10**400,
        ]  # fmt: skip
    exact = re.fullmatch(r"(\d+)(/\d+)?", value)
    if exact:  # a fraction of the bill
        more = exact[2] or ""
        return [f"{int(exact[1]) + 1}{more}", f"{int(exact[1]) * 2}{more}", f"1{more}", "-1", "x"]
    return [value + "x", value[:-1], "", "certificate", "failed" if value != "failed" else "ok"]


def resealed(values: dict[str, Any]) -> dict[str, Any]:
    """With both digests made anew, of a study and of its releases."""
    for question in (
        values.get("questions", ()) if isinstance(values.get("questions"), list) else ()
    ):
        if isinstance(question, dict) and isinstance(question.get("release"), dict):
            resealed(question["release"])
    guarantee = values.get("guarantee")
    if isinstance(guarantee, dict):
        guarantee.pop("digest", None)
        guarantee["digest"] = digest(PURPOSE, guarantee)
    if isinstance(values.get(PROVENANCE), dict):
        values[PROVENANCE]["digest"] = digest_of(values)
    return values


def edited(values: dict[str, Any], path: Path, other: Any) -> dict[str, Any]:
    """A copy with one leaf changed."""
    changed = copy.deepcopy(values)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = other
    return resealed(changed)


def edits(
    values: dict[str, Any], every: int = 1, first: int = 0
) -> Iterator[tuple[Path, Any, Any]]:
    """(where, what, by what) of every edit of a leaf; every so many of them."""
    found = (
        (path, value, other)
        for path, value in leaves(values)
        for other in others(value)
        if not (other == value and type(other) is type(value))
    )
    for place, edit in enumerate(found):
        if place % every == first:
            yield edit


def unsealed(values: dict[str, Any], every: int = 1) -> Iterator[tuple[Path, str, dict[str, Any]]]:
    """Copies with one leaf changed or removed, of every so many, under the digests as they were."""
    for path, value in list(leaves(values))[::every]:
        for other in ("removed", *others(value)[:2]):
            changed = copy.deepcopy(values)
            inner = changed
            for key in path[:-1]:
                inner = inner[key]
            if other == "removed":
                del inner[path[-1]]
            else:
                inner[path[-1]] = other
            if canonical(changed) != canonical(values):
                yield path, str(other), changed


SEVERAL = " (of several columns)"


def place(path: Path, values: dict[str, Any]) -> str:
    """Where a leaf stands: the names of its path, of a study those within its release. Ends of
    intervals are told apart by whether they hold for several columns together."""
    found = _place(path)
    if not re.fullmatch(r"(rows\.(noise_)?|(noise_)?interval\.)(lower|upper)", found):
        return found
    if "release" in path:
        values = values["questions"][path[1]]["release"]
    together = len(values["columns"]) > 1 and not {"groups", "values"} & set(values)
    return found + SEVERAL if together else found


def _place(path: Path) -> str:
    names = [str(key) for key in path if not isinstance(key, int)]
    if "release" in names[:-1]:
        names = names[names.index("release") + 1 :]
    elif names[:1] == ["questions"]:
        names[0] = "question"
    open_names = {"diagnostics", "budget_shares", "half_widths", "versions", "card", "margins"}
    cut = next((k for k, name in enumerate(names) if name in open_names), None)
    if cut is not None:
        names = [*names[: cut + 1], *(["..."] if len(names) > cut + 1 else [])]
    if names[:1] == ["plan"] and "mechanisms" not in names:
        names = ["plan", "..."]
    return ".".join(names)


WORDS = "words: nothing says what they should be"
OWN = "the releaser's own word"
SHOWN = "a fact for printing, stated once"
WEAKER = "the account keeps the changed promise, or is smaller than before"
ONCE = "stated once; within what the rest allows"
TOGETHER = "ends for all columns together lie about those of one alone, by no closed form"
SIX = "losses are stated to six digits"
NOISY = "a noisy number, stated once"

# Classes that may pass, and why. All others must be refused, whatever the edit.
REASONS: tuple[tuple[str, str], ...] = (
    (
        r"(rationale|estimand|estimator|advice|formula|method|effect|assumptions|by|term|warning)",
        WORDS,
    ),
    (r"(noise_)?interval\.(target|assumption|short_assumption|advice)", WORDS),
    (r"guarantee\.(public|note|parent_run|unit)", WORDS),
    (r"(guarantee|plan)\.mechanisms\.(name|sensitivity_text)", WORDS),
    (r"columns", WORDS),
    (r".*\(of several columns\)", TOGETHER),
    (r"plan\.mechanisms\.bounded_range", WEAKER),
    (r"plan\.mechanisms\.(epsilon|scale|sensitivity|threshold)", SIX),
    (r"contrasts\.assumption", WORDS),
    (r"provenance\..*", OWN),
    (r"(name|run|card.*|question\.(name|ask|options|advice|label|unit|note))", OWN),
    (r"diagnostics.*", SHOWN),
    (r"plan\.\.\.\.", SHOWN),
    (r"budget_shares.*", ONCE),
    (r"fixed_effects", SHOWN),
    (r"guarantee\.(epsilon|delta|rho)", WEAKER),
    (
        r"guarantee\.mechanisms\.(cells_changed|joint|choices|bounded_range|answers|cells|threshold)",
        WEAKER,
    ),
    (r"guarantee\.mechanisms\.(sensitivity|scale)", WEAKER),
    (r"(noise_)?interval\.half_widths.*", ONCE),
    (r"(noise_)?interval\.clip_bounds", ONCE),
    (r"rows\.(std_error|n)", NOISY),
    (r"groups\.(n_std_error|n_interval)", NOISY),
    (r"covariance", ONCE),
    (r"coefficients\.(noise_sd|p_value|clipping_bias)", ONCE),
    (r"p_value", ONCE),
    (r"curve\.at", SHOWN),
    (r"distribution\..*", ONCE),
    (r"n", NOISY),
    (r"question\.(weight|wanted_error|budget\.delta)", SHOWN),
)


def reason(where: str) -> str | None:
    """Why an edit of this class may pass; None where it must be refused."""
    return next((why for form, why in REASONS if re.fullmatch(form, where)), None)
