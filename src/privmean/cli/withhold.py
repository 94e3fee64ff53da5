"""`privmean withhold`: a private mean of events without separation between a person's records."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from privmean.cli import stream_options as so
from privmean.cli.number_types import pair
from privmean.cli.option_parsing import grouped
from privmean.errors import ArgumentError


@dataclass(frozen=True)
class Withheld:
    """What is withheld and released."""

    max_records: Annotated[int | None, "Use at most this many records per person."] = None
    bounds: Annotated[
        list[str] | None, "Give public bounds LOW:HIGH; one for all, or one each."
    ] = None
    n: Annotated[int | None, "Accept at most this many people."] = None
    spread: Annotated[
        float | None,
        "Assume sub-Gaussian records with this deviation.",
    ] = None
    late: Annotated[float, "Favor early steps (0) or late steps (1)."] = 0.0
    level: so.Level = 0.95


@grouped
def withhold(
    *,
    columns: so.Columns,
    said: Withheld,
    budget: so.Budgeted,
    kept: so.Kept,
    sourced: so.Sourced,
    charged: so.Charged,
) -> None:
    """Release means of a stream by the withhold-release method.

    The records of a person are withheld until the block 1, 2, 3-4, 5-8, ... is complete, and block
    averages are released. Needs no separation between the records of one person; sources, states
    and restarts are those of `privmean stream`.
    """
    from privmean.streams.run_stream import WithholdAdapter
    from privmean.streams.withhold_release import WithholdRelease

    kept.ready()
    who, values = columns.named()
    if said.max_records is None or not said.bounds:
        raise ArgumentError(
            "max_records/bounds", None, "is required", "give --max-records and --bounds LOW:HIGH"
        )
    pairs = [pair("bounds", text) for text in said.bounds]
    if len(pairs) not in (1, len(values)):
        raise ArgumentError(
            "bounds", said.bounds, f"must be {len(values)}", "give one, or one per column"
        )
    source = sourced.source((who, values, []), complete=kept.whole)
    running = WithholdRelease(
        state=kept.state,
        moved=kept.moved,
        noise=charged.noise(),
        max_records=said.max_records,
        bounds=pairs if len(pairs) == len(values) else pairs * len(values),
        persons=said.n,
        sd=said.spread,
        late=said.late,
        level=said.level,
        **asdict(budget),
    )
    with running:
        stopped = kept.serve(WithholdAdapter(running), source, charged.charging(running))
    if stopped:
        raise typer.Exit(130)
