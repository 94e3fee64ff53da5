"""`privmean collect two-rounds`: find where values lie, then measure around there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privmean.cli import options as opt
from privmean.cli.collect_serve import ADMIN_TOKEN, TokenFile
from privmean.cli.collect_shared import Server, fail
from privmean.cli.options import grouped
from privmean.storage.witness import naming

if TYPE_CHECKING:
    from privmean.local.clients.send import Remote
    from privmean.local.round import Round
    from privmean.local.two_round_mean import TwoRounds

app = typer.Typer(
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Estimate means in two rounds, without a narrow range.",
)

Plan = Annotated[Path, typer.Argument(help="Read the plan (JSON) that `plan` wrote.")]


@app.command()
@grouped
def plan(
    out: Annotated[Path, typer.Argument(help="Write the plan to this file.")],
    lower: Annotated[list[float], "Set the lower bounds, one per coordinate."],
    upper: Annotated[list[float], "Set the upper bounds, one per coordinate."],
    tau: Annotated[list[float], "Assume that values lie this near to a common point."],
    epsilon: Annotated[list[float], "Add a level of epsilon; repeat for more."],
    n: Annotated[int, "Plan for this many people."],
    shares: Annotated[tuple[int, int], "Set the shares of clients that vote and that measure."] = (
        20,
        80,
    ),
    both: Annotated[bool, "Let all clients answer both rounds at half epsilon.", "--both"] = False,
    mechanism: Annotated[str | None, "Choose another mechanism for the second round."] = None,
    beta: Annotated[float, "Set the failure probability of the radius."] = 0.05,
    title: Annotated[str, "Write the title that people see."] = "",
) -> None:
    """Plan both rounds and write the public plan."""
    from privmean.errors import PrivmeanError
    from privmean.local.two_round_mean import TwoRounds, WinsorizedRounds

    options = {} if mechanism is None else {"mean_mechanism": mechanism}
    try:
        made = WinsorizedRounds.of(
            lower,
            upper,
            tau=tau,
            epsilon=epsilon,
            persons=n,
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
    """Close the first round and offer the second."""
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
    weights: Annotated[str, "Choose the weights, as in `collect aggregate`."] = "tested",
    as_json: opt.Json = False,
) -> None:
    """Estimate from the tallies of both rounds."""
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
    from privmean.local.clients.send import Remote
    from privmean.local.two_round_mean import TwoRounds

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
