"""A release as rows: one estimate a row, with the same columns whatever was asked."""

from __future__ import annotations

from dataclasses import dataclass, fields

NAN = float("nan")


@dataclass(frozen=True)
class Row:
    """One line of the tidy table of a release.

    term: the column, coefficient or point of time that is estimated. group: the key of a group or
    the text of a contrast, "" for everybody. std_error: of sampling and privacy noise together.
    lower, upper: interval for the population; noise_lower, noise_upper: privacy noise alone.
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
    persons: float = NAN
    status: str = "ok"


NAMES = tuple(item.name for item in fields(Row))
