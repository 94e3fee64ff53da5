"""`privmean collect serve`: run a collector."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privmean.cli.collect_shared import SecretFiles, fail, read_round, read_secrets
from privmean.cli.option_parsing import grouped

if TYPE_CHECKING:
    from privmean.local.collector.roles import Roles

ADMIN_TOKEN, READ_TOKEN = "PRIVMEAN_ADMIN_TOKEN", "PRIVMEAN_READ_TOKEN"


class LogLevel(StrEnum):
    """What is written to standard error, in lines of JSON."""

    none = "none"
    actions = "actions"
    requests = "requests"


@dataclass(frozen=True)
class Listening:
    """Where the collector listens."""

    host: Annotated[str, "Listen on this address."] = "127.0.0.1"
    port: Annotated[int, "Listen on this port; 0 takes a free port."] = 8000
    certfile: Annotated[Path | None, "Use this TLS certificate (PEM)."] = None
    keyfile: Annotated[Path | None, "Use this TLS key (PEM)."] = None


@dataclass(frozen=True)
class Open:
    """Who may read results and administer."""

    public_results: Annotated[
        bool, "Let everyone read estimates and tallies.", "--public-results"
    ] = False
    read_token_file: Annotated[Path | None, f"Read tokens for results (or set {READ_TOKEN})."] = (
        None
    )
    admin_token_file: Annotated[
        Path | None, f"Read tokens for administration (or {ADMIN_TOKEN})."
    ] = None

    def roles(self) -> Roles:
        """The tokens, from files and the environment; nobody who may read is refused."""
        from privmean.cli.secrets import tokens
        from privmean.errors import PrivmeanError
        from privmean.local.collector.roles import Roles

        administer = tokens(ADMIN_TOKEN, self.admin_token_file)
        read = tokens(READ_TOKEN, self.read_token_file)
        if not (self.public_results or read or administer):
            raise PrivmeanError(
                "results must have readers. Give --public-results, or a token in "
                f"--read-token-file or {READ_TOKEN}."
            )
        return Roles.of(administer, read, public=self.public_results)


@dataclass(frozen=True)
class Retained:
    """How long reports are kept."""

    forget_after: Annotated[float | None, "Delete reports this many days after a round closes."] = (
        None
    )
    delete_after: Annotated[float | None, "Delete a round this many days after it closes."] = None


@dataclass(frozen=True)
class Logged:
    """What is written to standard error."""

    log: Annotated[LogLevel, "Set the log level."] = LogLevel.actions
    log_addresses: Annotated[bool, "Log the address of each request.", "--log-addresses"] = False


@dataclass(frozen=True)
class Limited:
    """What one address may take."""

    proxy: Annotated[
        list[str] | None,
        "Trust X-Forwarded-For of this proxy; repeat for more.",
    ] = None
    per_address: Annotated[int, "Limit the open connections per address."] = 100
    patience: Annotated[float, "Limit the seconds for a header, and for a body."] = 10.0
    penalty: Annotated[float, "Delay answers to refused requests, in seconds."] = 5.0


@grouped
def serve(
    rounds: Annotated[list[Path] | None, "Offer this round; repeat for more.", "--round"] = None,
    database: Annotated[
        str,
        typer.Option(
            envvar="PRIVMEAN_DATABASE",
            help="Use sqlite:///FILE or postgresql://USER@HOST/NAME.",
            show_envvar=True,
        ),
    ] = "sqlite:///privmean-reports.db",
    secret_file: SecretFiles = None,
    *,
    listening: Listening,
    access: Open,
    retained: Retained,
    origin: Annotated[list[str] | None, "Accept reports from pages of this origin; repeat."] = None,
    logged: Logged,
    limited: Limited,
) -> None:
    """Run the collector: publish rounds and receive reports."""
    from privmean.errors import PrivmeanError

    try:
        from privmean.local.collector.collector_app import serve as run
        from privmean.local.collector.collector_settings import Settings
        from privmean.local.collector.request_limits import Limits
        from privmean.local.collector.round_catalog import Retention
        from privmean.local.collector.telemetry import Log
    except ImportError:
        fail(PrivmeanError("the collector is not installed. Install privmean[collector]."))
    try:
        roles = access.roles()
        if not (rounds or roles.administer):
            raise PrivmeanError("rounds are required. Give --round, or a token for administration.")
        settings = Settings(
            **asdict(listening),
            secrets=read_secrets(secret_file),
            limits=Limits(
                proxies=tuple(limited.proxy or ()),
                per_address=limited.per_address,
                patience=limited.patience,
                penalty=limited.penalty,
            ),
            roles=roles,
            retention=Retention(retained.forget_after, retained.delete_after),
            log=Log(logged.log.value, addresses=logged.log_addresses),
            origins=tuple(origin or ()),
        )
        offered = [read_round(path) for path in rounds or ()]
        run(
            offered,
            database,
            settings,
            on_ready=lambda url: print(f"collecting on {url}", flush=True),
        )
    except (PrivmeanError, OSError) as error:
        fail(error)
