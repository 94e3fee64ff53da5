"""A release as rows: one estimate a row, with the same columns whatever was asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from typing import Any

from privmean.inference.status import OK

NAN = float("nan")


@dataclass(frozen=True)
class Row:
    """One line of the tidy table of a release.

    term: the column, coefficient or point of time that is estimated. group: the key of a group or
    the text of a contrast, "" for everybody. std_error: of sampling and privacy noise together.
    lower, upper: interval for the population; noise_lower, noise_upper: privacy noise only.
    persons: a public or noisy number. NaN where nothing was found or nothing is said; status says
    why.
    """

    term: str
    group: str = ""
    estimate: float = NAN
    std_error: float = NAN
    lower: float = NAN
    upper: float = NAN
    noise_lower: float = NAN
    noise_upper: float = NAN
    n: float = NAN
    status: str = OK

    def to_dict(self) -> dict[str, Any]:
        """Plain data; numbers that are not finite become null."""
        found = {name: getattr(self, name) for name in NAMES}
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in found.items()
        }


def is_comparison(row: Row, columns: AbstractSet[str]) -> bool:
    """Whether a row of groups compares some of them. columns: the names of the groups."""
    if not row.group or row.group in columns:
        return False
    return f"{row.term}: {row.group}" not in columns


NAMES = tuple(item.name for item in fields(Row))


def columns_of(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """The rows as columns by name, each as long as there are rows."""
    return {name: [getattr(row, name) for row in rows] for name in NAMES}
