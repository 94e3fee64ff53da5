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

if TYPE_CHECKING:
    from privmean.questions.base import Question


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
    from privmean.api.plan_functions import plan as planned
    from privmean.release.formatting import plan_output

    terms: Any = {name: value for name, value in asdict(budget).items() if value is not None}
    if arms.arms is None and not groups.by:
        terms["columns"] = guessed.columns
    question: Any = _question(estimating, groups, arms)
    chosen: Any = planned(question, n=guessed.n, **terms)
    sd, said, lines = guessed.guess_sd, guessed.text(), list[str]()
    beside: dict[str, Any] = {}
    if arms.arms is not None:
        sizes: Any = guessed.each()
        if isinstance(sizes, list) and len(sizes) == 2:
            sizes = dict(zip(question.keys, sizes, strict=True))
        predicted = {"difference": chosen.difference(sd, sizes)}
        wanted = _wanted(question, guessed, terms, sizes if isinstance(sizes, dict) else None)
        found: dict[str, Any] = {"predicted": predicted["difference"], **wanted[0]}
        if arms.effect is not None:
            power = chosen.power(arms.effect, sizes, sd)
            found |= {"effect": arms.effect, "power": power}
            lines.append(f"Power for an effect of {arms.effect:g}: {power:.0%}.")
    elif groups.by:
        sizes = guessed.each()
        forecast = chosen.forecast(sizes, sd, guessed.n)
        found = {"groups": [vars(item) for item in forecast]}
        wanted = _wanted(question, guessed, terms, sizes if guessed.group_sizes else None)
        predicted = {
            str(item.key): {
                "rmse": item.rmse, "sampling": item.sampling, "noise": item.privacy_noise
            }
            for item in forecast
        }  # fmt: skip
        beside["counts"] = [item.n for item in forecast]
        beside["statuses"] = [item.status for item in forecast]
    else:
        predicted = {"mean": chosen.predict(sd)}
        found = {"columns": guessed.columns, "predicted": predicted["mean"]}
        wanted = _wanted(question, guessed, terms)
        if guessed.columns > 1:
            said = guessed.text(f", {guessed.columns} columns")
    found |= wanted[0]
    if as_json:
        if "forecast" in found:
            found["forecast"] = found["forecast"].describe()
        head = {"estimator": chosen.estimator, "rationale": chosen.rationale, "n": guessed.n}
        told = {**head, "guess_sd": sd, **found, "plan": chosen.describe()}
        typer.echo(json.dumps(told, allow_nan=False))
        return
    typer.echo(plan_output(chosen, said, predicted, lines=[*wanted[1], *lines], **beside).text())
    if "forecast" in found:
        typer.echo(f"\n{found['forecast']}")


def _question(estimating: opt.Estimating, groups: Grouped, arms: Arms) -> Question:
    """A comparison of arms, means by group, or a mean."""
    if arms.arms is not None:
        asked: dict[str, Any] = {"value": "value", "arms": arms.arms}
        asked["membership"] = arms.membership
        made: Question = question_of("compare", asked, "--{}")
    elif groups.by:
        keys = groups.beside(groups.keys)
        asked = {"values": ["value"], "by": groups.by, "keys": keys}
        made = question_of("mean", {**asked, "max_groups": groups.max_groups}, "--{}")
    else:
        made = question_of("mean", estimating.words(), "--{}")
    return made


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
