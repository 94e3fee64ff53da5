"""The commands and how their errors become messages and exit statuses."""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
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
# the commands in the order in which `privmean --help` shows them: the first line of each, so that a
# list loads none of them (a test compares it with theirs), and where each lives, alone or in a
# group; those of questions are made from these
COMMANDS = {
    "mean": ("Estimate means of people in one or several columns, also by group.", ""),
    "regress": ("Fit a regression: pooled, within people, or person-specific.", ""),
    "curve": ("Estimate a mean over time, in public bins.", ""),
    "variance": ("Estimate the variance of person means in one column.", ""),
    "compare": ("Compare two groups: effect, confidence interval and p-value.", ""),
    "quantile": ("Estimate quantiles of person means in one column.", ""),
    "plan": ("Predict errors, or the required n or epsilon, without any data.", "plan:plan"),
    "demo": ("Show a private mean and a planned study of a made table.", "demo:demo"),
    "example": ("Write an example table.", "demo:write_example"),
    "withhold": ("Release means of a stream by the withhold-release method.", "stream:withhold"),
    "verify": ("Verify a stored release without the data.", "check_commands:verify"),
    "sign": ("Sign a stored release; its digest changes.", "check_commands:sign"),
    "keygen": (
        "Make a private and a public key for signatures (Ed25519).",
        "check_commands:keygen",
    ),
    "audit": (
        "Test the privacy guarantee on adversarial neighboring tables.",
        "check_commands:audit",
    ),
    "stream": ("Release running means of a stream of records.", "stream:app"),
    "collect": ("Collect and aggregate reports of the local model.", "collect:app"),
    "two-servers": ("Compute means with two servers (experimental).", "two_servers_commands:app"),
    "study": ("Plan and run a study of many questions from study.toml.", "study_commands:app"),
    "ledger": ("Create, show and check ledgers of privacy budgets.", "ledger_commands:app"),
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


def _add(called: str) -> typer.Typer:
    """The commands with the one that is called, or with all where none of them is: a call need not
    wait for the modules of others."""
    from privmean.cli.derive_command import commands, question_command

    known = {item.name for item in app.registered_commands}
    known |= {item.name for item in app.registered_groups}
    questions = {name: kind for kind, name in commands().items()}
    every = dict.fromkeys((*questions, *COMMANDS))
    for name in [called] if called in every else every:
        if name in known:
            continue
        if name in questions:
            app.command(name)(question_command(questions[name]))
            continue
        module, _, item = COMMANDS[name][1].partition(":")
        found = getattr(import_module(f"privmean.cli.{module}"), item)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def _list() -> typer.Typer:
    """All commands by name and first line alone: listing them needs none of their modules."""
    listing = typer.Typer(**SETTINGS)
    listing.callback()(_options)
    for name, (line, _) in COMMANDS.items():
        listing.command(name, help=line)(lambda: None)
    return listing


def _needed(arguments: Sequence[str]) -> typer.Typer:
    """The commands, as far as these arguments need them; of a line that a shell asks to complete,
    its command or the list: tables are not read."""
    if COMPLETING in os.environ:
        line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
        arguments = [word for word in line.split()[1:2] if word in COMMANDS]
    return _add(arguments[0]) if arguments and arguments[0][:1] != "-" else _list()


def _read_plainly(command: object, arguments: Sequence[str]) -> None:
    """Take what a line does not say, and its texts and numbers, as they are. Typer has a validator
    made for every option, and loading what makes them is a sixth of a short command."""
    at: Any = command
    for name in ("", *arguments):
        at = at if not name else getattr(at, "commands", {}).get(name)
        if at is not None:
            at.get_params = partial(_plainly, at.get_params)


def _plainly(listed: Callable[..., list[Any]], context: object) -> list[Any]:
    """The options of a command, those that versions of Typer validate in this way to be read so."""
    for param in listed(context):
        if hasattr(param, "type_descriptor") and "process_value" not in vars(param):
            param.process_value = partial(_plain, param, param.process_value)
    return listed(context)


NUMBERS = {int: re.compile(r"-?[0-9]{1,15}"), float: re.compile(r"-?[0-9]*\.?[0-9]+(e-?[0-9]+)?")}


def _plain(param: Any, read: Callable[..., object], context: object, value: object) -> object:
    """The value of an option, or what Typer reads or refuses."""
    kind = param.type_descriptor.annotation
    if value is None and not param.required:
        value = () if param.multiple or param.nargs == -1 else None
    elif type(value) is str and kind in NUMBERS and NUMBERS[kind].fullmatch(value):
        value = kind(value)
    elif kind in (str, list[str]):
        texts = value if isinstance(value, list | tuple) and kind is not str else [value]
        if not all(type(item) is str and item.isprintable() for item in texts):
            return read(context, value)
    elif type(value) is not kind:
        return read(context, value)
    return param.callback(context, param, value) if param.callback else value


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    called: Any = None
    try:
        called = get_command(_needed(arguments))
        _read_plainly(called, arguments)
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
