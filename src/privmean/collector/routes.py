"""The routes of a collector.

Administration: new rounds while the service runs, their end, tickets taken back, the log.

What is open to everybody: the page, rounds, reports, and whether the service works.

Results: for everybody where that was chosen, else for who has a token.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

import numpy as np
import sqlalchemy as sql
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool

from privmean import validate
from privmean.collector.access import Authorization
from privmean.collector.receive_reports import Intake
from privmean.collector.round_catalog import Log, Metrics, RoundCatalog
from privmean.collector.store import LARGEST, Answers, Store
from privmean.errors import ArgumentError
from privmean.local.aggregators.round_law import TESTED
from privmean.local.kernel_regression import curve
from privmean.local.reports import NONCE_SIZE
from privmean.local.round import Round
from privmean.plain_data import parsed

LARGEST_REQUEST = 1 << 22  # bytes of a request
REQUEST_PATIENCE = 30.0  # seconds for them


def add_administration(
    app: FastAPI,
    doors: Authorization,
    catalogue: RoundCatalog,
    store: Store,
    log: Log,
    usable: Callable[[list[Round]], None],
) -> None:
    """Register these routes. usable: raises PrivmeanError for a round that cannot be offered."""
    book = store.book

    async def done(action: str, who: str, key: bytes, **more: object) -> JSONResponse:
        await run_in_threadpool(catalogue.refresh)
        log.action(action, who=who, round=key.hex(), **more)
        status = 201 if action == "open" else 200
        return JSONResponse({"round": key.hex(), "done": action, **more}, status)

    async def offer(request: Request) -> JSONResponse:
        """Offer a round from now on; the body is its description."""
        who = await doors.administrator(request)
        round_ = Round.from_json(await _body(request))
        usable([round_])
        if not await run_in_threadpool(store.register, [round_], who):
            raise HTTPException(410, "the round was deleted; draw a new seed")
        return await done("open", who, round_.identifier, digest=round_.digest.hex())

    # close: when it is answered, no report is stored any more. forget: deletes a closed round's
    # reports and keeps their tally. delete: everything about the round.
    ends: dict[str, Callable[[Round, str], bool]] = {
        "close": lambda round_, who: book.close(round_.identifier, who),
        "forget": book.forget,
        "delete": lambda round_, who: book.delete(round_.identifier, who),
    }

    def ending(action: str) -> Callable[..., Awaitable[JSONResponse]]:
        async def end(round_id: str, request: Request) -> JSONResponse:
            who = await doors.administrator(request)
            round_ = doors.round(round_id)
            changed = await run_in_threadpool(ends[action], round_, who)
            return await done(action, who, round_.identifier, changed=changed)

        return end

    async def revoke(round_id: str, request: Request) -> JSONResponse:
        """Take tickets back; the body is {"nonces": [hexadecimal, ...]}."""
        who = await doors.administrator(request)
        round_ = doors.round(round_id)
        if not round_.issued:
            raise HTTPException(409, "the round has no tickets")
        nonces = _nonces(await _body(request))
        fresh = await run_in_threadpool(book.revoke, round_.identifier, nonces, who)
        return await done("revoke", who, round_.identifier, tickets=fresh)

    async def audit(request: Request) -> list[dict[str, Any]]:
        """Who did what, the newest first."""
        await doors.administrator(request)
        lines: list[dict[str, Any]] = await run_in_threadpool(book.audit)
        return lines

    one = "/rounds/{round_id}"
    app.add_api_route("/rounds", offer, methods=["POST"])
    app.add_api_route(one, ending("delete"), methods=["DELETE"])
    app.add_api_route(one + "/close", ending("close"), methods=["POST"])
    app.add_api_route(one + "/forget", ending("forget"), methods=["POST"])
    app.add_api_route(one + "/revoked", revoke, methods=["POST"])
    app.add_api_route("/audit", audit)


async def _body(request: Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(REQUEST_PATIENCE):
            async for piece in request.stream():
                body += piece
                if len(body) > LARGEST_REQUEST:
                    raise HTTPException(413, "the request is too long")
    except TimeoutError:
        raise HTTPException(408, "too slow") from None
    return bytes(body)


def _nonces(body: bytes) -> list[bytes]:
    try:
        found = [bytes.fromhex(item) for item in parsed(body)["nonces"]]
    except (ValueError, TypeError, KeyError):
        found = [b""]
    if any(len(nonce) != NONCE_SIZE for nonce in found):
        raise HTTPException(422, 'send {"nonces": [...]}, 32 hexadecimal digits each')
    return found


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
    folder = files("privmean.collector")
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


MOST_POINTS = 400  # of one answer's curve
JSON = "application/json"


def add_reading(app: FastAPI, doors: Authorization, store: Store, answers: Answers) -> None:
    """Register these routes."""

    async def answer(
        round_id: str,
        request: Request,
        weights: str = TESTED,
        epsilon_cap: str = "",
        numbers: str = LARGEST,
    ) -> Response:
        """The estimate now. weights: tested, uniform or minimax; epsilon_cap: a level; numbers:
        largest or all, where they are very many."""
        await doors.reader(request)
        _require_known(request, "weights", "epsilon_cap", "numbers")
        round_ = doors.round(round_id)
        data = await run_in_threadpool(answers.get, round_, weights, epsilon_cap, numbers)
        # whether the round is open changes without any report
        return Response(
            b'{"state":"%s",' % doors.state(round_).encode() + data[1:], media_type=JSON
        )

    async def state(round_id: str, request: Request) -> Response:
        await doors.reader(request)
        round_ = doors.round(round_id)
        data = await run_in_threadpool(lambda: store.tally(round_).to_bytes())
        return Response(data, media_type=BINARY)

    async def history(round_id: str, request: Request) -> Response:
        """What was answered at how many reports, and when."""
        await doors.reader(request)
        round_ = doors.round(round_id)
        rows = await run_in_threadpool(store.book.history, round_.identifier)
        points = [{"reports": n, "time": when, **json.loads(text)} for n, when, text in rows]
        return Response(json.dumps(points, separators=(",", ":")), media_type=JSON)

    async def smooth(
        round_id: str, request: Request, bandwidth: float, weights: str = TESTED
    ) -> Response:
        """The curve of a round with design points."""
        await doors.reader(request)
        _require_known(request, "bandwidth", "weights")
        round_ = doors.round(round_id)
        data = await run_in_threadpool(_curve, store, round_, bandwidth, weights)
        return Response(data, media_type=JSON)

    app.add_api_route("/rounds/{round_id}/estimate", answer)
    app.add_api_route("/rounds/{round_id}/tally", state)
    app.add_api_route("/rounds/{round_id}/history", history)
    app.add_api_route("/rounds/{round_id}/curve", smooth)


def _require_known(request: Request, *names: str) -> None:
    """Refuse a word that would change nothing of the answer."""
    for name in request.query_params:
        validate.choice("query", name, names)


def _curve(store: Store, round_: Round, bandwidth: float, weights: str) -> bytes:
    if not round_.points:
        raise ArgumentError(
            "round", round_.mechanism, "has no design points", "request the estimate"
        )
    step = math.ceil(len(round_.points) / MOST_POINTS)
    at = np.array(round_.points)[::step]
    tally = store.tally(round_)
    found = curve(tally, None, at, bandwidth=bandwidth, weights=weights)
    return json.dumps({**found.to_dict(), "reports": tally.reports}, allow_nan=False).encode()
