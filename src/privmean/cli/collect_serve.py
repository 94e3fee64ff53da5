"""Commands of whoever runs a collector.

`privmean collect serve`: run a collector.

Administration of a running collector: rounds begin and end, tickets are taken back.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privmean.cli.collect_shared import SecretFiles, Server, fail, read_round, read_secrets
from privmean.cli.options import grouped

if TYPE_CHECKING:
    from privmean.collector.collector_parts import Roles

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
        from privmean.collector.collector_parts import Roles
        from privmean.errors import PrivmeanError

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
        from privmean.collector.collector_app import serve as run
        from privmean.collector.collector_parts import Settings
        from privmean.collector.request_limits import Limits
        from privmean.collector.round_catalog import Log, Retention
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


TokenFile = Annotated[
    Path | None,
    f"Read a token for administration (or {ADMIN_TOKEN}).",
]
RoundId = Annotated[str, typer.Argument(help="Give the identifier of the round, 16 hex digits.")]


def _ask(server: str, path: str, file: Path | None, method: str, body: bytes | None = None) -> None:
    from privmean.cli.secrets import tokens
    from privmean.errors import PrivmeanError
    from privmean.local.clients.send import Remote

    try:
        held = tokens(ADMIN_TOKEN, file)
        remote = Remote(server, held[0] if held else None)
        answer = json.loads(remote.ask(path, method=method, body=body))
    except (PrivmeanError, OSError) as error:
        fail(error)
    for line in answer if isinstance(answer, list) else [answer]:
        typer.echo(json.dumps(line))


@grouped
def open_round(
    round_file: Annotated[Path, typer.Argument(help="Read the description of the round (JSON).")],
    server: Server,
    token_file: TokenFile = None,
) -> None:
    """Offer a round at a running collector."""
    from privmean.errors import PrivmeanError

    try:
        body = read_round(round_file).to_json().encode()
    except (PrivmeanError, OSError) as error:
        fail(error)
    _ask(server, "rounds", token_file, "POST", body)


@grouped
def close_round(round_id: RoundId, server: Server, token_file: TokenFile = None) -> None:
    """Close a round."""
    _ask(server, f"rounds/{round_id}/close", token_file, "POST")


@grouped
def forget_round(round_id: RoundId, server: Server, token_file: TokenFile = None) -> None:
    """Delete the reports of a closed round; keep the tally."""
    _ask(server, f"rounds/{round_id}/forget", token_file, "POST")


@grouped
def delete_round(round_id: RoundId, server: Server, token_file: TokenFile = None) -> None:
    """Delete everything about a round, forever."""
    _ask(server, f"rounds/{round_id}", token_file, "DELETE")


@grouped
def revoke(
    round_id: RoundId,
    tickets: Annotated[Path, typer.Argument(help="Read the tickets, one per line.")],
    server: Server,
    token_file: TokenFile = None,
) -> None:
    """Revoke tickets; earlier reports still count."""
    from privmean.cli.secrets import text_of
    from privmean.errors import PrivmeanError
    from privmean.local.reports import Ticket

    try:
        lines = [line for line in text_of("tickets", tickets).splitlines() if line.strip()]
        held = [Ticket.from_text(line) for line in lines]
        if any(ticket.round_id.hex() != round_id.lower() for ticket in held):
            raise PrivmeanError("the tickets are for another round. Ask for tickets of this round.")
    except (PrivmeanError, OSError) as error:
        fail(error)
    nonces = [ticket.nonce.hex() for ticket in held]  # keys stay here
    _ask(
        server,
        f"rounds/{round_id}/revoked",
        token_file,
        "POST",
        json.dumps({"nonces": nonces}).encode(),
    )


@grouped
def audit(server: Server, token_file: TokenFile = None) -> None:
    """Print the log of actions, newest first."""
    _ask(server, "audit", token_file, "GET")
