"""A stream run from the command line: events to releases, with nothing lost over restarts; and the
released path with its noise band, as a page without dependencies.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from privmean.errors import ArgumentError, PrivmeanError
from privmean.inference.interval import UNSAFE
from privmean.output import Output, count_noun, printable
from privmean.privacy.guarantee import privacy_text
from privmean.storage.witness import FULL, os_error_text
from privmean.streams.participation import period_of
from privmean.streams.record_sources import InputRecord, Interrupts, Source
from privmean.streams.stream_release import StreamRelease


def line_of(release: StreamRelease) -> str:
    """One line of JSON."""
    return json.dumps(release.to_dict()) + "\n"


class StandardOutput:
    """Releases to standard output."""

    def write(self, releases: Iterable[StreamRelease]) -> None:
        """Write and flush releases, in order."""
        try:
            for release in releases:
                sys.stdout.write(line_of(release))
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as problem:
            silence()
            raise _unwritten("standard output", problem) from None


class ReleaseFile:
    """A file of releases that survives restarts: what it holds is compared, never written again.

    `follow` must come first. It refuses a file that holds a release which the state does not hold:
    the state is then an old copy, and going on would give that step a second noise.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        if self._path.exists() and not self._path.is_file():
            raise ArgumentError("output", str(path), "is not a file", "write to standard output")

    def follow(self, releases: Iterator[StreamRelease]) -> None:
        """Compare with all releases so far, and write those that are missing."""
        try:
            with open(self._path, "a+b") as file:
                file.seek(0)
                whole = 0
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # cut off by a crash
                    release = next(releases, None)
                    if release is None or line != line_of(release).encode():
                        raise self._other(release)
                    whole += len(line)
                file.truncate(whole)
        except OSError as problem:
            raise _unwritten(str(self._path), problem) from None
        self.write(releases)

    def _other(self, release: StreamRelease | None) -> ArgumentError:
        if release is None:
            return ArgumentError(
                "output",
                str(self._path),
                "holds releases that the state does not have: the state is an old copy, "
                "or of another stream",
                "put the newest state back; to go on with this one would reveal records",
            )
        return ArgumentError(
            "output",
            str(self._path),
            f"does not hold the release of step {release.step} as it was made",
            "name the file of this stream with the same options, or a new one",
        )

    def write(self, releases: Iterable[StreamRelease]) -> None:
        """Add releases, in order."""
        try:
            with open(self._path, "ab") as file:
                file.writelines(line_of(release).encode() for release in releases)
        except OSError as problem:
            raise _unwritten(str(self._path), problem) from None


