"""privmean demo: the main job on a made table, in one command; privmean example: tables to try."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privmean.cli.options import grouped


@grouped
def demo(
    write: Annotated[Path | None, "Write the made table to this CSV file."] = None,
) -> None:
    """Show a private mean and a planned study of a made table."""
    from privmean.api.functions import mean
    from privmean.data.table import Table
    from privmean.examples import example
    from privmean.questions.mean import Mean
    from privmean.questions.quantile import Quantile
    from privmean.study.study import Study

    table = Table(example("wages"), person="id")
    typer.echo(
        "a made table: wages of 4000 people, interviewed 1 to 12 times; no real person is in it\n"
    )
    typer.echo("$ privmean mean wages.csv --person id --value ln_wage --epsilon 1\n")
    typer.echo(str(mean(table, "ln_wage", epsilon=1.0)))
    study = Study(table, epsilon=3.0)
    study.add("level", Mean(("ln_wage",)), weight=2)
    study.add("hours", Mean(("hours",), assume=(0, 100)))
    study.add("spread", Quantile("ln_wage", (0.25, 0.5, 0.75)))
    typer.echo("\nthree questions under one budget, planned before anything is read:\n")
    typer.echo(str(study.plan(4000)))
    if write is not None:
        example("wages", write)
        typer.echo(f"\nthe table is in {write}: try `privmean study init {write} --person id`")


def write_example(
    name: Annotated[str, typer.Argument(help="Choose ratings, wages, nlswork, retail or flights.")],
    file: Annotated[Path, typer.Argument(help="Write the table to this CSV file.")],
) -> None:
    """Write an example table."""
    from privmean.examples import TABLES, example

    example(name, file)
    typer.echo(f"{file}: one row per record, people by the column `{TABLES[name]}`")
