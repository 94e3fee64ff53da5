"""What a service says of itself: counts for Prometheus, and lines of JSON for a log.

Neither holds anything of a report's content, nor a query, nor (unless asked for) an address.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TextIO

from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
