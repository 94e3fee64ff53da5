"""Local randomizers by enumeration: the exact law of the bytes a client sends, coin by coin.

A client runs as it is, but for the words of its entropy: a word is an unknown number from 0 to
2^64 - 1, and every comparison of it with a threshold splits the run in two, each with its exact
probability. All runs together are the law of the report, in fractions, and laws of two inputs are
compared byte for byte. Words that a client shifts (directions that no value touches) are fixed.

Streams by shifts: what one person's values cost over all releases of a stream together.

A stream has a state of its own and no curator. Here it runs whole, from arrivals to releases, once
with no noise, once with one scale of noise in each draw, and on neighbors: the noise that turns
the releases of one stream into those of another is found from these, and the sum of squares of its
steps over their scales is the loss, by definition and with nothing of the stream's own formulas.
"""

from __future__ import annotations

import decimal
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, cycle
from typing import Any

import numpy as np

from privmean.array_types import Floats
from privmean.auditing.findings import Findings
from privmean.auditing.fixed_noise import Draws, Fixed
from privmean.auditing.measure_loss import ROUNDING
from privmean.local.clients.randomizers import RANDOMIZERS, Randomizer, takes_piecewise
from privmean.local.exact_coins import WORD, power_of_e
from privmean.local.round import HYBRID, Round
from privmean.local.round_builders import ball_round, items_round, mean_round, vote_round
from privmean.noise.exact_arithmetic import plain_context
from privmean.noise.noise_source import Noise
from privmean.streams import GroupMeanStream, MeanStream, WithholdRelease
from privmean.streams.strategies import Buffered, Strategy, Toeplitz
from privmean.streams.stream_plan import plan as plan_stream
from privmean.streams.stream_release import StreamRelease
from privmean.streams.withhold_release import plan_levels

Law = dict[bytes, Fraction]
MOST_RUNS = 400_000
SEED = bytes(32)


@dataclass
class Branches:
    """The decisions of one run: those of `path` first, then always the first way."""

    path: list[int]
    ways: list[Fraction | int] = field(default_factory=list)

    def take(self, way: Fraction | int) -> int:
        """0 with this chance, else 1; for a whole number, one of so many, all equally likely."""
        at = len(self.ways)
        self.ways.append(way)
        if at == len(self.path):
            self.path.append(1 if way == 0 else 0)
        return self.path[at]

    @property
    def chance(self) -> Fraction:
        total = Fraction(1)
        for k, way in zip(self.path, self.ways, strict=True):
            total *= Fraction(1, way) if isinstance(way, int) else (way, 1 - way)[k]
        return total

    def next_path(self) -> list[int] | None:
        """The path of the next run: the last decision that has a way left."""
        for at in range(len(self.path) - 1, -1, -1):
            way, k = self.ways[at], self.path[at] + 1
            if k < way if isinstance(way, int) else k == 1 and way < 1:
                return [*self.path[:at], k]
        return None


class Word:
    """A uniform word that nobody has looked at: `low` <= word < `high`."""

    def __init__(self, branches: Branches, fixed: int) -> None:
        self._branches, self._fixed, self._low, self._high = branches, fixed, 0, WORD

    def __lt__(self, threshold: int) -> bool:
        inside = min(max(threshold, self._low), self._high) - self._low
        chance = Fraction(inside, self._high - self._low)
        below = self._branches.take(chance) == 0
        if below:
            self._high = self._low + inside
        else:
            self._low += inside
        return below

    def __mul__(self, bound: int) -> Word:
        self._bound = bound  # the high part is uniform below it, once it is not rejected
        return self

    def __mod__(self, _: int) -> int:
        return WORD  # never rejected: a rejected word is drawn again, which leaves the law uniform

    def __floordiv__(self, _: int) -> int:
        return self._branches.take(self._bound)

    def __rshift__(self, bits: int) -> int:
        return self._fixed >> bits


class Unseen:
    """Entropy of unknown words. The fixed ones are the same in every run."""

    def __init__(self, branches: Branches) -> None:
        self._branches, self._random = branches, random.Random(7)

    secure = False

    def word(self) -> Any:
        return Word(self._branches, self._random.getrandbits(64))

    def bytes(self, size: int) -> bytes:
        return self._random.randbytes(size)


def law_of(randomizer: Randomizer, round_: Round, value: object, nonce: bytes) -> Law:
    """Probabilities of all payloads, exactly."""
    law: Law = {}
    path: list[int] | None = []
    runs = 0
    while path is not None:
        branches = Branches(path)
        payload = randomizer(round_, 0, value, nonce, Unseen(branches))
        law[payload] = law.get(payload, Fraction(0)) + branches.chance
        path = branches.next_path()
        runs += 1
        if runs > MOST_RUNS:
            raise ValueError("too many coins to enumerate")
    return law


def largest_ratio(first: Law, second: Law) -> Fraction | None:
    """The largest ratio of probabilities, in both directions; None if one can send what the other
    cannot."""
    if first.keys() != second.keys():
        return None
    return max(
        max(first[key] / second[key], second[key] / first[key]) for key in first if first[key]
    )


def share_of(ratio: Fraction, epsilon: Fraction) -> Fraction:
    """ln(ratio)/epsilon, rounded up in the twelfth digit unless it is at most 1."""
    limit = power_of_e(epsilon)
    with decimal.localcontext(plain_context(100)):
        exact = decimal.Decimal(ratio.numerator) / decimal.Decimal(ratio.denominator)
        share = exact.ln() / (decimal.Decimal(epsilon.numerator) / epsilon.denominator)
        within = exact <= limit * (1 + decimal.Decimal("1e-95"))
    rounded = Fraction(round(float(share), 12)).limit_denominator(10**12)
    return min(rounded, Fraction(1)) if within else max(rounded, Fraction(1) + Fraction(1, 10**12))


