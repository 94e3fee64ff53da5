"""What the commands of `privmean collect` share. Light: the client's command imports it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from privmean.errors import ArgumentError
    from privmean.local.round import Round

RoundFile = Annotated[Path, "Read the published description of the round (JSON).", "--round"]
SecretFiles = Annotated[
    list[Path] | None,
    "Read the secret of tickets; repeat for older secrets.",
    "--secret-file",
]
Server = Annotated[str, "Give the address of the collector."]


def fail(error: Exception) -> NoReturn:
    """Say what is wrong, and end. A wrong argument is named as its option, as of every command."""
    from privmean.errors import ArgumentError

    if isinstance(error, ArgumentError):
        error = _in_options(error)
    text = str(error)
    if isinstance(error, OSError):
        from privmean.storage.witness import os_error_text

        text = f"{error.filename or 'a file'}: {os_error_text(error)}"
    typer.echo(f"privmean: {text}", err=True)
    raise typer.Exit(2)


def _in_options(error: ArgumentError) -> ArgumentError:
    import typer.main

    from privmean.cli import usage_errors as usage

    current: Any = getattr(typer.main, "get_current_context", None)
    if current is None:  # an older Typer leaves it to this package
        current = import_module("click").get_current_context
    context = current()
    options = [
        param.opts[0]
        for param in context.command.params
        if getattr(context.get_parameter_source(str(param.name)), "name", "") == "COMMANDLINE"
    ]
    return usage.in_options(error, context.command, options)


def read_round(path: Path) -> Round:
    """The round in a file."""
    from privmean.local.round import Round

    return Round.from_json(path.read_bytes())


def read_secrets(paths: list[Path] | None) -> tuple[bytes, ...]:
    """The secrets of tickets in these files."""
    from privmean.errors import ArgumentError
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
    from privmean.errors import ArgumentError
    from privmean.local.mechanisms import LARGEST_POINTS

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
