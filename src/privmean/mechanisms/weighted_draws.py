"""Exact draws of an item by its weight and its score, and what choices have in common.

With weights an item is proposed with a whole number of chances that is at least its own, and
accepted by the part that it has of them; doubles only say how many chances are enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Generic, TypeVar, cast

import numpy as np

from privmean.array_types import Flags, Floats, Integers
from privmean.mechanisms.curator import differences, pure_share
from privmean.noise.noise_source import DOUBT, FAINT, Noise, accept
from privmean.privacy.budget import Relation
from privmean.privacy.privacy_events import Selection

BITS = 60  # of all chances together
BATCH = 4  # proposals at a time: nearly every one is accepted
HEAVIEST = 2**26  # of an item of a pair; the least weight is 1
# a pair with an exponential below gives less than one chance: its product is at most 2^(52 - 128),
# and since one pair has an exponential of 1, no product counts more than 2^59 chances
NO_CHANCE = 2.0**-128


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
    shown = (exponentials(gaps, unit) * weights)[None, :]
    chances, scale = _chances(shown)
    table = _ChanceTable(chances + (weights > 0), scale)
    return table.draw(exact_weight, lambda i: int(gaps[i]), unit, noise)


def weighted_pair(
    scores: tuple[Integers, Integers], unit: Fraction, weight: Integers, shown: Floats, noise: Noise
) -> tuple[int, int]:
    """Draw a pair (i, j) with probability proportional to weight[i] weight[j] exp(-unit max(one[i],
    other[j])) for two lists of scores. weight: from 1 to HEAVIEST. shown: the products of weights,
    as doubles."""
    least = max(int(side.min()) for side in scores)  # of the larger scores of all pairs
    one, other = (np.maximum(side - least, 0) for side in scores)
    likely = exponentials(one, unit), exponentials(other, unit)
    rows, columns = (_span(side > NO_CHANCE) for side in likely)
    part = np.minimum.outer(likely[0][rows], likely[1][columns])
    part *= shown[rows, columns]
    chances, scale = _chances(part)
    chances += 1
    table = _ChanceTable(chances, scale, (rows.start, columns.start), (len(one), len(other)))

    def exact_weight(at: int) -> Fraction:
        i, j = divmod(at, len(other))
        return Fraction(int(weight[i]) * int(weight[j]))

    def gap(at: int) -> int:
        i, j = divmod(at, len(other))
        return max(int(one[i]), int(other[j]))

    return divmod(table.draw(exact_weight, gap, unit, noise), len(other))


def exponentials(gaps: Integers, unit: Fraction) -> Floats:
    """exp(-unit gaps) as doubles, none of which is 0."""
    shown = gaps * -float(unit)
    np.maximum(shown, FAINT, out=shown)
    found: Floats = np.exp(shown, out=shown)
    return found


def _span(flags: Flags) -> slice:
    """From the first flag to the last."""
    places = np.flatnonzero(flags)
    return slice(int(places[0]), int(places[-1]) + 1)


def _chances(shown: Floats) -> tuple[Integers, int]:
    """Whole numbers of chances, rounded down, and how many bits these doubles are made larger for
    that. `shown` is changed."""
    scale = BITS - math.frexp(float(shown.sum()))[1]
    if scale > 1000:
        shown *= 2.0**1000
    shown *= (1 + DOUBT) * 2.0 ** (scale if scale <= 1000 else scale - 1000)
    return shown.astype(np.int64), scale


class _ChanceTable:
    """Items with whole numbers of chances, numbered row by row.

    corner, size: where `chances` lie in a larger table, whose other items have one chance each.
    scale: bits by which weights are made larger, to be compared with chances.
    """

    def __init__(
        self,
        chances: Integers,
        scale: int,
        corner: tuple[int, int] = (0, 0),
        size: tuple[int, int] | None = None,
    ) -> None:
        self.chances, self.scale, (self.top, self.left) = chances, scale, corner
        height, self.width = cast("tuple[int, int]", chances.shape) if size is None else size
        self.bottom, self.right = self.top + chances.shape[0], self.left + chances.shape[1]
        rows = np.full(height, self.width)
        rows[self.top : self.bottom] += chances.sum(axis=1) - chances.shape[1]
        self.ends = rows.cumsum()

    def _row(self, row: int) -> Integers:
        """The chances of one row."""
        if not self.top <= row < self.bottom:
            return np.ones(self.width, dtype=np.int64)
        found: Integers = self.chances[row - self.top]
        if len(found) == self.width:
            return found
        whole = np.ones(self.width, dtype=np.int64)
        whole[self.left : self.right] = found
        return whole

    def draw(
        self,
        exact_weight: Callable[[int], Fraction],
        gap: Callable[[int], int],
        unit: Fraction,
        noise: Noise,
    ) -> int:
        """The number of an item."""
        larger, smaller = max(self.scale, 0), max(-self.scale, 0)
        while True:
            proposed = noise.below(BATCH, int(self.ends[-1]))
            words = noise.bits64(BATCH)
            for place, word in zip(proposed.tolist(), words.tolist(), strict=True):
                row = int(self.ends.searchsorted(place, side="right"))
                before = int(self.ends[row - 1]) if row else 0
                chances = self._row(row)
                column = int(chances.cumsum().searchsorted(place - before, side="right"))
                i: int = row * self.width + column
                weight = exact_weight(i)
                part = Fraction(
                    weight.numerator << larger,
                    weight.denominator * int(chances[column]) << smaller,
                )
                if accept(word, unit * gap(i), noise.bits64, part):
                    return i


class Selected:
    """A mechanism with one line in its accounting, that of a choice at `epsilon`.

    words: what one person moves, for the accounting. bounded_range: whether the loss has it.
    A class with `choices` makes so many, one after the other.
    """

    name: str
    epsilon: Fraction
    relation: Relation
    words: str
    bounded_range: ClassVar[bool] = False

    @property
    def events(self) -> tuple[Selection, ...]:
        facts = self.name, self.epsilon, self.bounded_range, getattr(self, "choices", 1)
        return (_selection(*facts, self.relation, self.words),)


@lru_cache(maxsize=64)
def _selection(
    name: str, epsilon: Fraction, bounded_range: bool, choices: int, relation: Relation, words: str
) -> Selection:
    """Kept for equal public facts."""
    return Selection(
        name, epsilon, bounded_range, choices, neighbors=relation, sensitivity_text=words
    )


E = TypeVar("E")  # an exact answer


class ScoredChoice(Selected, Generic[E]):
    """A choice of one item by its score, of `unit` nats a step."""

    @property
    def unit(self) -> Fraction:
        raise NotImplementedError

    def both_scores(self, exact: E, other: E) -> tuple[Integers, Integers]:
        """Scores of two answers, of the same items."""
        return cast("Integers", exact), cast("Integers", other)

    def sensitivity_share(self, exact: E, other: E) -> tuple[Fraction, ...]:
        """What all scores have in common moves no choice: the range of the changes does."""
        changes = differences(*self.both_scores(exact, other))
        width = max(changes, default=0) - min(changes, default=0)
        return (pure_share(width * self.unit, self.events[0]),)
