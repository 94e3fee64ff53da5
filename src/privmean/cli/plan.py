"""privmean plan: what a release would cost and how good it would be, before any data are read."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from privmean.cli import options as opt


def plan(
    persons: Annotated[int, typer.Option(help="Public number of persons (or a guess).")],
    columns: Annotated[int, typer.Option(help="Number of columns.")] = 1,
    error: Annotated[
        float | None, typer.Option(help="Wanted root mean square error: prints the persons needed.")
    ] = None,
    guess_sd: Annotated[
        float, typer.Option(help="Guess of the standard deviation between persons, planning only.")
    ] = 1.0,
    epsilon: opt.Epsilon = None,
    delta: opt.Delta = 0.0,
    rho: opt.Rho = None,
    neighbors: opt.Neighbors = "replace-one",
    bounds: opt.Bounds = None,
    sd: opt.Sd = None,
    between_sd: opt.BetweenSd = None,
    within_sd: opt.WithinSd = None,
    records: opt.Records = None,
    moment_order: opt.MomentOrder = None,
    moment_bound: opt.MomentBound = None,
    covariance: opt.Covariance = None,
    method: opt.Method = "auto",
    target: opt.Target = None,
    excess: opt.Excess = None,
    beta: opt.Beta = None,
    scale_range: opt.ScaleRange = None,
    sampled_degrees: opt.SampledDegrees = None,
    as_json: opt.Json = False,
) -> None:
    """Predict the error of a release and the persons needed. Reads no data and spends nothing."""
    from privmean.planning import forecast, persons_needed, plan_mean

    arguments: dict[str, Any] = dict(
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        neighbors=neighbors,
        bounds=bounds,
        method=method,
        target=target,
        excess=excess,
        beta=beta,
        scale_range=scale_range,
        sampled_degrees=sampled_degrees,
        **opt.assumption(
            sd=sd,
            between_sd=between_sd,
            within_sd=within_sd,
            records=records,
            moment_order=moment_order,
            moment_bound=moment_bound,
            covariance=covariance,
        ),
    )
    chosen = plan_mean(persons=persons, dimension=columns, **arguments)
    predicted = forecast(chosen, guess_sd)
    result: dict[str, Any] = {
        "estimator": chosen.estimator,
        "why": chosen.why,
        "persons": persons,
        "columns": columns,
        "guess_sd": guess_sd,
        "predicted": predicted,
        "plan": chosen.describe(),
    }
    if error is not None:
        result["wanted_error"] = error
        result["persons_needed"] = persons_needed(
            error, guess_sd=guess_sd, dimension=columns, **arguments
        )
    if as_json:
        typer.echo(json.dumps(result, allow_nan=False))
        return
    typer.echo(f"{chosen.estimator}: {chosen.why}")
    typer.echo(f"  persons {persons}, columns {columns}, guessed sd {guess_sd:g}")
    for name, number in predicted.items():
        typer.echo(f"  {name.replace('_', ' ')}: {number:.4g}")
    if error is not None:
        needed = result["persons_needed"]
        typer.echo(f"  persons needed for an error of {error:g}: {needed}")
    return
