"""Commands of whoever runs a collector: serve it, begin and end its rounds, also two in turn; and
what all commands of `privmean collect` share.

A command line is shown to every user of a machine: secrets come from files or the environment.
Heavy imports are in the commands.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privmean.cli import options as opt
from privmean.cli.options import grouped
from privmean.errors import ArgumentError, PrivmeanError
from privmean.storage.witness import naming

if TYPE_CHECKING:
    from privmean.local.clients.send import Remote
    from privmean.local.round import Round
    from privmean.local.two_round_mean import WinsorizedRounds

app = typer.Typer(
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Collect and aggregate reports of the local model.",
)
ADMIN_TOKEN, READ_TOKEN = "PRIVMEAN_ADMIN_TOKEN", "PRIVMEAN_READ_TOKEN"
Description = Annotated[Path, typer.Argument(help="Read the description of the round (JSON).")]
SecretFiles = Annotated[
    list[Path] | None,
    "Read the secret of tickets; repeat for older secrets.",
    "--secret-file",
]
Server = Annotated[str, "Give the address of the collector."]
TokenFile = Annotated[Path | None, f"Read a token for administration (or {ADMIN_TOKEN})."]


def command(app: typer.Typer, name: str | None = None) -> Callable[..., Callable[..., None]]:
    """Add a command, with the options of its groups. An error of the system names its file."""

    def added(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def run(**said: Any) -> None:
            try:
                function(**said)
            except BrokenPipeError:
                raise
            except OSError as error:
                from privmean.storage.witness import os_error_text

                place = error.filename or "a file"
                raise PrivmeanError(f"{place}: {os_error_text(error)}") from None

        app.command(name)(grouped(run))
        return function

    return added


def read_round(path: Path) -> Round:
    """The round in a file."""
    from privmean.local.round import Round

    return Round.from_json(path.read_bytes())


def read_secrets(paths: list[Path] | None) -> tuple[bytes, ...]:
    """The secrets of tickets in these files."""
    from privmean.local.reports import SECRET_SIZE

    secrets = tuple(path.read_bytes() for path in paths or ())
    for path, secret in zip(paths or (), secrets, strict=True):
        if len(secret) != SECRET_SIZE:
            raise ArgumentError(
                "secret-file", str(path), f"must hold {SECRET_SIZE} bytes", "name another file"
            )
    return secrets


def remote_of(server: str, token: str, file: Path | None) -> Remote:
    """The collector at an address, with the token of a file or of the environment, if any."""
    from privmean.local.clients.send import Remote

    held = tokens(token, file)
    return Remote(server, held[0] if held else None)


def text_of(name: str, file: Path) -> str:
    """The text of a file; refused where it is none. OSError if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ArgumentError(name, str(file), "must be UTF-8 text", "name another file") from None


def tokens(name: str, file: Path | None) -> list[str]:
    """The tokens in a file, one a line, or the one in the environment's `name`; [] for none."""
    inside = os.environ.get(name)
    if file is None:
        return [] if not inside else [inside]
    if inside:
        raise ArgumentError(name, "...", "cannot be combined with a token file", "use one of them")
    return text_of("token-file", file).split()


class LogLevel(StrEnum):
    """What is written to standard error, in lines of JSON."""

    none = "none"
    actions = "actions"
    requests = "requests"


