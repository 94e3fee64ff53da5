"""Options that the commands of streams share, and what they come to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from privmean.errors import ArgumentError

if TYPE_CHECKING:
    from privmean.continual.charging import Ledger
    from privmean.continual.feeding import Fed
    from privmean.continual.sources import Source
    from privmean.noise.simulated import SimulatedNoise

Person = Annotated[str | None, typer.Option(help="Column or key of the person's id.")]
Values = Annotated[
    list[str] | None, typer.Option("--value", help="Column or key of a value; repeat for more.")
]
Epsilon = Annotated[float | None, typer.Option(help="Budget of all releases together.")]
Delta = Annotated[float, typer.Option(help="Goes with --epsilon, such as 1e-6.")]
Rho = Annotated[float | None, typer.Option(help="zCDP budget instead of epsilon and delta.")]
Neighbors = Annotated[str, typer.Option(help="replace-one, or zero-out (values become centre).")]
FromStep = Annotated[int, typer.Option(help="With shown or rmse: the first step that matters.")]
Times = Annotated[list[int] | None, typer.Option("--time", help="With goal times: such a step.")]
LastWithin = Annotated[
    float,
    typer.Option(help="With shown: the last step's noise, at most so many times the least."),
]
Window = Annotated[int | None, typer.Option(help="Mean of the last so many steps.")]
HalfLife = Annotated[
    float | None, typer.Option(help="Decayed mean: weights halve every so many steps.")
]
Level = Annotated[float, typer.Option(help="Level of the intervals.")]
Sd = Annotated[
    float | None,
    typer.Option(help="Public standard deviation of records, for the population interval."),
]
State = Annotated[
    Path | None, typer.Option(help="State file (secret): a restart then loses nothing.")
]
Append = Annotated[
    bool, typer.Option("--append", help="After a restart, input holds new events only.")
]
Replay = Annotated[
    bool, typer.Option(help="After a restart, write all releases again, from the first.")
]
Moved = Annotated[
    bool,
    typer.Option(
        "--moved",
        help="The state file is a copy: the newest, and its original is never used again.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(help="Write releases to this file, each once, instead of standard output."),
]
Complete = Annotated[
    bool,
    typer.Option("--complete", help="With --state: a last line without a line feed counts."),
]
Follow = Annotated[Path | None, typer.Option(help="Read this file instead, and go on as it grows.")]
Parts = Annotated[
    Path | None,
    typer.Option(help="Read Parquet files of this folder instead, in the order they arrive."),
]
Kafka = Annotated[
    str | None, typer.Option(help="Read HOST:PORT/TOPIC instead (needs the extra kafka).")
]
Idle = Annotated[
    float | None,
    typer.Option(help="With --follow, --parts, --kafka: end after so many quiet seconds."),
]
LedgerFile = Annotated[
    str | None,
    typer.Option("--ledger", help="Ledger that is charged once for the whole stream."),
]
Label = Annotated[str | None, typer.Option(help="Label of the ledger's entry.")]
Format = Annotated[str, typer.Option("--format", help="auto, jsonl or csv.")]
Delimiter = Annotated[str, typer.Option(help="Of CSV.")]
Quote = Annotated[str, typer.Option(help="Of CSV; '' if quotes mean nothing.")]
Decimal = Annotated[str, typer.Option(help="The decimal sign, '.' or ','.")]
Encoding = Annotated[str, typer.Option(help="utf-8, latin-1, cp1252, ...")]
NullWord = Annotated[
    list[str] | None, typer.Option(help="A text that means missing; repeat for more.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No summary on standard error.")]
Seed = Annotated[
    int | None, typer.Option(help="SIMULATED noise, not private: for tests and studies.")
]


def source_of(
    columns: tuple[str, list[str], list[str]],
    written: tuple[str, str, str, str, str, list[str] | None],
    *,
    complete: bool,
    follow: Path | None,
    parts: Path | None,
    kafka: str | None,
    idle: float | None,
) -> Source:
    """Where events come from. columns: person, values and further public keys."""
    from privmean import validate
    from privmean.continual import sources
    from privmean.continual.eventlines import Reader
    from privmean.people.textformat import TextFormat

    given = [name for name, it in (("follow", follow), ("parts", parts), ("kafka", kafka)) if it]
    if len(given) > 1:
        raise ArgumentError(given[1], given[0], "are two sources", "give one")
    if idle is not None:
        validate.nonnegative("idle", idle)
        if not given:
            raise ArgumentError("idle", idle, "is for sources that grow", "leave it out")
    kind, delimiter, quote, decimal, encoding, words = written
    form = TextFormat(delimiter, quote, decimal, encoding, None, tuple(words or ()))
    person, values, public = columns
    if kafka is not None and kind == "auto":
        kind = "jsonl"
    if kafka is not None and kind != "jsonl":
        raise ArgumentError("format", kind, "is not that of messages", "send JSON")
    reader = Reader(person, tuple(values), kind, form, tuple(public))
    if parts is not None:
        return sources.Parts(parts, columns, idle)
    if follow is not None:
        return sources.GrowingFile(follow, reader, idle)
    if kafka is not None:
        servers, _, topic = kafka.rpartition("/")
        return sources.KafkaTopic(servers, topic, reader, idle)
    return sources.StandardInput(reader, complete=complete)


def named(person: str | None, value: list[str] | None) -> tuple[str, list[str]]:
    """The columns, refused if they are missing."""
    if person is None or not value:
        raise ArgumentError("person/value", None, "is missing", "give --person and --value")
    return person, value


def serve(
    fed: Fed[Any],
    source: Source,
    *,
    append: bool,
    replay: bool,
    flush: bool,
    output: Path | None,
    quiet: bool,
) -> bool:
    """Run a stream to the end of its source; whether a signal stopped it."""
    from privmean.continual import events
    from privmean.continual.releasefile import ReleaseFile

    done = events.run(
        fed,
        source,
        append=append,
        replay=replay,
        flush=flush,
        output=None if output is None else ReleaseFile(output),
    )
    if not quiet:
        typer.echo(events.summary(fed, done), err=True)
    return done.stopped


def simulated(seed: int | None) -> SimulatedNoise | None:
    """Noise of a seed; None for exact noise."""
    if seed is None:
        return None
    from privmean.noise.simulated import SimulatedNoise

    return SimulatedNoise(seed)


class Chargeable(Protocol):
    """A stream that can be charged to a ledger."""

    def charge(self, ledger: Ledger, *, label: str = ...) -> None: ...


def charge(running: Chargeable, ledger: str | None, label: str | None) -> None:
    """Charge the ledger before the first event; BudgetExceeded if it holds too little."""
    if ledger is None:
        if label is not None:
            raise ArgumentError("label", label, "goes with --ledger", "name the ledger")
        return
    from privmean.privacy.ledger import Ledger as Book

    running.charge(Book.open(ledger), label=label or "")
