"""Where a ledger's charges are kept: in memory, or in a durable log that several processes share.

Entry 1 holds the facts of the ledger: schema, total and policies. Each further entry is a charge or
what settles one; its number is therefore one less. It is on the disk before `append` returns
(`privmean.storage.durable_log`); what waits for it has not happened when it is missing.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from privmean.errors import ArgumentError
from privmean.plain_data import canonical
from privmean.privacy.ledger_charges import LedgerEntry
from privmean.storage.durable_log import DurableLog, LogExists
from privmean.storage.entry_chain import Broken, Entry, chained
from privmean.storage.witness import Seen, no_file, os_error_text

KIND = "ledger"


class Turn(NamedTuple):
    """A ledger that is held: its facts, its charges, and what writes one more, or settles one."""

    first: dict[str, Any]
    entries: list[LedgerEntry]
    append: Callable[[LedgerEntry], LedgerEntry]


class Charges:
    """The facts of a ledger, and its charges, as they were read and written."""

    def __init__(self) -> None:
        self.first: dict[str, Any] = {}
        self.entries: list[LedgerEntry] = []

    def take(self, entry: Entry) -> None:
        """An entry that was read, the oldest first."""
        item = json.loads(entry.payload)
        if entry.number == 1:
            self.first = item
        else:  # a charge of 0.2 keeps its digest, which releases state
            digest = item.get("digest", entry.digest)
            self.keep(LedgerEntry.from_dict(item), entry.number, digest)

    def keep(self, charge: LedgerEntry, number: int, digest: str) -> LedgerEntry:
        """One more charge, or the one that this settles; Broken where there is none. number: of its
        entry."""
        made = replace(charge, number=number - 1, digest=digest)
        if not made.settles:
            self.entries.append(made)
            return made
        for at, before in enumerate(self.entries):
            if before.number == made.settles and before.settlement is None:
                self.entries[at] = replace(before, settlement=made)
                return self.entries[at]
        raise Broken

    def turn(self, add: Callable[[bytes], Entry]) -> Turn:
        """add: writes an entry. It is kept nowhere, so that a log ends with its ledger."""

        def append(charge: LedgerEntry) -> LedgerEntry:
            made = add(canonical(charge.to_dict()).encode())
            return self.keep(charge, made.number, made.digest)

        return Turn(self.first, self.entries, append)


class LedgerMemory:
    """Charges that end with the process."""

    path = "in memory"

    def __init__(self, first: dict[str, Any]) -> None:
        self._turn = threading.Lock()
        self._last = Seen(0, "")
        self._charges = Charges()
        self._charges.take(self._add(canonical(first).encode()))

    def _add(self, payload: bytes) -> Entry:
        (made,) = chained([payload], self._last)
        self._last = made.seen
        return made

    @contextmanager
    def locked(self) -> Iterator[Turn]:
        """The charges, closed to every other thread meanwhile."""
        with self._turn:
            yield self._charges.turn(self._add)

    def close(self) -> None:
        """Nothing to do."""


class LedgerFile:
    """Charges in a file, which stays open between two of them."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._opened: tuple[DurableLog, Charges] | None = None

    def exists(self) -> bool:
        """Whether the file is there; ArgumentError for what can be no ledger, such as a device."""
        try:
            found = no_file(self.path)
            there = self.path.exists()
        except (OSError, ValueError) as error:
            said = os_error_text(error) if isinstance(error, OSError) else str(error)
            raise self._refused(
                f"cannot be opened: {said}", "name a file in a folder where you may write"
            ) from None
        if found:
            raise self._refused(f"is {found}", "name a regular file, or a new one")
        return there

    def create(self, first: dict[str, Any]) -> bool:
        """A new file with its facts, all at once; False if there is a file already."""
        payload = canonical(first).encode()
        try:  # others may use it, as far as the process lets anybody
            DurableLog.create(self.path, KIND, [payload], name="ledger", mode=0o666)
        except LogExists:
            return False
        return True

    @contextmanager
    def locked(self) -> Iterator[Turn]:
        """The charges, closed to every other process and thread meanwhile."""
        log, charges = self._open()
        with log.turn():
            yield charges.turn(log.append)

    def _open(self) -> tuple[DurableLog, Charges]:
        """The file, opened anew after a fork or a failure, and where another has its name."""
        found = self._opened
        if found is not None and found[0].usable:
            return found
        charges = Charges()
        # several users may share a ledger, each with a witness of their own
        log = DurableLog.open(self.path, KIND, charges.take, moved=True, shared=True, name="ledger")
        if found is not None and found[0].identity != log.identity:
            raise self._refused("was replaced by another ledger", "open it again if it is right")
        self._opened = log, charges
        return self._opened

    def close(self) -> None:
        """Let go of the file; it is opened again when it is needed."""
        if self._opened is not None:
            self._opened[0].close()

    def _refused(self, problem: str, remedy: str) -> ArgumentError:
        return ArgumentError("ledger", str(self.path), problem, remedy)
