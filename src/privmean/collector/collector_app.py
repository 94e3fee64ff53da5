"""A collector as a web application: pages, rounds and reports, results, administration; and the
process that runs it: listener, limits, end.

Results are for everybody where that was chosen, else for who has a token. Everything that is
published follows from private reports and public settings.
"""

from __future__ import annotations

import asyncio
import asyncio.constants
import json
import math
import socket
import ssl
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from importlib.resources import files
from pathlib import PurePath
from typing import Any

import numpy as np
import sqlalchemy as sql
import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.middleware.cors import CORSMiddleware

from privmean import validate
from privmean._version import __version__
from privmean.collector.collector_parts import Collector, Settings, Watched
from privmean.collector.request_limits import Limits, addresses_of, protocol_class, room_for
from privmean.collector.store import LARGEST, Store
from privmean.errors import ArgumentError, PrivmeanError
from privmean.local.aggregators.aggregator import require_secret
from privmean.local.aggregators.round_law import TESTED
from privmean.local.kernel_regression import curve
from privmean.local.reports import NONCE_SIZE
from privmean.local.round import Round
from privmean.plain_data import parsed

LARGEST_REQUEST = 1 << 22  # bytes of a request
REQUEST_PATIENCE = 30.0  # seconds for them


def add_administration(app: FastAPI, collector: Collector) -> None:
    """New rounds while the service runs, their end, tickets taken back, the log."""
    store, book = collector.store, collector.store.book

    async def done(action: str, who: str, key: bytes, **more: object) -> JSONResponse:
        await run_in_threadpool(collector.catalogue.refresh)
        collector.log.action(action, who=who, round=key.hex(), **more)
        status = 201 if action == "open" else 200
        return JSONResponse({"round": key.hex(), "done": action, **more}, status)

    async def offer(request: Request) -> JSONResponse:
        """Offer a round from now on; the body is its description."""
        who = await collector.administrator(request)
        round_ = Round.from_json(await _body(request))
        require_secret([round_], collector.settings.secrets)
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
            who = await collector.administrator(request)
            round_ = collector.round(round_id)
            changed = await run_in_threadpool(ends[action], round_, who)
            return await done(action, who, round_.identifier, changed=changed)

        return end

    async def revoke(round_id: str, request: Request) -> JSONResponse:
        """Take tickets back; the body is {"nonces": [hexadecimal, ...]}."""
        who = await collector.administrator(request)
        round_ = collector.round(round_id)
        if not round_.issued:
            raise HTTPException(409, "the round has no tickets")
        nonces = _nonces(await _body(request))
        fresh = await run_in_threadpool(book.revoke, round_.identifier, nonces, who)
        return await done("revoke", who, round_.identifier, tickets=fresh)

    async def audit(request: Request) -> list[dict[str, Any]]:
        """Who did what, the newest first."""
        await collector.administrator(request)
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
MOST_LEVELS = 64
PATIENCE = 5.0  # seconds that the database may take to say that it is there


def add_open(app: FastAPI, collector: Collector) -> None:
    """What is open to everybody: rounds, reports, and whether the service works."""

    async def rounds() -> list[dict[str, Any]]:
        return [
            {
                "round": key.hex(),
                "digest": entry.round.digest.hex(),
                "title": entry.round.title,
                "mechanism": entry.round.mechanism,
                "levels": _levels(entry.round),
                "state": collector.state(entry.round),
                "persons": entry.round.persons,
                "closes": entry.round.closes,
            }
            for key, entry in collector.catalogue.entries.items()
        ]

    async def description(round_id: str) -> Response:
        return Response(collector.round(round_id).to_json(), media_type="application/json")

    async def take(round_id: str, request: Request) -> JSONResponse:
        key = collector.round(round_id).identifier
        kind = request.headers.get("content-type", "").split(";")[0].strip()
        if kind not in (BINARY, JSON_LINES):
            raise HTTPException(415, f"send {BINARY} or {JSON_LINES}")
        receipt = await collector.intake.take(key, request, json_lines=kind == JSON_LINES)
        taken = {"accepted": receipt.accepted, "duplicate": receipt.duplicate}
        for outcome, number in {**taken, **receipt.rejected}.items():
            collector.metrics.add("privmean_reports_total", number, outcome=outcome)
        return JSONResponse({**taken, "rejected": receipt.rejected})

    pulse = Pulse(collector.store)

    async def health() -> JSONResponse:
        well = await pulse.well()
        return JSONResponse({"status": "ok" if well else "no database"}, 200 if well else 503)

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