def silence() -> None:
    """Send what is still buffered for a closed pipe or a full disk to nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unwritten(where: str, problem: OSError) -> PrivmeanError:
    remedy = "make room" if problem.errno in FULL else "correct this"
    return PrivmeanError(
        f"{where}: {os_error_text(problem)}. With --state nothing is lost. "
        f"{remedy.capitalize()} and run the same command again."
    )


class StreamAdapter(ABC):
    """A stream that events are fed to.

    public: what the public texts of an event are, in their order: "group", "time". Only streams of
    steps have periods, an end, and arrivals that are too late.
    """

    public: tuple[str, ...] = ()

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        if getattr(stream.plan, "period", ""):
            self.public = (*self.public, "time")

    @property
    def rationale(self) -> list[tuple[str, str]]:
        """How the stream was planned, for the summary."""
        return [("Method", f"{self.stream.plan.rationale}.")]

    @property
    def finished(self) -> bool:
        return bool(getattr(self.stream, "finished", False))

    @property
    @abstractmethod
    def reached(self) -> int:
        """Where the releases stand: what `again` takes."""

    def lacks(self, event: InputRecord) -> str:
        """What makes a line no event, by its name in `LACKING`: public. "" for an event."""
        if event.person is None:
            return "nameless"
        for name, text in zip(self.public, event.public, strict=False):
            if name == "group" and text is None:
                return "groupless"
            if name == "time" and period_of(text, self.stream.plan.period) is None:
                return "timeless"
        return ""

    def feed(self, events: list[InputRecord], mark: object) -> list[StreamRelease]:
        """The releases of a batch of events that lack nothing, durable."""
        people = [item.person for item in events]
        values = [item.values if len(item.values) > 1 else item.values[0] for item in events]
        more = {f"{name}s": [it.public[k] for it in events] for k, name in enumerate(self.public)}
        released = self.stream.extend(people=people, values=values, mark=mark, **more)
        return list(released)

    def _late(self) -> str:
        return f", {self.stream.late:,} of a time that was over" if self.stream.late else ""

    @abstractmethod
    def again(self, after: int) -> Iterator[StreamRelease]:
        """All releases after a place that was reached."""

    @abstractmethod
    def counts(self) -> str:
        """What was taken in so far, in words."""

    def beyond(self, lacks: list[tuple[int, str]], used: int) -> list[str]:
        """What was lacking of lines behind the event that reached the horizon: where their batch
        ends depends on how long values are, so they do not count. used: events until then."""
        return [lack for place, lack in lacks if self.finished and place >= used]


class MeanAdapter(StreamAdapter):
    """A `MeanStream`."""

    @property
    def rationale(self) -> list[tuple[str, str]]:
        stream, plan = self.stream, self.stream.plan
        lines = [*super().rationale, ("Forecast", f"{plan.outlook}.")]
        if stream.region is None and plan.search is not None:
            lines.append(
                (
                    "No release yet",
                    f"the clipping radius is found when {plan.search.n:,} people have come; "
                    "give --clip or --bounds to start at once.",
                )
            )
        if self.finished:
            lines.append(
                ("Horizon", f"{stream.steps:,} steps are reached; later records are not used.")
            )
        return lines

    @property
    def reached(self) -> int:
        return int(self.stream.steps)

    def again(self, after: int) -> Iterator[StreamRelease]:
        yield from self.stream.releases(after=after)

    def counts(self) -> str:
        stream = self.stream
        return (
            f"{stream.arrivals:,} records, {stream.steps:,} steps, {stream.records:,} records "
            f"in the mean, {stream.waiting:,} waiting{self._late()}"
        )


class GroupAdapter(StreamAdapter):
    """A `GroupMeanStream`."""

    public = ("group",)

    @property
    def rationale(self) -> list[tuple[str, str]]:
        plan = self.stream.plan
        forecast = f"for each of {plan.groups:,} groups, {plan.outlook}."
        return [*super().rationale, ("Forecast", forecast)]

    @property
    def reached(self) -> int:
        return sum(1 for _ in self.stream.releases())

    def again(self, after: int) -> Iterator[StreamRelease]:
        return itertools.islice(self.stream.releases(), after, None)

    def counts(self) -> str:
        stream = self.stream
        groups = f"{stream.steps:,} steps in {len(stream.groups):,} groups"
        return f"{stream.arrivals:,} records, {groups}{self._late()}"


class WithholdAdapter(StreamAdapter):
    """A `WithholdRelease`."""

    @property
    def rationale(self) -> list[tuple[str, str]]:
        stream = self.stream
        lines = [("Method", f"withhold-release, {stream.plan.rationale}.")]
        if stream.awaited:  # all of them need the same number
            widths = ", ".join(str(item.width) for item in stream.awaited)
            lines.append(
                (
                    "No release yet",
                    f"of blocks of {widths} records: a private interval needs "
                    f"{stream.awaited[0].averages:,} averages, at most one per person, and "
                    f"{stream.n:,} people have come. Where fewer can come, give --n, "
                    "or leave out --spread to start at once.",
                )
            )
        return lines

    @property
    def reached(self) -> int:
        return int(self.stream.arrivals)

    def again(self, after: int) -> Iterator[StreamRelease]:
        return (item for item in self.stream.releases() if item.step > after)

    def counts(self) -> str:
        waiting = self.stream.waiting
        return f"{self.stream.arrivals:,} records, {waiting:,} of them withheld"


# what a line can lack that is no event, by the count of such lines in the note: the option to check
LACKING = {
    "nameless": ("id", "--person"),
    "groupless": ("group", "--by"),
    "timeless": ("time", "--time-column (2026-03-05T14:30, or seconds since 1970)"),
}
NOTHING = {"read": 0, "ids": "", "shown": 0, **dict.fromkeys(LACKING, 0)}


@dataclass(frozen=True)
class Run:
    """What a run of `run` came to: public facts for the summary.

    unfinished: whether the last line was left for the next run. read: lines so far. lacking: those
    that are no events, by what they lack.
    """

    stopped: bool
    unfinished: bool
    read: int
    lacking: dict[str, int]


def run(
    fed: StreamAdapter,
    source: Source,
    *,
    state: object,
    replay: bool,
    flush: bool = False,
    output: ReleaseFile | None = None,
    charge: Callable[[], None] = lambda: None,
) -> Run:
    """Feed a source to the stream until its end or a signal.

    Every batch of the source is durable before its releases are written. state: the file that the
    user named, for messages. replay: write the releases of earlier runs again. flush: at the end of
    the source, release what waits. charge: called once, before the first event (at once where some
    were read already): what can be refused of sources and outputs has been by then. Lines that lack
    an id, a group or a time are no events; they are counted, and all that is public.
    """
    mark: dict[str, Any] = {**NOTHING, **(fed.stream.mark or {})}
    target = StandardOutput() if output is None else output
    if output is None:
        target.write(fed.again(0 if replay else mark["shown"]))
        mark["shown"] = max(mark["shown"], fed.reached)
    else:
        output.follow(fed.again(0))
    skip = 0 if source.resumes else mark["read"]
    seen, charged = "", mark["read"] > sum(mark[name] for name in LACKING)
    if charged:  # an earlier run may have had no ledger
        charge()
    with Interrupts() as interrupts:
        for batch, note in source.batches(interrupts, dict(mark)):
            events = batch
            if skip:
                past, events = events[:skip], events[skip:]
                skip -= len(past)
                for event in past:
                    seen = _chain(seen, event)
                if not skip and seen != mark["ids"]:
                    raise _other_input(state, "has read other records than the input begins with")
            if events and not fed.finished:
                whole: list[InputRecord] = []
                lacks: list[tuple[int, str]] = []  # how many events came before, what was lacking
                for event in events:
                    mark["ids"] = _chain(mark["ids"], event)
                    if lack := fed.lacks(event):
                        mark[lack] += 1
                        lacks.append((len(whole), lack))
                    else:
                        whole.append(event)
                if whole and not charged:
                    charge()
                    charged = True
                mark["read"] += len(events)
                mark.update(note)
                if whole:
                    before = fed.stream.arrivals
                    target.write(fed.feed(whole, mark))
                    mark["shown"] = fed.reached
                    for lack in fed.beyond(lacks, fed.stream.arrivals - before):
                        mark[lack] -= 1
                else:
                    fed.stream.mark = mark
            if interrupts.stop or fed.finished:
                break
        if flush and not interrupts.stop and not skip:
            target.write(fed.stream.flush())
            mark["shown"] = fed.reached
    if skip and not interrupts.stop:
        raise _other_input(
            state, f"has read {count_noun(skip, 'more record')} than the input holds"
        )
    fed.stream.mark = mark
    lacking = {name: mark[name] for name in LACKING}
    return Run(interrupts.stop, source.unfinished, mark["read"], lacking)


def _other_input(state: object, problem: str) -> ArgumentError:
    """The input is not what the stream of the state file has read; ids and their number are
    public."""
    remedy = "give the same input again, or only new records with --append"
    return ArgumentError("state", str(state), problem, remedy)


def _chain(before: str, event: InputRecord) -> str:
    """A running fingerprint of the ids read so far, and of groups and times, which are public too;
    values do not enter."""
    text = repr(event.person) + ("".join(f"\n{item!r}" for item in event.public))
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def summary(fed: StreamAdapter, run: Run) -> str:
    """What happened, in public facts."""
    guarantee = fed.stream.guarantee
    lines = [
        f"{'No line had a' if count == run.read else f'{count:,} lines had no'} readable {what}; "
        f"such lines are not counted. Check {option}."
        for count, (what, option) in zip(run.lacking.values(), LACKING.values(), strict=True)
        if count
    ]
    if run.unfinished:
        lines.append(
            "The last line has no line feed and was left for the next run. If the input is "
            "complete, say --complete."
        )
    return Output(
        f"Stream: {'stopped' if run.stopped else 'done'}",
        fed.counts(),
        lines=tuple(lines),
        paragraphs=(("Privacy", f"{privacy_text(guarantee)} {guarantee.note}"), *fed.rationale),
        warning="" if fed.stream.secure else UNSAFE,
    ).text()


POINTS = 1500
STYLE = (  # colors of the text around, so that it reads on light and dark
    "text{font:12px sans-serif;fill:currentColor}line{stroke:currentColor;stroke-opacity:.2}"
)
ALONE = "svg{color:#444}@media(prefers-color-scheme:dark){svg{color:#ddd}}"
COLORS = ("#1f5fa8", "#b4531f", "#2c7a4b", "#7b3f8c", "#8a7a1c")


def thin(releases: Iterable[StreamRelease], most: int = POINTS) -> list[StreamRelease]:
    """At most about `most` releases, evenly over the path; the last one is always kept."""
    kept: list[StreamRelease] = []
    stride, last = 1, None
    for index, release in enumerate(releases):
        last = release
        if index % stride == 0:
            kept.append(release)
            if len(kept) >= 2 * most:
                kept = kept[::2]
                stride *= 2
    if last is not None and kept[-1] is not last:
        kept.append(last)
    return kept


def html(
    path: Sequence[StreamRelease],
    names: Sequence[str],
    target: str | os.PathLike[str],
    promise: str,
) -> None:
    """Write one self-contained page with a vector picture."""
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Private running mean</title>'
        "<style>body{font:14px sans-serif;margin:2em;color:#222}</style>"
        f"<h1>Private running mean</h1><p>{escape(title(path, promise))}</p>"
        f"{svg(path, names)}</html>\n"
    )
    with open(target, "w", encoding="utf-8") as file:
        file.write(page)


def svg(
    path: Sequence[StreamRelease],
    names: Sequence[str],
    *,
    span: tuple[float, float] | None = None,
    alone: bool = False,
    label: str = "released mean by step",
) -> str:
    """The released path with its band as a vector picture. span: vertical limits, else
    chosen. alone: a file of its own, not part of a page."""
    width, height, left, bottom = 900, 420, 80, 40
    body = ""
    if path:
        low, high = limits(path) if span is None else span
        first, last = path[0].step, max(path[-1].step, path[0].step + 1)

        def x(step: float) -> float:
            return left + (step - first) / (last - first) * (width - left - 20)

        def y(value: float) -> float:
            kept = min(max(value, low), high)
            return 20 + (high - kept) / (high - low) * (height - bottom - 20)

        for k in range(6):
            value = low + (high - low) * k / 5
            step = first + (last - first) * k / 5
            body += f'<line x1="{left}" x2="{width - 20}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
            body += f'<text x="{left - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.4g}'
            body += f'</text><text x="{x(step):.1f}" y="{height - 12}" text-anchor="middle">'
            body += f"{step:.0f}</text>"
        for j, name in enumerate(names[: len(COLORS)]):
            up = [(x(i.step), y(float(i.estimate[j]) + i.half_width)) for i in path]
            down = [(x(i.step), y(float(i.estimate[j]) - i.half_width)) for i in reversed(path)]
            middle = [(x(i.step), y(float(i.estimate[j]))) for i in path]
            body += f'<polygon points="{_points(up + down)}" fill="{COLORS[j]}" opacity="0.18"/>'
            body += f'<polyline points="{_points(middle)}" fill="none" stroke="{COLORS[j]}"'
            body += f' stroke-width="1.4"/><text x="{width - 30}" y="{34 + 16 * j}"'
            body += f' text-anchor="end" style="fill:{COLORS[j]}">{escape(printable(name))}</text>'
    space = ' xmlns="http://www.w3.org/2000/svg"' if alone else ""
    return (
        f'<svg{space} viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(label)}"><style>{STYLE}{ALONE if alone else ""}</style>{body}</svg>'
    )


def title(path: Sequence[StreamRelease], promise: str) -> str:
    """One line above the picture."""
    if not path:
        return f"nothing released yet; guarantee {promise} for one person"
    shown = f"{path[-1].step} steps, {path[-1].records} records"
    mark = "" if path[-1].secure else "SIMULATED NOISE, not private; "
    band = f"band: {path[-1].level:.0%} for privacy noise, pointwise"
    return f"{mark}{shown}; {band}; guarantee {promise}"


def limits(path: Sequence[StreamRelease]) -> tuple[float, float]:
    """A vertical range that shows the later part well; the first steps may leave it."""
    later = path[len(path) // 10 :]
    low = min(float(item.estimate.min()) - item.half_width for item in later)
    high = max(float(item.estimate.max()) + item.half_width for item in later)
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def _points(pairs: list[tuple[float, float]]) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in pairs)
