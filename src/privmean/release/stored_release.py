"""A release as it is stored: its rows, its provenance, and how stored values are read.

All that changes from run to run is in the one object `provenance`: the rest is the same for the
same draws. Needs no numerical library, and neither does who reads a stored release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from privmean.inference.status import OK
from privmean.plain_data import digest

if TYPE_CHECKING:
    from privmean.privacy.ledger_charges import LedgerEntry

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
        found = {name: getattr(self, name) for name in ROW_FIELDS}
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in found.items()
        }


def is_comparison(row: Row, columns: AbstractSet[str]) -> bool:
    """Whether a row of groups compares some of them. columns: the names of the groups."""
    if not row.group or row.group in columns:
        return False
    return f"{row.term}: {row.group}" not in columns


ROW_FIELDS = tuple(item.name for item in fields(Row))


def columns_of(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """The rows as columns by name, each as long as there are rows."""
    return {name: [getattr(row, name) for row in rows] for name in ROW_FIELDS}


SCHEMA = 4  # of a stored release; 1 had no number, no digest and no provenance, 2 no rows
SCHEMAS = (2, 3, SCHEMA)
PURPOSE = "privmean release"
PROVENANCE = "provenance"


@lru_cache(maxsize=16)
def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, distribution, version

    try:
        facts = distribution(package).read_text("METADATA") or ""
    except PackageNotFoundError:
        return None
    # the one line: parsing a readme of a thousand lines beside it takes as long as a question
    return facts.partition("\nVersion: ")[2].partition("\n")[0] or version(package)


def _versions() -> dict[str, str | None]:
    return dict(_installed())


@lru_cache(maxsize=1)
def _installed() -> dict[str, str | None]:
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

    @classmethod
    def made_by(cls, engine: str | None) -> Provenance:
        """Made now, with the engine that read the people."""
        named = engine or cls.engine
        return cls(engine=named, engine_version=_version(named))

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
    return {
        **facts,
        PROVENANCE: {**stated, "digest": digest(PURPOSE, {**facts, PROVENANCE: stated})},
    }


NOT_COVERED = ("digest", "signature")


def digest_of(release: Mapping[str, Any]) -> str:
    """The digest that belongs to a stored release; ValueError for what JSON cannot hold."""
    found = release.get(PROVENANCE)
    stated = dict(found) if isinstance(found, Mapping) else {}
    for name in NOT_COVERED:
        stated.pop(name, None)
    return digest(PURPOSE, {**release, PROVENANCE: stated})


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


def alike(one: object, other: object) -> bool:
    """Whether two stored values are one: numbers as `same` has it, lists item by item."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return same(number(one), number(other))


def about(one: float, other: float, size: float, part: float = SAME) -> bool:
    """Whether two results of a sum are one, whose terms are of this size."""
    return not abs(one - other) > part * max(abs(one), abs(other), abs(size))


def within(value: float, low: float | None, high: float | None) -> bool:
    """Whether a number lies between two ends (null: open), up to rounding."""
    size = max(abs(value), *(abs(end) for end in (low, high) if end is not None), 0.0)
    room = SAME * size
    return (low is None or value >= low - room) and (high is None or value <= high + room)
