"""A collector as a web application, and the process that runs it: listener, limits, end.

Everything that it publishes follows from private reports and public settings.
"""

from __future__ import annotations

import asyncio
import asyncio.constants
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.middleware.cors import CORSMiddleware

from privmean._version import __version__
from privmean.collector.collector_parts import Collector, Settings
from privmean.collector.request_limits import Limits, addresses_of, protocol_class, room_for
from privmean.collector.round_catalog import Watched
from privmean.collector.routes import add_administration, add_open, add_pages, add_reading
from privmean.errors import PrivmeanError
from privmean.local.round import Round


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
