"""Public edges of bins of time: numbers, or dates as ISO writes them."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from itertools import pairwise

from privmean import validate
from privmean.errors import ArgumentError

# texts sort as their dates do, and a time of day after its date: they are compared as texts
Edges = tuple[float, ...] | tuple[str, ...]
ORIGIN = datetime.date(1970, 1, 1)


def edges_of(bins: object) -> Edges:
    """Increasing edges, all numbers or all dates; dates become texts such as "2026-01-31"."""
    given = list(bins) if isinstance(bins, Iterable) and not isinstance(bins, str) else []
    dates = tuple(_date(item) for item in given)
    edges: Edges = dates if all(dates) else ()
    if not any(isinstance(item, str | datetime.date) for item in given):
        edges = edges or tuple(validate.number("bins", item) for item in given)
    if len(edges) < 2 or any(b <= a for a, b in pairwise(edges)):  # type: ignore[operator]
        raise _refusal(bins, given, edges)
    return edges


def _refusal(bins: object, given: list[object], edges: Edges) -> ArgumentError:
    ordered = sorted(dict.fromkeys(given)) if edges else []  # type: ignore[type-var]
    if len(ordered) < 2:
        problem = "must be at least two edges, all numbers or all dates"
        return ArgumentError("bins", bins, problem, "use for example bins=[0, 1, 2]")
    return ArgumentError("bins", bins, "must increase", f"use bins={ordered}")


def _date(item: object) -> str:
    """A date as ISO writes it; nothing for what is none."""
    text = item.isoformat() if isinstance(item, datetime.date) else str(item)
    try:
        found = datetime.date.fromisoformat(text.removesuffix("T00:00:00")).isoformat()
    except ValueError:
        return ""
    return found if text.startswith(found) else ""  # 20260131 is a number


def middles(edges: Edges) -> tuple[float, ...]:
    """The middles of the bins; those of dates in days since 1970-01-01."""
    places = [
        (datetime.date.fromisoformat(x) - ORIGIN).days if isinstance(x, str) else x for x in edges
    ]
    return tuple((a + b) / 2 for a, b in pairwise(places))


def edge_text(at: float, edges: Edges) -> str:
    """A place between edges in their words."""
    if isinstance(edges[0], str):
        return (ORIGIN + datetime.timedelta(days=at)).isoformat()
    return f"{at:.6g}"


def bin_names(edges: Edges) -> tuple[str, ...]:
    """Each bin in words."""
    words = [x if isinstance(x, str) else f"{x:g}" for x in edges]
    return tuple(f"[{a}, {b})" for a, b in pairwise(words))
