"""Choices of one item, or of a few, with no noise shown.

By noisy argmax: the fullest of a public list of bins, without a threshold, a delta or a failure
(docs/proofs/noisy-argmax.md). By the exponential mechanism, drawn exactly: an item is proposed
uniformly and accepted with probability exp(-unit (largest - score)), decided from random bits
against the exponential computed to as many digits as the decision needs. Its loss has bounded
range, which permute-and-flip's does not, so k choices cost k epsilon^2/8 zCDP. With weights an item
is proposed with a whole number of chances that is at least its own, and accepted by the part that
it has of them; doubles only say how many chances are enough. By the sparse vector technique: the
first counts above a level, or below a threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Generic, TypeVar, cast

import numpy as np

from privmean.array_types import Flags, Floats, Integers
from privmean.mechanisms.curator import differences, pure_share
from privmean.mechanisms.noisy_counts import FineColumns, moved_counts
from privmean.noise.noise_source import DOUBT, FAINT, Noise, accept, accept_each
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import Gaussian, Selection


def choose(scores: Integers, unit: Fraction, noise: Noise) -> int:
    """One index, drawn with probability proportional to exp(unit * score), exactly."""
    gap = (int(scores.max()) - scores).astype(np.uint64)
    batch = max(64, 2 * len(scores))
    while True:
        index = noise.below(batch, len(scores))
        accepted = accept_each(gap[index], unit, noise.bits64)
        if accepted.any():
            return int(index[accepted.argmax()])


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


@dataclass(frozen=True)
class Scores(ScoredChoice[Integers]):
    """Scores of which an index is released. change: what one person moves, as the mechanism has
    it; words: the same for the accounting."""

    name: str
    epsilon: Fraction
    relation: Relation
    change: int
    words: str

    @property
    def scale(self) -> Fraction:
        return self.change / self.epsilon

    @property
    def unit(self) -> Fraction:
        return 1 / self.scale


@dataclass(frozen=True)
class Choices(Selected):
    """`choices` selections one after the other, each at `epsilon`, for replace-one neighbors."""

    name: str
    epsilon: Fraction
    choices: int
    words: str
    relation = REPLACE_ONE


@dataclass(frozen=True)
class Choice(Scores):
    """The index of the largest score plus Exponential noise.

    The caller owes that one person moves every score by at most `change`/2, in any direction, or
    all of them by at most `change` in the same one (docs/proofs/noisy-argmax.md).

    Guarantees: epsilon-DP. Nothing but the index is released.
    """

    def draw(self, exact: Integers, noise: Noise) -> int:
        return noise.argmax(exact, self.scale)


@dataclass(frozen=True)
class Exponential(Scores):
    """The index of a score, drawn with probability proportional to exp(epsilon score / change).

    The caller owes that the changes which one person makes lie within an interval of length
    `change`: half of it in either direction, or all of it in one (docs/proofs/noisy-argmax.md).

    Guarantees: epsilon-DP of bounded range, hence epsilon^2/8 zCDP. Nothing but the index is
    released. Source: Cesar and Rogers (2021), Dong et al. (2020).
    """

    bounded_range: ClassVar[bool] = True

    def draw(self, exact: Integers, noise: Noise) -> int:
        return choose(exact, self.unit, noise)


MOST_BINS = 2**22
BLANK = 0.01  # chance that empty bins are taken for occupied ones


@dataclass(frozen=True)
class Bins:
    """`number` uniform bins of half width `half` that cover a public range.

    Index k holds (origin + 2 half k - half, origin + 2 half k + half]; values beyond the range are
    counted in the first or last bin. origin is the center of the first bin.
    """

    lower: float
    half: float
    number: int

    @classmethod
    def cover(cls, lower: float, upper: float, half: float) -> Bins:
        """The fewest bins of half width `half` that cover [lower, upper]."""
        number = max(1, math.ceil((upper - lower) / (2 * half)))
        spare = 2 * half * number - (upper - lower)
        return cls(lower - spare / 2, half, number)

    @property
    def origin(self) -> float:
        return self.lower + self.half

    def center(self, index: int) -> float:
        return self.origin + 2 * self.half * index

    def all_counts(self, counts: Mapping[int, int]) -> Integers:
        """Counts of every public bin, from those of occupied ones; outside goes to the ends."""
        result = np.zeros(self.number, dtype=np.int64)
        for index, count in counts.items():
            result[min(max(index, 0), self.number - 1)] += count
        return result


@dataclass(frozen=True)
class NoisyArgmax(Choice):
    """The bin with the largest count plus Exponential(scale) noise on ALL public bins.

    Guarantees: epsilon-DP with epsilon = 2/scale if one person is replaced (one count falls by
    one, another rises), 1/scale if one is added or removed (all changes go the same way). Drawn as
    permute-and-flip (docs/proofs/noisy-argmax.md). Nothing but the index is released.
    """

    @classmethod
    def of(cls, epsilon: Fraction, relation: Relation, name: str = "noisy argmax") -> NoisyArgmax:
        moved = moved_counts(relation)
        return cls(name, epsilon, relation, moved, f"{moved} of the counts, by one each")


@dataclass(frozen=True)
class GaussianArgmax(FineColumns):
    """Report the largest of all public counts plus Gaussian noise: the form for zCDP and for many
    columns at once.

    Guarantees: those of `FineColumns`: the noisy counts themselves could be published.
    """

    @property
    def events(self) -> tuple[Gaussian, ...]:
        return self.counts.events

    def sensitivity_share(self, exact: Integers, other: Integers) -> tuple[Fraction, ...]:
        return (self.counts.share(differences(exact, other)),)

    def draw(self, exact: Integers, noise: Noise) -> int:
        """The index of one column's largest noisy count (the first among ties)."""
        return int(np.argmax(self.counts.noisy(exact, noise)))


