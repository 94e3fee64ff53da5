"""Local randomizers by enumeration: the exact law of the bytes a client sends, coin by coin.

A client runs as it is, but for the words of its entropy: a word is an unknown number from 0 to
2^64 - 1, and every comparison of it with a threshold splits the run in two, each with its exact
probability. All runs together are the law of the report, in fractions, and laws of two inputs are
compared byte for byte. Words that a client shifts (directions that no value touches) are fixed.
"""

from __future__ import annotations

import decimal
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any

from privmean.auditing.findings import Findings
from privmean.local.clients.client import RANDOMIZERS, Randomizer
from privmean.local.clients.randomizers import takes_piecewise
from privmean.local.exact_coins import WORD, power_of_e
from privmean.local.mechanisms import HYBRID
from privmean.local.round import Round
from privmean.local.round_builders import ball_round, items_round, mean_round, vote_round
from privmean.noise.interval_arithmetic import plain_context

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
