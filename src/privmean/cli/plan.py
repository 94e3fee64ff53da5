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
    neighbors: opt.Neighbors = None,
    bounds: opt.Bounds = None,
    sd: opt.Sd = None,
    assume: opt.Assume = None,
    method: opt.Method = "auto",
    by: Annotated[
        list[str] | None, typer.Option(help="Column of groups: predicts every group.")
    ] = None,
    keys: Annotated[str | None, typer.Option(help="The groups, with commas.")] = None,
    keys_file: opt.KeysFile = None,
    sizes: Annotated[
        str | None,
        typer.Option(help="Public guesses of the persons of each group, with commas."),
    ] = None,
    max_groups: Annotated[int, typer.Option(help="Groups a person counts fully in.")] = 1,
    arms: Annotated[
        str | None, typer.Option(help="Column of two arms: predicts their difference.")
    ] = None,
    effect: Annotated[
        float | None, typer.Option(help="Effect between the arms: prints the chance to see it.")
    ] = None,
    membership: Annotated[
        str, typer.Option(help="Whether the arm of a person is private or public.")
    ] = "private",
    as_json: opt.Json = False,
) -> None:
    """Predict the error of a mean and the persons needed. Reads no data and spends nothing."""
    from privmean.asking.planning import persons_needed, plan

    said: dict[str, Any]
    terms: dict[str, Any]
    if arms is not None:
        said = {"arms": arms, "membership": membership}
        terms = {"epsilon": epsilon, "delta": delta, "rho": rho, "neighbors": neighbors}
        _of_arms(said, terms, persons, sizes, effect, guess_sd, as_json)
        return
    if by:
        said = {"by": by, "keys": opt.keys(keys, keys_file), "max_groups": max_groups}
        _by_group(said, persons, sizes, error, guess_sd, epsilon, delta, rho, neighbors, as_json)
        return
    words = {"assume": opt.assumed(assume, bounds, sd), "method": method}
    question = question_of("mean", words, "--{}")
    terms = {
        "epsilon": epsilon, "delta": delta, "rho": rho, "columns": columns,
        "neighbors": neighbors or "replace-one",
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


def _sizes(sizes: str | None, persons: int) -> Any:
    """Public guesses: numbers with commas, or all persons to share out."""
    from privmean.errors import ArgumentError

    try:
        return persons if sizes is None else [float(item) for item in sizes.split(",")]
    except ValueError:
        raise ArgumentError("--sizes", sizes, "are no numbers", "give 900,400,60") from None


def _of_arms(
    said: dict[str, Any],
    terms: dict[str, Any],
    persons: int,
    sizes: str | None,
    effect: float | None,
    guess_sd: float,
    as_json: bool,
) -> None:
    """The predicted error of a difference of two arms, and the chance to see an effect."""
    from privmean.asking.planning import plan as planned

    question = question_of("compare", {"value": "value", **said}, "--{}")
    known = {name: value for name, value in terms.items() if value is not None}
    chosen: Any = planned(question, persons=persons, **known)
    guessed = _sizes(sizes, persons)
    if isinstance(guessed, list) and len(guessed) == 2:
        guessed = dict(zip(question.keys, guessed, strict=True))
    result: dict[str, Any] = {
        "estimator": chosen.estimator,
        "why": chosen.why,
        "persons": persons,
        "guess_sd": guess_sd,
        "predicted": chosen.difference(guess_sd, guessed),
        "plan": chosen.describe(),
    }
    if effect is not None:
        result["effect"] = effect
        result["power"] = chosen.power(effect, guessed, guess_sd)
    if as_json:
        typer.echo(json.dumps(result, allow_nan=False))
        return
    typer.echo(f"{chosen.estimator}: {chosen.why}")
    for name, number in result["predicted"].items():
        typer.echo(f"  {name.replace('_', ' ')} of the difference: {number:.4g}")
    if effect is not None:
        typer.echo(f"  chance to see an effect of {effect:g}: {result['power']:.0%}")


def _by_group(
    said: dict[str, Any],
    persons: int,
    sizes: str | None,
    error: float | None,
    guess_sd: float,
    epsilon: float | None,
    delta: float,
    rho: float | None,
    neighbors: str | None,
    as_json: bool,
) -> None:
    """A line a group, and the least epsilon for a wanted error in the smallest one."""
    from privmean.asking.planning import least_epsilon
    from privmean.asking.planning import plan as planned

    question = question_of("mean", {"values": ["value"], **said}, "--{}")
    terms: Any = {"delta": delta, "neighbors": neighbors or question.usual_neighbors}
    guessed = _sizes(sizes, persons)
    budget: Any = {"epsilon": epsilon, "rho": rho} if rho is not None else {"epsilon": epsilon}
    chosen: Any = planned(question, persons=persons, **terms, **budget)
    lines = chosen.forecast(guessed, guess_sd, persons)
    result: dict[str, Any] = {
        "estimator": chosen.estimator,
        "why": chosen.why,
        "persons": persons,
        "guess_sd": guess_sd,
        "groups": [vars(item) for item in lines],
        "plan": chosen.describe(),
    }
    if error is not None:
        result["wanted_error"] = error
        result["least_epsilon"] = least_epsilon(
            question, sizes=guessed, error=error, guess_sd=guess_sd, **terms
        )
    if as_json:
        typer.echo(json.dumps(result, allow_nan=False))
        return
    typer.echo(f"{chosen.estimator}: {chosen.why}")
    for item in lines:
        typer.echo(
            f"  {item.key}: {item.persons:.0f} persons, error {item.rmse:.4g} (sampling "
            f"{item.sampling:.4g}, privacy noise {item.privacy_noise:.4g})"
            + ("" if item.status == "ok" else f"   {item.status}")
        )
    if error is not None:
        typer.echo(
            f"  least epsilon for an error of {error:g} in the smallest group: "
            f"{result['least_epsilon']:.3g}"
        )
