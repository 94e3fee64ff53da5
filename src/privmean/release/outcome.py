"""What running a plan gives: numbers and words, without bookkeeping."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from privmean.inference.interval import Floats, IntervalMaker
from privmean.inference.status import FAILED, OK

# what is estimated, and how people are weighted in it
PERSONS, RECORDS = "mean, people weighted equally", "mean, people weighted by records"


@dataclass(frozen=True, kw_only=True)
class ResultNotes:
    """What is said of an estimate, in an outcome and in the release that is made of it.

    persons: n if it is public, a noisy count if one was bought, else None. estimand: what is
    estimated, in words. status: the worst code of all rows; advice: what is particular to
    this case; statuses: one a column (none: all have that of the release).
    shares: parts of the budget by purpose. diagnostics: further numbers that were paid for.
    """

    n: int | None = None
    estimand: str = PERSONS
    status: str = OK
    statuses: tuple[str, ...] = ()
    advice: str = ""
    assumptions: tuple[str, ...] = ()
    shares: Mapping[str, float] = field(default_factory=dict)
    diagnostics: Mapping[str, Any] = field(default_factory=dict)

    def findings(self) -> dict[str, Any]:
        """The same by name."""
        return {item.name: getattr(self, item.name) for item in fields(ResultNotes)}


@dataclass(frozen=True)
class Outcome(ResultNotes):
    """The private outcome of one plan; the road makes a release of it.

    estimate: shape (d,), NaN where the private outcome was a failure. follows_from_answers: whether
    public facts and noisy answers alone led here. False where an error was caught, or a source was
    found changed: then what was not asked never comes back to a ledger.
    """

    estimate: Floats
    intervals: IntervalMaker
    follows_from_answers: bool = field(kw_only=True)

    @property
    def shown(self) -> Floats:
        """The estimate, NaN in every column that failed: noise is never shown as an estimate."""
        statuses = self.statuses or (self.status,) * len(self.estimate)
        failed = np.array([status == FAILED for status in statuses], dtype=bool)
        return np.where(failed, np.nan, self.estimate)


def by_cause(sampling: float, noise: float) -> dict[str, float]:
    """A predicted error, and what it is made of."""
    rmse = math.hypot(sampling, noise)
    return {"rmse": rmse, "sampling": sampling, "privacy_noise": noise}


def estimand_of(max_records: int | None) -> str:
    """What a mean of people is over: people, or their capped records."""
    return PERSONS if max_records is None else RECORDS


def name_estimand(words: str, estimand: str) -> str:
    """These words for what is estimated, with people weighted as in `estimand`."""
    return "".join((words, *estimand.partition(", people ")[1:]))
