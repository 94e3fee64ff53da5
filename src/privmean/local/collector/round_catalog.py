"""The rounds as one process knows them, and what is done now and then without being asked."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from privmean import validate
from privmean.errors import PrivmeanError
from privmean.local.aggregators.estimate_round import estimate
from privmean.local.collector.round_registry import OPEN, RoundRecord
from privmean.local.collector.store import Store, plain
from privmean.local.collector.telemetry import Log
from privmean.local.round import Round

DAY = 86_400.0
EVERY, EXPIRING = 1.0, 30.0  # seconds between looks at other processes' rounds, and at deadlines
GROWTH = 1.02  # a point of the history for each two per cent more reports
NUMBERS = 16  # an answer of more numbers has no history


@dataclass(frozen=True)
class Retention:
    """How many days after it closed a round's reports are deleted (forget), and everything about
    it (delete). None: never."""

    forget: float | None = None
    delete: float | None = None

    def __post_init__(self) -> None:
        for name in ("forget", "delete"):
            if getattr(self, name) is not None:
                validate.nonnegative(name, getattr(self, name))

    def seconds(self) -> dict[str, float | None]:
        parts = {"forget": self.forget, "delete": self.delete}
        return {name: None if days is None else DAY * days for name, days in parts.items()}


class RoundCatalog:
    """All rounds that are not deleted. `rounds` is one dictionary that changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.entries: dict[bytes, RoundRecord] = {}
        self.rounds: dict[bytes, Round] = {}
        self.gone: set[bytes] = set()
        self.refresh()

    def refresh(self) -> None:
        """What other processes did, too."""
        found, gone = self._store.book.entries()
        for key in [key for key in self.rounds if key not in found]:
            self.rounds.pop(key, None)
        self.rounds.update({key: entry.round for key, entry in found.items()})
        self.entries, self.gone = found, gone


class Housekeeper(threading.Thread):
    """Learns of rounds from other processes, keeps the history, closes and deletes in time."""

    def __init__(
        self, catalogue: RoundCatalog, store: Store, retention: Retention, log: Log
    ) -> None:
        super().__init__(name="privmean-keeper", daemon=True)
        self._catalogue, self._store = catalogue, store
        self._retention, self._log = retention, log
        self._stopped = threading.Event()
        self._last: dict[bytes, int] = {}
        self.fresh: set[bytes] = set()  # rounds in which this process stored reports

    def stop(self) -> None:
        self._stopped.set()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        due = 0.0
        for key, entry in self._catalogue.entries.items():
            if entry.state == OPEN and not self._stopped.is_set():
                self._quietly(lambda key=key: self._store.catch_up(self._catalogue.rounds[key]))
        while not self._stopped.wait(EVERY):
            self._quietly(self._catalogue.refresh)
            if time.monotonic() >= due:
                self._quietly(self._expire)
                due = time.monotonic() + EXPIRING
            for key in list(self.fresh):
                self._quietly(lambda key=key: self.sample(key))

    def _quietly(self, work: object) -> None:
        assert callable(work)
        try:
            work()
        except (SQLAlchemyError, PrivmeanError, KeyError) as problem:  # the next time may do
            self._log.action("not done", problem=type(problem).__name__)

    def _expire(self) -> None:
        changed = self._store.book.expire(time.time(), **self._retention.seconds())
        for key in changed:
            self._log.action("expired", round=key.hex())
        if changed:
            self._catalogue.refresh()

    def sample(self, key: bytes) -> None:
        """Remember the answer if there are enough more reports than at the last time."""
        self.fresh.discard(key)
        round_ = self._catalogue.rounds[key]
        if round_.cells * round_.width > NUMBERS * len(round_.menu) * 2:
            return
        if key not in self._last:
            self._last[key] = max((row[0] for row in self._store.book.history(key)), default=0)
        tally = self._store.tally(round_)
        reports = tally.reports
        if reports >= max(self._last[key] * GROWTH, self._last[key] + 1):
            found = plain(estimate(tally))
            short = {name: found[name] for name in ("value", "radii", "interval")}
            self._store.book.remember(key, reports, json.dumps(short))
            self._last[key] = reports
