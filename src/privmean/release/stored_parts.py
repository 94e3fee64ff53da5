"""Parts of releases read back from what `to_dict` stored: their numbers, nothing computed anew."""

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
from privmean.release.provenance import NAME, NOT_COVERED, Provenance
from privmean.release.result_rows import NAMES, Row

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
