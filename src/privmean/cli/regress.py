"""privmean regress: one private longitudinal regression of a table."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from privmean.cli import options as opt
from privmean.cli.mean import PRIVATE_FAILURE


def regress(
    table: Annotated[
        str,
        typer.Argument(help="CSV, Parquet or JSON-lines file (also .gz, .zst), folder or glob."),
    ],
    formula: Annotated[str, typer.Argument(help="Formula, such as 'y ~ a + b + I(a**2)'.")],
    person: Annotated[str, typer.Option(help="Column that names the person.")],
    epsilon: opt.Epsilon = None,
    delta: opt.Delta = 0.0,
    rho: opt.Rho = None,
    neighbors: opt.Neighbors = "replace-one",
    n_design: opt.NDesign = None,
    fixed_effects: Annotated[
        bool, typer.Option("--fixed-effects", help="Use deviations from the person's own means.")
    ] = False,
    icc: Annotated[
        float | None, typer.Option(help="Public correlation of any two errors of a person.")
    ] = None,
    phi: Annotated[
        float | None, typer.Option(help="Public autoregressive coefficient (goes with --time).")
    ] = None,
    time: Annotated[str | None, typer.Option(help="Column that orders a person's records.")] = None,
    threshold: Annotated[
        float, typer.Option(help="Least eigenvalue of X'X/T of a person who counts.")
    ] = 0.01,
    records: Annotated[
        int | None, typer.Option(help="Least number of records of a person who counts.")
    ] = None,
    scale: Annotated[
        list[str] | None, typer.Option(help="Public size of a term, TERM=NUMBER; repeat.")
    ] = None,
    residual_sd: Annotated[
        float | None, typer.Option(help="Assumed standard deviation of errors.")
    ] = None,
    between_sd: Annotated[
        float, typer.Option(help="Assumed deviation of coefficients between persons.")
    ] = 0.0,
    coefficient_range: Annotated[
        tuple[float, float] | None, typer.Option(help="Public limits of all coefficients.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="What intervals cover where nothing is known: mean or clipped."),
    ] = None,
    excess: Annotated[
        float | None,
        typer.Option(help="Assumed mean excess over the limits, in limits (for the mean)."),
    ] = None,
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
    """Release private regression coefficients: the mean of persons' own, with intervals."""
    import privmean as pm
    from privmean.errors import ArgumentError

    key = opt.signing_key(sign, as_json)
    if icc is not None and phi is not None:
        raise ArgumentError("--phi", phi, "is given beside --icc", "give one of them")
    working: Any = "independence"
    if icc is not None:
        working = pm.Exchangeable(icc)
    elif phi is not None:
        working = pm.AR1(phi)
    written = opt.text(delimiter, quote, decimal, encoding, header, null_word)
    release = pm.regress(
        table,
        formula,
        person=person,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        neighbors=neighbors,
        n_design=n_design,
        fixed_effects=fixed_effects,
        working=working,
        time=time,
        threshold=threshold,
        records=records,
        scales=_scales(scale or []),
        residual_sd=residual_sd,
        between_sd=between_sd,
        coefficient_range=coefficient_range,
        target=target,
        excess=excess,
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


def _scales(given: list[str]) -> dict[str, float]:
    from privmean.errors import ArgumentError

    result = {}
    for item in given:
        term, _, number = item.rpartition("=")
        try:
            result[term] = float(number)
        except ValueError:
            raise ArgumentError(
                "--scale", item, "is not TERM=NUMBER", "give --scale tenure=4"
            ) from None
    return result
