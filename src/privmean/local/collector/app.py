"""The web service. Everything it publishes follows from private reports and public settings."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool

from privmean._version import __version__
from privmean.errors import PrivmeanError
from privmean.local.aggregators.weights import TESTED
from privmean.local.collector.answers import Answers
from privmean.local.collector.client_files import add_client
from privmean.local.collector.intake import Intake, address_of
from privmean.local.collector.limits import (
    READING,
    Addresses,
    Crowd,
    Limits,
    addresses_of,
    room_for,
)
from privmean.local.collector.store import Store
from privmean.local.collector.writer import Writer
from privmean.local.descriptor import Round

BINARY, JSON_LINES = "application/octet-stream", "application/x-ndjson"
SWITCH = 0.001  # seconds: threads that compute let the one that talks to clients in this often


class Collector:
    """The parts of one service process."""

    def __init__(
        self,
        rounds: Iterable[Round],
        database: str,
        *,
        secret: bytes | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.limits = Limits() if limits is None else limits
        self.store = Store(database)
        self.store.register(rounds)
        self.rounds = {item.identifier: item for item in self.store.rounds()}
        self.writer = Writer(self.store, self.rounds)
        self.addresses = Addresses(self.limits)
        self.intake = Intake(self.rounds, self.writer, self.limits, self.addresses, secret)
        self.answers = Answers(self.store)

    def close(self) -> None:
        self.intake.close()
        self.writer.stop()
        self.store.close()


def make_app(collector: Collector) -> FastAPI:
    """The routes of a collector."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        collector.writer.start()
        yield
        await asyncio.to_thread(collector.close)

    # The usual documentation pages load scripts from elsewhere, so they are off.
    app = FastAPI(
        title="privmean collector",
        version=__version__,
        lifespan=life,
        docs_url=None,
        redoc_url=None,
    )
    html = (files("privmean.local.collector") / "page.html").read_text(encoding="utf-8")
    listed = [
        {
            "round": key.hex(),
            "digest": item.digest.hex(),
            "title": item.title,
            "mechanism": item.mechanism,
            "levels": [f"{float(level):g}" for level in item.menu],
        }
        for key, item in collector.rounds.items()
    ]

    def known(round_id: str) -> Round:
        try:
            key = bytes.fromhex(round_id)
        except ValueError:
            key = b""
        if key not in collector.rounds:
            raise HTTPException(404, "no such round")
        return collector.rounds[key]

    async def page() -> str:
        return html

    async def rounds_here() -> list[dict[str, Any]]:
        return listed

    async def description(round_id: str) -> Response:
        return Response(known(round_id).to_json(), media_type="application/json")

    async def take(round_id: str, request: Request) -> JSONResponse:
        key = known(round_id).identifier
        kind = request.headers.get("content-type", "").split(";")[0].strip()
        if kind not in (BINARY, JSON_LINES):
            raise HTTPException(415, f"send {BINARY} or {JSON_LINES}")
        receipt = await collector.intake.take(key, request, json_lines=kind == JSON_LINES)
        return JSONResponse(
            {
                "accepted": receipt.accepted,
                "duplicate": receipt.duplicate,
                "rejected": receipt.rejected,
            }
        )

    async def reading(request: Request) -> None:
        address = address_of(request)
        await collector.intake.admit(address)
        collector.addresses.charge(address, READING)

    async def answer(
        round_id: str, request: Request, weights: str = TESTED, epsilon_cap: str = ""
    ) -> Response:
        """The estimate now. weights: tested, uniform or minimax; epsilon_cap: a level."""
        round_ = known(round_id)
        await reading(request)
        data = await run_in_threadpool(collector.answers.get, round_, weights, epsilon_cap)
        return Response(data, media_type="application/json")

    async def state(round_id: str, request: Request) -> Response:
        round_ = known(round_id)
        await reading(request)
        tally = await run_in_threadpool(collector.store.tally, round_)
        return Response(tally.to_bytes(), media_type=BINARY)

    async def no_database(_: Request, __: Exception) -> JSONResponse:
        return JSONResponse({"detail": "the database does not answer; try again"}, 503)

    async def refused(_: Request, problem: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(problem)}, 422)

    app.add_exception_handler(SQLAlchemyError, no_database)
    app.add_exception_handler(PrivmeanError, refused)
    reports = "/rounds/{round_id}/reports"
    app.add_api_route("/", page, response_class=HTMLResponse)
    app.add_api_route("/rounds", rounds_here)
    app.add_api_route("/rounds/{round_id}", description)
    app.add_api_route(reports, take, methods=["POST"])
    app.add_api_route("/rounds/{round_id}/estimate", answer)
    app.add_api_route("/rounds/{round_id}/tally", state)
    add_client(app)
    return app


def serve(
    rounds: Iterable[Round],
    database: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    secret: bytes | None = None,
    limits: Limits | None = None,
    on_ready: Callable[[str], object] | None = None,
) -> None:
    """Run the service until it is interrupted. port 0 takes a free one; on_ready gets the URL."""
    import socket

    import uvicorn

    from privmean.local.collector.protocol import protocol_class

    given = Limits() if limits is None else limits
    proxies = addresses_of(given.proxies)
    given = replace(given, connections=room_for(given.connections))
    collector = Collector(rounds, database, secret=secret, limits=given)
    sys.setswitchinterval(SWITCH)
    server = uvicorn.Server(
        uvicorn.Config(
            make_app(collector),
            http=protocol_class(given, collector.addresses, Crowd(given)),
            ws="none",
            log_level="error",  # requests that are none would fill the log
            backlog=128,  # accepted at once, before anybody is counted
            timeout_keep_alive=max(1, round(given.idle)),
            timeout_graceful_shutdown=10,
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
        )
    )
    with socket.create_server((host, port), backlog=128) as listener:
        if on_ready is not None:
            on_ready(f"http://{host}:{listener.getsockname()[1]}")
        with suppress(KeyboardInterrupt):  # the server has stopped in good order by then
            server.run(sockets=[listener])