NUMBERS = (-1.0, 1.0, 0.3, -1e-300, math.nan, math.inf, -1e308, None, "text")
ITEMS = (0, 1, 3, math.nan, None, -1, 10**9)
VECTORS = ([1.0, 0.0], [-0.6, 0.8], [0.0, 0.0], [1e200, -1e200], [math.nan, 1.0], None)
EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(3))


@dataclass(frozen=True)
class Randomized:
    """name; make: the round at an epsilon; inputs: values, possible and not."""

    name: str
    make: Callable[..., Round]
    inputs: tuple[Any, ...]
    epsilons: tuple[Fraction, ...] = EPSILONS
    many: bool = False


def _round(make: Callable[..., Round], *public: float, **more: Any) -> Callable[..., Round]:
    return partial(make, *public, persons=10, seed=SEED, **more)


_mean, _items = partial(_round, mean_round, -1, 1), partial(_round, items_round, 4)
_ball = partial(_round, ball_round, 1.0, 2)

RANDOMIZED: tuple[Randomized, ...] = (
    Randomized("one-bit", _mean(mechanism="one-bit"), NUMBERS),
    Randomized("hybrid, its bit", _mean(mechanism="hybrid"), NUMBERS),
    Randomized(
        "piecewise", _mean(mechanism="piecewise"), (-1.0, 1.0, 0.3), (Fraction(1),), many=True
    ),
    *(Randomized(name, _items(mechanism=name), ITEMS) for name in ("hadamard", "sketch", "subset")),
    Randomized("ball-bit", _ball(mechanism="ball-bit"), VECTORS),
    Randomized("closest", _ball(mechanism="closest", candidates=8), VECTORS),
    Randomized("votes", _round(vote_round, -1, 1, 4, mechanism="subset"), NUMBERS),
)
NONCES = tuple(bytes([k] * 16) for k in range(64))
FEW = 4  # public coins that are tried: the law holds for each


def audit_local(found: Findings, *, thorough: bool = True) -> None:
    """Compare the exact laws of all inputs of every randomizer, pair by pair. thorough: with those
    of very many reports too."""
    for item in RANDOMIZED:
        if item.many and not thorough:
            continue
        name = f"local: {item.name}"
        for epsilon in item.epsilons:
            round_ = item.make(epsilon=epsilon)
            run, where = RANDOMIZERS[round_.mechanism], f"{name}, epsilon {float(epsilon):g}"
            for nonce in _nonces(round_, 1 if item.many else FEW):
                laws = [law_of(run, round_, value, nonce) for value in item.inputs]
                for first, second in combinations(laws, 2):
                    ratio = largest_ratio(first, second)
                    share = Fraction(2) if ratio is None else share_of(ratio, epsilon)
                    wrong = "costs more" if ratio else "sends what another input cannot send"
                    found.paired(name, share, where, wrong if share > 1 else "")
        found.subjects[name] = found.mechanism(name).runs


def _nonces(round_: Round, few: int) -> list[bytes]:
    """A few public coins; of the hybrid mechanism those that lead to its bit."""
    hybrid = round_.mechanism == HYBRID
    return [x for x in NONCES if not (hybrid and takes_piecewise(round_, 0, x))][:few]


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


_stream_mean = partial(_planned, plan_stream, partial(MeanStream.from_plan, clamp=False))
_by_group = partial(_planned, plan_stream, partial(GroupMeanStream.from_plan, clamp=False))
_withheld = partial(_planned, plan_levels, WithholdRelease)
QUICK: Strategy = Buffered((0.25, 0.07), (0.6, 0.96))


def arrivals(steps: int, first: int = 0, most: int = 3) -> tuple[int, ...]:
    """Person 0 at every fourth step from the first, at most so often; others once."""
    mine = {first + 4 * k for k in range(most)}
    return tuple(0 if step in mine else step + 1 for step in range(steps))


TAKES_PART = {"max_participations": 3, "min_separation": 4}
STREAMED: tuple[Streamed, ...] = (
    Streamed("buffers", _stream_mean(**TAKES_PART, strategy=QUICK, steps=16), arrivals(16)),
    Streamed(
        "buffers, late", _stream_mean(**TAKES_PART, strategy=QUICK, steps=16), arrivals(16, 5)
    ),
    Streamed(
        "bands", _stream_mean(**TAKES_PART, strategy=Toeplitz((1.0, 1 / 2, 1 / 3))), arrivals(16)
    ),
    Streamed("zero-out", _stream_mean(**TAKES_PART, neighbors="zero-out", steps=16), arrivals(16)),
    Streamed("as planned", _stream_mean(**TAKES_PART, steps=16), arrivals(16)),
    Streamed("window", _stream_mean(**TAKES_PART, steps=16, window=5), arrivals(16)),
    Streamed("by group", _by_group(**TAKES_PART, steps=16, groups=2), arrivals(16, 0, 4), _halves),
    Streamed("half-life", _stream_mean(**TAKES_PART, steps=16, half_life=3.0), arrivals(16)),
    Streamed(
        "once", _stream_mean(max_participations=1, min_separation=1, steps=12), arrivals(12, 0, 1)
    ),
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
