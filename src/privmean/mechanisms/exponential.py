"""Choices by exponential weights, drawn exactly.

The exponential mechanism with exact probabilities, and k choices in a row without return.

An item is proposed uniformly and accepted with probability exp(-unit (largest - score)), decided
from random bits against the exponential computed to as many digits as the decision needs. Its loss
has bounded range, which permute-and-flip's does not, so k choices cost k epsilon^2/8 zCDP.

One of many items, drawn exactly with probability proportional to weight times exponential.

An item is proposed with a whole number of chances that is at least its own, in steps of a fine
unit, and accepted by the part that it has of them. Doubles only say how many chances are enough;
the law is exact whatever they are.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from privmean.array_types import Floats, Integers
from privmean.mechanisms.curator import differences, pure_share
from privmean.mechanisms.noisy_counts import Choices, Scores
from privmean.noise.decimal_context import plain_context
from privmean.noise.noise_source import Noise
from privmean.privacy.privacy_events import PrivacyEvent, Selection

ONE = Fraction(1)
LARGEST_FACTOR = 2**200  # of which doubles tell enough
DOUBT = 1e-9  # relative room around the double of an exponential
FAINT = -600.0  # exponents below add nothing to a double; processors are slow where they underflow


def exponential_digits(gamma: Fraction, bits: int, factor: Fraction = ONE) -> int:
    """floor(2^bits factor exp(-gamma)) for rational gamma >= 0 and factor, exactly.

    exp of a rational other than 0 is irrational, so some precision always settles the floor.
    """
    if gamma == 0:
        return int(factor * 2**bits)
    digits = bits // 3 + 30
    while True:
        with decimal.localcontext(plain_context(digits)):
            exponent = decimal.Decimal(-gamma.numerator) / decimal.Decimal(gamma.denominator)
            value = exponent.exp() * (decimal.Decimal(2) ** bits)
            value *= decimal.Decimal(factor.numerator) / decimal.Decimal(factor.denominator)
            room = abs(value) * decimal.Decimal(10) ** (10 - digits) * (1 + abs(exponent))
            low, high = math.floor(value - room), math.floor(value + room)
        if low == high:
            return max(low, 0)
        digits *= 2


def accept(word: int, gamma: Fraction, noise: Noise, factor: Fraction = ONE) -> bool:
    """Whether a uniform number that begins with the 64 bits `word` is below factor exp(-gamma)."""
    if gamma == 0 and factor >= 1:
        return True
    if gamma < -FAINT and factor < LARGEST_FACTOR:
        shown = float(factor) * math.exp(-float(gamma)) * 2.0**64
        if abs(word - shown) > DOUBT * shown + 2.0**12:  # digits would not say otherwise
            return word < shown
    bits, number = 64, word
    while True:
        limit = exponential_digits(gamma, bits, factor)
        if number != limit:
            return number < limit
        number = (number << 64) + int(noise.bits64(1)[0])
        bits += 64


def choose(scores: Integers, unit: Fraction, noise: Noise) -> int:
    """One index, drawn with probability proportional to exp(unit * score), exactly."""
    gap = int(scores.max()) - scores
    shown = np.exp(-gap.astype(np.float64) * float(unit)) * 2.0**64
    batch = max(64, 2 * len(scores))
    while True:
        index = noise.below(batch, len(scores))
        words = noise.bits64(batch)
        u = words.astype(np.float64)
        sure = u < shown[index] * (1 - DOUBT) - 2.0**12
        doubt = ~sure & (u <= shown[index] * (1 + DOUBT) + 2.0**12)
        for position in np.flatnonzero(sure | doubt):
            i = int(index[position])
            if sure[position] or accept(int(words[position]), unit * int(gap[i]), noise):
                return i


def peel(scores: Integers, choices: int, unit: Fraction, noise: Noise) -> list[int]:
    """`choices` different indices, each drawn by `choose` from those left."""
    left = np.arange(len(scores))
    chosen: list[int] = []
    for _ in range(choices):
        position = choose(scores[left], unit, noise)
        chosen.append(int(left[position]))
        left = np.delete(left, position)
    return chosen


@dataclass(frozen=True)
class TopChoices(Choices):
    """`choices` different items of large score, one after the other, each at `epsilon`.

    The caller owes that one change of neighbors moves every score by at most `span`.

    Guarantees: `choices` exponential mechanisms of pure loss epsilon each, for replace-one
    neighbors.
    """

    span: int
    bounded_range: ClassVar[bool] = True

    def sensitivity_share(self, exact: Integers, other: Integers) -> tuple[Fraction, ...]:
        """What all scores have in common moves no choice: the range of the changes does."""
        changes = differences(exact, other)
        return (Fraction(max(changes) - min(changes), 2 * self.span),)

    def draw(self, exact: Integers, noise: Noise) -> list[int]:
        return peel(exact, self.choices, self.epsilon / (2 * self.span), noise)


@dataclass(frozen=True)
class Exponential(Scores):
    """The index of a score, drawn with probability proportional to exp(epsilon score / change).

    The caller owes that the changes which one person makes lie within an interval of length
    `change`: half of it in either direction, or all of it in one (docs/proofs/noisy-argmax.md).

    Guarantees: epsilon-DP of bounded range, hence epsilon^2/8 zCDP. Nothing but the index is
    released. Source: Cesar and Rogers (2021), Dong et al. (2020).
    """

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        made = Selection(
            self.name,
            self.epsilon,
            bounded_range=True,
            neighbors=self.relation,
            sensitivity_text=self.words,
        )
        return (made,)

    def sensitivity_share(self, exact: Integers, other: Integers) -> tuple[Fraction, ...]:
        changes = differences(exact, other)
        width = max(changes, default=0) - min(changes, default=0)
        return (pure_share(width / self.scale, self.events[0]),)

    def draw(self, exact: Integers, noise: Noise) -> int:
        return choose(exact, 1 / self.scale, noise)


BITS = 60  # of all chances together
BATCH = 4  # proposals at a time: nearly every one is accepted


def weighted_draw(
    gaps: Integers,
    unit: Fraction,
    weights: Floats,
    exact_weight: Callable[[int], Fraction],
    noise: Noise,
) -> int:
    """Draw item i with probability proportional to exact_weight(i) exp(-unit gaps[i]).

    gaps: at least 0, with a 0 among them. weights: the exact weights as doubles, within a part of
    10^-12. Weights are positive where they are not exactly 0.
    """
    shown = (_exponentials(gaps, unit) * weights)[None, :]
    return _drawn(shown, weights > 0, exact_weight, lambda i: int(gaps[i]), unit, noise)


def weighted_pair(
    scores: tuple[Integers, Integers], unit: Fraction, weight: Integers, shown: Floats, noise: Noise
) -> tuple[int, int]:
    """Draw a pair (i, j) with probability proportional to weight[i] weight[j] exp(-unit max(one[i],
    other[j])) for two lists of scores. shown: the positive products of weights, as doubles."""
    least = max(int(side.min()) for side in scores)  # of the larger scores of all pairs
    one, other = (np.maximum(side - least, 0) for side in scores)
    table = np.minimum.outer(_exponentials(one, unit), _exponentials(other, unit))
    table *= shown

    def exact_weight(at: int) -> Fraction:
        i, j = divmod(at, len(other))
        return Fraction(int(weight[i]) * int(weight[j]))

    def gap(at: int) -> int:
        i, j = divmod(at, len(other))
        return max(int(one[i]), int(other[j]))

    return divmod(_drawn(table, True, exact_weight, gap, unit, noise), len(other))


def _exponentials(gaps: Integers, unit: Fraction) -> Floats:
    shown = gaps * -float(unit)
    np.maximum(shown, FAINT, out=shown)
    found: Floats = np.exp(shown, out=shown)
    return found


def _drawn(
    shown: Floats,
    possible: npt.NDArray[np.bool_] | bool,
    exact_weight: Callable[[int], Fraction],
    gap: Callable[[int], int],
    unit: Fraction,
    noise: Noise,
) -> int:
    """An item of a table (numbered row by row), by its double `shown`, which is changed."""
    scale = BITS - math.frexp(float(shown.sum()))[1]
    shown *= 2.0 ** min(scale, 1000)
    if scale > 1000:
        shown *= 2.0 ** (scale - 1000)
    shown *= 1 + DOUBT
    chances = shown.astype(np.int64)
    chances += possible
    rows = chances.sum(axis=1)
    ends = np.cumsum(rows)
    while True:
        proposed = noise.below(BATCH, int(ends[-1]))
        words = noise.bits64(BATCH)
        for place, word in zip(proposed.tolist(), words.tolist(), strict=True):
            row = int(np.searchsorted(ends, place, side="right"))
            rest = place - int(ends[row] - rows[row])
            column = int(np.searchsorted(np.cumsum(chances[row]), rest, side="right"))
            i = row * len(chances[row]) + column
            part = exact_weight(i) * Fraction(2) ** scale / int(chances[row, column])
            if accept(word, unit * gap(i), noise, part):
                return i
