"""A collector's process: its listener, its limits, its end."""

from __future__ import annotations

import asyncio
import asyncio.constants
import ssl
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

import uvicorn

from privmean.errors import PrivmeanError
from privmean.local.collector.collector_app import Collector, make_app
from privmean.local.collector.collector_settings import Settings
from privmean.local.collector.http_protocol import protocol_class
from privmean.local.collector.request_limits import Limits, addresses_of, room_for
from privmean.local.round import Round

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
