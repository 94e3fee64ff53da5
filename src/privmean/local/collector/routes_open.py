"""What is open to everybody: the page, rounds, reports, and whether the service works."""

from __future__ import annotations

import asyncio
import time
from importlib.resources import files
from typing import Any

import sqlalchemy as sql
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool

from privmean.local.collector.authorization import Authorization
from privmean.local.collector.receive_reports import Intake
from privmean.local.collector.round_catalog import RoundCatalog
from privmean.local.collector.store import Store
from privmean.local.collector.telemetry import Metrics
from privmean.local.round import Round

BINARY, JSON_LINES = "application/octet-stream", "application/x-ndjson"
PAGE = {"page.html": "text/html", "page.js": "text/javascript", "page.css": "text/css"}
MOST_LEVELS = 64
PATIENCE = 5.0  # seconds that the database may take to say that it is there
POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; frame-ancestors 'none'; "
    "base-uri 'none'"
)


def add_open(
    app: FastAPI,
    catalogue: RoundCatalog,
    doors: Authorization,
    intake: Intake,
    store: Store,
    metrics: Metrics,
) -> None:
    """Register these routes."""
    folder = files("privmean.local.collector")
    parts = {name: (folder / name).read_bytes() for name in PAGE}

    def part(name: str) -> Response:
        return Response(
            parts[name],
            media_type=f"{PAGE[name]}; charset=utf-8",
            headers={"Content-Security-Policy": POLICY},
        )

    async def page() -> Response:
        return part("page.html")

    async def script() -> Response:
        return part("page.js")

    async def style() -> Response:
        return part("page.css")

    async def rounds() -> list[dict[str, Any]]:
        now = time.time()
        return [
            {
                "round": key.hex(),
                "digest": entry.round.digest.hex(),
                "title": entry.round.title,
                "mechanism": entry.round.mechanism,
                "levels": _levels(entry.round),
                "state": "open" if entry.takes_reports(now) else "closed",
                "persons": entry.round.persons,
                "closes": entry.round.closes,
            }
            for key, entry in catalogue.entries.items()
        ]

    async def description(round_id: str) -> Response:
        return Response(doors.round(round_id).to_json(), media_type="application/json")

    async def take(round_id: str, request: Request) -> JSONResponse:
        key = doors.round(round_id).identifier
        kind = request.headers.get("content-type", "").split(";")[0].strip()
        if kind not in (BINARY, JSON_LINES):
            raise HTTPException(415, f"send {BINARY} or {JSON_LINES}")
        receipt = await intake.take(key, request, json_lines=kind == JSON_LINES)
        name = "privmean_reports_total"
        metrics.add(name, receipt.accepted, outcome="accepted")
        metrics.add(name, receipt.duplicate, outcome="duplicate")
        for reason, number in receipt.rejected.items():
            metrics.add(name, number, outcome=reason)
        return JSONResponse(
            {
                "accepted": receipt.accepted,
                "duplicate": receipt.duplicate,
                "rejected": receipt.rejected,
            }
        )

    pulse = Pulse(store)

    async def health() -> JSONResponse:
        well = await pulse.well()
        return JSONResponse({"status": "ok" if well else "no database"}, 200 if well else 503)

    app.add_api_route("/", page)
    app.add_api_route("/page.js", script)
    app.add_api_route("/page.css", style)
    app.add_api_route("/healthz", health)
    app.add_api_route("/rounds", rounds)
    app.add_api_route("/rounds/{round_id}", description)
    app.add_api_route("/rounds/{round_id}/reports", take, methods=["POST"])


def _levels(round_: Round) -> list[str]:
    """The menu; of a long one its ends."""
    menu = round_.menu if len(round_.menu) <= MOST_LEVELS else (round_.menu[0], round_.menu[-1])
    return [f"{float(level):g}" for level in menu]


class Pulse:
    """Whether the database answers, asked at most once a second however many want to know."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = asyncio.Lock()
        self._until, self._well = 0.0, False

    async def well(self) -> bool:
        async with self._turn:
            if time.monotonic() >= self._until:
                try:
                    async with asyncio.timeout(PATIENCE):
                        await run_in_threadpool(self._ask)
                    self._well = True
                except (SQLAlchemyError, TimeoutError):
                    self._well = False
                self._until = time.monotonic() + 1.0
        return self._well

    def _ask(self) -> None:
        with self._store.engine.connect() as link:
            link.execute(sql.text("SELECT 1"))
