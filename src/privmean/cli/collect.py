"""`privmean collect`: private reports, over the web or in files, and what they add up to.

Whether a private value can be read as numbers decides nothing that others could see; what cannot is
missing, and a missing value is reported like any other. Heavy imports are in the commands.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privmean.cli import options as opt
from privmean.cli.collect_serve import (
    READ_TOKEN,
    Description,
    SecretFiles,
    app,
    command,
    read_round,
    read_secrets,
    remote_of,
    text_of,
    two_rounds,
)
from privmean.errors import ArgumentError, PrivmeanError
from privmean.storage.witness import naming

if TYPE_CHECKING:
    from privmean.local.round import Round

RoundFile = Annotated[Path, "Read the published description of the round (JSON).", "--round"]
Reports = typer.Argument(help="Read these reports (binary or JSON lines) or tallies.")
TICKET = "PRIVMEAN_TICKET"
app.add_typer(two_rounds, name="two-rounds")


def points_of(text: str | None) -> tuple[float, ...]:
    """Numbers between commas, or FROM:TO:NUMBER."""
    from privmean import validate
    from privmean.local.round import LARGEST_POINTS

    if text is None:
        return ()
    try:
        if ":" in text:
            low, high, number = text.split(":")
            steps = int(number) - 1
            if not 1 <= steps < LARGEST_POINTS:
                raise ValueError
            first, last = float(low), float(high)
            for end in (first, last):
                validate.number("points", end)
            return tuple(first + (last - first) * k / steps for k in range(steps + 1))
        return tuple(validate.number("points", float(item)) for item in text.split(","))
    except ArgumentError:
        raise
    except ValueError:
        raise ArgumentError(
            "points",
            text,
            "cannot be read",
            f"write 0,0.5,1 or FROM:TO:NUMBER, with 2 to {LARGEST_POINTS} points",
        ) from None


VALUE = "PRIVMEAN_VALUE"
LONGEST = 1 << 24  # bytes of a value that are read


def private_value(words: Sequence[str] | None, file: Path | None) -> list[float]:
    """The numbers of the value, from the one place that has it.

    From `file` ("-" is standard input), the words of the command line, or the environment's
    PRIVMEAN_VALUE; with none of them it is asked for at the terminal, and not shown. Numbers stand
    between spaces, commas or line ends. Raises ArgumentError for no place or more than one,
    OSError if a file cannot be read: before anything is spent.
    """
    from privmean.local.clients.randomizers import real

    inside = os.environ.get(VALUE)
    places = {"value": bool(words), "value-file": file is not None, VALUE: inside is not None}
    given = [place for place, there in places.items() if there]
    if len(given) > 1:
        raise ArgumentError("value", " and ".join(given), "is named twice", "give it in one place")
    if not given and not (sys.stdin and sys.stdin.isatty()):
        raise ArgumentError(
            "value", None, "is required", f"give --value-file (- for standard input) or {VALUE}"
        )
    if words:
        found = list(words)
    elif inside is not None:
        found = _split(inside)
    else:
        found = _split(_read(file))
    return [real(item) for item in found] or [real(None)]


def private_ticket(text: str | None, file: Path | None) -> str | None:
    """The ticket from the option or the environment, or from a file; None if there is none."""
    if file is None:
        return text
    if text is not None:
        raise ArgumentError(
            "ticket-file", str(file), "cannot be combined with another ticket", "use one of them"
        )
    return text_of("ticket-file", file)


def _split(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _read(file: Path | None) -> str:
    if file is None:
        from getpass import getpass

        return getpass("value (not shown): ")
    if str(file) == "-":
        data = sys.stdin.buffer.read(LONGEST)
    else:
        with file.open("rb") as stream:
            data = stream.read(LONGEST)
    return data.decode(errors="replace")


@command(app)
def curve(
    bandwidth: Annotated[float, "Count reports within this distance of a point."],
    round_file: RoundFile,
    files: Annotated[list[Path] | None, Reports] = None,
    server: Annotated[str | None, "Read the reports from this collector."] = None,
    token_file: Annotated[Path | None, f"Read a token for results (or set {READ_TOKEN})."] = None,
    at: Annotated[str | None, "Estimate at 0,0.5,1 or FROM:TO:NUMBER."] = None,
    weights: Annotated[str, "Choose the weights, as in `collect aggregate`."] = "tested",
    secret_file: SecretFiles = None,
    as_json: opt.Json = False,
) -> None:
    """Estimate a curve from a round with design points."""
    import numpy as np

    from privmean.local.aggregators.aggregator import aggregate_files
    from privmean.local.kernel_regression import curve as smooth
    from privmean.output import Output, TableRow, count, decimals, number

    round_ = read_round(round_file)
    wanted = points_of(at)
    if server is not None and files:
        raise ArgumentError(
            "server", server, "cannot be combined with files of reports", "use one of them"
        )
    if server is not None:
        tally = remote_of(server, READ_TOKEN, token_file).tally(round_)
    elif files:
        tally, _ = aggregate_files(round_, files, secret=read_secrets(secret_file))
    else:
        raise PrivmeanError("reports are required. Give files, or --server.")
    found = smooth(
        tally, np.array(wanted) if wanted else None, bandwidth=bandwidth, weights=weights
    )
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
        return
    rows = []
    for x, value, spread, n in zip(
        found.at.tolist(), found.value, found.spread, found.effective, strict=True
    ):
        cells = number(value, decimals(spread), spread), number(spread, decimals(spread), spread)
        rows.append(TableRow(f"{x:.6g}", (*cells, count(n))))
    shown = Output(
        "Curve by local reports",
        f"n = {tally.reports:,} reports; bandwidth {bandwidth:g}; weights {found.used}",
        ("estimate", "std err", "n (effective)"),
        tuple(rows),
    )
    typer.echo(shown.text())


@dataclass(frozen=True)
class Wanted:
    """What a round asks: a mean (bounds), vectors (radius), items, or votes (bounds and bins)."""

    lower: Annotated[float | None, "Set the lower bound of a mean or of votes."] = None
    upper: Annotated[float | None, "Set the upper bound of a mean or of votes."] = None
    bins: Annotated[int | None, "Vote for one of this many bins."] = None
    radius: Annotated[float | None, "Bound the norm of vectors."] = None
    dimension: Annotated[int | None, "Set the length of the vectors."] = None
    items: Annotated[int | None, "Count this many items."] = None

    def round(self, options: dict[str, Any]) -> Round:
        """The round that asks it."""
        from privmean.local import round_builders as builders

        given = {name: value for name, value in asdict(self).items() if value is not None}
        asked: dict[frozenset[str], Callable[..., Round]] = {
            frozenset({"items"}): builders.items_round,
            frozenset({"radius", "dimension"}): builders.ball_round,
            frozenset({"lower", "upper"}): builders.mean_round,
            frozenset({"lower", "upper", "bins"}): builders.vote_round,
        }
        if (make := asked.get(frozenset(given))) is None:
            said = ", ".join(f"--{name}" for name in given) or "none of them is given"
            raise PrivmeanError(
                "the round must have one question. Give --lower and --upper (with "
                "--bins for votes), --radius and --dimension, or --items (now: "
                f"{said})."
            )
        return make(**given, **options)


@dataclass(frozen=True)
class Described:
    """What else a round says."""

    mechanism: Annotated[str | None, "Choose a mechanism other than the default."] = None
    title: Annotated[str, "Write the title that people see."] = ""
    beta: Annotated[float, "Set the failure probability of the radius."] = 0.05
    closes: Annotated[int | None, "Close the round at this time, in seconds since 1970."] = None
    issued: Annotated[bool, "Accept only clients with tickets."] = False
    sigma: Annotated[float | None, "Bound the standard deviation of values (public)."] = None
    step: Annotated[str | None, "Let clients choose epsilon in steps of this size."] = None
    points: Annotated[str | None, "Set the design points, as 0,0.5,1 or FROM:TO:NUMBER."] = None

    def options(self) -> dict[str, Any]:
        """What is said, by the words of a round."""
        said = {**asdict(self), "points": points_of(self.points) or None}
        return {name: value for name, value in said.items() if value is not None}


@command(app, "round")
def make_round(
    out: Annotated[Path, typer.Argument(help="Write the description to this file.")],
    epsilon: Annotated[list[float], "Add a level of epsilon; repeat for more."],
    n: Annotated[int, "Plan for this many reports."],
    *,
    wanted: Wanted,
    described: Described,
) -> None:
    """Describe a round of means, vectors, items or votes."""
    if described.closes is not None and described.closes <= time.time():
        raise ArgumentError(
            "closes", described.closes, "must lie in the future", "give seconds since 1970"
        )
    options = {"epsilon": epsilon, "persons": n, **described.options()}
    round_ = wanted.round(options)
    if out.is_file():  # of one that was published, nothing would be left
        raise ArgumentError("out", str(out), "already exists", "name another file")
    with naming(out):
        out.write_text(round_.to_json() + "\n")
    typer.echo(f"round {round_.identifier.hex()}\ndigest {round_.digest.hex()}")
    typer.echo(f"mechanism {round_.mechanism}: see `privmean collect plan {out}`")


@command(app, "plan")
def plan_it(
    round_file: Description,
    mix: Annotated[list[float] | None, "Expect this share of people per level; repeat."] = None,
    as_json: opt.Json = False,
) -> None:
    """Predict the error of a round and explain its mechanism."""
    from privmean.local.round_plan import plan_round

    plan = plan_round(read_round(round_file), mix=mix)
    typer.echo(json.dumps(plan.to_dict()) if as_json else str(plan))


@command(app)
def tickets(
    round_file: RoundFile,
    secret_file: Annotated[Path, "Read 32 secret bytes; make the file if missing."],
    count: Annotated[int, "Write this many tickets."],
    level: Annotated[int, "Choose the level by its place in the menu, from 0."] = 0,
) -> None:
    """Write tickets, one per line, for identified clients."""
    from privmean import validate
    from privmean.local.reports import NONCE_SIZE, Ticket, ticket_key

    validate.whole("count", count, least=1)
    round_ = read_round(round_file)
    if not round_.issued:
        raise ArgumentError(
            "round", str(round_file), "must be a round that issues tickets", "make it with --issued"
        )
    if not 0 <= level < len(round_.menu):
        raise ArgumentError(
            "level", level, "is not a level of the round", "choose a level of its menu"
        )
    if not secret_file.exists():
        with naming(secret_file):
            new = os.open(secret_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(new, "wb") as f:
                f.write(os.urandom(32))
    (secret,) = read_secrets([secret_file])
    for _ in range(count):
        nonce = os.urandom(NONCE_SIZE)
        key = ticket_key(secret, round_.identifier, nonce, level)
        typer.echo(Ticket(round_.identifier, nonce, level, key).to_text())


@command(app)
def report(
    epsilon: Annotated[float, "Limit the epsilon of this report."],
    ledger: Annotated[Path, "Record in this file what this person has sent."],
    limit: Annotated[float, "Limit the epsilon of all reports together."],
    value: Annotated[
        list[str] | None,
        typer.Argument(help="Give the value; --value-file hides it from others."),
    ] = None,
    value_file: Annotated[Path | None, "Read the value from a file; - is standard input."] = None,
    server: Annotated[str | None, "Give the address of the collector."] = None,
    round_id: Annotated[str | None, "Choose one of the rounds of the server."] = None,
    round_file: Annotated[
        Path | None, "Read the description from a file, not from a server.", "--round"
    ] = None,
    digest: Annotated[str | None, "Require this published digest of the round."] = None,
    ticket: Annotated[
        str | None,
        typer.Option(
            envvar=TICKET,
            help="Give the ticket; --ticket-file hides it from others.",
            show_envvar=True,
        ),
    ] = None,
    ticket_file: Annotated[Path | None, "Read the ticket from a file."] = None,
    identity: Annotated[str | None, "Give the public name, if the round asks some clients."] = None,
    point: Annotated[int | None, "Give the number of the public design point."] = None,
    out: Annotated[Path | None, "Append the report to a file."] = None,
    json_lines: Annotated[bool, "Write the report as a JSON line.", "--json"] = False,
    ledger_moved: Annotated[
        bool, "Accept a moved ledger; never use the original again.", "--ledger-moved"
    ] = False,
) -> None:
    """Randomize one value here and send only the report.

    Missing values are reported as well: write "nan", or nothing at all.
    """
    from privmean.local.clients import send
    from privmean.local.clients.client import Client, Ledger
    from privmean.local.reports import Ticket, decode

    if out is None and server is None:
        raise PrivmeanError(
            "a place for the report is required. Give --server, or --round and --out."
        )
    if server is not None:
        send.address_of(server)  # refused before anything is spent
    if round_id is not None and round_file is not None:
        raise ArgumentError(
            "round-id", round_id, "requires --server", "remove it, or remove --round"
        )
    if round_file is not None:
        round_ = read_round(round_file)
    elif server is not None:
        offered = [
            item for item in send.fetch_rounds(server) if item.get("state", "open") == "open"
        ]
        if round_id is None and len(offered) != 1:
            raise PrivmeanError(
                f"the server has {len(offered)} open rounds. Choose one with --round-id."
            )
        round_ = send.fetch_round(server, round_id or offered[0].get("round", ""))
    else:
        raise PrivmeanError("a round is required. Give --round or --server.")
    if digest is not None and round_.digest.hex() != digest.strip().lower():
        raise PrivmeanError("the round is not the published one. Do not answer it.")
    numbers = private_value(value, value_file)
    held = private_ticket(ticket, ticket_file)
    if out is not None:
        out.open("ab").close()  # before anything is spent
    # a whole path: :memory: is no file
    kept = Ledger(ledger.absolute(), limit=limit, moved=ledger_moved)
    client = Client(epsilon=epsilon, ledger=kept, identity=identity)
    given: Any = numbers[0] if len(numbers) == 1 and round_.dimension is None else numbers
    private = client.report(
        round_,
        given,
        ticket=None if held is None else Ticket.from_text(held),
        point=point,
    )
    if private is None:
        typer.echo("this round asks other clients; nothing was sent")
        return
    if out is not None:
        with naming(out), out.open("ab") as stream:
            stream.write(decode(private).to_json().encode() + b"\n" if json_lines else private)
    if server is not None:
        typer.echo(json.dumps(send.send(server, round_, private)))


@command(app)
def aggregate(
    files: Annotated[list[Path], Reports],
    round_file: RoundFile,
    beta: Annotated[float | None, "Set another failure probability."] = None,
    weights: Annotated[str, "Choose the weights: tested, uniform or minimax."] = "tested",
    epsilon_cap: Annotated[float | None, "Limit the epsilon that weights use."] = None,
    tally_out: Annotated[
        Path | None, "Write the tally to this file, to merge it later.", "--tally"
    ] = None,
    secret_file: SecretFiles = None,
    as_json: opt.Json = False,
) -> None:
    """Estimate from files of reports, without a server."""
    from privmean.local.aggregators.aggregator import aggregate_files
    from privmean.local.aggregators.estimate_round import estimate

    tally, repeated = aggregate_files(
        read_round(round_file), files, secret=read_secrets(secret_file)
    )
    found = estimate(tally, beta=beta, weights=weights, epsilon_cap=epsilon_cap)
    if tally_out is not None:
        with naming(tally_out):
            tally_out.write_bytes(tally.to_bytes())
    if as_json:
        typer.echo(json.dumps({**found.to_dict(), "duplicate": repeated}))
    else:
        typer.echo(found.summary())
        if repeated:
            typer.echo(f"  repeated reports, counted once: {repeated}")
