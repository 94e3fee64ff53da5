"""`privmean collect curve`: a curve over public design points, from reports that name theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from privmean.cli import collect_shared as shared
from privmean.cli import options as opt
from privmean.cli.collect_serve import READ_TOKEN
from privmean.cli.option_parsing import grouped


@grouped
def curve(
    bandwidth: Annotated[float, "Count reports within this distance of a point."],
    round_file: shared.RoundFile,
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Read these reports (binary or JSON lines) or tallies."),
    ] = None,
    server: Annotated[str | None, "Read the reports from this collector."] = None,
    token_file: Annotated[Path | None, f"Read a token for results (or set {READ_TOKEN})."] = None,
    at: Annotated[str | None, "Estimate at 0,0.5,1 or FROM:TO:NUMBER."] = None,
    weights: Annotated[str, "Choose the weights, as in `collect aggregate`."] = "tested",
    secret_file: shared.SecretFiles = None,
    as_json: opt.Json = False,
) -> None:
    """Estimate a curve from a round with design points."""
    import numpy as np

    from privmean.cli.secrets import tokens
    from privmean.errors import ArgumentError, PrivmeanError
    from privmean.local.aggregators.report_files import aggregate_files
    from privmean.local.clients.send import Remote
    from privmean.local.kernel_regression import curve as smooth
    from privmean.output import Output, TableRow, count, decimals, number

    try:
        round_ = shared.read_round(round_file)
        wanted = shared.points_of(at)
        if server is not None and files:
            raise ArgumentError(
                "server", server, "cannot be combined with files of reports", "use one of them"
            )
        if server is not None:
            held = tokens(READ_TOKEN, token_file)
            tally = Remote(server, held[0] if held else None).tally(round_)
        elif files:
            tally, _ = aggregate_files(round_, files, secret=shared.read_secrets(secret_file))
        else:
            raise PrivmeanError("reports are required. Give files, or --server.")
        found = smooth(
            tally, None, np.array(wanted) if wanted else None, bandwidth=bandwidth, weights=weights
        )
    except (PrivmeanError, OSError) as error:
        shared.fail(error)
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
        return
    rows = []
    for x, value, spread, n in zip(
        found.at.tolist(), found.value, found.spread, found.effective, strict=True
    ):
        cells = number(value, decimals(spread), spread), number(spread, decimals(spread), spread)
        rows.append(TableRow(f"{x:.6g}", (*cells, count(n))))
    shown = Output(
        "Curve by local reports",
        f"n = {tally.reports:,} reports; bandwidth {bandwidth:g}; weights {found.used}",
        ("estimate", "std err", "n (effective)"),
        tuple(rows),
    )
    typer.echo(shown.text())
