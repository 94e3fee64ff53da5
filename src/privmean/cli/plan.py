"""privmean plan: what a release would cost and how good it would be, before any data are read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privmean.api import call_options as words
from privmean.api.parse_question import question_of
from privmean.cli import options as opt
from privmean.cli.options import grouped
from privmean.output import Output

if TYPE_CHECKING:
    from privmean.questions.base import Question

Told = tuple[Any, dict[str, Any], Output]  # a plan, what is said of it, and the same as a print


@dataclass(frozen=True)
class Guessed:
    """What is guessed of the people."""

    n: Annotated[int, "Give the public n, or a guess of it."]
    columns: Annotated[int, "Set the number of columns."] = 1
    target_error: Annotated[float | None, "Set the target error; print n and epsilon."] = None
    against: Annotated[str | None, "Show the error at values of 'epsilon' or 'n'."] = None
    guess_sd: Annotated[float, "Guess the standard deviation between people."] = 1.0
    group_sizes: Annotated[str | None, "Guess n of each group, with commas."] = None

    def text(self, more: str = "") -> str:
        """The same in words."""
        sd = f"guessed standard deviation {self.guess_sd:g}"
        return f"n = {self.n:,}{more}; {sd}; planning charges nothing"

    def each(self) -> float | list[float]:
        """People of each group: numbers with commas, or all people to share out."""
        from privmean.errors import ArgumentError

        try:
            return (
                self.n if self.group_sizes is None else [*map(float, self.group_sizes.split(","))]
            )
        except ValueError:
            raise ArgumentError(
                "--group-sizes", self.group_sizes, "must be numbers", "use for example 900,400,60"
            ) from None


@dataclass(frozen=True)
class Grouped(opt.KeysFile):
    """The groups of a mean."""

    by: Annotated[list[str] | None, "Name the group column; predict every group."] = None
    keys: Annotated[str | None, "List the public group keys, with commas."] = None
    max_groups: Annotated[int, "Count each person in at most this many groups."] = 1


@dataclass(frozen=True)
class Arms:
    """Two arms."""

    arms: Annotated[str | None, "Name the column of two arms; predict the difference."] = None
    effect: Annotated[float | None, "Assume this effect; print the power to detect it."] = None
    membership: Annotated[str, "Say whether the arm of a person is private or public."] = "private"


@grouped
def plan(
    *,
    guessed: Guessed,
    budget: words.NeighborOptions,
    estimating: opt.Estimating,
    groups: Grouped,
    arms: Arms,
    as_json: opt.Json = False,
) -> None:
    """Predict errors, or the required n or epsilon, without any data."""
    if arms.arms is not None:
        chosen, found, shown = _of_arms(arms, guessed, budget)
    elif groups.by:
        chosen, found, shown = _by_group(groups, guessed, budget)
    else:
        chosen, found, shown = _of_all(estimating, guessed, budget)
    if as_json:
        if "forecast" in found:
            found["forecast"] = found["forecast"].describe()
        head = {"estimator": chosen.estimator, "rationale": chosen.rationale, "n": guessed.n}
        told = {**head, "guess_sd": guessed.guess_sd, **found, "plan": chosen.describe()}
        typer.echo(json.dumps(told, allow_nan=False))
        return
    typer.echo(shown.text())
    if "forecast" in found:
        typer.echo(f"\n{found['forecast']}")


def _wanted(
    question: Question,
    guessed: Guessed,
    terms: dict[str, Any],
    sizes: float | Sequence[float] | Mapping[str, float] | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """What a wanted error needs, and the errors at other values, as plain data and as lines."""
    from privmean.api.plan_functions import predict_errors, required_epsilon, required_n

    found: dict[str, Any] = {}
    lines: list[str] = []
    error, sd = guessed.target_error, guessed.guess_sd
    against: Any = guessed.against
    free = {name: value for name, value in terms.items() if name not in ("epsilon", "rho")}
    if error is not None:
        found["wanted_error"] = error
        if sizes is None:
            found["required_n"] = required_n(question, target_error=error, guess_sd=sd, **terms)
            lines.append(f"An error of {error:g} needs n = {found['required_n']:,}.")
        if terms.get("rho") is None:
            found["required_epsilon"] = required_epsilon(
                question, n=guessed.n, group_sizes=sizes, target_error=error, guess_sd=sd, **free
            )
            where = "" if sizes is None else " in every group"
            lines.append(
                f"An error of {error:g}{where} needs epsilon = {found['required_epsilon']:.3g}."
            )
    if against is not None:
        found["forecast"] = predict_errors(
            question, n=guessed.n, guess_sd=sd, against=against, group_sizes=sizes, **terms
        )
    return found, lines


def _of_all(estimating: opt.Estimating, guessed: Guessed, budget: words.NeighborOptions) -> Told:
    """The predicted error of a mean, and the people or epsilon needed for a wanted one."""
    from privmean.api.plan_functions import plan
    from privmean.release.formatting import plan_output

    question = question_of("mean", estimating.words(), "--{}")
    sd = guessed.guess_sd
    terms: Any = {**asdict(budget), "columns": guessed.columns}
    terms["neighbors"] = budget.neighbors or "replace-one"
    chosen = plan(question, n=guessed.n, **terms)
    predicted = chosen.predict(sd)
    wanted, lines = _wanted(question, guessed, terms)
    found: dict[str, Any] = {"columns": guessed.columns, "predicted": predicted, **wanted}
    said = guessed.text(f", {guessed.columns} columns" if guessed.columns > 1 else "")
    return chosen, found, plan_output(chosen, said, {"mean": predicted}, lines=lines)


def _of_arms(said: Arms, guessed: Guessed, budget: words.NeighborOptions) -> Told:
    """The predicted error of a difference of two arms, and the chance to see an effect."""
    from privmean.api.plan_functions import plan
    from privmean.release.formatting import plan_output

    asked = {"value": "value", "arms": said.arms, "membership": said.membership}
    question = question_of("compare", asked, "--{}")
    known: Any = {name: value for name, value in asdict(budget).items() if value is not None}
    chosen: Any = plan(question, n=guessed.n, **known)
    each = guessed.each()
    sizes: Any = each
    if isinstance(each, list) and len(each) == 2:
        sizes = dict(zip(question.keys, each, strict=True))
    wanted, lines = _wanted(question, guessed, known, sizes if isinstance(sizes, dict) else None)
    found: dict[str, Any] = {"predicted": chosen.difference(guessed.guess_sd, sizes), **wanted}
    if said.effect is not None:
        power = chosen.power(said.effect, sizes, guessed.guess_sd)
        found |= {"effect": said.effect, "power": power}
        lines.append(f"Power for an effect of {said.effect:g}: {power:.0%}.")
    shown = {"difference": found["predicted"]}
    return chosen, found, plan_output(chosen, guessed.text(), shown, lines=lines)


def _by_group(said: Grouped, guessed: Guessed, budget: words.NeighborOptions) -> Told:
    """A line a group, and the least epsilon for a wanted error in every one."""
    from privmean.api.plan_functions import plan
    from privmean.release.formatting import plan_output

    asked = {"by": said.by, "keys": said.beside(said.keys), "max_groups": said.max_groups}
    question = question_of("mean", {"values": ["value"], **asked}, "--{}")
    sizes, sd = guessed.each(), guessed.guess_sd
    known: Any = {
        "delta": budget.delta,
        "neighbors": budget.neighbors or question.default_neighbors,
    }
    strength: Any = {"epsilon": budget.epsilon}
    if budget.rho is not None:
        strength["rho"] = budget.rho
    chosen: Any = plan(question, n=guessed.n, **known, **strength)
    forecast = chosen.forecast(sizes, sd, guessed.n)
    said_sizes = None if guessed.group_sizes is None else sizes
    wanted, lines = _wanted(question, guessed, {**known, **strength}, said_sizes)
    found: dict[str, Any] = {"groups": [vars(item) for item in forecast], **wanted}
    predicted = {
        str(item.key): {"rmse": item.rmse, "sampling": item.sampling, "noise": item.privacy_noise}
        for item in forecast
    }
    counts, statuses = [item.n for item in forecast], [item.status for item in forecast]
    shown = plan_output(
        chosen, guessed.text(), predicted, counts=counts, statuses=statuses, lines=lines
    )
    return chosen, found, shown
