"""What running a plan gives: numbers and words, without bookkeeping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from privmean.intervals.interval import OK, Floats, IntervalMaker

PERSONS, RECORDS = "mean over persons", "mean over records (capped)"


@dataclass(frozen=True)
class Outcome:
    """The private outcome of one plan; the road makes a release of it.

    estimate: shape (d,), NaN where the private outcome was a failure. persons: n if it is public, a
    noisy count if one was bought, else None. status, advice: what the private outcome was, and what
    to do about one that is not "ok". shares: parts of the budget by purpose. diagnostics: further
    numbers that were paid for. estimand: what is estimated, in words.
    """

    estimate: Floats
    intervals: IntervalMaker
    persons: int | None = None
    status: str = OK
    advice: str = ""
    assumptions: tuple[str, ...] = ()
    shares: Mapping[str, float] = field(default_factory=dict)
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    estimand: str = PERSONS


def estimand_of(cap: int | None) -> str:
    """What a mean of people is over: persons, or their capped records."""
    return PERSONS if cap is None else RECORDS
