"""Options that the commands of streams share, and what they come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from privmean.api import option_groups as words
from privmean.cli import options as opt
from privmean.errors import ArgumentError

if TYPE_CHECKING:
    from privmean.noise.simulated import SimulatedNoise
    from privmean.streams.charge_stream import Ledger
    from privmean.streams.command_adapters import StreamAdapter
    from privmean.streams.record_lines import Reader
    from privmean.streams.record_sources import Source

LAST_WITHIN = 1.75
Level = Annotated[float, "Level of the intervals."]
Neighbors = Annotated[str, "replace-one, or zero-out (values become centre)."]


@dataclass(frozen=True)
class Budgeted(words.BudgetOptions):
    """What all releases together may spend."""

    epsilon: Annotated[float | None, "Budget of all releases together."] = None


@dataclass(frozen=True)
class Columns:
    """Whose values: columns of CSV, or keys of JSON."""

    person: Annotated[str | None, "Column or key of the person's id."] = None
    value: Annotated[list[str] | None, "Column or key of a value; repeat for more.", "--value"] = (
        None
    )

    def named(self) -> tuple[str, list[str]]:
        """The columns, refused if they are missing."""
        if self.person is None or not self.value:
            raise ArgumentError("person/value", None, "is required", "give --person and --value")
        return self.person, self.value


@dataclass(frozen=True)
class Aimed:
    """Which errors matter."""

    from_step: Annotated[int, "With shown or rmse: the first step that matters."] = 1
    time: Annotated[list[int] | None, "With goal times: such a step."] = None
    last_within: Annotated[
        float, "With shown: the last step's noise, at most so many times the least."
    ] = LAST_WITHIN


@dataclass(frozen=True)
class Weighted:
    """Over which steps a mean is."""

    window: Annotated[int | None, "Mean of the last so many steps."] = None
    half_life: Annotated[float | None, "Decayed mean: weights halve every so many steps."] = None


@dataclass(frozen=True)
class Lines:
    """How events are written."""

    input_format: Annotated[str, "auto, jsonl or csv.", "--format"] = "auto"
    delimiter: Annotated[str, "Of CSV."] = ","
    quote: Annotated[str, "Of CSV; '' if quotes mean nothing."] = '"'
    decimal: Annotated[str, "The decimal sign, '.' or ','."] = "."
    encoding: Annotated[str, "utf-8, latin-1, cp1252, ..."] = "utf-8"
    null_word: Annotated[list[str] | None, "A text that means missing; repeat for more."] = None

    def reader(self, kind: str, columns: tuple[str, list[str], list[str]]) -> Reader:
        """What reads lines of a kind. columns: person, values and further public keys."""
        from privmean.data.text_format import TextFormat
        from privmean.streams.record_lines import Reader

        missing = tuple(self.null_word or ())
        form = TextFormat(self.delimiter, self.quote, self.decimal, self.encoding, None, missing)
        person, values, public = columns
        return Reader(person, tuple(values), kind, form, tuple(public))


@dataclass(frozen=True)
class Sourced(Lines):
    """Where events come from; standard input, if nothing is said."""

    follow: Annotated[Path | None, "Read this file instead, and go on as it grows."] = None
    parts: Annotated[
        Path | None, "Read Parquet files of this folder instead, in the order they arrive."
    ] = None
    kafka: Annotated[str | None, "Read HOST:PORT/TOPIC instead (needs the extra kafka)."] = None
    idle: Annotated[
        float | None, "With --follow, --parts, --kafka: end after so many quiet seconds."
    ] = None

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

    state: Annotated[Path | None, "State file (secret): a restart then loses nothing."] = None
    append: Annotated[bool, "After a restart, input holds new events only.", "--append"] = False
    replay: Annotated[bool, "After a restart, write all releases again, from the first."] = True
    moved: Annotated[
        bool,
        "The state file is a copy: the newest, and its original is never used again.",
        "--moved",
    ] = False
    output: Annotated[
        Path | None, "Write releases to this file, each once, instead of standard output."
    ] = None
    complete: Annotated[
        bool, "With --state: a last line without a line feed counts.", "--complete"
    ] = False
    quiet: Annotated[bool, "No summary on standard error.", "--quiet"] = False

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
        fed: StreamAdapter[Any],
        source: Source,
        charge: Callable[[], None],
        *,
        flush: bool = False,
    ) -> bool:
        """Run a stream to the end of its source; whether a signal stopped it. charge: called before
        the first event."""
        from privmean.streams import run_stream as events
        from privmean.streams.release_file import ReleaseFile

        output = None if self.output is None else ReleaseFile(self.output)
        source.resumes = source.resumes or self.append
        again = self.replay and not self.append
        done = events.run(fed, source, replay=again, flush=flush, output=output, charge=charge)
        if not self.quiet:
            typer.echo(events.summary(fed, done), err=True)
        return done.stopped


@dataclass(frozen=True)
class Charged:
    """The ledger of a stream, and its noise."""

    ledger: Annotated[str | None, "Ledger that is charged once for the whole stream."] = None
    label: opt.Label = None
    seed: Annotated[int | None, "SIMULATED noise, not private: for tests and studies."] = None

    def noise(self) -> SimulatedNoise | None:
        """Noise of a seed; None for exact noise."""
        if self.seed is None:
            return None
        from privmean.noise.simulated import SimulatedNoise

        return SimulatedNoise(self.seed)

    def charging(self, running: Chargeable) -> Callable[[], None]:
        """What charges the ledger, which is there: BudgetExceeded if it holds too little."""
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
