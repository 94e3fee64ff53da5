"""What the commands of `privmean collect` share: rounds, and secrets without a command line.

A command line is shown to every user of a machine. Whether a private value can be read as numbers
decides nothing that others could see; what cannot is missing, and a missing value is reported like
any other. Light: the client's command imports it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privmean.cli.options import grouped
from privmean.errors import ArgumentError, PrivmeanError

if TYPE_CHECKING:
    from privmean.local.clients.send import Remote
    from privmean.local.round import Round

ADMIN_TOKEN, READ_TOKEN = "PRIVMEAN_ADMIN_TOKEN", "PRIVMEAN_READ_TOKEN"
RoundFile = Annotated[Path, "Read the published description of the round (JSON).", "--round"]
Description = Annotated[Path, typer.Argument(help="Read the description of the round (JSON).")]
Reports = typer.Argument(help="Read these reports (binary or JSON lines) or tallies.")
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


def remote_of(server: str, token: str, file: Path | None) -> Remote:
    """The collector at an address, with the token of a file or of the environment, if any."""
    from privmean.local.clients.send import Remote

    held = tokens(token, file)
    return Remote(server, held[0] if held else None)


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


def text_of(name: str, file: Path) -> str:
    """The text of a file; refused where it is none. OSError if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ArgumentError(name, str(file), "must be UTF-8 text", "name another file") from None


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


def tokens(name: str, file: Path | None) -> list[str]:
    """The tokens in a file, one a line, or the one in the environment's `name`; [] for none."""
    inside = os.environ.get(name)
    if file is None:
        return [] if not inside else [inside]
    if inside:
        raise ArgumentError(name, "...", "cannot be combined with a token file", "use one of them")
    return text_of("token-file", file).split()