def add_reading(app: FastAPI, collector: Collector) -> None:
    """Results, and the metrics, which count reports: for who may read."""
    store = collector.store

    async def readable(round_id: str, request: Request) -> Round:
        await collector.reader(request)
        return collector.round(round_id)

    async def answer(
        round_id: str,
        request: Request,
        weights: str = TESTED,
        epsilon_cap: str = "",
        numbers: str = LARGEST,
    ) -> Response:
        """The estimate now. weights: tested, uniform or minimax; epsilon_cap: a level; numbers:
        largest or all, where they are very many."""
        round_ = await readable(round_id, request)
        _require_known(request, "weights", "epsilon_cap", "numbers")
        data = await run_in_threadpool(collector.answers.get, round_, weights, epsilon_cap, numbers)
        # whether the round is open changes without any report
        return Response(
            b'{"state":"%s",' % collector.state(round_).encode() + data[1:], media_type=JSON
        )

    async def state(round_id: str, request: Request) -> Response:
        round_ = await readable(round_id, request)
        data = await run_in_threadpool(lambda: store.tally(round_).to_bytes())
        return Response(data, media_type=BINARY)

    async def history(round_id: str, request: Request) -> Response:
        """What was answered at how many reports, and when."""
        round_ = await readable(round_id, request)
        rows = await run_in_threadpool(store.book.history, round_.identifier)
        points = [{"reports": n, "time": when, **json.loads(text)} for n, when, text in rows]
        return Response(json.dumps(points, separators=(",", ":")), media_type=JSON)

    async def smooth(
        round_id: str, request: Request, bandwidth: float, weights: str = TESTED
    ) -> Response:
        """The curve of a round with design points."""
        round_ = await readable(round_id, request)
        _require_known(request, "bandwidth", "weights")
        data = await run_in_threadpool(_curve, store, round_, bandwidth, weights)
        return Response(data, media_type=JSON)

    def gauges() -> list[tuple[str, Mapping[str, str], float]]:
        states = Counter(entry.state for entry in collector.catalogue.entries.values())
        return [
            *(("privmean_rounds", {"state": state}, number) for state, number in states.items()),
            ("privmean_connections", {}, len(collector.crowd)),
            ("privmean_waiting_bytes", {}, collector.writer.waiting),
        ]

    async def metrics(request: Request) -> PlainTextResponse:
        await collector.reader(request)
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return PlainTextResponse(collector.metrics.text(gauges), media_type=kind)

    app.add_api_route("/metrics", metrics)
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
    found = curve(tally, at, bandwidth=bandwidth, weights=weights)
    return json.dumps({**found.to_dict(), "reports": tally.reports}, allow_nan=False).encode()


TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'"
)


def page_files() -> dict[str, bytes]:
    """What browsers are given, by route: the page of results, and that which reports one value,
    with the JavaScript client behind it (the folder `client` is clients/js/src of the source tree).

    All of it is public and the same for everybody; the value stays in the browser.
    """
    package = files("privmean.collector")
    found = {
        root + item.name: item.read_bytes()
        for folder, root in ((package, "/"), (package / "client", "/client/"))
        for item in folder.iterdir()
        if PurePath(item.name).suffix in TYPES
    }
    found["/"], found["/client/"] = found.pop("/page.html"), found["/client/index.html"]
    return found


