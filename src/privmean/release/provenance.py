"""When, by which versions and against which ledger entry a release was made, and what binds it.

All that changes from run to run is in the one object `provenance` of a stored release: the rest is
the same for the same draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

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
