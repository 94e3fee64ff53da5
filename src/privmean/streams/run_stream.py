"""Events from a source to releases, with nothing lost over restarts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from privmean.errors import ArgumentError
from privmean.inference.interval import UNSAFE
from privmean.output import Output
from privmean.plurals import count_noun
from privmean.privacy.guarantee_text import privacy_text
from privmean.streams.command_adapters import StreamAdapter
from privmean.streams.record_lines import InputRecord
from privmean.streams.record_sources import Interrupts, Source
from privmean.streams.release_file import ReleaseFile, ReleaseOutput, StandardOutput

# what a line can lack that is no event, by the count of such lines in the note: the option to check
LACKING = {
    "nameless": ("id", "--person"),
    "groupless": ("group", "--by"),
    "timeless": ("time", "--time-column (2026-03-05T14:30, or seconds since 1970)"),
}
NOTHING = {"read": 0, "ids": "", "shown": 0, **dict.fromkeys(LACKING, 0)}


class Run:
    """What a run of `run` came to: public facts for the summary."""

    def __init__(self) -> None:
        self.stopped = False
        self.unfinished = False  # whether the last line was left for the next run
        self.read = 0  # lines
        self.lacking = dict.fromkeys(LACKING, 0)  # those that are no events


def run(
    fed: StreamAdapter[Any],
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
    target: ReleaseOutput = StandardOutput() if output is None else output
    if output is None:
        target.write(fed.again(0 if replay else mark["shown"]))
        mark["shown"] = max(mark["shown"], fed.reached)
    else:
        output.follow(fed.again(0))
    skip = 0 if source.resumes else mark["read"]
    seen, charged = "", mark["read"] > sum(mark[name] for name in LACKING)
    if charged:  # an earlier run may have had no ledger
        charge()
    result = Run()
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
                whole = []
                for event in events:
                    mark["ids"] = _chain(mark["ids"], event)
                    if lack := fed.lacks(event):
                        mark[lack] += 1
                    else:
                        whole.append(event)
                if whole and not charged:
                    charge()
                    charged = True
                mark["read"] += len(events)
                mark.update(note)
                if whole:
                    target.write(fed.feed(whole, mark))
                    mark["shown"] = fed.reached
                else:
                    fed.keep(mark)
            if interrupts.stop or fed.finished:
                break
        if flush and not interrupts.stop and not skip:
            target.write(fed.flush())
            mark["shown"] = fed.reached
    if skip and not interrupts.stop:
        raise _other_input(
            state, f"has read {count_noun(skip, 'more record')} than the input holds"
        )
    fed.keep(mark)
    result.stopped, result.read = interrupts.stop, mark["read"]
    result.lacking = {name: mark[name] for name in LACKING}
    result.unfinished = source.unfinished
    return result


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


def summary(fed: StreamAdapter[Any], run: Run) -> str:
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
