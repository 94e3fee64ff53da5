"""The web service. Everything it publishes follows from private reports and public settings."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import ClientDisconnect

from privmean._version import __version__
from privmean.errors import PrivmeanError
from privmean.local.aggregators.estimates import estimate
from privmean.local.aggregators.tally import Tally
from privmean.local.collector.store import Store
from privmean.local.collector.writer import Writer
from privmean.local.descriptor import Round

LARGEST_BODY = 1 << 22
LARGEST_RECEIVING = 1 << 27  # bytes of all requests that are being received
PATIENCE = 60.0  # seconds for the body of one request
LARGEST_CROWD = 1000  # connections at once
BINARY, JSON_LINES = "application/octet-stream", "application/x-ndjson"


class Collector:
    """The state of one service process: the store, the writer, and the last estimates."""

    def __init__(
        self, rounds: Iterable[Round], database: str, *, secret: bytes | None = None
    ) -> None:
        self.store = Store(database)
        self.store.register(rounds)
        self.rounds = {item.identifier: item for item in self.store.rounds()}
        self.writer = Writer(self.store, self.rounds, secret)
        self.receiving = 0
        self._answers: dict[bytes, tuple[bytes, dict[str, Any]]] = {}

    async def body(self, request: Request) -> bytes:
        """The body of a request; refused if it is too long, comes too slowly, or too many come."""
        declared = request.headers.get("content-length", "")
        if declared.isdigit() and int(declared[:20]) > LARGEST_BODY:
            raise HTTPException(413, "too many reports at once")
        body = bytearray()
        try:
            async with asyncio.timeout(PATIENCE):
                async for piece in request.stream():
                    body += piece
                    self.receiving += len(piece)
                    if len(body) > LARGEST_BODY:
                        raise HTTPException(413, "too many reports at once")
                    if self.receiving > LARGEST_RECEIVING:
                        raise HTTPException(503, "busy; send the same reports again later")
        except TimeoutError:
            raise HTTPException(408, "too slow; send fewer reports at once") from None
        except ClientDisconnect:
            raise HTTPException(400, "the request has no end") from None
        finally:
            self.receiving -= len(body)
        return bytes(body)

    def tally(self, round_id: bytes) -> Tally:
        return self.store.tally(self.rounds[round_id])

    def answer(self, round_id: bytes) -> dict[str, Any]:
        """The estimate now, computed again only if reports have come."""
        tally = self.tally(round_id)
        mark = tally.to_bytes()[-16:]
        cached = self._answers.get(round_id)
        if cached is None or cached[0] != mark:
            cached = (mark, _answer(tally))
            self._answers[round_id] = cached
        return cached[1]


def _answer(tally: Tally) -> dict[str, Any]:
    found = estimate(tally).to_dict()
    return {"round": tally.round.identifier.hex(), "title": tally.round.title, **found}


def make_app(rounds: Iterable[Round], database: str, *, secret: bytes | None = None) -> FastAPI:
    """The service over these rounds and everything already in the database."""
    collector = Collector(rounds, database, secret=secret)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        collector.writer.start()
        yield
        await asyncio.to_thread(collector.writer.stop)
        collector.store.close()

    # The usual documentation pages load scripts from elsewhere, so they are off.
    app = FastAPI(
        title="privmean collector",
        version=__version__,
        lifespan=life,
        docs_url=None,
        redoc_url=None,
    )

    def known(round_id: str) -> bytes:
        try:
            key = bytes.fromhex(round_id)
        except ValueError:
            key = b""
        if key not in collector.rounds:
            raise HTTPException(404, "no such round")
        return key

    def page() -> str:
        return (files("privmean.local.collector") / "page.html").read_text(encoding="utf-8")

    def rounds_here() -> list[dict[str, Any]]:
        return [
            {
                "round": key.hex(),
                "digest": item.digest.hex(),
                "title": item.title,
                "mechanism": item.mechanism,
            }
            for key, item in collector.rounds.items()
        ]

    def description(round_id: str) -> Response:
        return Response(collector.rounds[known(round_id)].to_json(), media_type="application/json")

    async def take(round_id: str, request: Request) -> JSONResponse:
        key = known(round_id)
        kind = request.headers.get("content-type", "").split(";")[0].strip()
        if kind not in (BINARY, JSON_LINES):
            raise HTTPException(415, f"send {BINARY} or {JSON_LINES}")
        body = await collector.body(request)
        try:
            future = collector.writer.submit(key, body, json_lines=kind == JSON_LINES)
        except queue.Full:
            raise HTTPException(503, "busy; send the same reports again later") from None
        try:
            receipt = await asyncio.wrap_future(future)
        except Exception:
            raise HTTPException(503, "not stored; send the same reports again later") from None
        return JSONResponse(
            {
                "accepted": receipt.accepted,
                "duplicate": receipt.duplicate,
                "rejected": receipt.rejected,
            }
        )

    def answer(round_id: str) -> JSONResponse:
        return JSONResponse(collector.answer(known(round_id)))

    def state(round_id: str) -> Response:
        return Response(collector.tally(known(round_id)).to_bytes(), media_type=BINARY)

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
    return app


def serve(
    rounds: Iterable[Round],
    database: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    secret: bytes | None = None,
    on_ready: Any = None,
) -> None:
    """Run the service until it is interrupted. port 0 takes a free one; on_ready gets the URL."""
    import socket

    import uvicorn

    app = make_app(rounds, database, secret=secret)
    server = uvicorn.Server(
        uvicorn.Config(
            app, log_level="warning", timeout_keep_alive=60, limit_concurrency=LARGEST_CROWD
        )
    )
    with socket.create_server((host, port), backlog=2048) as listener:
        if on_ready is not None:
            on_ready(f"http://{host}:{listener.getsockname()[1]}")
        with suppress(KeyboardInterrupt):  # the server has stopped in good order by then
            server.run(sockets=[listener])
