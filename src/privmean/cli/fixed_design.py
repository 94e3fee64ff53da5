"""`privmean fixed-design`: a mean curve from responses at public times, one record a unit."""

from __future__ import annotations

from typing import Annotated

import typer

from privmean.cli import options as opt

PRIVATE_FAILURE = 3


def fixed_design(
    *,
    table: opt.TableFile,
    value: Annotated[str, typer.Option(help="Column of responses, private.")],
    time: Annotated[str, typer.Option(help="Column of times, public.")],
    bounds: Annotated[
        tuple[float, float], typer.Option(help="Public limits of a response, lower then upper.")
    ],
    cells: Annotated[int | None, typer.Option(help="Cells of equal width.")] = None,
    bandwidth: Annotated[float, typer.Option(help="Of the kernel that smooths; 0: none.")] = 0.0,
    at: Annotated[str | None, typer.Option(help="Points of the curve, with commas.")] = None,
    epsilon: opt.Epsilon = None,
    delta: opt.Delta = 0.0,
    rho: opt.Rho = None,
    level: opt.Level = 0.95,
    ledger: opt.LedgerFile = None,
    delimiter: opt.Delimiter = None,
    quote: opt.Quote = None,
    decimal: opt.Decimal = None,
    encoding: opt.Encoding = None,
    header: opt.Header = None,
    null_word: opt.NullWord = None,
    memory: opt.Memory = None,
    threads: opt.Threads = None,
    spill: opt.Spill = None,
    plot: opt.Plot = None,
    details: opt.Details = False,
    as_json: opt.Json = False,
) -> None:
    """Estimate a mean curve from records at public times.

    One record is the unit that is protected: for designs in which every response belongs to another
    person and its time is public. Where persons have several records, or times are their own, use
    `privmean curve`.
    """
    from privmean.asking.declared import numbers_of
    from privmean.asking.terms import ledger_of
    from privmean.models.fixed_design import FixedDesign
    from privmean.people.table import Machine
    from privmean.people.timed import timed_responses
    from privmean.privacy.budget import Budget

    if plot is not None:
        opt.ready(plot)  # before anything is spent
    points = None if at is None else numbers_of("--at", at)
    design = FixedDesign(bounds, cells, bandwidth, points)
    budget = Budget(epsilon, delta, rho)
    said = opt.text(delimiter, quote, decimal, encoding, header, null_word)
    text = {name: item for name, item in said.items() if item not in (None, ())}
    machine = Machine(memory, threads, spill, progress=opt.on_terminal())
    times, responses = timed_responses(table, time, value, text, machine.options())
    plan = design.plan(budget, times=times)
    release = plan.release(responses, ledger=ledger_of(ledger), level=level)
    if as_json:
        typer.echo(opt.stored(release, None))
    else:
        typer.echo(release.details() if details else release.summary())
    if release.failed:
        raise typer.Exit(PRIVATE_FAILURE)
    if plot is not None:
        release.plot().figure.savefig(plot)
