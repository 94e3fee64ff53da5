"""Whether a choice that is drawn by rejection is sharper than the accounting says.

The words that a draw is decided by are given, one after the other: how many of them give an answer
is its probability. No formula of a draw is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from privmean.auditing.equality import same
from privmean.auditing.fixed_noise import Added, Answer, Endless, Fixed, drawn
from privmean.bisection import smallest_int
from privmean.data.array_table import ArrayPersonTable
from privmean.mechanisms.exponential import Exponential, TopChoices
from privmean.mechanisms.private_center import PrivateCenter
from privmean.mechanisms.private_limits import CANDIDATES, PLATEAU, PrivateLimits
from privmean.privacy.budget import REPLACE_ONE

Weighted: TypeAlias = PrivateCenter | PrivateLimits
Choice: TypeAlias = Exponential | TopChoices | Weighted
CHOICES = (Exponential, TopChoices, PrivateCenter, PrivateLimits)
SHARP = "a choice is sharper than the accounting says"
ROUNDING = Fraction(1, 10**6)
NATS = 5  # between the scores of two answers, about
MOST_EPSILON = 18  # beyond it a worse answer has too few of the words to be measured
NEARLY = 2**64 - 2**54  # a word that refuses an item, unless it is accepted nearly always
PARTS = 7  # of the probability of all others, at whose ends they are looked at
ONE_DRAW = 8  # requests before an item is proposed again, at least


def too_sharp(step: Choice) -> Iterator[str]:
    """What is wrong with the probabilities of a choice, in words."""
    if not step.events or not measurable(step):
        return
    gap, words = accepted(step)
    if 2**64 * math.exp(-float(_unit(step)) * gap * (1 + ROUNDING)) > words:
        yield SHARP


def _unit(step: Choice) -> Fraction:
    """Nats that scores may move a choice by, a step of 1, as the accounting says."""
    if isinstance(step, Exponential | TopChoices):
        return step.epsilon / (2 * step.span if isinstance(step, TopChoices) else step.change)
    one_way = isinstance(step, PrivateCenter) and step.relation != REPLACE_ONE
    whole = step.whole if isinstance(step, PrivateCenter) else 1
    return step.events[0].pure / ((1 if one_way else 2) * whole)


def measurable(step: Choice) -> bool:
    return isinstance(step, Exponential | TopChoices) or step.epsilon <= MOST_EPSILON


def accepted(step: Choice) -> tuple[int, int]:
    """A gap of scores, and how many of 2^64 times an answer is given that is so much worse; where
    answers have weights: where it becomes so much worse than all others, of the times before."""
    if isinstance(step, Exponential | TopChoices):
        return _accepted(step)
    gap, answer, one, two = _extremes(step)
    first, second = (_against_others(step, exact, answer) for exact in (one, two))
    if first is None or second is None:
        return gap, 0
    alike = sum(map(same, first[1], second[1]))
    if alike < PARTS // 2:  # at an end by chance another one is next: in one or two of them
        return gap, 0
    return gap, int(2**64 * math.exp(-abs(first[0] - second[0])))


# --- one of two items -----------------------------------------------------------------------------
def _accepted(step: Exponential | TopChoices) -> tuple[int, int]:
    """By the first word that refuses an item."""
    one: Any = replace(step, choices=1) if isinstance(step, TopChoices) else step
    change = 2 * one.span if isinstance(step, TopChoices) else one.change
    gap = max(1, int(change * min(1.0, NATS / float(one.epsilon))))
    scores = np.array([0, gap])

    def refused(word: int) -> bool:
        return int(np.ravel(one.draw(scores, _Proposing(word)))[0]) != 0

    return gap, least(refused, 2**64 - 1)


def least(enough: Callable[[int], bool], most: int) -> int:
    """The smallest whole number that is enough, or `most`."""
    found = smallest_int(enough, 0, most=most)
    return most if found is None else found


class _Proposing(Fixed):
    """The first item is proposed first, with this word; then the second, for ever."""

    def __init__(self, word: int) -> None:
        super().__init__()
        self._word = word

    def below(self, size: int, bound: int) -> Added:
        return np.minimum(np.arange(size), 1)

    def bits64(self, size: int) -> Added:
        return np.full(size, self._word, dtype=np.uint64)


# --- one of many items with weights ---------------------------------------------------------------
def _extremes(step: Weighted) -> tuple[int, Answer, Answer, Answer]:
    """An answer that is proposed first or last, and two exact answers: between them all others'
    scores move alike, and apart from its own by so many people (which come first)."""
    if isinstance(step, PrivateCenter):  # people at 0, or above all candidates
        people = math.ceil(NATS / step.unit)
        tables = [ArrayPersonTable(np.full((people, 1), x), ("x",)) for x in (0.0, 1e300)]
        one, two = (table.column_counts(0) for table in tables)
        return people, (0.0, 0.0), one, two
    nobody = np.zeros(CANDIDATES, dtype=np.int64)
    # beyond all limits, at most as many as a limit other than the center misses within
    people = max(1, int(PLATEAU / step.unit))
    all_out = np.full(CANDIDATES, people)
    return people, (0, 0), (nobody, nobody), (all_out, all_out)


def _against_others(
    step: Weighted, exact: Answer, answer: Answer
) -> tuple[float, list[Answer]] | None:
    """The logarithm of the odds of `answer` against all others, by what is proposed, and some of
    the others, at parts of their probability; None where one side is not given, or refused."""

    def given(place: int, word: int = 0) -> Answer:
        return _placed(step, exact, place, word)[0]

    bound = _placed(step, exact, 0, 0)[1]
    first = given(0) == answer
    if not bound or first == (given(bound - 1) == answer):
        return None
    low, high = 0, bound - 1  # between them the answer changes
    while high - low > max(1, min(low, bound - high) >> 32):
        middle = (low + high) // 2
        low, high = (middle, high) if (given(middle) == answer) == first else (low, middle)
    start, end = (high, bound) if first else (0, high)
    others = [given(start + (end - start) * part // PARTS) for part in range(1, PARTS)]
    if None in (given(low // 2, NEARLY), given((high + bound) // 2, NEARLY)):
        return None
    return math.log(high / (bound - high)) * (1 if first else -1), others


def _placed(step: Weighted, exact: Answer, place: int, word: int) -> tuple[Answer, int]:
    """The answer if this place is proposed, with this word (None: refused), and how many places
    there are (0: none)."""
    noise = _Placing(place, word)
    try:
        return drawn(step, exact, noise, ONE_DRAW)[0], noise.bound
    except Endless:
        return None, noise.bound


class _Placing(Fixed):
    """One item is proposed, with one word, again and again."""

    def __init__(self, place: int, word: int) -> None:
        super().__init__()
        self._place, self._word, self.bound = place, word, 0

    def below(self, size: int, bound: int) -> Added:
        self.bound = self.bound or bound
        return np.full(size, min(self._place, bound - 1), dtype=np.int64)

    def bits64(self, size: int) -> Added:
        return np.full(size, self._word, dtype=np.uint64)
