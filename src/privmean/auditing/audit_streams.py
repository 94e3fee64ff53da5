"""Streams by shifts: what one person's values cost over all releases of a stream together.

A stream has a state of its own and no curator. Here it runs whole, from arrivals to releases, once
with no noise, once with one scale of noise in each draw, and on neighbors: the noise that turns
the releases of one stream into those of another is found from these, and the sum of squares of its
steps over their scales is the loss, by definition and with nothing of the stream's own formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import cycle
from typing import Any

import numpy as np

from privmean.auditing.findings import Findings
from privmean.auditing.fixed_noise import Draws, Fixed
from privmean.auditing.measure_loss import ROUNDING
from privmean.data.person_table import Floats
from privmean.noise.noise_source import Noise
from privmean.streams import GroupMeanStream, MeanStream, WithholdRelease
from privmean.streams.buffered_toeplitz import Buffered
from privmean.streams.strategies import Strategy, Toeplitz
from privmean.streams.stream_plan import plan as plan_stream
from privmean.streams.stream_release import StreamRelease
from privmean.streams.withhold_plan import plan_levels

HOSTILE = (0.0, 10.0, -1e308, 1e308, math.nan, math.inf, 5e-324, 5.0)
# little noise, so that no estimate leaves the limits and is cut off
SHARP: dict[str, Any] = {"rho": 8.0}


def _together(stream: Any, persons: Sequence[int], values: Sequence[float]) -> list[StreamRelease]:
    released: list[StreamRelease] = stream.extend(persons, values)
    return released


def _halves(stream: Any, persons: Sequence[int], values: Sequence[float]) -> list[StreamRelease]:
    """The first half of the records is of one group, the rest of another."""
    groups = ["first"] * (len(persons) // 2) + ["second"] * len(persons)
    records = zip(persons, groups, values, strict=False)
    return [release for record in records for release in stream.update(*record)]


@dataclass(frozen=True)
class Streamed:
    """make: a stream that draws from this noise. arrivals: who comes when; the hostile person is
    number 0, and every other person comes once. extend: how a stream takes its records."""

    name: str
    make: Callable[[Noise], Any]
    arrivals: tuple[int, ...]
    extend: Callable[[Any, Sequence[int], Sequence[float]], list[StreamRelease]] = _together


def _planned(
    planned: Callable[..., Any], made: Callable[..., Any], **settings: Any
) -> Callable[[Noise], Any]:
    """Streams of a plan, which is made when it is first run."""
    plan = cache(lambda: planned(**SHARP, bounds=(0.0, 10.0), **settings))
    return lambda noise: made(plan=plan(), noise=noise)


_mean = partial(_planned, plan_stream, partial(MeanStream.from_plan, clamp=False))
_by_group = partial(_planned, plan_stream, partial(GroupMeanStream.from_plan, clamp=False))
_withheld = partial(_planned, plan_levels, WithholdRelease)
QUICK: Strategy = Buffered((0.25, 0.07), (0.6, 0.96))


def arrivals(steps: int, first: int = 0, most: int = 3) -> tuple[int, ...]:
    """Person 0 at every fourth step from the first, at most so often; others once."""
    mine = {first + 4 * k for k in range(most)}
    return tuple(0 if step in mine else step + 1 for step in range(steps))


TAKES_PART = {"max_participations": 3, "min_separation": 4}
STREAMED: tuple[Streamed, ...] = (
    Streamed("buffers", _mean(**TAKES_PART, strategy=QUICK, steps=16), arrivals(16)),
    Streamed("buffers, late", _mean(**TAKES_PART, strategy=QUICK, steps=16), arrivals(16, 5)),
    Streamed("bands", _mean(**TAKES_PART, strategy=Toeplitz((1.0, 1 / 2, 1 / 3))), arrivals(16)),
    Streamed("zero-out", _mean(**TAKES_PART, neighbors="zero-out", steps=16), arrivals(16)),
    Streamed("as planned", _mean(**TAKES_PART, steps=16), arrivals(16)),
    Streamed("window", _mean(**TAKES_PART, steps=16, window=5), arrivals(16)),
    Streamed("by group", _by_group(**TAKES_PART, steps=16, groups=2), arrivals(16, 0, 4), _halves),
    Streamed("half-life", _mean(**TAKES_PART, steps=16, half_life=3.0), arrivals(16)),
    Streamed("once", _mean(max_participations=1, min_separation=1, steps=12), arrivals(12, 0, 1)),
    Streamed(
        "withhold-release",
        _withheld(max_records=4, persons=14, strategy=QUICK),
        (1, 2, 0, 3, 0, 4, 0, 0, 5, 6, 7, 8),
    ),
)


def values(item: Streamed, own: Sequence[float]) -> list[float]:
    """Records: 4 or 6 of everybody else, `own` in turn of the hostile person."""
    mine = cycle(own)
    return [next(mine) if who == 0 else 4.0 + 2.0 * (who % 2) for who in item.arrivals]


def told(item: Streamed, records: Sequence[float], noise: Noise) -> Floats:
    """All released sums of a run."""
    released = item.extend(item.make(noise), item.arrivals, records)
    return np.array([float(release.estimate[0]) * release.records for release in released])


def neighbours(item: Streamed) -> Iterator[tuple[list[float], list[float]]]:
    """Pairs of streams that differ in the values of person 0 alone."""
    for low in HOSTILE:
        for high in HOSTILE:
            if low is not high:
                yield values(item, (low,)), values(item, (high,))
                yield values(item, (low, high)), values(item, (5.0,))


def audit_streams(found: Findings, streamed: Sequence[Streamed] = STREAMED) -> None:
    """Every pair of every stream of the list, against the stream's own accounting."""
    for item in streamed:
        name = f"stream: {item.name}"
        base = values(item, (5.0,))
        draws = Draws(Fixed())
        start = told(item, base, draws)
        requests = [request for request in draws.requests if request.law == "gaussian"]
        scales = np.array([float(r.scale) for r in requests for _ in range(r.size)])
        steps = np.array([float(max(1, round(Fraction(scale)))) for scale in scales])
        moved = [told(item, base, Fixed(at=k)) - start for k in range(len(scales))]
        response = np.array(moved).T / steps
        bill = item.make(Fixed()).guarantee
        declared = sum(loss.mu**2 for loss in bill.mechanisms)
        zero_out = bill.neighbors == "zero-out"
        found.seen.add(("relation", str(bill.neighbors)))
        for first, second in neighbours(item):
            # of zero-out neighbors one has nothing but the center
            gap = told(item, second, Fixed()) - told(item, base if zero_out else first, Fixed())
            shift, rest, *_ = np.linalg.lstsq(response * scales, gap, rcond=None)
            share = float(shift @ shift) / declared
            wrong = share > 1 + ROUNDING or (len(rest) and float(rest[0]) > ROUNDING)
            what = f"costs {share:.6g} of what is declared" if wrong else ""
            # to nine digits, as far as doubles tell
            exact = Fraction(round(share, 9)).limit_denominator(10**9)
            found.paired(name, exact, name, what)
        found.subjects[name] = found.mechanism(name).runs
