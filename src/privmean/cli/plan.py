"""privmean plan: what a release would cost and how good it would be, before any data are read."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from privmean.asking.declared import question_of
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
    assume: opt.Assume = None,
    method: opt.Method = "auto",
    as_json: opt.Json = False,
) -> None:
    """Predict the error of a mean and the persons needed. Reads no data and spends nothing."""
    from privmean.asking.functions import persons_needed, plan

    words = {"assume": opt.assumed(assume, bounds, sd), "method": method}
    question = question_of("mean", words, "--{}")
    terms: dict[str, Any] = {
        "epsilon": epsilon, "delta": delta, "rho": rho, "neighbors": neighbors, "columns": columns
    }  # fmt: skip
    chosen = plan(question, persons=persons, **terms)
    predicted = chosen.predict(guess_sd)
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
        result["persons_needed"] = persons_needed(question, error=error, guess_sd=guess_sd, **terms)
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