@command(app)
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
    host: Annotated[str, "Listen on this address."] = "127.0.0.1",
    port: Annotated[int, "Listen on this port; 0 takes a free port."] = 8000,
    certfile: Annotated[Path | None, "Use this TLS certificate (PEM)."] = None,
    keyfile: Annotated[Path | None, "Use this TLS key (PEM)."] = None,
    public_results: Annotated[
        bool, "Let everyone read estimates and tallies.", "--public-results"
    ] = False,
    read_token_file: Annotated[
        Path | None, f"Read tokens for results (or set {READ_TOKEN})."
    ] = None,
    admin_token_file: Annotated[
        Path | None, f"Read tokens for administration (or {ADMIN_TOKEN})."
    ] = None,
    forget_after: Annotated[
        float | None, "Delete reports this many days after a round closes."
    ] = None,
    delete_after: Annotated[float | None, "Delete a round this many days after it closes."] = None,
    origin: Annotated[list[str] | None, "Accept reports from pages of this origin; repeat."] = None,
    log: Annotated[LogLevel, "Set the log level."] = LogLevel.actions,
    log_addresses: Annotated[bool, "Log the address of each request.", "--log-addresses"] = False,
    proxy: Annotated[list[str] | None, "Trust X-Forwarded-For of this proxy; repeat."] = None,
    per_address: Annotated[int, "Limit the open connections per address."] = 100,
    patience: Annotated[float, "Limit the seconds for a header, and for a body."] = 10.0,
    penalty: Annotated[float, "Delay answers to refused requests, in seconds."] = 5.0,
) -> None:
    """Run the collector: publish rounds and receive reports."""
    try:
        from privmean.collector.collector_app import serve as run
        from privmean.collector.collector_parts import Log, Retention, Roles, Settings
        from privmean.collector.request_limits import Limits
    except ImportError:
        missing = "the collector is not installed. Install privmean[collector]."
        raise PrivmeanError(missing) from None
    administer, read = tokens(ADMIN_TOKEN, admin_token_file), tokens(READ_TOKEN, read_token_file)
    if not (public_results or read or administer):
        raise PrivmeanError(
            "results must have readers. Give --public-results, or a token in "
            f"--read-token-file or {READ_TOKEN}."
        )
    roles = Roles.of(administer, read, public=public_results)
    if not (rounds or administer):
        raise PrivmeanError("rounds are required. Give --round, or a token for administration.")
    settings = Settings(
        host=host,
        port=port,
        certfile=certfile,
        keyfile=keyfile,
        secrets=read_secrets(secret_file),
        limits=Limits(
            patience=patience,
            per_address=per_address,
            penalty=penalty,
            proxies=tuple(proxy or ()),
        ),
        roles=roles,
        retention=Retention(forget_after, delete_after),
        log=Log(log.value, addresses=log_addresses),
        origins=tuple(origin or ()),
    )
    offered = [read_round(path) for path in rounds or ()]
    run(
        offered,
        database,
        settings,
        on_ready=lambda url: print(f"collecting on {url}", flush=True),
    )


# --- administration of a running collector --------------------------------------------------------
RoundId = Annotated[str, typer.Argument(help="Give the identifier of the round, 16 hex digits.")]


def _ask(server: str, path: str, file: Path | None, method: str, body: bytes | None = None) -> None:
    remote = remote_of(server, ADMIN_TOKEN, file)
    answer = json.loads(remote.ask(path, method=method, body=body))
    for line in answer if isinstance(answer, list) else [answer]:
        typer.echo(json.dumps(line))


@command(app, "open")
def open_round(round_file: Description, server: Server, token_file: TokenFile = None) -> None:
    """Offer a round at a running collector."""
    _ask(server, "rounds", token_file, "POST", read_round(round_file).to_json().encode())


@command(app, "close")
def close_round(round_id: RoundId, server: Server, token_file: TokenFile = None) -> None:
    """Close a round."""
    _ask(server, f"rounds/{round_id}/close", token_file, "POST")


@command(app, "forget")
def forget_round(round_id: RoundId, server: Server, token_file: TokenFile = None) -> None:
    """Delete the reports of a closed round; keep the tally."""
    _ask(server, f"rounds/{round_id}/forget", token_file, "POST")


@command(app, "delete")
def delete_round(round_id: RoundId, server: Server, token_file: TokenFile = None) -> None:
    """Delete everything about a round, forever."""
    _ask(server, f"rounds/{round_id}", token_file, "DELETE")


@command(app)
def revoke(
    round_id: RoundId,
    tickets: Annotated[Path, typer.Argument(help="Read the tickets, one per line.")],
    server: Server,
    token_file: TokenFile = None,
) -> None:
    """Revoke tickets; earlier reports still count."""
    from privmean.local.reports import Ticket

    lines = [line for line in text_of("tickets", tickets).splitlines() if line.strip()]
    held = [Ticket.from_text(line) for line in lines]
    if any(ticket.round_id.hex() != round_id.lower() for ticket in held):
        raise PrivmeanError("the tickets are for another round. Ask for tickets of this round.")
    nonces = {"nonces": [ticket.nonce.hex() for ticket in held]}  # keys stay here
    _ask(server, f"rounds/{round_id}/revoked", token_file, "POST", json.dumps(nonces).encode())


