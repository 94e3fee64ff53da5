"""The commands and how their errors become messages and exit statuses."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command

from privmean._version import __version__
from privmean.errors import ArgumentError, PrivmeanError, PrivmeanWarning

UNREAD = UNEXPECTED = 1
WRONG_ARGUMENTS = 2
INTERRUPTED = 130
# Typer has Click's exceptions inside of itself from some version on: its public one leads to both
WrongLine: type[Any] = typer.BadParameter.__mro__[2]
COMPLETING = "_PRIVMEAN_COMPLETE"  # what Typer's scripts for shells set
# where the commands that are no questions live, one by one or in groups
COMMANDS = {
    "plan": "privmean.cli.plan:plan",
    "demo": "privmean.cli.demo:demo",
    "example": "privmean.cli.demo:write_example",
    "stream": "privmean.cli.stream:app",
    "withhold": "privmean.cli.stream:withhold",
    "fixed-design": "privmean.cli.fixed_design:fixed_design",
    "collect": "privmean.cli.collect:app",
    "two-servers": "privmean.cli.two_servers:app",
    "study": "privmean.cli.study:app",
    "ledger": "privmean.cli.ledger:app",
    "verify": "privmean.cli.verify:verify",
    "sign": "privmean.cli.verify:sign",
    "keygen": "privmean.cli.verify:keygen",
    "audit": "privmean.cli.audit:audit",
}

SETTINGS: dict[str, Any] = {
    "name": "privmean",
    "no_args_is_help": True,
    "context_settings": {"help_option_names": ["--help", "-h"]},
    # a pretty traceback could print local variables, which hold private data
    "pretty_exceptions_enable": False,
    "help": "Differentially private statistics of people with many records each.",
}
app = typer.Typer(**SETTINGS)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"privmean {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def _add(called: str) -> None:
    """Add the command that is called, or all where none of them is: a call need not wait for the
    modules of others."""
    from privmean.cli import derive_command as asking

    known = {item.name for item in app.registered_commands}
    known |= {item.name for item in app.registered_groups}
    questions = {name: kind for kind, name in asking.commands().items()}
    names = (*questions, *COMMANDS)
    for name in [called] if called in names else names:
        if name in known:
            continue
        if name in questions:
            app.command(name)(asking.question_command(questions[name]))
            continue
        module, _, item = COMMANDS[name].partition(":")
        found = getattr(import_module(module), item)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)


def _of(arguments: Sequence[str]) -> typer.Typer:
    """The commands, as far as these arguments need them."""
    _add(arguments[0])
    return app


def _list() -> typer.Typer:
    """All commands by name and first line alone: listing them needs none of their modules."""
    from privmean.cli.command_list import LINES

    listing = typer.Typer(**SETTINGS)
    listing.callback()(_options)
    for name, line in LINES.items():
        listing.command(name, help=line)(lambda: None)
    return listing


def _completing() -> typer.Typer:
    """The command of the line that a shell asks to complete, or the list: tables are not read."""
    from privmean.cli.command_list import LINES

    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    words = line.split()[1:2]
    return _of(words) if words and words[0] in LINES else _list()


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    called: Any = None
    try:
        if COMPLETING in os.environ:
            needed = _completing()
        else:
            needed = _of(arguments) if arguments and arguments[0][:1] != "-" else _list()
        called = get_command(needed)
        with warnings.catch_warnings():
            warnings.showwarning = _cautioned
            status = called.main(args=arguments, prog_name="privmean", standalone_mode=False)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except WrongLine as error:
        if error.format_message():  # without words, the help was printed
            from privmean.cli import usage_errors as usage

            typer.echo(f"privmean: {usage.told(error, arguments, called)}", err=True)
        return WRONG_ARGUMENTS
    except PrivmeanError as error:
        if isinstance(error, ArgumentError) and called is not None:
            from privmean.cli import usage_errors as usage

            error = usage.in_options(error, called, arguments)
        typer.echo(f"privmean: {error}", err=True)
        return WRONG_ARGUMENTS
    except BrokenPipeError:
        from privmean.streams.run_stream import silence

        silence()  # nobody reads on: what was not written yet is written by the next run
        return UNREAD
    except KeyboardInterrupt:  # before the command began
        status = INTERRUPTED
    except Exception as error:
        typer.echo(f"privmean: {_withheld(error)}", err=True)
        return UNEXPECTED
    if status == INTERRUPTED:
        typer.echo("privmean: interrupted; what was charged to a ledger stays charged", err=True)
    return status if isinstance(status, int) else 0


def _cautioned(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """A warning by its own words; those of libraries, which may quote private values, by kind."""
    ours = issubclass(category, PrivmeanWarning)
    typer.echo(f"privmean: {message if ours else category.__name__}", err=True)


def _withheld(error: Exception) -> str:
    """An unexpected error by its type and place: its own words may quote private values."""
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        _, inside, file = frame.filename.rpartition("privmean")
        place = f" at privmean{file}:{frame.lineno}" if inside else place
    if isinstance(error, OSError) and error.errno:  # the words of the system, and no name of a file
        from privmean.storage.witness import os_error_text

        said = f"{os_error_text(error)}{place}: what was being written is not whole"
    else:
        said = f"unexpected {type(error).__name__}{place}; the message is withheld because it may "
        said += "quote records"
    return f"{said}. What was charged to a ledger stays charged"
