"""`privmean collect two-rounds`: find where values lie, then measure around there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privmean.cli import options as opt
from privmean.cli.collect_admin import TokenFile
from privmean.cli.collect_serve import ADMIN_TOKEN
from privmean.cli.collect_shared import Server, fail
from privmean.cli.option_parsing import grouped
from privmean.storage.file_io import naming

if TYPE_CHECKING:
    from privmean.local.clients.collector_admin import Remote
    from privmean.local.round import Round
    from privmean.local.two_round_text import TwoRounds

app = typer.Typer(
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Means without a narrow range: one part of the clients votes for a bin, the others "
    "report around the winner. Each step follows from the plan and the collector's tallies.",
)

Plan = Annotated[Path, typer.Argument(help="The plan (JSON), as `plan` wrote it.")]


@app.command()
@grouped
def plan(
    out: Annotated[Path, typer.Argument(help="Where to write the plan.")],
    lower: Annotated[list[float], "Where values may lie; one a coordinate."],
    upper: Annotated[list[float], "The other end."],
    tau: Annotated[list[float], "Values lie this near to a common point, nearly surely."],
    epsilon: Annotated[list[float], "A level of the menu; repeat for more."],
    persons: Annotated[int, "How many persons are planned for."],
    shares: Annotated[tuple[int, int], "Parts of the clients that vote and that measure."] = (
        20,
        80,
    ),
    both: Annotated[bool, "Everybody answers both rounds, at half of epsilon.", "--both"] = False,
    mechanism: Annotated[str | None, "Of the second round, another than the default one."] = None,
    beta: Annotated[float, "Failure probability of the radius."] = 0.05,
    title: Annotated[str, "What people are asked."] = "",
) -> None:
    """Plan both rounds. Publish the plan: who has it can check each round."""
    from privmean.errors import PrivmeanError
    from privmean.local.two_round_mean import WinsorizedRounds
    from privmean.local.two_round_text import TwoRounds

    options = {} if mechanism is None else {"mean_mechanism": mechanism}
    try:
        made = WinsorizedRounds.of(
            lower,
            upper,
            tau=tau,
            epsilon=epsilon,
            persons=persons,
            shares=None if both else shares,
            beta=beta,
            **options,
        )
        text = TwoRounds(made, title)
        vote = text.vote()
        with naming(out):
            out.write_text(text.to_json() + "\n")
    except (PrivmeanError, OSError) as error:
        fail(error)
    typer.echo(f"first round {vote.identifier.hex()}\ndigest {vote.digest.hex()}")


@app.command()
@grouped
def vote(plan_file: Plan, server: Server, token_file: TokenFile = None) -> None:
    """Offer the first round at the collector."""
    text, remote = _begin(plan_file, server, token_file)
    _offer(remote, text.vote())


@app.command()
@grouped
def mean(plan_file: Plan, server: Server, token_file: TokenFile = None) -> None:
    """Close the first round and offer the second, around the winner. Repeated, it says the same."""
    from privmean.errors import PrivmeanError

    text, remote = _begin(plan_file, server, token_file)
    first = text.vote()
    try:
        remote.ask(f"rounds/{first.identifier.hex()}/close", method="POST")
        round_ = text.mean(remote.tally(first))
    except PrivmeanError as error:
        fail(error)
    _offer(remote, round_)


@app.command()
@grouped
def answer(
    plan_file: Plan,
    server: Server,
    token_file: TokenFile = None,
    weights: Annotated[str, "As in `collect aggregate`."] = "tested",
    as_json: opt.Json = False,
) -> None:
    """The estimate of both rounds, from the collector's tallies."""
    from privmean.errors import PrivmeanError

    text, remote = _begin(plan_file, server, token_file)
    try:
        votes = remote.tally(text.vote())
        location = text.plan.locate(votes)
        found = text.plan.answer(location, remote.tally(text.mean(votes)), weights=weights)
    except PrivmeanError as error:
        fail(error)
    typer.echo(json.dumps(found.to_dict()) if as_json else found.summary())


def _begin(plan_file: Path, server: str, token_file: Path | None) -> tuple[TwoRounds, Remote]:
    from privmean.cli.secrets import tokens
    from privmean.errors import PrivmeanError
    from privmean.local.clients.collector_admin import Remote
    from privmean.local.two_round_text import TwoRounds

    try:
        held = tokens(ADMIN_TOKEN, token_file)
        text = TwoRounds.from_json(plan_file.read_bytes())
        return text, Remote(server, held[0] if held else None)
    except (PrivmeanError, OSError) as error:
        fail(error)


def _offer(remote: Remote, round_: Round) -> None:
    from privmean.errors import PrivmeanError

    try:
        remote.ask("rounds", method="POST", body=round_.to_json().encode())
    except PrivmeanError as error:
        fail(error)
    bounds = f"[{', '.join(f'{x:g}' for x in round_.lower)}] to "
    bounds += f"[{', '.join(f'{x:g}' for x in round_.upper)}]"
    typer.echo(f"round {round_.identifier.hex()}\ndigest {round_.digest.hex()}\nbounds {bounds}")
