"""What the operator of a collector settles."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from privmean import validate
from privmean.errors import ArgumentError
from privmean.local.collector.request_limits import Limits
from privmean.local.collector.roles import Roles
from privmean.local.collector.round_catalog import Retention
from privmean.local.collector.telemetry import Log


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
