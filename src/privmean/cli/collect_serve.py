"""`privmean collect serve`: run a collector."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from privmean.cli.collect_shared import SecretFiles, fail, read_round, read_secrets

ADMIN_TOKEN, READ_TOKEN = "PRIVMEAN_ADMIN_TOKEN", "PRIVMEAN_READ_TOKEN"


class LogLevel(StrEnum):
    """What is written to standard error, in lines of JSON."""

    none = "none"
    actions = "actions"
    requests = "requests"


def serve(
    rounds: Annotated[
        list[Path] | None, typer.Option("--round", help="A round to offer; repeatable.")
    ] = None,
    database: Annotated[
        str,
        typer.Option(
            envvar="PRIVMEAN_DATABASE",
            help="sqlite:///file or postgresql://user@host/name; with a password, better in the "
            "environment.",
            show_envvar=True,
        ),
    ] = "sqlite:///privmean-reports.db",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8000,
    secret_file: SecretFiles = None,
    public_results: Annotated[
        bool, typer.Option("--public-results", help="Anybody may read estimates and tallies.")
    ] = False,
    read_token_file: Annotated[
        Path | None,
        typer.Option(help=f"Tokens for reading results, one a line (or in {READ_TOKEN})."),
    ] = None,
    admin_token_file: Annotated[
        Path | None,
        typer.Option(help=f"Tokens for administration, one a line (or in {ADMIN_TOKEN})."),
    ] = None,
    forget_after: Annotated[
        float | None,
        typer.Option(help="Days after its closing a round's reports go; the tally stays."),
    ] = None,
    delete_after: Annotated[
        float | None, typer.Option(help="Days after its closing everything of a round goes.")
    ] = None,
    certfile: Annotated[Path | None, typer.Option(help="Certificate (PEM), for TLS.")] = None,
    keyfile: Annotated[Path | None, typer.Option(help="Its key (PEM).")] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(help="Another origin whose pages may send reports; repeatable."),
    ] = None,
    log: Annotated[LogLevel, typer.Option(help="What is logged.")] = LogLevel.actions,
    log_addresses: Annotated[
        bool, typer.Option("--log-addresses", help="Log the address of each request, too.")
    ] = False,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            help="Address of a reverse proxy whose X-Forwarded-For is believed; repeatable."
        ),
    ] = None,
    per_address: Annotated[
        int, typer.Option(help="Connections that one address may have open.")
    ] = 100,
    patience: Annotated[
        float, typer.Option(help="Seconds for the header of a request, and for its body.")
    ] = 10.0,
    penalty: Annotated[
        float, typer.Option(help="Seconds that the answer to a refused request takes.")
    ] = 5.0,
) -> None:
    """Run the collector: publish rounds, take reports, show the estimate in the browser."""
    from privmean.cli.secrets import tokens
    from privmean.errors import PrivmeanError

    try:
        from privmean.local.collector.catalogue import Retention
        from privmean.local.collector.limits import Limits
        from privmean.local.collector.roles import Roles
        from privmean.local.collector.service import Settings
        from privmean.local.collector.service import serve as run
        from privmean.local.collector.telemetry import Log
    except ImportError:
        fail(PrivmeanError("the collector is not installed; pip install 'privmean[collector]'"))
    try:
        administer = tokens(ADMIN_TOKEN, admin_token_file)
        read = tokens(READ_TOKEN, read_token_file)
        if not (public_results or read or administer):
            raise PrivmeanError(
                "who may read results? give --public-results, or a token in --read-token-file or "
                f"{READ_TOKEN}"
            )
        if not (rounds or administer):
            raise PrivmeanError("which rounds? give --round, or a token for administration")
        run(
            [read_round(path) for path in rounds or ()],
            database,
            Settings(
                host=host,
                port=port,
                secrets=read_secrets(secret_file),
                limits=Limits(
                    proxies=tuple(proxy or ()),
                    per_address=per_address,
                    patience=patience,
                    penalty=penalty,
                ),
                roles=Roles.of(administer, read, public=public_results),
                retention=Retention(forget_after, delete_after),
                log=Log(log.value, addresses=log_addresses),
                origins=tuple(origin or ()),
                certfile=certfile,
                keyfile=keyfile,
            ),
            on_ready=lambda url: print(f"collecting on {url}", flush=True),
        )
    except (PrivmeanError, OSError) as error:
        fail(error)
