"""`privmean stream`: a private mean of events as they come."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privmean.cli import streamoptions as so
from privmean.cli.streamplan import plan
from privmean.errors import ArgumentError

if TYPE_CHECKING:
    from privmean.continual.keyed import MeanStreams
    from privmean.continual.stream import MeanStream

app = typer.Typer(
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    help="A private mean of events, released as they come; 'plan' compares strategies.",
)
app.command("plan")(plan)


def register(parent: typer.Typer) -> None:
    """Mount the commands as `stream` and `stream plan`."""
    parent.add_typer(app, name="stream")


@app.callback()
def stream(
    context: typer.Context,
    *,
    person: so.Person = None,
    value: so.Values = None,
    epsilon: so.Epsilon = None,
    delta: so.Delta = 0.0,
    rho: so.Rho = None,
    max_participations: Annotated[
        int | None, typer.Option(help="Most steps one person may take part in.")
    ] = None,
    min_separation: Annotated[
        int | None, typer.Option(help="Least distance between two of them.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Horizon; without one, no known end.")] = None,
    clip: Annotated[
        float | None, typer.Option(help="Clipping radius; found privately if not given.")
    ] = None,
    center: Annotated[
        list[float] | None, typer.Option(help="Centre of the region, one a value.")
    ] = None,
    bounds: Annotated[
        tuple[float, float] | None, typer.Option(help="Public limits of the one value.")
    ] = None,
    neighbors: so.Neighbors = "replace-one",
    window: so.Window = None,
    half_life: so.HalfLife = None,
    period: Annotated[
        str | None,
        typer.Option(help="A step an hour, day, week or month of --time-column; see --window."),
    ] = None,
    time_column: Annotated[
        str | None, typer.Option(help="With --period: column or key of the public time.")
    ] = None,
    persons_a_period: Annotated[
        int | None, typer.Option(help="With --period: a public guess, for the plan.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Column or key of a public group: one mean for each.")
    ] = None,
    groups: Annotated[
        int | None, typer.Option(help="With --by: a public guess of their number, for the plan.")
    ] = None,
    goal: Annotated[
        str, typer.Option(help="What matters: shown (clamped), rmse, final or times.")
    ] = "shown",
    from_step: so.FromStep = 1,
    time: so.Times = None,
    last_within: so.LastWithin = 1.75,
    release_every: Annotated[int, typer.Option(help="Release after so many arrivals.")] = 1,
    filler: Annotated[
        bool, typer.Option("--filler", help="Let time go on when nobody may take part.")
    ] = False,
    flush: Annotated[
        bool, typer.Option("--flush", help="At the end of the input, release what waits.")
    ] = False,
    first_release: Annotated[int, typer.Option(help="Show nothing before this step.")] = 1,
    clamp: Annotated[bool, typer.Option(help="Project estimates on the region.")] = True,
    level: so.Level = 0.95,
    sd: so.Sd = None,
    state: so.State = None,
    append: so.Append = False,
    replay: so.Replay = True,
    moved: so.Moved = False,
    output: so.Output = None,
    complete: so.Complete = False,
    follow: so.Follow = None,
    parts: so.Parts = None,
    kafka: so.Kafka = None,
    idle: so.Idle = None,
    ledger: so.LedgerFile = None,
    label: so.Label = None,
    input_format: so.Format = "auto",
    delimiter: so.Delimiter = ",",
    quote: so.Quote = '"',
    decimal: so.Decimal = ".",
    encoding: so.Encoding = "utf-8",
    null_word: so.NullWord = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the released path as PNG.")] = None,
    html: Annotated[Path | None, typer.Option(help="Draw it as a self-contained page.")] = None,
    quiet: so.Quiet = False,
    seed: so.Seed = None,
) -> None:
    """Read events (JSON lines, or CSV with a header), write one JSON line a release.

    With --state, run the same command on the same input after a stop: what was read is skipped,
    what was released is written again, unchanged, and the stream goes on. Ids, order and number of
    events are public, as are groups and times; the values of one person are protected, and their
    text never decides whether an event counts. A last line without a line feed is left for the next
    run.

    The state file holds raw data. Copied at any moment, it is whole; a copy is refused without
    --moved, an old one put back is refused where FILE.seen or --output tells. What cannot be
    noticed is an old snapshot of all files together: never go on from one.
    """
    if context.invoked_subcommand is not None:
        return
    from privmean.continual.feeding import Fed, FedGroups, FedMean
    from privmean.continual.keyed import MeanStreams
    from privmean.continual.stream import MeanStream

    who, values = so.named(person, value)
    if max_participations is None or min_separation is None:
        raise ArgumentError(
            "max_participations/min_separation",
            None,
            "is missing",
            "say how often a person may take part: at most K steps, at least b apart",
        )
    if (period is None) != (time_column is None):
        raise ArgumentError("period/time_column", period or time_column, "go together", "give both")
    if groups is not None and by is None:
        raise ArgumentError("groups", groups, "goes with --by", "name the column of the group")
    settings: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "rho": rho,
        "max_participations": max_participations,
        "min_separation": min_separation,
        "steps": steps,
        "dimension": len(values),
        "clip_radius": clip,
        "center": list(center) if center else 0.0,
        "bounds": bounds,
        "neighbors": neighbors,
        "goal": goal,
        "from_step": from_step,
        "times": list(time or ()),
        "release_every": release_every,
        "filler": filler,
    }
    further = {
        "last_within": last_within if last_within != 1.75 else None,
        "window": window,
        "half_life": half_life,
        "period": period,
        "persons_a_period": persons_a_period,
    }
    settings.update({name: it for name, it in further.items() if it is not None})
    public = [name for name in (by, time_column) if name is not None]
    source = so.source_of(
        (who, values, public),
        (input_format, delimiter, quote, decimal, encoding, null_word),
        complete=complete or state is None,
        follow=follow,
        parts=parts,
        kafka=kafka,
        idle=idle,
    )
    if not quiet and steps is not None and not (state is not None and state.exists()):
        typer.echo("planning: comparing strategies (once; the state file keeps it)", err=True)
    showing: dict[str, Any] = {
        "state": state,
        "moved": moved,
        "noise": so.simulated(seed),
        "clamp": clamp,
        "first_release": first_release,
        "level": level,
        "sd": sd,
    }
    running: MeanStream | MeanStreams
    if by is None:
        running = MeanStream(**showing, **settings)
        fed: Fed[Any] = FedMean(running)
    else:
        running = MeanStreams(groups=groups or 10, **showing, **settings)
        fed = FedGroups(running)
    with running:
        so.charge(running, ledger, label)
        stopped = so.serve(
            fed, source, append=append, replay=replay, flush=flush, output=output, quiet=quiet
        )
        _draw(running, plot, html, values)
    if stopped:
        raise typer.Exit(130)


def _draw(
    running: MeanStream | MeanStreams, plot: Path | None, html: Path | None, names: list[str]
) -> None:
    if plot is None and html is None:
        return
    from privmean.continual import drawing
    from privmean.continual.stream import MeanStream

    if not isinstance(running, MeanStream):
        raise ArgumentError("plot", str(plot or html), "is of one mean", "draw the releases")
    path = drawing.thin(running.releases())
    if plot is not None:
        drawing.png(path, names, plot, running.guarantee.describe())
    if html is not None:
        drawing.html(path, names, html, running.guarantee.describe())
