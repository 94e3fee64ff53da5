"""Options of streams, and the plan of one.

Options that the commands of streams share, and what they come to.

`privmean stream plan`: every strategy with its error, before a record is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from privmean.api import call_options as words
from privmean.cli import options as opt
from privmean.cli.options import grouped
from privmean.errors import ArgumentError
from privmean.output import MISSING, Output, TableRow

if TYPE_CHECKING:
    from privmean.noise.simulated import SimulatedNoise
    from privmean.streams.compare_strategies import Candidate, CandidateForecast
    from privmean.streams.record_sources import Reader, Source
    from privmean.streams.run_stream import StreamAdapter
    from privmean.streams.stream_base import Ledger

LAST_WITHIN = 1.75
Level = Annotated[float, "Set the confidence level of the intervals."]
Neighbors = Annotated[str, "Use replace-one, or zero-out (values become the center)."]


@dataclass(frozen=True)
class Budgeted(words.BudgetOptions):
    """What all releases together may spend."""

    epsilon: Annotated[float | None, "Set the epsilon of all releases together."] = None


@dataclass(frozen=True)
class Columns:
    """Whose values: columns of CSV, or keys of JSON."""

    person: Annotated[str | None, "Name the column or key of the person id."] = None
    value: Annotated[
        list[str] | None, "Name a column or key of values; repeat for more.", "--value"
    ] = None

    def named(self) -> tuple[str, list[str]]:
        """The columns, refused if they are missing."""
        if self.person is None or not self.value:
            raise ArgumentError("person/value", None, "is required", "give --person and --value")
        return self.person, self.value


@dataclass(frozen=True)
class Aimed:
    """Which errors matter."""

    from_step: Annotated[int, "Ignore errors before this step (goals shown and rmse)."] = 1
    time: Annotated[list[int] | None, "Name a step of the goal times; repeat for more."] = None
    last_within: Annotated[float, "Limit the last noise to this multiple of the least."] = (
        LAST_WITHIN
    )


@dataclass(frozen=True)
class Weighted:
    """Over which steps a mean is."""

    window: Annotated[int | None, "Average the last steps, this many."] = None
    half_life: Annotated[float | None, "Halve the weights after this many steps."] = None


@dataclass(frozen=True)
class Lines:
    """How events are written."""

    input_format: Annotated[str, "Choose the input format: auto, jsonl or csv.", "--format"] = (
        "auto"
    )
    delimiter: Annotated[str, "Set the CSV delimiter."] = ","
    quote: Annotated[str, "Set the CSV quote; '' for none."] = '"'
    decimal: Annotated[str, "Set the decimal sign, '.' or ','."] = "."
    encoding: Annotated[str, "Set the encoding, such as utf-8, latin-1 or cp1252."] = "utf-8"
    null_word: Annotated[list[str] | None, "Read this text as missing; repeat for more."] = None

    def reader(self, kind: str, columns: tuple[str, list[str], list[str]]) -> Reader:
        """What reads lines of a kind. columns: person, values and further public keys."""
        from privmean.data.text_record import TextFormat
        from privmean.streams.record_sources import Reader

        missing = tuple(self.null_word or ())
        form = TextFormat(self.delimiter, self.quote, self.decimal, self.encoding, None, missing)
        person, values, public = columns
        return Reader(person, tuple(values), kind, form, tuple(public))


@dataclass(frozen=True)
class Sourced(Lines):
    """Where events come from; standard input, if nothing is said."""

    follow: Annotated[Path | None, "Read this file while it grows."] = None
    parts: Annotated[Path | None, "Read the Parquet files of this folder as they arrive."] = None
    kafka: Annotated[str | None, "Read HOST:PORT/TOPIC (requires privmean[kafka])."] = None
    idle: Annotated[float | None, "End after this many seconds without input."] = None

    def source(self, columns: tuple[str, list[str], list[str]], *, complete: bool) -> Source:
        """The one that is said. columns: person, values and further public keys."""
        from privmean import validate
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
        reader = self.reader(kind, columns)
        if self.parts is not None:
            return sources.Parts(self.parts, columns, self.idle)
        if self.follow is not None:
            return sources.GrowingFile(self.follow, reader, self.idle)
        if self.kafka is not None:
            return sources.KafkaTopic(self.kafka, reader, self.idle)
        return sources.StandardInput(reader, complete=complete)


@dataclass(frozen=True)
class Kept:
    """What a stream keeps, and where its releases go."""

    state: Annotated[Path | None, "Keep the state in this secret file, for restarts."] = None
    append: Annotated[bool, "Read only new records after a restart.", "--append"] = False
    replay: Annotated[bool, "Write all releases again after a restart."] = True
    moved: Annotated[
        bool,
        "Accept a moved state file; never use the original again.",
        "--moved",
    ] = False
    output: Annotated[Path | None, "Write releases to this file, each of them once."] = None
    complete: Annotated[
        bool, "Count a last line without a line feed (with --state).", "--complete"
    ] = False
    quiet: Annotated[bool, "Print no summary on standard error.", "--quiet"] = False

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
        from privmean.streams.run_stream import ReleaseFile

        output = None if self.output is None else ReleaseFile(self.output)
        source.resumes = source.resumes or self.append
        again = self.replay and not self.append
        done = events.run(
            fed,
            source,
            state=self.state,
            replay=again,
            flush=flush,
            output=output,
            charge=charge,
        )
        if not self.quiet:
            typer.echo(events.summary(fed, done), err=True)
        return done.stopped


@dataclass(frozen=True)
class Charged:
    """The ledger of a stream, and its noise."""

    ledger: Annotated[str | None, "Charge the whole stream once to this ledger."] = None
    label: opt.Label = None
    seed: Annotated[int | None, "Simulate the noise, for tests only; not private."] = None

    def noise(self) -> SimulatedNoise | None:
        """Noise of a seed; None for exact noise."""
        if self.seed is None:
            return None
        from privmean.noise.simulated import SimulatedNoise

        return SimulatedNoise(self.seed)

    def charging(self, running: Chargeable) -> Callable[[], None]:
        """What charges the ledger, which is there: BudgetExceededError if it holds too little."""
        if self.ledger is None:
            if self.label is not None:
                raise ArgumentError("label", self.label, "requires --ledger", "name the ledger")
            return lambda: None
        from privmean.privacy.ledger import Ledger as Book

        book = Book.open(self.ledger)
        return lambda: running.charge(book, label=self.label or "")


class Chargeable(Protocol):
    """A stream that can be charged to a ledger."""

    def charge(self, ledger: Ledger, *, label: str = ...) -> None: ...


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
    weighted: Weighted,
    as_json: opt.Json = False,
) -> None:
    """List strategies with their error, best first, without any data.

    rmse is sensitivity times the normalized Frobenius norm (noise 1 per unit of sensitivity). With
    a budget, further columns show errors in the unit of the values: of the shown (clamped)
    estimate, of the noise (l2) and at the last step. The last column is the first step from which
    on the noise stays below a tenth of the region.
    """
    import json

    from privmean import validate
    from privmean.errors import ArgumentError
    from privmean.privacy.budget import REPLACE_ONE, ZERO_OUT, Budget
    from privmean.streams.compare_strategies import CandidateForecast, survey
    from privmean.streams.strategy_error import AveragingTarget, ClampedError

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
    target = AveragingTarget.of(weighted.window, weighted.half_life)
    usual = "times" if aimed.time else "rmse" if unit is None else "shown"
    found = survey(
        max_participations=max_participations,
        min_separation=min_separation,
        steps=steps,
        goal=usual if goal is None else goal,
        from_step=aimed.from_step,
        times=aimed.time or (),
        shown=None if unit is None else ClampedError(unit, dimension, aimed.last_within),
        target=target,
        watch=_progress(),
    )
    prospects = None
    if unit is not None:
        prospects = [
            CandidateForecast.of(item, steps, unit, clip, dimension, target) for item in found
        ]
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
        for row, item in zip(rows, prospects or (), strict=False):
            row.update(item._asdict())
        typer.echo(json.dumps({**facts, "strategies": rows}))
    else:
        typer.echo(_table(steps, found, prospects).text())


def _progress() -> Callable[[str], None] | None:
    """Shows on a terminal which strategy is being evaluated; wiped by the next one."""
    import sys

    if not sys.stderr.isatty():
        return None
    return lambda name: typer.echo(f"\r\x1b[K{name} ...\r", err=True, nl=False)


def _table(steps: int, found: list[Candidate], prospects: list[CandidateForecast] | None) -> Output:
    head = ["rmse", "goal", "final", "sensitivity", "numbers kept"]
    head += [f"at {step}" for step, _ in found[0].at]
    head += [] if prospects is None else ["error shown", "error rmse", "error final", "below 10%"]
    rows = []
    for place, item in enumerate(found):
        cells = [f"{x:.6f}" for x in (item.rmse, item.rmse_goal, item.rmse_final)]
        cells += [f"{item.sensitivity:.4f}", f"{item.state:,}"]
        cells += [f"{value:.6f}" for _, value in item.at]
        if prospects is not None:
            shown, noise, last, small = prospects[place]
            cells += [f"{shown:.4g}", f"{noise:.4g}", f"{last:.4g}", str(small or MISSING)]
        rows.append(TableRow(item.strategy.name, tuple(cells)))
    return Output(
        "Stream plan: strategies, best first",
        f"{steps:,} steps; planning charges nothing",
        tuple(head),
        tuple(rows),
        lines=("below 10%: the first step with noise below a tenth of the region.",)
        if prospects is not None
        else (),
    )