@command(app)
def audit(server: Server, token_file: TokenFile = None) -> None:
    """Print the log of actions, newest first."""
    _ask(server, "audit", token_file, "GET")


# --- two rounds: find where values lie, then measure around there ---------------------------------
two_rounds = typer.Typer(
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Estimate means in two rounds, without a narrow range.",
)
Plan = Annotated[Path, typer.Argument(help="Read the plan (JSON) that `plan` wrote.")]


@command(two_rounds)
def plan(
    out: Annotated[Path, typer.Argument(help="Write the plan to this file.")],
    lower: Annotated[list[float], "Set the lower bounds, one per coordinate."],
    upper: Annotated[list[float], "Set the upper bounds, one per coordinate."],
    tau: Annotated[list[float], "Assume that values lie this near to a common point."],
    epsilon: Annotated[list[float], "Add a level of epsilon; repeat for more."],
    n: Annotated[int, "Plan for this many people."],
    shares: Annotated[tuple[int, int], "Set the shares of clients that vote and that measure."] = (
        20,
        80,
    ),
    both: Annotated[bool, "Let all clients answer both rounds at half epsilon.", "--both"] = False,
    mechanism: Annotated[str | None, "Choose another mechanism for the second round."] = None,
    beta: Annotated[float, "Set the failure probability of the radius."] = 0.05,
    title: Annotated[str, "Write the title that people see."] = "",
) -> None:
    """Plan both rounds and write the public plan."""
    from privmean.local.two_round_mean import WinsorizedRounds

    options = {} if mechanism is None else {"mean_mechanism": mechanism}
    made = WinsorizedRounds.of(
        lower,
        upper,
        tau=tau,
        epsilon=epsilon,
        persons=n,
        shares=None if both else shares,
        beta=beta,
        title=title,
        **options,
    )
    vote = made.vote()
    with naming(out):
        out.write_text(made.to_json() + "\n")
    typer.echo(f"first round {vote.identifier.hex()}\ndigest {vote.digest.hex()}")


@command(two_rounds)
def vote(plan_file: Plan, server: Server, token_file: TokenFile = None) -> None:
    """Offer the first round at the collector."""
    planned, remote = _begin(plan_file, server, token_file)
    _offer(remote, planned.vote())


@command(two_rounds)
def mean(plan_file: Plan, server: Server, token_file: TokenFile = None) -> None:
    """Close the first round and offer the second."""
    planned, remote = _begin(plan_file, server, token_file)
    first = planned.vote()
    remote.ask(f"rounds/{first.identifier.hex()}/close", method="POST")
    _offer(remote, planned.mean(planned.locate(remote.tally(first))))


@command(two_rounds)
def answer(
    plan_file: Plan,
    server: Server,
    token_file: TokenFile = None,
    weights: Annotated[str, "Choose the weights, as in `collect aggregate`."] = "tested",
    as_json: opt.Json = False,
) -> None:
    """Estimate from the tallies of both rounds."""
    planned, remote = _begin(plan_file, server, token_file)
    location = planned.locate(remote.tally(planned.vote()))
    means = remote.tally(planned.mean(location))
    found = planned.answer(location, means, weights=weights)
    typer.echo(json.dumps(found.to_dict()) if as_json else found.summary())


def _begin(
    plan_file: Path, server: str, token_file: Path | None
) -> tuple[WinsorizedRounds, Remote]:
    from privmean.local.two_round_mean import WinsorizedRounds

    remote = remote_of(server, ADMIN_TOKEN, token_file)
    return WinsorizedRounds.from_json(plan_file.read_bytes()), remote


def _offer(remote: Remote, round_: Round) -> None:
    remote.ask("rounds", method="POST", body=round_.to_json().encode())
    bounds = f"[{', '.join(f'{x:g}' for x in round_.lower)}] to "
    bounds += f"[{', '.join(f'{x:g}' for x in round_.upper)}]"
    typer.echo(f"round {round_.identifier.hex()}\ndigest {round_.digest.hex()}\nbounds {bounds}")
