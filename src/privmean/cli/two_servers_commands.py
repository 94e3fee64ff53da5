"""privmean two-servers (experimental): a task, the noise of a server, and the answer of both."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from privmean.cli.options import grouped, pair
from privmean.errors import ArgumentError

app = typer.Typer(
    no_args_is_help=True,
    help="Compute means with two servers (experimental).",
)
Place = Annotated[Path, typer.Argument(help="Read the task from this file.")]


@app.command("task")
@grouped
def task_(
    bounds: Annotated[list[str], "Give bounds LOW:HIGH of a value; repeat for more."],
    epsilon: Annotated[float, "Set the epsilon of the answer."],
    n: Annotated[int, "Require at least this many reports."],
    bits: Annotated[int, "Set the bits of a clipped value."] = 20,
) -> None:
    """Write a new task for both servers and all clients."""
    from privmean.experimental.two_servers import Task

    limits = [pair("bounds", text) for text in bounds]
    lower, upper = zip(*limits, strict=True)
    typer.echo(Task.of(lower, upper, epsilon=epsilon, n=n, bits=bits).to_json())


@app.command()
@grouped
def noise(task: Place) -> None:
    """Add the noise of a server to its sums of shares."""
    from privmean.experimental.two_servers import Task

    share = _whole(sys.stdin.read())
    found = Task.from_json(_text(task)).noisy_share(share)
    typer.echo(json.dumps([str(item) for item in found]))


@app.command()
@grouped
def answer(
    task: Place,
    level: Annotated[float, "Set the confidence level of the intervals."] = 0.95,
) -> None:
    """Write the mean and its intervals from both answers."""
    from privmean.experimental.two_servers import Task
    from privmean.plain_data import parsed

    try:
        said = parsed(sys.stdin.read())
        n, shares = int(said["persons"]), [json.dumps(item) for item in said["shares"]]
    except (ValueError, KeyError, TypeError):
        raise ArgumentError(
            "answer", None, "must be answers of servers", "pass the answers that the servers wrote"
        ) from None
    found = Task.from_json(_text(task)).answer([_whole(item) for item in shares], n, level=level)
    shown = {
        name: getattr(found, name).tolist()
        for name in ("estimate", "noise_sd", "lower", "upper", "noise_lower", "noise_upper")
    }
    guarantee = found.guarantee.to_dict()
    typer.echo(json.dumps({**shown, "n": n, "level": level, "guarantee": guarantee}))


def _text(place: Path) -> str:
    try:
        return place.read_text()
    except (OSError, UnicodeDecodeError):
        raise ArgumentError("task", str(place), "cannot be read", "name a file") from None


def _whole(text: str) -> list[int]:
    """Whole numbers, as texts of digits in a JSON list."""
    from privmean.plain_data import parsed

    try:
        return [int(str(item)) for item in parsed(text)]
    except (ValueError, TypeError):
        # the share itself is not repeated: a raw one is secret
        raise ArgumentError(
            "share", None, "is not a list of whole numbers", "give a list of whole numbers"
        ) from None