def add_pages(app: FastAPI, collector: Collector) -> None:
    """The files for browsers."""

    def page(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
        async def answer() -> Response:
            headers = {"Content-Security-Policy": POLICY}
            return Response(content, media_type=f"{kind}; charset=utf-8", headers=headers)

        return answer

    async def missing(name: str) -> None:
        raise HTTPException(404, "no such file")

    for route, content in page_files().items():
        app.add_api_route(route, page(content, TYPES.get(PurePath(route).suffix, "text/html")))
    app.add_api_route("/client/{name}", missing)


def make_app(collector: Collector) -> FastAPI:
    """The routes of a collector."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        collector.writer.start()
        collector.keeper.start()
        yield
        await asyncio.to_thread(collector.close)

    # The usual documentation pages load scripts from elsewhere, so they are off, and so is the
    # description that only they would read.
    app = FastAPI(
        title="privmean collector",
        version=__version__,
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )

    async def no_database(_: Request, __: Exception) -> JSONResponse:
        return JSONResponse({"detail": "the database does not answer; try again"}, 503)

    async def refused(_: Request, problem: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(problem)}, 422)

    app.add_exception_handler(SQLAlchemyError, no_database)
    app.add_exception_handler(PrivmeanError, refused)
    for add in (add_open, add_reading, add_administration, add_pages):
        add(app, collector)
    if collector.settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(collector.settings.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Content-Type"],
        )
    app.add_middleware(Watched, metrics=collector.metrics, log=collector.log)
    return app


SWITCH = 0.001  # seconds: threads that compute let the one that talks to clients in this often


def serve(
    rounds: Iterable[Round],
    database: str,
    settings: Settings,
    on_ready: Callable[[str], object] = lambda _: None,
) -> None:
    """Run the service until it is interrupted. port 0 takes a free one; on_ready gets the URL."""
    proxies = addresses_of(settings.limits.proxies)
    limits = replace(settings.limits, connections=room_for(settings.limits.connections))
    tls = _tls(settings, limits)
    collector = Collector(rounds, database, replace(settings, limits=limits))
    # what every answer says to browsers, refusals of the protocol included
    headers = [("Referrer-Policy", "no-referrer"), ("X-Content-Type-Options", "nosniff")]
    if tls[0] is not None:
        headers.append(("Strict-Transport-Security", "max-age=31536000"))
    sys.setswitchinterval(SWITCH)
    server = uvicorn.Server(
        uvicorn.Config(
            make_app(collector),
            http=protocol_class(limits, collector.addresses, collector.crowd),
            loop="asyncio",
            ws="none",
            log_level="error",  # requests that are none would fill the log
            backlog=128,  # accepted at once, before anybody is counted
            timeout_keep_alive=max(1, round(limits.idle)),
            timeout_graceful_shutdown=10,
            server_header=False,
            headers=headers,
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
            ssl_certfile=tls[0],
            ssl_keyfile=tls[1],
        )
    )
    with socket.create_server((settings.host, settings.port), backlog=128) as listener:
        scheme = "https" if tls[0] else "http"
        settings.log.action("started", rounds=len(collector.catalogue.rounds))
        on_ready(f"{scheme}://{settings.host}:{listener.getsockname()[1]}")
        with suppress(KeyboardInterrupt):  # the server has stopped in good order by then
            server.run(sockets=[listener])
        settings.log.action("stopped")


def _tls(settings: Settings, limits: Limits) -> tuple[str | None, str | None]:
    """The files of certificate and key, which must be a pair; a handshake ends like a header."""
    cert, key = settings.certfile, settings.keyfile
    if cert is None:
        if key is not None:
            raise PrivmeanError("a key requires a certificate. Give --certfile.")
        return None, None
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(cert, key)
    except (OSError, ValueError) as problem:
        raise PrivmeanError(
            "the certificate or the key cannot be used "
            f"({type(problem).__name__}). Give PEM files that belong together."
        ) from None
    # the only way to bound what asyncio waits for before a connection is counted
    asyncio.constants.SSL_HANDSHAKE_TIMEOUT = limits.patience
    return str(cert), None if key is None else str(key)
