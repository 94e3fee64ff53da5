"""Administration of a running collector: rounds begin and end, tickets are taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from privmean.cli.collect_serve import ADMIN_TOKEN
from privmean.cli.collect_shared import Server, fail, read_round
from privmean.cli.option_parsing import grouped

TokenFile = Annotated[
    Path | None,
    f"Read a token for administration (or {ADMIN_TOKEN}).",
]
RoundId = Annotated[str, typer.Argument(help="Give the identifier of the round, 16 hex digits.")]


def _ask(server: str, path: str, file: Path | None, method: str, body: bytes | None = None) -> None:
    from privmean.cli.secrets import tokens
    from privmean.errors import PrivmeanError
    from privmean.local.clients.send import Remote

    try:
        held = tokens(ADMIN_TOKEN, file)
        remote = Remote(server, held[0] if held else None)
        answer = json.loads(remote.ask(path, method=method, body=body))
    except (PrivmeanError, OSError) as error:
        fail(error)
    for line in answer if isinstance(answer, list) else [answer]:
        typer.echo(json.dumps(line))


@grouped
def open_round(
    round_file: Annotated[Path, typer.Argument(help="Read the description of the round (JSON).")],
    server: Server,
    token_file: TokenFile = None,
) -> None:
    """Offer a round at a running collector."""
    from privmean.errors import PrivmeanError

    try:
        body = read_round(round_file).to_json().encode()
    except (PrivmeanError, OSError) as error:
        fail(error)
    _ask(server, "rounds", token_file, "POST", body)


@grouped
def close_round(round_id: RoundId, server: Server, token_file: TokenFile = None) -> None:
    """Close a round."""
    _ask(server, f"rounds/{round_id}/close", token_file, "POST")


@grouped
def forget_round(round_id: RoundId, server: Server, token_file: TokenFile = None) -> None:
    """Delete the reports of a closed round; keep the tally."""
    _ask(server, f"rounds/{round_id}/forget", token_file, "POST")


@grouped
def delete_round(round_id: RoundId, server: Server, token_file: TokenFile = None) -> None:
    """Delete everything about a round, forever."""
    _ask(server, f"rounds/{round_id}", token_file, "DELETE")


@grouped
def revoke(
    round_id: RoundId,
    tickets: Annotated[Path, typer.Argument(help="Read the tickets, one per line.")],
    server: Server,
    token_file: TokenFile = None,
) -> None:
    """Revoke tickets; earlier reports still count."""
    from privmean.cli.secrets import text_of
    from privmean.errors import PrivmeanError
    from privmean.local.reports import Ticket

    try:
        lines = [line for line in text_of("tickets", tickets).splitlines() if line.strip()]
        held = [Ticket.from_text(line) for line in lines]
        if any(ticket.round_id.hex() != round_id.lower() for ticket in held):
            raise PrivmeanError("the tickets are for another round. Ask for tickets of this round.")
    except (PrivmeanError, OSError) as error:
        fail(error)
    nonces = [ticket.nonce.hex() for ticket in held]  # keys stay here
    _ask(
        server,
        f"rounds/{round_id}/revoked",
        token_file,
        "POST",
        json.dumps({"nonces": nonces}).encode(),
    )


@grouped
def audit(server: Server, token_file: TokenFile = None) -> None:
    """Print the log of actions, newest first."""
    _ask(server, "audit", token_file, "GET")
