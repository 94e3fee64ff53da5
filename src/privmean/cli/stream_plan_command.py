"""`privmean stream plan`: every strategy with its error, before a record is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from privmean.cli import options as opt
from privmean.cli import stream_options as so
from privmean.cli.option_parsing import grouped
from privmean.output import MISSING, Output, TableRow

if TYPE_CHECKING:
    from privmean.streams.strategy_candidates import Candidate, CandidateForecast


@grouped
def plan(
    *,
    steps: Annotated[int, "Set the number of steps."],
    max_participations: Annotated[int, "Let each person take part in at most this many steps."],
    min_separation: Annotated[int, "Set the least distance between two steps of a person."],
    dimension: Annotated[int, "Set the number of values per record."] = 1,
    budget: so.Budgeted,
    clip: Annotated[float, "Set the clipping radius."] = 1.0,
    neighbors: so.Neighbors = "replace-one",
    goal: Annotated[str | None, "Minimize the error shown, rmse, final or at times."] = None,
    aimed: so.Aimed,
    weighted: so.Weighted,
    as_json: opt.Json = False,
) -> None:
    """List strategies with their error, best first, without any data.

    rmse is sensitivity times the normalized Frobenius norm (noise 1 per unit of sensitivity). With
    a budget, further columns show errors in the unit of the values: of the shown (clamped)
    estimate, of the noise (l2) and at the last step. The last column is the first step from which
    on the noise stays below a tenth of the region.
    """
    import json

    from privmean import validate
    from privmean.errors import ArgumentError
    from privmean.privacy.budget import REPLACE_ONE, ZERO_OUT, Budget
    from privmean.streams.strategy_candidates import CandidateForecast
    from privmean.streams.strategy_error import AveragingTarget, ClampedError
    from privmean.streams.stream_plan import survey

    validate.whole("dimension", dimension, least=1)
    validate.positive("clip", clip)
    validate.choice("neighbors", neighbors, [REPLACE_ONE, ZERO_OUT])
    movement = 1 if neighbors == ZERO_OUT else 2
    unit = None
    if budget.epsilon is not None or budget.rho is not None:
        mu = Budget(**asdict(budget)).gaussian_mu()
        if not mu:
            raise ArgumentError(
                "delta",
                budget.delta,
                "must be above 0, because a stream uses Gaussian noise",
                "give delta > 0 or rho",
            )
        unit = movement / mu
    elif budget.delta:
        raise ArgumentError("delta", budget.delta, "requires epsilon", "give epsilon, or remove it")
    target = AveragingTarget.of(weighted.window, weighted.half_life)
    usual = "times" if aimed.time else "rmse" if unit is None else "shown"
    found = survey(
        max_participations=max_participations,
        min_separation=min_separation,
        steps=steps,
        goal=usual if goal is None else goal,
        from_step=aimed.from_step,
        times=aimed.time or (),
        shown=None if unit is None else ClampedError(unit, dimension, aimed.last_within),
        target=target,
        watch=_progress(),
    )
    prospects = None
    if unit is not None:
        prospects = [
            CandidateForecast.of(item, steps, unit, clip, dimension, target) for item in found
        ]
    if as_json:
        facts = {
            "steps": steps,
            "max_participations": max_participations,
            "min_separation": min_separation,
            "dimension": dimension,
            "target": target.describe(),
            "goal": usual if goal is None else goal,
            "noise_unit": None if unit is None else unit * clip * dimension**0.5,
        }
        rows = [item.to_dict() for item in found]
        for row, item in zip(rows, prospects or (), strict=False):
            row.update(item._asdict())
        typer.echo(json.dumps({**facts, "strategies": rows}))
    else:
        typer.echo(_table(steps, found, prospects).text())


def _progress() -> Callable[[str], None] | None:
    """Shows on a terminal which strategy is being evaluated; wiped by the next one."""
    import sys

    if not sys.stderr.isatty():
        return None
    return lambda name: typer.echo(f"\r\x1b[K{name} ...\r", err=True, nl=False)


def _table(steps: int, found: list[Candidate], prospects: list[CandidateForecast] | None) -> Output:
    head = ["rmse", "goal", "final", "sensitivity", "numbers kept"]
    head += [f"at {step}" for step, _ in found[0].at]
    head += [] if prospects is None else ["error shown", "error rmse", "error final", "below 10%"]
    rows = []
    for place, item in enumerate(found):
        cells = [f"{x:.6f}" for x in (item.rmse, item.rmse_goal, item.rmse_final)]
        cells += [f"{item.sensitivity:.4f}", f"{item.state:,}"]
        cells += [f"{value:.6f}" for _, value in item.at]
        if prospects is not None:
            shown, noise, last, small = prospects[place]
            cells += [f"{shown:.4g}", f"{noise:.4g}", f"{last:.4g}", str(small or MISSING)]
        rows.append(TableRow(item.strategy.name, tuple(cells)))
    return Output(
        "Stream plan: strategies, best first",
        f"{steps:,} steps; planning charges nothing",
        tuple(head),
        tuple(rows),
        lines=("below 10%: the first step with noise below a tenth of the region.",)
        if prospects is not None
        else (),
    )
