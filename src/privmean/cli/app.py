"""The commands and how their errors become messages and exit statuses."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer

from privmean._version import __version__
from privmean.cli import asking, collect, ledger, stream, study
from privmean.cli.audit import audit
from privmean.cli.demo import demo, write_example
from privmean.cli.plan import plan
from privmean.cli.verify import keygen, sign, verify
from privmean.errors import PrivmeanError, PrivmeanWarning

UNEXPECTED, WRONG_ARGUMENTS = 1, 2

app = typer.Typer(
    name="privmean",
    no_args_is_help=True,
    add_completion=False,
    # a pretty traceback could print local variables, which hold private data
    pretty_exceptions_enable=False,
    help="Means of people who each contribute many records, under differential privacy.",
)


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


app.command()(plan)
app.command()(demo)
app.command("example")(write_example)
app.add_typer(stream.app, name="stream")
app.add_typer(collect.app, name="collect")
app.add_typer(study.app, name="study")
app.add_typer(ledger.app, name="ledger")
app.command()(verify)
app.command()(sign)
app.command()(keygen)
app.command()(audit)


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        asking.refuse_moved(arguments)
        asking.add(app, arguments)
        with warnings.catch_warnings():
            warnings.showwarning = _cautioned
            app(args=arguments, prog_name="privmean")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except PrivmeanError as error:
        typer.echo(f"privmean: {error}", err=True)
        return WRONG_ARGUMENTS
    except Exception as error:
        typer.echo(f"privmean: {_withheld(error)}", err=True)
        return UNEXPECTED
    return 0


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
    return (
        f"unexpected {type(error).__name__}{place}; the message is withheld because it may quote "
        "records. What was charged to a ledger stays charged"
    )
