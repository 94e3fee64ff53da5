"""Events from a source to releases, with nothing lost over restarts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from privmean.continual.eventlines import Event
from privmean.continual.feeding import Fed
from privmean.continual.releasefile import Output, ReleaseFile, StandardOutput
from privmean.continual.sources import Interrupts, Source
from privmean.errors import ArgumentError

NOTHING = {"read": 0, "ids": "", "shown": 0, "nameless": 0}


class Run:
    """What a run of `run` came to: public facts for the summary."""

    def __init__(self) -> None:
        self.stopped = False
        self.unfinished = False  # whether the last line was left for the next run
        self.nameless = 0


def run(
    fed: Fed[Any],
    source: Source,
    *,
    replay: bool,
    flush: bool = False,
    output: ReleaseFile | None = None,
    charge: Callable[[], None] = lambda: None,
) -> Run:
    """Feed a source to the stream until its end or a signal.

    Every batch of the source is durable before its releases are written. replay: write the releases
    of earlier runs again. flush: at the end of the source, release what waits. charge: called once,
    before the first event (at once where some were read already): what can be refused of sources
    and outputs has been by then.
    """
    mark: dict[str, Any] = {**NOTHING, **(fed.stream.mark or {})}
    target: Output = StandardOutput() if output is None else output
    if output is None:
        target.write(fed.again(0 if replay else mark["shown"]))
        mark["shown"] = max(mark["shown"], fed.reached)
    else:
        output.follow(fed.again(0))
    skip = 0 if source.resumes else mark["read"]
    seen, charged = "", mark["read"] > 0
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
                    raise ArgumentError(
                        "state",
                        "input",
                        "does not start with the events that were read before",
                        "give the same input again, or only new events with --append",
                    )
            if events and not fed.finished:
                if not charged:
                    charge()
                    charged = True
                for event in events:
                    mark["ids"] = _chain(mark["ids"], event)
                    mark["nameless"] += event.person is None
                mark["read"] += len(events)
                mark.update(note)
                target.write(fed.feed(events, mark))
                mark["shown"] = fed.reached
            if interrupts.stop or fed.finished:
                break
        if flush and not interrupts.stop and not skip:
            target.write(fed.flush())
            mark["shown"] = fed.reached
    if skip and not interrupts.stop:
        raise ArgumentError(
            "state",
            "input",
            f"ends {skip} events before the point that was reached",
            "give the same input again, or only new events with --append",
        )
    fed.keep(mark)
    result.stopped, result.nameless = interrupts.stop, mark["nameless"]
    result.unfinished = source.unfinished
    return result


def _chain(before: str, event: Event) -> str:
    """A running fingerprint of the ids read so far, and of groups and times, which are public too;
    values do not enter."""
    text = repr(event.person) + ("".join(f"\n{item!r}" for item in event.public))
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def summary(fed: Fed[Any], run: Run) -> str:
    """What happened, in public facts."""
    guarantee = fed.stream.guarantee
    lines = [
        f"{'stopped' if run.stopped else 'done'}: {fed.counts()}",
        f"promise: {guarantee.describe()} for one {guarantee.unit}, {guarantee.relation}; "
        f"{guarantee.note}",
        *fed.why,
    ]
    if run.nameless:
        some = "no line had a" if fed.counts().startswith("0 ") else f"{run.nameless} lines had no"
        lines.insert(3, f"{some} readable id: not events, and counted nowhere; check --person")
    if run.unfinished:
        lines.append(
            "the last line has no line feed and was left for the next run; if the input is "
            "complete, say --complete"
        )
    if not fed.stream.secure:
        lines.insert(0, "*** SIMULATED NOISE: not private, for tests and studies only ***")
    return "\n".join(lines)
