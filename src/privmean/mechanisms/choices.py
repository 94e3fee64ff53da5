"""Choices of one item, or of a few, with no noise shown.

By noisy argmax: the fullest of a public list of bins, without a threshold, a delta or a failure
(docs/proofs/noisy-argmax.md). By the exponential mechanism, drawn exactly: an item is proposed
uniformly and accepted with probability exp(-unit (largest - score)), decided from random bits
against the exponential computed to as many digits as the decision needs. Its loss has bounded
range, which permute-and-flip's does not, so k choices cost k epsilon^2/8 zCDP. By the sparse
vector technique: the first counts above a level, or below a threshold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from privmean.array_types import Integers
from privmean.mechanisms.curator import differences
from privmean.mechanisms.noisy_counts import FineColumns, moved_counts
from privmean.mechanisms.weighted_draws import ScoredChoice, Selected
from privmean.noise.noise_source import Noise, accept_each
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import Gaussian


def choose(scores: Integers, unit: Fraction, noise: Noise) -> int:
    """One index, drawn with probability proportional to exp(unit * score), exactly."""
    gap = (int(scores.max()) - scores).astype(np.uint64)
    batch = max(64, 2 * len(scores))
    while True:
        index = noise.below(batch, len(scores))
        accepted = accept_each(gap[index], unit, noise.bits64)
        if accepted.any():
            return int(index[accepted.argmax()])


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