@dataclass(frozen=True)
class SeenArgmax(GaussianArgmax):
    """The same, or None where the largest noisy count is one that noise by itself may have."""

    def least(self, cells: int) -> float:
        """The count that noise on empty cells exceeds in one release of a hundred at most."""
        return self.sd * math.sqrt(2 * math.log(cells / BLANK))

    def draw(self, exact: Integers, noise: Noise) -> int | None:  # type: ignore[override]
        noisy = self.counts.noisy(exact, noise)
        index = int(np.argmax(noisy))
        least = math.ldexp(self.least(len(exact)), self.counts.bits)
        return index if float(noisy[index]) >= least else None


@dataclass(frozen=True)
class HitsAbove(Choices):
    """The first `choices` counts that reach `level`, each found by a run of its own at `epsilon`:
    the sparse vector technique with fresh noise a hit.

    The caller owes that replacing one person moves every count by at most one.

    Guarantees: pure loss `choices` times epsilon, for replace-one neighbors. Source: Dagan, Jordan,
    Yang, Zakynthinou and Zhivotovskiy (2024), Algorithm 4, with the noise that its guarantee needs
    (docs/proofs/anisotropic-unknown.md).
    """

    level: float

    def sensitivity_share(self, exact: Integers, other: Integers) -> tuple[Fraction, ...]:
        return (Fraction(max((abs(item) for item in differences(exact, other)), default=0)),)

    def draw(self, exact: Integers, noise: Noise) -> Integers:
        found: list[int] = []
        start = 0
        while len(found) < self.choices and start < len(exact):
            (draw,) = noise.laplace(1, 2 / self.epsilon).tolist()
            cut = draw + self.level
            noisy = exact[start:] + noise.laplace(len(exact) - start, 4 / self.epsilon)
            above = np.flatnonzero(noisy >= cut)
            if len(above) == 0:
                break
            found.append(start + int(above[0]))
            start = found[-1] + 1
        return np.array(found, dtype=np.int64)


@dataclass(frozen=True)
class FirstBelow(Selected):
    """Counts are compared with a noisy threshold one after the other, until one is not above it:
    the sparse vector technique, one answer.

    The caller owes that one person moves all counts by at most one, in the same direction. words:
    what one person moves, for the accounting.

    Guarantees: epsilon-DP for any number of counts; nothing but the index is released. Source:
    Dwork and Roth (2014), Algorithm 1, with the noise that monotone counts need (Lyu, Su and Li
    2017); docs/proofs/heavy-tails-radius.md.
    """

    name: str
    threshold: int
    epsilon: Fraction
    relation: Relation
    words: str

    def sensitivity_share(self, exact: Iterable[int], other: Iterable[int]) -> tuple[Fraction, ...]:
        changes = differences(exact, other)
        # counts that move in both directions would need twice the noise
        reach = max([*changes, 0]) - min([*changes, 0])
        return (Fraction(reach),)

    def draw(self, exact: Iterable[int], noise: Noise) -> int | None:
        """The index of the first count found below; None if none is. Later counts are not read."""
        scale = 2 / self.epsilon
        threshold = self.threshold + noise.laplace(1, scale).tolist()[0]
        for index, count in enumerate(exact):
            if count + noise.laplace(1, scale).tolist()[0] <= threshold:
                return index
        return None
