"""The commands that ask one question each: made from its declaration, shown in one place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

from privmean.api.parse_question import QUESTIONS
from privmean.cli.derive_command import ParsedCommand, command
from privmean.errors import ArgumentError

ASSUME = "say it in --assume 'KIND name=value ...'"
METHOD = "say it in --method 'KIND name=value ...'"
RELATED = "say --related 'random-effects group=COLUMN group_sd=... within_sd=... records=...'"
MOVED = {
    "--between-sd": f"{ASSUME}, such as 'between-within between_sd=1 within_sd=2 records=5'",
    "--within-sd": f"{ASSUME}, such as 'between-within between_sd=1 within_sd=2 records=5'",
    "--moment-order": f"{ASSUME}, such as 'bounded-moment order=3 bound=60 records=20'",
    "--moment-bound": f"{ASSUME}, such as 'bounded-moment order=3 bound=60 records=20'",
    "--covariance": f"{ASSUME}, such as 'covariance 1,4,9' or 'covariance FILE'",
    "--target": f"{METHOD}, such as 'default target=mean'",
    "--excess": f"{METHOD}, such as 'default excess=0.5'",
    "--beta": f"{METHOD}, such as 'anisotropic beta=0.01'",
    "--scale-range": f"{METHOD}, such as 'anisotropic scale_range=0.1,10'",
    "--sampled-degrees": f"{METHOD}, such as 'anisotropic sampled_degrees=50'",
    "--group": RELATED,
    "--group-sd": RELATED,
    "--icc": "say --working 'exchangeable icc=0.3'",
    "--phi": "say --working 'ar1 phi=0.5' with --time",
    "--scale": "say --scales TERM=NUMBER",
    "--residual-sd": f"{ASSUME}, such as 'errors residual_sd=0.3 between_sd=0.05'",
    "--coefficient-range": "say --assume LOWER,UPPER",
    "--smallest": "say --within SMALLEST LARGEST",
    "--largest": "say --within SMALLEST LARGEST",
}
CALLED = {"regression": "regress"}  # commands whose name is not that of their question


def commands() -> dict[str, str]:
    """The command of every kind of question."""
    return {kind: CALLED.get(kind, kind) for kind in QUESTIONS}


def release_and_show(said: ParsedCommand) -> None:
    """Ask, print, and end with 3 where nothing that was asked has an estimate."""
    from privmean.api.call_options import check_options
    from privmean.api.functions import ask
    from privmean.api.run_question import run_question
    from privmean.data.table import Table

    key = said.shown.ready()
    terms = check_options(asdict(said.terms), ask, said.question.usual_neighbors)
    table = Table(said.source, person=said.person, machine=said.reading.machine(), **said.table)
    said.shown.show(run_question(table, said.question, terms), key)


def refuse_moved(arguments: Sequence[str]) -> None:
    """Refuse an option that is said in another way now, with that way."""
    if not arguments or arguments[0] not in (*commands().values(), "plan"):
        return
    for item in arguments:
        option = item.partition("=")[0]
        if option in MOVED:
            raise ArgumentError(option, None, "is not an option any more", MOVED[option])


def question_command(kind: str) -> Callable[..., None]:
    """The command of a kind of question; imports what answers it."""
    return command(kind, release_and_show)
