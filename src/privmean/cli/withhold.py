"""`privmean withhold`: a private mean of events without separation between a person's records."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from privmean.cli import streamoptions as so
from privmean.cli.numbers import pair
from privmean.errors import ArgumentError


def withhold(
    *,
    person: so.Person = None,
    value: so.Values = None,
    max_records: Annotated[
        int | None, typer.Option(help="Records of one person that are used.")
    ] = None,
    bounds: Annotated[
        list[str] | None,
        typer.Option(help="LOW:HIGH, public limits of a value; one for all, or one a value."),
    ] = None,
    epsilon: so.Epsilon = None,
    delta: so.Delta = 0.0,
    rho: so.Rho = None,
    persons: Annotated[
        int | None, typer.Option(help="How many persons can come; later ones are ignored.")
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(
            help="Assumed sub-Gaussian standard deviation of single records: buys narrower "
            "intervals for large blocks."
        ),
    ] = None,
    late: Annotated[float, typer.Option(help="0 favours early steps, 1 the end.")] = 0.0,
    level: so.Level = 0.95,
    state: so.State = None,
    append: so.Append = False,
    replay: so.Replay = True,
    moved: so.Moved = False,
    output: so.Output = None,
    complete: so.Complete = False,
    follow: so.Follow = None,
    parts: so.Parts = None,
    kafka: so.Kafka = None,
    idle: so.Idle = None,
    ledger: so.LedgerFile = None,
    label: so.Label = None,
    input_format: so.Format = "auto",
    delimiter: so.Delimiter = ",",
    quote: so.Quote = '"',
    decimal: so.Decimal = ".",
    encoding: so.Encoding = "utf-8",
    null_word: so.NullWord = None,
    quiet: so.Quiet = False,
    seed: so.Seed = None,
) -> None:
    """Read events, write one JSON line a release: withhold-release.

    The records of a person are withheld until the block 1, 2, 3-4, 5-8, ... is complete, and block
    averages are released. Needs no separation between the records of one person; sources, states
    and restarts are those of `privmean stream`.
    """
    from privmean.continual.feeding import FedWithhold
    from privmean.continual.withhold_release import WithholdRelease

    who, values = so.named(person, value)
    if max_records is None or not bounds:
        raise ArgumentError(
            "max_records/bounds", None, "is missing", "give --max-records and --bounds LOW:HIGH"
        )
    pairs = [pair("bounds", text) for text in bounds]
    if len(pairs) not in (1, len(values)):
        raise ArgumentError("bounds", bounds, f"are not {len(values)}", "give one, or one each")
    settings: dict[str, Any] = {
        "max_records": max_records,
        "bounds": pairs if len(pairs) == len(values) else pairs * len(values),
        "epsilon": epsilon,
        "delta": delta,
        "rho": rho,
        "persons": persons,
        "sd": spread,
        "late": late,
    }
    source = so.source_of(
        (who, values, []),
        (input_format, delimiter, quote, decimal, encoding, null_word),
        complete=complete or state is None,
        follow=follow,
        parts=parts,
        kafka=kafka,
        idle=idle,
    )
    running = WithholdRelease(
        state=state, moved=moved, noise=so.simulated(seed), level=level, **settings
    )
    try:
        so.charge(running, ledger, label)
        stopped = so.serve(
            FedWithhold(running),
            source,
            append=append,
            replay=replay,
            flush=False,
            output=output,
            quiet=quiet,
        )
    finally:
        running.close()
    if stopped:
        raise typer.Exit(130)
