"""The fields of a round as plain data and back, for its canonical text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privmean import validate
from privmean.local.client_split import ClientSplit
from privmean.local.epsilon_menus import level_text, menu_text

NUMBERS = ("lower", "upper", "sigma", "points")  # fields that hold lists of numbers
LISTS = (*NUMBERS, "favoured")


def to_plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values of the fields that differ from their defaults."""
    result = dict(given)
    step = given.get("step")
    result["menu"] = menu_text(given["menu"], step)
    if step is not None:
        result["step"] = level_text(step)
    result["seed"] = given["seed"].hex()
    for name in LISTS:
        if name in result:
            result[name] = list(result[name])
    if "bins" in result:
        del result["items"]
    if "part" in result:
        part = result["part"]
        result["part"] = {
            "seed": part.seed.hex(),
            "shares": list(part.shares),
            "index": part.index,
        }
    return result


def from_plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields again. Raises KeyError, TypeError, ValueError or ArgumentError for odd text."""
    given = dict(values)
    given["seed"] = bytes.fromhex(given["seed"])
    for name in ("menu", *LISTS):
        if name in given:
            given[name] = tuple(_listed(given[name]))
    for name in NUMBERS:
        if name in given:
            given[name] = tuple(validate.number(name, x) for x in given[name])
    if given.get("part") is not None:
        part = given["part"]
        given["part"] = ClientSplit(
            bytes.fromhex(part["seed"]), tuple(part["shares"]), part["index"]
        )
    return given


def _listed(value: object) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise TypeError
    return list(value)
