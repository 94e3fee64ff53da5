"""privmean curve: a private mean over time, in public bins."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privmean.cli import options as opt
from privmean.cli.mean import PRIVATE_FAILURE


def curve(
    table: Annotated[
        str,
        typer.Argument(help="CSV, Parquet or JSON-lines file (also .gz, .zst), folder or glob."),
    ],
    person: Annotated[str, typer.Option(help="Column that names the person.")],
    value: Annotated[str, typer.Option(help="Column to average.")],
    time: Annotated[str, typer.Option(help="Column of times.")],
    bins: Annotated[str, typer.Option(help="Public edges, such as '1968,1975,1982,1989'.")],
    epsilon: opt.Epsilon = None,
    delta: opt.Delta = 0.0,
    rho: opt.Rho = None,
    neighbors: opt.Neighbors = "replace-one",
    n_design: opt.NDesign = None,
    bounds: opt.Bounds = None,
    sd: opt.Sd = None,
    level: opt.Level = 0.95,
    plot: Annotated[
        str | None, typer.Option(help="Write a picture here (.png, .svg or .pdf).")
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(help="Ledger file that the release is charged to.")
    ] = None,
    delimiter: opt.Delimiter = None,
    quote: opt.Quote = None,
    decimal: opt.Decimal = None,
    encoding: opt.Encoding = None,
    header: opt.Header = None,
    null_word: opt.NullWord = None,
    roster: opt.Roster = None,
    roster_column: opt.RosterColumn = None,
    memory: opt.Memory = None,
    threads: opt.Threads = None,
    spill: opt.Spill = None,
    sign: opt.Sign = None,
    as_json: opt.Json = False,
) -> None:
    """Release the mean of people over time, with intervals for each bin and for the curve."""
    import privmean as pm
    from privmean.errors import ArgumentError

    key = opt.signing_key(sign, as_json)
    try:
        edges = [float(item) for item in bins.split(",")]
    except ValueError:
        raise ArgumentError("--bins", bins, "are no numbers", "give --bins 0,1,2") from None
    if plot is not None:
        _ready(plot)  # before anything is spent
    written = opt.text(delimiter, quote, decimal, encoding, header, null_word)
    release = pm.curve(
        table,
        value,
        time=time,
        bins=edges,
        person=person,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        neighbors=neighbors,
        n_design=n_design,
        bounds=bounds,
        concentration=None if sd is None else pm.SubGaussian(sd=sd),
        level=level,
        ledger=None if ledger is None else pm.Ledger.open(ledger),
        roster=opt.roster(roster, roster_column, person, written),
        progress=opt.on_terminal(),
        **written,
        **opt.machine(memory, threads, spill),
    )
    if as_json:
        typer.echo(opt.stored(release, key))
    else:
        typer.echo(release.summary())
    if release.failed:
        raise typer.Exit(PRIVATE_FAILURE)
    if plot is not None:
        axes = release.plot()
        axes.set_xlabel(time)
        axes.set_ylabel(f"mean {value}")
        axes.figure.savefig(plot)


def _ready(plot: str) -> None:
    """Refuse a picture that could not be written."""
    from importlib.util import find_spec

    from privmean.errors import ArgumentError

    if find_spec("matplotlib") is None:
        raise ArgumentError("--plot", plot, "needs matplotlib", "install privmean[plot]")
    path = Path(plot)
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ArgumentError("--plot", plot, "is no picture", "end it in .png, .svg or .pdf")
    if not path.parent.is_dir():
        raise ArgumentError("--plot", plot, "is in no folder", "make the folder first")
