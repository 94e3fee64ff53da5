"""privmean variance: the variance between persons, privately."""

from __future__ import annotations

from typing import Annotated

import typer

from privmean.cli import options as opt
from privmean.cli.mean import PRIVATE_FAILURE


def variance(
    table: Annotated[
        str,
        typer.Argument(help="CSV, Parquet or JSON-lines file (also .gz, .zst), folder or glob."),
    ],
    person: Annotated[str, typer.Option(help="Column that names the person.")],
    value: Annotated[str, typer.Option(help="Column whose persons' means vary.")],
    smallest: Annotated[float, typer.Option(help="Public lower limit of the deviation.")],
    largest: Annotated[float, typer.Option(help="Public upper limit of the deviation.")],
    epsilon: opt.Epsilon = None,
    delta: opt.Delta = 0.0,
    rho: opt.Rho = None,
    method: Annotated[
        str, typer.Option(help="'pair scale', 'coinpress' or 'bisection'.")
    ] = "pair scale",
    center: Annotated[
        float | None, typer.Option(help="Public rough centre (coinpress and bisection).")
    ] = None,
    neighbors: opt.Neighbors = "replace-one",
    n_design: opt.NDesign = None,
    level: opt.Level = 0.95,
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
    """Release the variance of persons' own means, within public limits of the deviation."""
    import privmean as pm

    key = opt.signing_key(sign, as_json)
    pm.Budget(epsilon=epsilon, delta=delta, rho=rho)
    pm.Variance(smallest, largest, method, center)
    written = opt.text(delimiter, quote, decimal, encoding, header, null_word)
    release = pm.variance(
        pm.read(
            table,
            person=person,
            values=[value],
            roster=opt.roster(roster, roster_column, person, written),
            progress=opt.on_terminal(),
            **written,
            **opt.machine(memory, threads, spill),
        ),
        smallest=smallest,
        largest=largest,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        method=method,
        center=center,
        neighbors=neighbors,
        n_design=n_design,
        level=level,
        ledger=None if ledger is None else pm.Ledger.open(ledger),
    )
    if as_json:
        typer.echo(opt.stored(release, key))
    else:
        typer.echo(release.summary())
    if release.failed:
        raise typer.Exit(PRIVATE_FAILURE)
