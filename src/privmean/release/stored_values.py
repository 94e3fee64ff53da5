"""Reads values of a stored release: numbers, texts, lists and objects, or Malformed.

Parts of releases read back from what `to_dict` stored: their numbers, nothing computed anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmean.errors import ArgumentError
from privmean.inference.interval import Interval
from privmean.inference.status import read_status
from privmean.privacy import older_names
from privmean.privacy.guarantee import Guarantee
from privmean.release.outcome import NAME, NOT_COVERED, Provenance
from privmean.release.result_numbers import NAMES, Row

Stored = Mapping[str, Any]
SAME = 1e-9  # relative: a number that is stated twice comes from one computation
LARGEST = 2.0**1000  # a number beyond it is none of a release


class Malformed(ValueError):
    """A part has not the form that a release gives it."""


def number(value: object) -> float | None:
    """A number of a release: finite, or null for one that is not."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Malformed("holds something else than numbers")
    if not abs(value) <= LARGEST:
        raise Malformed("holds a number that no release has")
    return float(value)


def numbers(value: object) -> list[float | None]:
    """A list of them."""
    return [number(item) for item in items(value)]


def items(value: object) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise Malformed("is no list")
    return list(value)


def text(value: object) -> str:
    if not isinstance(value, str):
        raise Malformed("holds something else than text")
    return value


def mapped(value: object) -> Stored:
    if not isinstance(value, Mapping):
        raise Malformed("is no object")
    return value


def same(one: float | None, other: float | None) -> bool:
    """Whether two numbers are one, as far as doubles tell; two nulls are."""
    if one is None or other is None:
        return one is other
    return one == other or math.isclose(one, other, rel_tol=SAME, abs_tol=0.0)


def about(one: float, other: float, size: float, part: float = SAME) -> bool:
    """Whether two results of a sum are one, whose terms are of this size."""
    return not abs(one - other) > part * max(abs(one), abs(other), abs(size))


def within(value: float, low: float | None, high: float | None) -> bool:
    """Whether a number lies between two ends (null: open), up to rounding."""
    size = max(abs(value), *(abs(end) for end in (low, high) if end is not None), 0.0)
    room = SAME * size
    return (low is None or value >= low - room) and (high is None or value <= high + room)


INFINITE = {
    "lower": -math.inf,
    "upper": math.inf,
    "noise_lower": -math.inf,
    "noise_upper": math.inf,
}


@dataclass(frozen=True)
class StoredPlan:
    """What a release says of the plan that made it."""

    estimator: str
    rationale: str
    stated: Mapping[str, Any]

    def describe(self) -> dict[str, Any]:
        return dict(self.stated)


@dataclass(frozen=True)
class StoredIntervals:
    """The two intervals of a stored release, at their level; no other can be made of them."""

    population: Interval
    noise: Interval

    def interval(self, level: float, target: str | None) -> Interval:
        if target not in (None, self.population.target):
            raise ArgumentError(
                "target",
                target,
                "is not the one that was stored",
                "use the release object that made the file",
            )
        return _at(self.population, level)

    def noise_interval(self, level: float) -> Interval:
        return _at(self.noise, level)


def _at(found: Interval, level: float) -> Interval:
    if level != found.level:
        raise ArgumentError(
            "level",
            level,
            f"must be the stored level, {found.level:g}",
            "use the release object that made the file",
        )
    return found


def parts_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a stored release, by their names; see `Release.from_dict`."""
    stored = values
    if isinstance(values, Mapping):
        values = older_names.release(values)
    if not isinstance(values, Mapping) or "estimate" not in values:
        raise ArgumentError(
            "values", type(values).__name__, "must hold a release", "give the result of `to_dict`"
        )
    if not isinstance(values.get("rows"), list):
        raise ArgumentError(
            "schema",
            values.get("schema"),
            "is from an older privmean, which stored no rows",
            "read its numbers by name, or check it with pm.verify",
        )
    try:
        population, noise = _interval(values["interval"]), _interval(values["noise_interval"])
        stated = values.get("plan") or {}
        return {
            "estimate": np.array([_number(item, math.nan) for item in values["estimate"]]),
            "columns": tuple(str(item) for item in values["columns"]),
            "estimator": str(values["estimator"]),
            "guarantee": Guarantee.from_dict(stored["guarantee"]),
            "intervals": StoredIntervals(population, noise),
            "plan": StoredPlan(str(values["estimator"]), str(values["rationale"]), stated),
            "n": values.get("n"),
            "estimand": str(values["estimand"]),
            "status": read_status(values["status"], None not in values["estimate"]),
            "advice": str(values["advice"]),
            "assumptions": tuple(values["assumptions"]),
            "shares": {name: _number(x, math.nan) for name, x in values["budget_shares"].items()},
            "diagnostics": dict(values["diagnostics"]),
            "secure": values["secure"] is True,
            "level": population.level,
            "provenance": provenance_of(values.get(NAME) or {}),
            "stored": dict(stored),
            "found": tuple(_row(item) for item in values["rows"]),
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArgumentError(
            "values",
            type(error).__name__,
            "must hold a complete release",
            "give the result of `to_dict`",
        ) from None


def provenance_of(found: Mapping[str, Any]) -> Provenance:
    """When and by what a stored release was made."""
    engine = found.get("engine") or {}
    stated = {name: value for name, value in found.items() if name not in NOT_COVERED}
    return Provenance(
        time=str(stated.get("time", "")),
        versions=dict(stated.get("versions") or {}),
        engine=str(engine.get("name", "not stated")),
        engine_version=engine.get("version"),
        entry=stated.get("ledger"),
    )


def _interval(found: Mapping[str, Any]) -> Interval:
    return Interval(
        tuple(_number(item, -math.inf) for item in found["lower"]),
        tuple(_number(item, math.inf) for item in found["upper"]),
        float(found["level"]),
        kind=str(found["kind"]),
        target=str(found["target"]),
        assumption=str(found["assumption"]),
        clip_bounds=tuple(
            (_number(a, -math.inf), _number(b, math.inf)) for a, b in found["clip_bounds"]
        ),
        half_widths={
            name: tuple(_number(item, math.inf) for item in half)
            for name, half in found["half_widths"].items()
        },
        status=read_status(found["status"]),
        advice=str(found["advice"]),
        secure=found["secure"],
        short_assumption=str(found.get("short_assumption", "")),
    )


def _row(found: Mapping[str, Any]) -> Row:
    words: dict[str, Any] = {name: str(found[name]) for name in ("term", "group")}
    words["status"] = read_status(found["status"], found["estimate"] is not None)
    failed = found["estimate"] is None and found["lower"] is None and found["upper"] is None
    numbers: dict[str, Any] = {
        name: _number(found[name], math.nan if failed else INFINITE.get(name, math.nan))
        for name in NAMES
        if name not in words
    }
    return Row(**words, **numbers)


def _number(value: Any, missing: float) -> float:
    return missing if value is None else float(value)
