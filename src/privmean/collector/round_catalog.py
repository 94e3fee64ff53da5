"""The rounds as one process knows them, and what is done now and then without being asked.

What a service says of itself: counts for Prometheus, and lines of JSON for a log.

Neither holds anything of a report's content, nor a query, nor (unless asked for) an address.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TextIO

from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from privmean import validate
from privmean.collector.round_registry import OPEN, RoundRecord
from privmean.collector.store import Store, plain
from privmean.errors import PrivmeanError
from privmean.local.aggregators.estimate_round import estimate
from privmean.local.round import Round

Labels = tuple[tuple[str, str], ...]
Gauges = Callable[[], Iterable[tuple[str, Mapping[str, str], float]]]

HELP = {
    "privmean_requests_total": ("counter", "Answered requests."),
    "privmean_request_seconds_total": ("counter", "Seconds until the answer to requests began."),
    "privmean_reports_total": ("counter", "Reports received by this process, by what became."),
    "privmean_rounds": ("gauge", "Rounds that are kept, by state."),
    "privmean_connections": ("gauge", "Open connections of this process."),
    "privmean_waiting_bytes": ("gauge", "Bytes of reports that are received and not yet stored."),
    "privmean_start_time_seconds": ("gauge", "When this process started, since 1970."),
}
NONE, ACTIONS, REQUESTS = "none", "actions", "requests"


class Metrics:
    """Counters of one process."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._counts: Counter[tuple[str, Labels]] = Counter()
        self._started = time.time()

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        with self._turn:
            key = (name, tuple(sorted(labels.items())))
            self._counts[key] += amount  # type: ignore[assignment]

    def text(self, gauges: Gauges) -> str:
        """The text format of Prometheus."""
        rows: list[tuple[str, Labels, float]] = [
            (name, tuple(sorted(labels.items())), value) for name, labels, value in gauges()
        ]
        rows.append(("privmean_start_time_seconds", (), self._started))
        with self._turn:
            rows += [(name, labels, value) for (name, labels), value in self._counts.items()]
        lines, last = [], ""
        for name, labels, value in sorted(rows):
            if name != last:
                kind, words = HELP[name]
                lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
                last = name
            inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
            lines.append(f"{name}{{{inside}}} {value:.12g}" if inside else f"{name} {value:.12g}")
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Log:
    """Lines of JSON. level: "none", "actions" (starts, administration, failures) or "requests"."""

    def __init__(
        self, level: str = NONE, *, addresses: bool = False, stream: TextIO | None = None
    ) -> None:
        self.level, self.addresses, self._stream = level, addresses, stream
        self._turn = threading.Lock()

    def action(self, event: str, **fields: object) -> None:
        if self.level != NONE:
            self._write(event, fields)

    def request(self, **fields: object) -> None:
        if self.level == REQUESTS or (self.level == ACTIONS and fields["status"] == 500):
            self._write("request", fields)

    def _write(self, event: str, fields: Mapping[str, object]) -> None:
        line = json.dumps({"time": round(time.time(), 3), "event": event, **fields})
        with self._turn:
            print(line, file=self._stream or sys.stderr, flush=True)


class Watched:
    """An application whose answers are counted and logged, by route and never by address."""

    def __init__(self, app: ASGIApp, metrics: Metrics, log: Log) -> None:
        self._app, self._metrics, self._log = app, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, seen = time.monotonic(), {"status": 500, "took": 0.0}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen["status"], seen["took"] = message["status"], time.monotonic() - start
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            self._count(scope, int(seen["status"]), float(seen["took"]))

    def _count(self, scope: Scope, status: int, took: float) -> None:
        route = scope.get("route")
        path = str(getattr(route, "path", "")) or "other"
        method = scope["method"] if scope["method"] in ("GET", "POST", "DELETE") else "other"
        labels: dict[str, str] = {"route": path, "method": method}
        self._metrics.add("privmean_requests_total", 1, status=str(status), **labels)
        self._metrics.add("privmean_request_seconds_total", took, **labels)
        fields: dict[str, object] = {**labels, "status": status, "seconds": round(took, 4)}
        if self._log.addresses:
            fields["address"] = (scope.get("client") or ("",))[0]
        self._log.request(**fields)


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
