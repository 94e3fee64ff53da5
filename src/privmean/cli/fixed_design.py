"""`privmean fixed-design`: a mean curve from responses at public times, one record a unit."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from privmean.api import call_options as words
from privmean.cli import options as opt
from privmean.cli.options import grouped


@grouped
def fixed_design(
    *,
    table: opt.TableFile,
    value: Annotated[str, "Name the column of the private responses."],
    time: Annotated[str, "Name the column of the public times."],
    bounds: Annotated[tuple[float, float], "Give public bounds of a response, lower then upper."],
    cells: Annotated[int | None, "Use this many cells of equal width."] = None,
    bandwidth: Annotated[float, "Set the bandwidth of the smoother; 0 for none."] = 0.0,
    at: Annotated[str | None, "List the points of the curve, with commas."] = None,
    budget: words.BudgetOptions,
    level: words.Level = 0.95,
    ledger: opt.Ledger = None,
    written: words.TextOptions,
    reading: words.ResourceOptions,
    shown: opt.Drawn,
) -> None:
    """Estimate a mean curve from records at public times.

    One record is the unit that is protected: for designs in which every response belongs to another
    person and its time is public. Where people have several records, or own times, use
    `privmean curve`.
    """
    from privmean.api.call_options import ledger_of
    from privmean.api.parse_question import numbers_of
    from privmean.data.groups import timed_responses
    from privmean.estimators.fixed_design import FixedDesign
    from privmean.privacy.budget import Budget

    key = shown.ready()
    design = FixedDesign(bounds, cells, bandwidth, None if at is None else numbers_of("--at", at))
    resources = reading.resources().options()
    allowed = Budget(**asdict(budget))
    times, responses = timed_responses(table, time, value, written.words(), resources)
    plan = design.plan(allowed, times=times)
    shown.show(plan.release(responses, ledger=ledger_of(ledger), level=level), key)
