"""Keys of releases, studies, guarantees and their entries that 0.2 stored, by the names of today.

What is stored is never changed: digests are those of the stored text. A reader checks them first,
and then reads a copy whose keys are renamed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from privmean.errors import shown

EVENT = {"relation": "neighbors", "moved": "sensitivity_text", "spread": "cells_changed"}
GUARANTEE = {"relation": "neighbors", "part_of": "parent_run"}
COUNTS = {
    "persons": "n",
    "persons_std_error": "n_std_error",
    "persons_interval": "n_interval",
}
RELEASE = {**COUNTS, "why": "rationale"}
INTERVAL = {"region": "clip_bounds", "parts": "half_widths", "brief": "short_assumption"}
PLAN = {"persons": "n", "relation": "neighbors", "looks": "shared_locations"}
STUDY = {"looks": "shared_locations", "said": "options", "why": "rationale"}


def contradiction(values: Mapping[str, Any], read: object, newest: int) -> str:
    """What is wrong where the schema number and the names of keys are of two versions, else "".

    read: the values by the names of today. newest: the schema number that came with these names.
    An older number asks for fewer checks, so it must not stand on what a newer version stored.
    """
    schema = values.get("schema")
    if (schema == newest) == (read == values):
        return ""
    version = "an older" if schema == newest else "a newer"
    return f"the schema number is {shown(schema)}, and the keys have names of {version} one"


def event(values: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of an account."""
    found = _renamed(values, EVENT)
    for name in ("branches", "parts"):
        if isinstance(found.get(name), list):
            found[name] = [_each(group, event) for group in found[name]]
    return found


def guarantee(values: Mapping[str, Any]) -> dict[str, Any]:
    """A guarantee with its entries."""
    found = _renamed(values, GUARANTEE)
    found["mechanisms"] = _each(found.get("mechanisms"), event)
    return found


def release(values: Mapping[str, Any]) -> dict[str, Any]:
    """A release: what it holds at its top, its rows, intervals, groups, guarantee and plan."""
    found = _renamed(values, RELEASE)
    for name in ("interval", "noise_interval"):
        if isinstance(found.get(name), Mapping):
            found[name] = _renamed(found[name], INTERVAL)
    for name in ("rows", "groups"):
        found |= {name: _each(found[name], _counts)} if name in found else {}
    if isinstance(found.get("margins"), Mapping):
        found["margins"] = {key: _each(rows, _counts) for key, rows in found["margins"].items()}
    if isinstance(found.get("values"), list):
        found["values"] = [release(item) for item in found["values"]]
    if isinstance(found.get("guarantee"), Mapping):
        found["guarantee"] = guarantee(found["guarantee"])
    if isinstance(found.get("plan"), Mapping):
        found["plan"] = _renamed(found["plan"], PLAN)
        if "mechanisms" in found["plan"]:
            found["plan"]["mechanisms"] = _each(found["plan"]["mechanisms"], event)
    return found


def study(values: Mapping[str, Any]) -> dict[str, Any]:
    """A study and its plan; its releases keep their keys, which their own digests are of."""
    found = _renamed(values, STUDY)
    for name in ("questions", "shared_locations"):
        found |= {name: _each(found[name], _question)} if name in found else {}
    if isinstance(found.get("guarantee"), Mapping):
        found["guarantee"] = guarantee(found["guarantee"])
    if isinstance(found.get("plan"), Mapping):
        plan = found["plan"] = _renamed(found["plan"], STUDY)
        for name in ("questions", "shared_locations"):
            plan |= {name: _each(plan[name], _question)} if name in plan else {}
    return found


def _question(values: Mapping[str, Any]) -> dict[str, Any]:
    found = _renamed(values, STUDY)
    if isinstance(found.get("mechanisms"), list):
        found["mechanisms"] = _each(found["mechanisms"], event)
    return found


def _counts(values: Mapping[str, Any]) -> dict[str, Any]:
    return _renamed(values, COUNTS)


def _each(values: Any, rename: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Any:
    if not isinstance(values, list):
        return values
    return [rename(item) if isinstance(item, Mapping) else item for item in values]


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A key whose name of today is there too stays: nothing is read in place of another number."""
    return {
        name if names.get(name) in values else names.get(name, name): value
        for name, value in values.items()
    }
