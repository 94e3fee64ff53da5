"""The parts of one collector process: its rounds, what is done without being asked, what it says of
itself, its settings, its tokens, and what every route asks first.

Counts for Prometheus and lines of JSON for a log hold nothing of the content of a report, nor a
query, nor (unless asked for) an address. Only digests of tokens are kept, and a given one is
compared with all of them in constant time. A role may have several tokens, so that a new one can be
handed out before the old one is withdrawn.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from fastapi import HTTPException, Request
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from privmean import validate
from privmean.collector.receive_reports import Intake, Writer, address_of
from privmean.collector.request_limits import READING, WHOLE, Addresses, Limits, OpenConnections
from privmean.collector.round_registry import OPEN, RoundRecord
from privmean.collector.store import Answers, Store, plain
from privmean.errors import ArgumentError, PrivmeanError
from privmean.local.aggregators.aggregator import require_secret
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


SHORTEST = 16  # characters
SHAPE = re.compile(r"[!-~]+")
OPEN_DOOR = "anybody"


@dataclass(frozen=True)
class Roles:
    """The digests of the tokens of each role; an administrator may read, too."""

    administer: tuple[bytes, ...] = ()
    read: tuple[bytes, ...] = ()
    public: bool = True

    @classmethod
    def of(
        cls, administer: Iterable[str] = (), read: Iterable[str] = (), *, public: bool = False
    ) -> Roles:
        """The roles of these tokens. public: whether anybody may read results."""
        return cls(
            tuple(_digest("admin-token", token) for token in administer),
            tuple(_digest("read-token", token) for token in read),
            public,
        )

    def administrator(self, header: str) -> str:
        """The name in the audit log of who sent this Authorization header, "" for nobody."""
        return self._found(self.administer, header, "admin")

    def reader(self, header: str) -> str:
        """Who may read results with this header, "" for nobody."""
        found = self._found(self.read, header, "reader") or self.administrator(header)
        return found or (OPEN_DOOR if self.public else "")

    @staticmethod
    def _found(digests: tuple[bytes, ...], header: str, role: str) -> str:
        scheme, _, token = header.partition(" ")
        given = hashlib.sha256(token.strip().encode(errors="replace")).digest()
        matches = [hmac.compare_digest(given, digest) for digest in digests]
        if scheme.lower() != "bearer" or not any(matches):
            return ""
        return f"{role} {given.hex()[:8]}"  # tells two tokens apart, and not what they are


def _digest(name: str, token: str) -> bytes:
    if len(token) < SHORTEST or not SHAPE.fullmatch(token):
        raise ArgumentError(
            name,
            "...",
            f"must have at least {SHORTEST} letters, digits, - or _",
            "draw it: python -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return hashlib.sha256(token.encode()).digest()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything but the rounds and the database.

    secrets: of the tickets, the newest first. roles: who may administer and read; without them
    anybody may read and nobody administer. retention: how long reports are kept. origins: of web
    pages that may send reports besides the collector's own. certfile, keyfile: PEM files for TLS.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    secrets: tuple[bytes, ...] = ()
    limits: Limits = field(default_factory=Limits)
    roles: Roles = field(default_factory=Roles)
    retention: Retention = field(default_factory=Retention)
    log: Log = field(default_factory=Log)
    origins: tuple[str, ...] = ()
    certfile: Path | None = None
    keyfile: Path | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "port", validate.whole("port", self.port, most=65535))
        if not self.host:
            raise ArgumentError("host", self.host, "is empty", "use 0.0.0.0 for every address")
        for origin in self.origins:
            if origin != "*" and not re.fullmatch(r"https?://[^/?#\s]+", origin):
                raise ArgumentError(
                    "origin",
                    origin,
                    "is not a web origin",
                    "write https://HOST, and :PORT if it has one",
                )


CHALLENGE = {"WWW-Authenticate": "Bearer"}


class Collector:
    """The parts of one service process, and the guards of its routes."""

    def __init__(self, rounds: Iterable[Round], database: str, settings: Settings) -> None:
        self.settings, self.limits, self.log = settings, settings.limits, settings.log
        self.metrics = Metrics()
        offered = list(rounds)
        require_secret(offered, settings.secrets)
        self.store = Store(database)
        taken = {item.digest for item in self.store.register(offered)}
        for item in [item for item in offered if item.digest not in taken]:
            self.log.action("not offered: it was deleted", round=item.identifier.hex())
        self.catalogue = RoundCatalog(self.store)
        for mark, known in self.catalogue.entries.items():
            if known.round.issued and not settings.secrets and known.takes_reports(time.time()):
                self.log.action("takes no reports: no secret for its tickets", round=mark.hex())
        self.answers = Answers(self.store)
        self.keeper = Housekeeper(self.catalogue, self.store, settings.retention, self.log)
        rounds_now = self.catalogue.rounds
        self.writer = Writer(self.store, rounds_now, self.keeper.fresh.add)
        self.addresses, self.crowd = Addresses(self.limits), OpenConnections(self.limits)
        self.intake = Intake(rounds_now, self.writer, self.limits, self.addresses, settings.secrets)

    def close(self) -> None:
        self.keeper.stop()
        self.intake.close()
        self.writer.stop()
        self.store.close()

    def round(self, round_id: str) -> Round:
        """The round of this name; HTTP 404, or 410 for one that was deleted."""
        try:
            key = bytes.fromhex(round_id)
        except ValueError:
            key = b""
        found = self.catalogue.rounds.get(key)
        if found is None:
            gone = key in self.catalogue.gone
            raise HTTPException(
                410 if gone else 404, "the round was deleted" if gone else "no such round"
            )
        return found

    def state(self, round_: Round) -> str:
        """Whether it takes reports."""
        entry = self.catalogue.entries.get(round_.identifier)
        return "open" if entry is not None and entry.takes_reports(time.time()) else "closed"

    async def reader(self, request: Request) -> None:
        """Only who may read results passes, at the pace of the limits."""
        address = address_of(request)
        await self.intake.admit(address)
        if not self.settings.roles.reader(request.headers.get("authorization", "")):
            await self._refuse(address)
        self.addresses.charge(address, READING)

    async def administrator(self, request: Request) -> str:
        """Only who may administer passes; the name for the audit log."""
        address = address_of(request)
        await self.intake.admit(address)
        name = self.settings.roles.administrator(request.headers.get("authorization", ""))
        if not name:
            await self._refuse(address)
        return name

    async def _refuse(self, address: str) -> None:
        """Late, so that tokens cannot be tried at speed."""
        self.addresses.charge(address, WHOLE)
        await asyncio.sleep(self.limits.penalty)
        raise HTTPException(401, "a token is needed, or this one is none", CHALLENGE)
