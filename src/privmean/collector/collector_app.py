"""A collector as an application.

The browser client: a page that reports one value, and the JavaScript package behind it.

The folder `client` is clients/js/src of the source tree. All of it is public and the same for
everybody; the value stays in the browser.

The web service. Everything it publishes follows from private reports and public settings.

A collector's process: its listener, its limits, its end.
"""

from __future__ import annotations

import asyncio
import asyncio.constants
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import PurePath

import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.middleware.cors import CORSMiddleware

from privmean._version import __version__
from privmean.collector.access import Authorization, Settings
from privmean.collector.receive_reports import Intake, Writer
from privmean.collector.request_limits import (
    Addresses,
    Limits,
    OpenConnections,
    addresses_of,
    protocol_class,
    room_for,
)
from privmean.collector.round_catalog import Housekeeper, Metrics, RoundCatalog, Watched
from privmean.collector.routes import add_administration, add_open, add_reading
from privmean.collector.store import Answers, Store
from privmean.errors import PrivmeanError
from privmean.local.aggregators.report_validation import require_secret
from privmean.local.round import Round

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'"
)


def client_files() -> dict[str, bytes]:
    """What is served, by name."""
    folder = files("privmean.collector") / "client"
    return {
        item.name: item.read_bytes()
        for item in folder.iterdir()
        if PurePath(item.name).suffix in TYPES
    }


def add_client(app: FastAPI) -> None:
    """Register `/client/` and the files beside it."""
    parts = client_files()

    async def part(name: str) -> Response:
        if name not in parts:
            raise HTTPException(404, "no such file")
        return Response(
            parts[name],
            media_type=f"{TYPES[PurePath(name).suffix]}; charset=utf-8",
            headers={"Content-Security-Policy": POLICY},
        )

    async def page() -> Response:
        return await part("index.html")

    app.add_api_route("/client/", page)
    app.add_api_route("/client/{name}", part)


class Collector:
    """The parts of one service process."""

    def __init__(self, rounds: Iterable[Round], database: str, settings: Settings) -> None:
        self.limits, self.roles = settings.limits, settings.roles
        self.log, self.origins = settings.log, settings.origins
        self.secrets, self.metrics = settings.secrets, Metrics()
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
        self.doors = Authorization(
            self.roles, self.catalogue, self.intake, self.addresses, self.limits
        )

    def close(self) -> None:
        self.keeper.stop()
        self.intake.close()
        self.writer.stop()
        self.store.close()


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
    add_open(
        app,
        collector.catalogue,
        collector.doors,
        collector.intake,
        collector.store,
        collector.metrics,
    )
    add_reading(app, collector.doors, collector.store, collector.answers)
    add_administration(
        app,
        collector.doors,
        collector.catalogue,
        collector.store,
        collector.log,
        partial(require_secret, secrets=collector.secrets),
    )
    add_metrics(app, collector)
    add_client(app)
    if collector.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(collector.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Content-Type"],
        )
    app.add_middleware(Watched, metrics=collector.metrics, log=collector.log)
    return app


def add_metrics(app: FastAPI, collector: Collector) -> None:
    """`/metrics`, for who may read results: it counts reports."""
    from collections import Counter
    from collections.abc import Mapping

    from fastapi.responses import PlainTextResponse

    def gauges() -> list[tuple[str, Mapping[str, str], float]]:
        states = Counter(entry.state for entry in collector.catalogue.entries.values())
        rows: list[tuple[str, Mapping[str, str], float]] = [
            ("privmean_rounds", {"state": state}, number) for state, number in states.items()
        ]
        rows.append(("privmean_connections", {}, len(collector.crowd)))
        rows.append(("privmean_waiting_bytes", {}, collector.writer.waiting))
        return rows

    async def metrics(request: Request) -> PlainTextResponse:
        await collector.doors.reader(request)
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return PlainTextResponse(collector.metrics.text(gauges), media_type=kind)

    app.add_api_route("/metrics", metrics)


SWITCH = 0.001  # seconds: threads that compute let the one that talks to clients in this often


def serve(
    rounds: Iterable[Round],
    database: str,
    settings: Settings,
    on_ready: Callable[[str], object] = lambda _: None,
) -> None:
    """Run the service until it is interrupted. port 0 takes a free one; on_ready gets the URL."""
    import socket

    proxies = addresses_of(settings.limits.proxies)
    limits = replace(settings.limits, connections=room_for(settings.limits.connections))
    tls = _tls(settings, limits)
    collector = Collector(rounds, database, replace(settings, limits=limits))
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
            headers=_headers(tls[0] is not None),
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


def _headers(tls: bool) -> list[tuple[str, str]]:
    """What every answer says to browsers, refusals of the protocol included."""
    always = [("Referrer-Policy", "no-referrer"), ("X-Content-Type-Options", "nosniff")]
    return [*always, ("Strict-Transport-Security", "max-age=31536000")] if tls else always


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
