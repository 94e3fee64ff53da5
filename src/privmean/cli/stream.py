"""Commands of streams.

`privmean stream`: a private mean of events as they come.

`privmean withhold`: a private mean of events without separation between a person's records.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privmean.cli import options as opt
from privmean.cli import stream_options as so
from privmean.cli.options import grouped, pair
from privmean.cli.stream_options import plan
from privmean.errors import ArgumentError, PrivmeanError
from privmean.storage.witness import os_error_text

if TYPE_CHECKING:
    from privmean.streams.mean_stream import GroupMeanStream, MeanStream

app = typer.Typer(
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    help="Release running means of a stream of records.",
)
app.command("plan")(plan)


@dataclass(frozen=True)
class Participating:
    """How often a person takes part, and for how long the stream runs."""

    max_participations: Annotated[
        int | None, "Let each person take part in at most this many steps."
    ] = None
    min_separation: Annotated[
        int | None, "Set the least distance between two steps of a person."
    ] = None
    steps: Annotated[int | None, "Set the number of steps; without it there is no end."] = None
    neighbors: so.Neighbors = "replace-one"


@dataclass(frozen=True)
class Region:
    """Where values are clipped to."""

    clip: Annotated[float | None, "Set the clipping radius; by default found privately."] = None
    center: Annotated[list[float] | None, "Set the center of the region, one per value."] = None
    bounds: Annotated[
        tuple[float, float] | None, "Give public bounds of the value, lower then upper."
    ] = None

    def settings(self, dimension: int) -> dict[str, Any]:
        """The same as a plan has it."""
        return {
            "dimension": dimension,
            "clip_radius": self.clip,
            "center": list(self.center) if self.center else 0.0,
            "bounds": self.bounds,
        }


@dataclass(frozen=True)
class Timed:
    """Steps by the calendar."""

    period: Annotated[str | None, "Make one step per hour, day, week or month."] = None
    time_column: Annotated[str | None, "Name the column or key of the public time."] = None
    n_per_period: Annotated[int | None, "Guess the people per period, for the plan."] = None

    def columns(self) -> list[str]:
        """The public column of times, if there is one."""
        if (self.period is None) != (self.time_column is None):
            given = self.period or self.time_column
            raise ArgumentError(
                "period/time_column", given, "requires both a period and a time column", "give both"
            )
        return [] if self.time_column is None else [self.time_column]


@dataclass(frozen=True)
class Grouped:
    """A mean for each group."""

    by: Annotated[str | None, "Name a public group column; release one mean per group."] = None
    groups: Annotated[int | None, "Guess the number of groups, for the plan."] = None

    def columns(self) -> list[str]:
        """The public column of groups, if there is one."""
        if self.groups is not None and self.by is None:
            raise ArgumentError("groups", self.groups, "requires --by", "name the group column")
        return [] if self.by is None else [self.by]

    def number(self) -> int:
        """How many groups are guessed."""
        return 10 if self.groups is None else self.groups


@dataclass(frozen=True)
class Arriving:
    """When there is a release."""

    release_every: Annotated[int, "Release after this many arrivals."] = 1
    filler: Annotated[bool, "Continue when no person may take part.", "--filler"] = False


@dataclass(frozen=True)
class Showing:
    """What of a release is shown."""

    first_release: Annotated[int, "Show nothing before this step."] = 1
    clamp: Annotated[bool, "Project the estimates on the region."] = True
    level: so.Level = 0.95
    sd: Annotated[float | None, "Limit the standard deviation of a row (public)."] = None
    icc: Annotated[float | None, "Limit the correlation of two rows of a person."] = None


@dataclass(frozen=True)
class Pictures:
    """Pictures of the releases."""

    plot: Annotated[Path | None, "Draw the released path to this PNG file."] = None
    html: Annotated[Path | None, "Draw the released path to this HTML page."] = None

    def ready(self, by: str | None) -> None:
        """Refuse what could not be drawn, before anything is read or spent."""
        for name, path in (("--plot", self.plot), ("--html", self.html)):
            if path is None:
                continue
            if by is not None:
                raise ArgumentError(
                    name, str(path), "is only for a single mean", "remove it, or remove --by"
                )
            opt.require_place(name, path)
        if self.plot is not None:
            opt.require_matplotlib(str(self.plot))

    def write(self, running: MeanStream | GroupMeanStream, names: list[str]) -> None:
        """Write those that are wanted."""
        from privmean.streams import stream_charts as drawing
        from privmean.streams.mean_stream import MeanStream

        if (self.plot is None and self.html is None) or not isinstance(running, MeanStream):
            return
        path = drawing.thin(running.releases())
        try:
            if self.plot is not None:
                drawing.png(path, names, self.plot, running.guarantee.describe())
            if self.html is not None:
                drawing.html(path, names, self.html, running.guarantee.describe())
        except OSError as problem:
            raise PrivmeanError(
                f"{problem.filename}: {os_error_text(problem)}. The releases are written and safe."
            ) from None


@app.callback()
@grouped
def stream(
    context: typer.Context,
    *,
    columns: so.Columns,
    budget: so.Budgeted,
    taking_part: Participating,
    region: Region,
    weighted: so.Weighted,
    timed: Timed,
    by_group: Grouped,
    goal: Annotated[str, "Minimize the error shown, rmse, final or at times."] = "shown",
    aimed: so.Aimed,
    arriving: Arriving,
    flush: Annotated[
        bool, "Release the waiting records at the end of the input.", "--flush"
    ] = False,
    showing: Showing,
    kept: so.Kept,
    sourced: so.Sourced,
    charged: so.Charged,
    pictures: Pictures,
) -> None:
    """Read events (JSON lines, or CSV with a header), write one JSON line a release.

    With --state, run the same command on the same input after a stop: what was read is skipped,
    what was released is written again, unchanged, and the stream goes on. Ids, order and number of
    events are public, as are groups and times; the values of one person are protected, and their
    text never decides whether an event counts. A last line without a line feed is left for the next
    run.

    The state file holds raw data. An old one put back is refused: a note outside of its folder
    tells how far it went. Without that note, as on another machine, it is refused without --moved.
    What cannot be noticed is an old snapshot of the whole machine: never go on from one.
    """
    if context.invoked_subcommand is not None:
        return
    from privmean.streams.mean_stream import GroupMeanStream, MeanStream
    from privmean.streams.run_stream import GroupAdapter, MeanAdapter, StreamAdapter

    kept.ready()
    pictures.ready(by_group.by)
    who, values = columns.named()
    if taking_part.max_participations is None or taking_part.min_separation is None:
        raise ArgumentError(
            "max_participations/min_separation",
            None,
            "is required",
            "give the largest number of steps per person, or the least distance between them",
        )
    public = [*by_group.columns(), *timed.columns()]
    settings: dict[str, Any] = {
        **asdict(budget),
        **asdict(taking_part),
        **region.settings(len(values)),
        **asdict(arriving),
        "goal": goal,
        "from_step": aimed.from_step,
        "times": list(aimed.time or ()),
    }
    further = {
        "last_within": aimed.last_within if aimed.last_within != so.LAST_WITHIN else None,
        **asdict(weighted),
        "period": timed.period,
        "n_per_period": timed.n_per_period,
    }
    settings.update({name: it for name, it in further.items() if it is not None})
    source = sourced.source((who, values, public), complete=kept.whole)
    planned = kept.state is not None and kept.state.exists()
    if not kept.quiet and taking_part.steps is not None and not planned:
        typer.echo("planning: comparing strategies (once; the state file keeps it)", err=True)
    ours: dict[str, Any] = {
        "state": kept.state, "moved": kept.moved, "noise": charged.noise(), **asdict(showing)
    }  # fmt: skip
    running: MeanStream | GroupMeanStream
    if by_group.by is None:
        running = MeanStream(**ours, **settings)
        fed: StreamAdapter = MeanAdapter(running)
    else:
        running = GroupMeanStream(groups=by_group.number(), **ours, **settings)
        fed = GroupAdapter(running)
    with running:
        stopped = kept.serve(fed, source, charged.charging(running), flush=flush)
        pictures.write(running, values)
    if stopped:
        raise typer.Exit(130)


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
