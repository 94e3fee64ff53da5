"""What running a plan gives: numbers and words, without bookkeeping.

When, by which versions and against which ledger entry a release was made, and what binds it.

All that changes from run to run is in the one object `provenance` of a stored release: the rest is
the same for the same draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from privmean.inference.interval import Floats, IntervalMaker
from privmean.inference.status import FAILED, OK
from privmean.plain_data import digest

if TYPE_CHECKING:
    from privmean.privacy.ledger_charges import LedgerEntry

SCHEMA = 4  # of a stored release; 1 had no number, no digest and no provenance, 2 no rows
READ = (2, 3, SCHEMA)
PURPOSE = "privmean release"
NAME = "provenance"


@lru_cache(maxsize=16)
def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _versions() -> dict[str, str | None]:
    from privmean._version import __version__

    names = ("opendp", "numpy", "scipy", "narwhals", "dp-accounting")
    return {"privmean": __version__, **{name: _version(name) for name in names}}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Provenance:
    """time: UTC, when the release was made. versions: of privmean, of OpenDP (the noise) and of the
    libraries that compute. engine, engine_version: what read the records ("not stated" where a plan
    was run by hand). entry: the line of the ledger that it was charged to, as {"number", "digest",
    "charged"}, and "returned" if something came back.
    """

    time: str = field(default_factory=_now)
    versions: Mapping[str, str | None] = field(default_factory=_versions)
    engine: str = "not stated"
    engine_version: str | None = None
    entry: Mapping[str, Any] | None = None

    def made_by(self, engine: str | None) -> Provenance:
        """The same with the engine that read the people."""
        named = engine or self.engine
        return replace(self, engine=named, engine_version=_version(named))

    def charged_to(self, entry: LedgerEntry) -> Provenance:
        """The same with the charge."""
        facts = {"number": entry.number, "digest": entry.digest}
        amounts = {"charged": entry.amount.describe()}
        if entry.settlement is not None:
            amounts["returned"] = entry.returned.describe()
        return replace(self, entry=facts | amounts)

    def to_dict(self) -> dict[str, Any]:
        return {
            "time": self.time,
            "versions": dict(self.versions),
            "engine": {"name": self.engine, "version": self.engine_version},
            "ledger": None if self.entry is None else dict(self.entry),
        }


def sealed(facts: Mapping[str, Any], provenance: Mapping[str, Any]) -> dict[str, Any]:
    """The stored release: `facts`, and the provenance with a digest over all of both."""
    stated = {name: value for name, value in provenance.items() if name not in NOT_COVERED}
    return {**facts, NAME: {**stated, "digest": digest(PURPOSE, {**facts, NAME: stated})}}


NOT_COVERED = ("digest", "signature")


def digest_of(release: Mapping[str, Any]) -> str:
    """The digest that belongs to a stored release; ValueError for what JSON cannot hold."""
    found = release.get(NAME)
    stated = dict(found) if isinstance(found, Mapping) else {}
    for name in NOT_COVERED:
        stated.pop(name, None)
    return digest(PURPOSE, {**release, NAME: stated})


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
