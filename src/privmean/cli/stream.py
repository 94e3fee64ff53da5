"""Commands of streams: private means of events as they come, and the plan of a stream.

`privmean stream` bounds how often a person takes part; `privmean withhold` does without, and
`privmean stream plan` lists every strategy with its error before a record is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privmean import validate
from privmean.api import call_options as words
from privmean.cli import options as opt
from privmean.cli.options import grouped, pair
from privmean.errors import ArgumentError, PrivmeanError
from privmean.output import MISSING, Output, TableRow
from privmean.storage.witness import os_error_text

if TYPE_CHECKING:
    from privmean.noise.noise_source import SimulatedNoise
    from privmean.streams.compare_strategies import Candidate
    from privmean.streams.mean_stream import GroupMeanStream, MeanStream
    from privmean.streams.record_sources import Source
    from privmean.streams.run_stream import StreamAdapter
    from privmean.streams.stream_base import StreamBase

app = typer.Typer(
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    help="Release running means of a stream of records.",
)
LAST_WITHIN = 1.75
Level = Annotated[float, "Set the confidence level of the intervals."]
Neighbors = Annotated[str, "Use replace-one, or zero-out (values become the center)."]


# --- options that the commands share --------------------------------------------------------------
@dataclass(frozen=True)
class Budgeted(words.BudgetOptions):
    """What all releases together may spend."""

    epsilon: Annotated[float | None, "Set the epsilon of all releases together."] = None


@dataclass(frozen=True)
class Aimed:
    """Which mean is estimated, and which of its errors matter."""

    from_step: Annotated[int, "Ignore errors before this step (goals shown and rmse)."] = 1
    time: Annotated[list[int] | None, "Name a step of the goal times; repeat for more."] = None
    last_within: Annotated[float, "Limit the last noise to this multiple of the least."] = (
        LAST_WITHIN
    )
    window: Annotated[int | None, "Average the last steps, this many."] = None
    half_life: Annotated[float | None, "Halve the weights after this many steps."] = None


@dataclass(frozen=True)
class Sourced:
    """Where events come from (standard input, if nothing is said), how they are written, and what
    is read of them: columns of CSV, or keys of JSON."""

    person: Annotated[str | None, "Name the column or key of the person id."] = None
    value: Annotated[
        list[str] | None, "Name a column or key of values; repeat for more.", "--value"
    ] = None
    input_format: Annotated[str, "Choose the input format: auto, jsonl or csv.", "--format"] = (
        "auto"
    )
    delimiter: Annotated[str, "Set the CSV delimiter."] = ","
    quote: Annotated[str, "Set the CSV quote; '' for none."] = '"'
    decimal: Annotated[str, "Set the decimal sign, '.' or ','."] = "."
    encoding: Annotated[str, "Set the encoding, such as utf-8, latin-1 or cp1252."] = "utf-8"
    na_values: Annotated[
        list[str] | None, "Read this text as missing; repeat for more.", "--na-value"
    ] = None
    follow: Annotated[Path | None, "Read this file while it grows."] = None
    parts: Annotated[Path | None, "Read the Parquet files of this folder as they arrive."] = None
    kafka: Annotated[str | None, "Read HOST:PORT/TOPIC (requires the extra kafka)."] = None
    idle: Annotated[float | None, "End after this many seconds without input."] = None

    def values(self) -> list[str]:
        """The columns of values, refused if they or the person are missing."""
        if self.person is None or not self.value:
            raise ArgumentError("person/value", None, "is required", "give --person and --value")
        return self.value

    def source(self, public: list[str], *, complete: bool) -> Source:
        """The one that is said. public: further public keys."""
        from privmean.data.text_record import TextFormat
        from privmean.streams import record_sources as sources

        grow = {"follow": self.follow, "parts": self.parts, "kafka": self.kafka}
        given = [name for name, said in grow.items() if said is not None]
        if len(given) > 1:
            raise ArgumentError(
                given[1], given[0], "cannot be combined with the other source", "use one of them"
            )
        if self.idle is not None:
            validate.nonnegative("idle", self.idle)
            if not given:
                raise ArgumentError("idle", self.idle, "requires a source that grows", "remove it")
        kind = self.input_format
        if self.kafka is not None:
            if kind not in ("auto", "jsonl"):
                raise ArgumentError("format", kind, "is not a format of messages", "send JSON")
            kind = "jsonl"
        missing = tuple(self.na_values or ())
        form = TextFormat(self.delimiter, self.quote, self.decimal, self.encoding, None, missing)
        values, person = self.values(), str(self.person)
        reader = sources.Reader(person, tuple(values), kind, form, tuple(public))
        if self.parts is not None:
            return sources.Parts(self.parts, (person, values, public), self.idle)
        if self.follow is not None:
            return sources.GrowingFile(self.follow, reader, self.idle)
        if self.kafka is not None:
            return sources.KafkaTopic(self.kafka, reader, self.idle)
        return sources.StandardInput(reader, complete=complete)


@dataclass(frozen=True)
class Kept:
    """What a stream keeps and charges, and where its releases go."""

    state: Annotated[Path | None, "Keep the state in this secret file, for restarts."] = None
    append: Annotated[bool, "Read only new records after a restart.", "--append"] = False
    replay: Annotated[bool, "Write all releases again after a restart."] = True
    moved: Annotated[
        bool, "Accept a moved state file; never use the original again.", "--moved"
    ] = False
    output: Annotated[Path | None, "Write releases to this file, each of them once."] = None
    complete: Annotated[
        bool, "Count a last line without a line feed (with --state).", "--complete"
    ] = False
    quiet: Annotated[bool, "Print no summary on standard error.", "--quiet"] = False
    ledger: Annotated[str | None, "Charge the whole stream once to this ledger."] = None
    label: opt.Label = None
    analyst: opt.Analyst = ""
    seed: Annotated[int | None, "Simulate the noise, for tests only; not private."] = None

    @property
    def whole(self) -> bool:
        """Whether a last line without a line feed counts."""
        return self.complete or self.state is None

    def ready(self) -> None:
        """Refuse what only a state gives a meaning, and an output that could not be written."""
        alone = {
            "append": self.append,
            "no-replay": not self.replay,
            "moved": self.moved,
            "complete": self.complete,
        }
        for name, said in alone.items():
            if said and self.state is None:
                raise ArgumentError(f"--{name}", said, "requires --state", "name the state file")
        if self.output is not None:
            opt.require_place("--output", self.output)

    def noise(self) -> SimulatedNoise | None:
        """Noise of a seed; None for exact noise."""
        if self.seed is None:
            return None
        from privmean.noise.noise_source import SimulatedNoise

        return SimulatedNoise(self.seed)

    def charging(self, running: StreamBase[Any, Any]) -> Callable[[], None]:
        """What charges the ledger, which is there: BudgetExceededError if it holds too little."""
        if self.ledger is None:
            for name, given in {"label": self.label, "analyst": self.analyst or None}.items():
                if given is not None:
                    raise ArgumentError(name, given, "requires --ledger", "name the ledger")
            return lambda: None
        from privmean.privacy.ledger import Ledger as Book

        book = Book.open(self.ledger)
        return lambda: running.charge(book, label=self.label or "", analyst=self.analyst)

    def serve(
        self,
        fed: StreamAdapter,
        source: Source,
        charge: Callable[[], None],
        *,
        flush: bool = False,
    ) -> bool:
        """Run a stream to the end of its source; whether a signal stopped it. charge: called before
        the first event."""
        from privmean.streams import run_stream as events

        source.resumes = source.resumes or self.append
        done = events.run(
            fed,
            source,
            state=self.state,
            replay=self.replay and not self.append,
            flush=flush,
            output=None if self.output is None else events.ReleaseFile(self.output),
            charge=charge,
        )
        if not self.quiet:
            typer.echo(events.summary(fed, done), err=True)
        return done.stopped


# --- the commands -------------------------------------------------------------------------------
@dataclass(frozen=True)
class Planned:
    """How often a person takes part, for how long the stream runs, where values are clipped to."""

    max_participations: Annotated[
        int | None, "Let each person take part in at most this many steps."
    ] = None
    min_separation: Annotated[
        int | None, "Set the least distance between two steps of a person."
    ] = None
    steps: Annotated[int | None, "Set the number of steps; without it there is no end."] = None
    neighbors: Neighbors = "replace-one"
    clip: Annotated[float | None, "Set the clipping radius; by default found privately."] = None
    center: Annotated[list[float] | None, "Set the center of the region, one per value."] = None
    bounds: Annotated[
        tuple[float, float] | None, "Give public bounds of the value, lower then upper."
    ] = None
    release_every: Annotated[int, "Release after this many arrivals."] = 1
    filler: Annotated[bool, "Continue when no person may take part.", "--filler"] = False

    def settings(self, dimension: int) -> dict[str, Any]:
        """The same as a plan has it."""
        if self.max_participations is None or self.min_separation is None:
            raise ArgumentError(
                "max_participations/min_separation",
                None,
                "is required",
                "give the largest number of steps per person, or the least distance between them",
            )
        center = list(self.center) if self.center else 0.0
        said = {**asdict(self), "dimension": dimension, "center": center}
        return {"clip_radius": said.pop("clip"), **said}


@dataclass(frozen=True)
class Divided:
    """Steps by the calendar, and a mean for each group."""

    period: Annotated[str | None, "Make one step per hour, day, week or month."] = None
    time_column: Annotated[str | None, "Name the column or key of the public time."] = None
    n_per_period: Annotated[int | None, "Guess the people per period, for the plan."] = None
    by: Annotated[str | None, "Name a public group column; release one mean per group."] = None
    groups: Annotated[int | None, "Guess the number of groups, for the plan."] = None

    def columns(self) -> list[str]:
        """The public columns of groups and times, as far as there are some."""
        if self.groups is not None and self.by is None:
            raise ArgumentError("groups", self.groups, "requires --by", "name the group column")
        if (self.period is None) != (self.time_column is None):
            given = self.period or self.time_column
            raise ArgumentError(
                "period/time_column", given, "requires both a period and a time column", "give both"
            )
        return [item for item in (self.by, self.time_column) if item is not None]


@dataclass(frozen=True)
class Showing:
    """What of a release is shown."""

    first_release: Annotated[int, "Show nothing before this step."] = 1
    clamp: Annotated[bool, "Project the estimates on the region."] = True
    level: Level = 0.95
    sd: Annotated[float | None, "Limit the standard deviation of a row (public)."] = None
    icc: Annotated[float | None, "Limit the correlation of two rows of a person."] = None


@app.callback()
@grouped
def stream(
    context: typer.Context,
    *,
    budget: Budgeted,
    planned: Planned,
    divided: Divided,
    goal: Annotated[str, "Minimize the error shown, rmse, final or at times."] = "shown",
    aimed: Aimed,
    flush: Annotated[
        bool, "Release the waiting records at the end of the input.", "--flush"
    ] = False,
    showing: Showing,
    kept: Kept,
    sourced: Sourced,
    html: Annotated[Path | None, "Draw the released path to this HTML page."] = None,
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
    from privmean.streams.run_stream import GroupAdapter, MeanAdapter

    kept.ready()
    if html is not None:
        if divided.by is not None:
            raise ArgumentError(
                "--html", str(html), "is only for a single mean", "remove it, or remove --by"
            )
        opt.require_place("--html", html)
    values = sourced.values()
    given = planned.settings(len(values))
    public = divided.columns()
    settings: dict[str, Any] = {
        **asdict(budget),
        **given,
        "goal": goal,
        "from_step": aimed.from_step,
        "times": list(aimed.time or ()),
    }
    further = {
        "last_within": aimed.last_within if aimed.last_within != LAST_WITHIN else None,
        "window": aimed.window,
        "half_life": aimed.half_life,
        "period": divided.period,
        "n_per_period": divided.n_per_period,
    }
    settings.update({name: it for name, it in further.items() if it is not None})
    source = sourced.source(public, complete=kept.whole)
    found = kept.state is not None and kept.state.exists()
    if not kept.quiet and planned.steps is not None and not found:
        typer.echo("planning: comparing strategies (once; the state file keeps it)", err=True)
    ours: dict[str, Any] = {
        "state": kept.state, "moved": kept.moved, "noise": kept.noise(), **asdict(showing)
    }  # fmt: skip
    running: MeanStream | GroupMeanStream
    if divided.by is None:
        running = MeanStream(**ours, **settings)
        fed: StreamAdapter = MeanAdapter(running)
    else:
        number = 10 if divided.groups is None else divided.groups
        running = GroupMeanStream(groups=number, **ours, **settings)
        fed = GroupAdapter(running)
    with running:
        stopped = kept.serve(fed, source, kept.charging(running), flush=flush)
        if html is not None and isinstance(running, MeanStream):
            _draw(html, running, values)
    if stopped:
        raise typer.Exit(130)


def _draw(place: Path, running: MeanStream, names: list[str]) -> None:
    """Draw the released path, once all releases are written."""
    from privmean.streams import run_stream as drawing

    path = drawing.thin(running.releases())
    try:
        drawing.html(path, names, place, running.guarantee.describe())
    except OSError as problem:
        raise PrivmeanError(
            f"{problem.filename}: {os_error_text(problem)}. The releases are written and safe."
        ) from None


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
    level: Level = 0.95


@grouped
def withhold(
    *,
    said: Withheld,
    budget: Budgeted,
    kept: Kept,
    sourced: Sourced,
) -> None:
    """Release means of a stream by the withhold-release method.

    The records of a person are withheld until the block 1, 2, 3-4, 5-8, ... is complete, and block
    averages are released. Needs no separation between the records of one person; sources, states
    and restarts are those of `privmean stream`.
    """
    from privmean.streams.run_stream import WithholdAdapter
    from privmean.streams.withhold_release import WithholdRelease

    kept.ready()
    values = sourced.values()
    if said.max_records is None or not said.bounds:
        raise ArgumentError(
            "max_records/bounds", None, "is required", "give --max-records and --bounds LOW:HIGH"
        )
    pairs = [pair("bounds", text) for text in said.bounds]
    if len(pairs) not in (1, len(values)):
        raise ArgumentError(
            "bounds", said.bounds, f"must be {len(values)}", "give one, or one per column"
        )
    source = sourced.source([], complete=kept.whole)
    running = WithholdRelease(
        state=kept.state,
        moved=kept.moved,
        noise=kept.noise(),
        max_records=said.max_records,
        bounds=pairs if len(pairs) == len(values) else pairs * len(values),
        persons=said.n,
        sd=said.spread,
        late=said.late,
        level=said.level,
        **asdict(budget),
    )
    with running:
        stopped = kept.serve(WithholdAdapter(running), source, kept.charging(running))
    if stopped:
        raise typer.Exit(130)


@app.command()
@grouped
def plan(
    *,
    steps: Annotated[int, "Set the number of steps."],
    max_participations: Annotated[int, "Let each person take part in at most this many steps."],
    min_separation: Annotated[int, "Set the least distance between two steps of a person."],
    dimension: Annotated[int, "Set the number of values per record."] = 1,
    budget: Budgeted,
    clip: Annotated[float, "Set the clipping radius."] = 1.0,
    neighbors: Neighbors = "replace-one",
    goal: Annotated[str | None, "Minimize the error shown, rmse, final or at times."] = None,
    aimed: Aimed,
    as_json: opt.Json = False,
) -> None:
    """List strategies with their error, best first, without any data.

    rmse is sensitivity times the normalized Frobenius norm (noise 1 per unit of sensitivity). With
    a budget, further columns show errors in the unit of the values: of the shown (clamped)
    estimate, of the noise (l2) and at the last step. The last column is the first step from which
    on the noise stays below a tenth of the region.
    """
    from privmean.privacy.budget import REPLACE_ONE, ZERO_OUT, Budget
    from privmean.streams.compare_strategies import StreamForecast, candidates, norms_of
    from privmean.streams.strategy_error import AveragingTarget, ClampedError, ErrorGoal
    from privmean.streams.toeplitz_matrices import LONGEST, Participation

    validate.whole("dimension", dimension, least=1)
    validate.positive("clip", clip)
    validate.choice("neighbors", neighbors, [REPLACE_ONE, ZERO_OUT])
    movement = 1 if neighbors == ZERO_OUT else 2
    unit = None
    if budget.epsilon is not None or budget.rho is not None:
        mu = Budget(**asdict(budget)).gaussian_mu()
        if not mu:
            raise ArgumentError(
                "delta",
                budget.delta,
                "must be above 0, because a stream uses Gaussian noise",
                "give delta > 0 or rho",
            )
        unit = movement / mu
    elif budget.delta:
        raise ArgumentError("delta", budget.delta, "requires epsilon", "give epsilon, or remove it")
    target = AveragingTarget.of(aimed.window, aimed.half_life)
    usual = "times" if aimed.time else "rmse" if unit is None else "shown"
    found = candidates(
        Participation(max_participations, min_separation),
        validate.whole("steps", steps, least=1, most=LONGEST),
        ErrorGoal.of(
            usual if goal is None else goal,
            from_step=aimed.from_step,
            times=aimed.time or (),
            shown=None if unit is None else ClampedError(unit, dimension, aimed.last_within),
        ),
        target=target,
        watch=_progress(),
    )
    prospects: list[dict[str, Any]] = []
    if unit is not None:
        scale = unit * clip * dimension**0.5
        for item in found:
            sds = unit * clip * item.sensitivity * norms_of(item.strategy, steps, target)
            seen = StreamForecast.of(sds, clip, dimension)
            prospects.append(
                {
                    "error_shown": seen.shown_rmse,
                    "error_rmse": scale * item.rmse,
                    "error_final": scale * item.rmse_final,
                    "small_from": seen.small_from,
                }
            )
    if as_json:
        facts = {
            "steps": steps,
            "max_participations": max_participations,
            "min_separation": min_separation,
            "dimension": dimension,
            "target": target.describe(),
            "goal": usual if goal is None else goal,
            "noise_unit": None if unit is None else unit * clip * dimension**0.5,
        }
        rows = [item.to_dict() for item in found]
        for row, forecast in zip(rows, prospects, strict=False):
            row.update(forecast)
        typer.echo(json.dumps({**facts, "strategies": rows}))
    else:
        typer.echo(_table(steps, found, prospects).text())


def _progress() -> Callable[[str], None] | None:
    """Shows on a terminal which strategy is being evaluated; wiped by the next one."""
    import sys

    if not sys.stderr.isatty():
        return None
    return lambda name: typer.echo(f"\r\x1b[K{name} ...\r", err=True, nl=False)


def _table(steps: int, found: list[Candidate], prospects: list[dict[str, Any]]) -> Output:
    head = ["rmse", "goal", "final", "sensitivity", "numbers kept"]
    head += [f"at {step}" for step, _ in found[0].at]
    if prospects:
        head += ["error shown", "error rmse", "error final", "below 10%"]
    rows = []
    for place, item in enumerate(found):
        cells = [f"{x:.6f}" for x in (item.rmse, item.rmse_goal, item.rmse_final)]
        cells += [f"{item.sensitivity:.4f}", f"{item.state:,}"]
        cells += [f"{value:.6f}" for _, value in item.at]
        if prospects:
            shown, noise, last, small = prospects[place].values()
            cells += [f"{shown:.4g}", f"{noise:.4g}", f"{last:.4g}", str(small or MISSING)]
        rows.append(TableRow(item.strategy.name, tuple(cells)))
    return Output(
        "Stream plan: strategies, best first",
        f"{steps:,} steps; planning charges nothing",
        tuple(head),
        tuple(rows),
        lines=("below 10%: the first step with noise below a tenth of the region.",)
        if prospects
        else (),
    )
