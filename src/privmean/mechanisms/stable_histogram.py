"""Histograms of which only likely bins are shown.

The stable histogram: noisy counts of occupied bins, shown only above an exact threshold.

The bin that holds most persons: a histogram with noise on its occupied bins and one threshold.

Source: Dagan, Jordan, Yang, Zakynthinou and Zhivotovskiy (2024), Algorithm 6; the threshold is that
of a stable histogram (docs/proofs/anisotropic-unknown.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np

from privmean.mechanisms.curator import gaussian_share, laplace_share
from privmean.mechanisms.noisy_vector import lattice_bits, root_above, tail_above
from privmean.noise.decimal_context import plain_context
from privmean.noise.exact import double_above
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import Gaussian, Laplace, PrivacyEvent, Threshold

DIGITS = 60


@lru_cache(maxsize=1024)
def laplace_tail(steps: int, scale: Fraction) -> Fraction:
    """An upper bound on P(noise >= steps), steps >= 0, within a relative 1e-50 of exact.

    For discrete Laplace noise of the scale that is really drawn (the next double above `scale`) it
    is a^steps/(1 + a) with a = exp(-1/scale); rounded outward in 60-digit decimals.
    """
    used = Fraction(double_above(scale))
    with localcontext(plain_context(DIGITS)) as context:
        context.rounding = ROUND_CEILING
        exponent = -Decimal(steps * used.denominator) / Decimal(used.numerator)
        top = exponent.exp().next_plus()
        context.rounding = ROUND_FLOOR
        a = (-Decimal(used.denominator) / Decimal(used.numerator)).exp().next_minus()
        bottom = Decimal(1) + a
        context.rounding = ROUND_CEILING
        return Fraction(top / bottom)


@lru_cache(maxsize=1024)
def laplace_threshold(scale: Fraction, delta: float) -> int:
    """The smallest integer t with P(1 + noise >= t) <= delta: a bin of one person stays hidden.

    The closed form t = 1 + ceil(scale ln(1/(delta (1 + a)))) starts the search; the condition is
    then checked with `laplace_tail`, so that floating point cannot lower it.
    """
    a = math.exp(-1 / float(scale))
    start = math.ceil(float(scale) * math.log(1 / (delta * (1 + a))))
    steps = max(0, start - 1)
    while laplace_tail(steps, scale) > Fraction(delta):
        steps += 1
    return 1 + steps


@dataclass(frozen=True)
class StableHistogram:
    """Laplace counts of the occupied bins of one column, kept if at least `threshold`.

    scale: Laplace scale of each count; delta: the chance that a bin is shown that only one of two
    neighbors occupies. Bins are a public infinite family; empty ones are never looked at.

    Guarantees: one person replaced: two Laplace answers of sensitivity 1 and scale `scale`, so
    (2/scale, delta)-DP; one person added or removed: one such answer. No assumption on the data
    (docs/proofs/stable-histogram.md).
    """

    name: str
    scale: Fraction
    delta: float
    relation: Relation

    @classmethod
    def of(
        cls, epsilon: Fraction, delta: float, relation: Relation, name: str = "histogram"
    ) -> StableHistogram:
        return cls(name, moved_counts(relation) / epsilon, delta, relation)

    @property
    def threshold(self) -> int:
        return laplace_threshold(self.scale, self.delta)

    @property
    def events(self) -> tuple[Laplace, Threshold]:
        moved = moved_counts(self.relation)
        return (
            Laplace(
                self.name, Fraction(moved), self.scale, cells_changed=moved, neighbors=self.relation
            ),
            Threshold(
                f"{self.name} threshold",
                self.delta,
                float(self.threshold),
                scale=self.scale,
                neighbors=self.relation,
            ),
        )

    def sensitivity_share(
        self, exact: Mapping[int, int], other: Mapping[int, int]
    ) -> tuple[Fraction, ...]:
        count, _ = self.events
        return laplace_share(_changes(exact, other), count), _hidden_share(exact, other, 1)

    def draw(self, exact: Mapping[int, int], noise: Noise) -> dict[int, int]:
        """The kept noisy counts by bin index, in the order of the indices."""
        occupied = sorted(index for index, count in exact.items() if count > 0)
        draws = noise.laplace(len(occupied), self.scale).tolist() if occupied else []
        noisy = {
            index: int(exact[index]) + draw for index, draw in zip(occupied, draws, strict=True)
        }
        return {index: count for index, count in noisy.items() if count >= self.threshold}


@dataclass(frozen=True)
class GaussianStableHistogram:
    """The same with Gaussian counts, for `columns` columns at once.

    sd: standard deviation of each count, in people; delta: for all columns together.

    Guarantees: mu-GDP with mu = sqrt(2 columns)/sd (one person replaced) or sqrt(columns)/sd (added
    or removed), and delta on top. Counts live on a lattice of 2^bits steps a person
    (docs/proofs/stable-histogram.md, docs/proofs/gaussian.md).
    """

    name: str
    sd: float
    delta: float
    columns: int
    relation: Relation

    @classmethod
    def of(
        cls, mu: float, delta: float, columns: int, relation: Relation, name: str = "histogram"
    ) -> GaussianStableHistogram:
        sd = math.sqrt(moved_counts(relation) * columns) / mu * (1 + 1e-15)
        return cls(name, sd, delta, columns, relation)

    @property
    def bits(self) -> int:
        return lattice_bits(self.sd)

    @property
    def threshold(self) -> int:
        """In lattice steps: the smallest t with P(2^bits + noise >= t) <= delta/columns."""
        return _gaussian_threshold(self.sd, self.bits, self.delta / self.columns)

    @property
    def events(self) -> tuple[Gaussian, Threshold]:
        moved = moved_counts(self.relation) * self.columns
        steps = math.ldexp(self.sd, self.bits)
        sensitivity = math.ldexp(root_above(moved), self.bits)
        return (
            Gaussian(self.name, sensitivity, steps, moved, neighbors=self.relation),
            Threshold(
                f"{self.name} threshold",
                self.delta,
                math.ldexp(self.threshold, -self.bits),
                sd=self.sd,
                cells=self.columns,
                neighbors=self.relation,
            ),
        )

    def sensitivity_share(
        self, exact: Mapping[int, int], other: Mapping[int, int]
    ) -> tuple[Fraction, ...]:
        count, _ = self.events
        sd = math.ldexp(self.sd, self.bits)
        pairs = [(item << self.bits, sd) for item in _changes(exact, other)]
        return gaussian_share(pairs, count), _hidden_share(exact, other, self.columns)

    def draw(self, exact: Mapping[int, int], noise: Noise) -> dict[int, int]:
        """The kept noisy counts of one column in lattice steps, by bin index."""
        occupied = sorted(index for index, count in exact.items() if count > 0)
        steps = math.ldexp(self.sd, self.bits)
        draws = noise.gaussian(len(occupied), steps).tolist() if occupied else []
        noisy = {
            index: (int(exact[index]) << self.bits) + draw
            for index, draw in zip(occupied, draws, strict=True)
        }
        return {index: count for index, count in noisy.items() if count >= self.threshold}


@lru_cache(maxsize=256)
def _gaussian_threshold(sd: float, bits: int, delta: float) -> int:
    from scipy.special import ndtri

    steps = math.ldexp(sd, bits)
    start = math.floor(-float(ndtri(delta)) * steps)
    # the closed form is within a few steps; move up from just below it until the tail fits
    excess = max(0, start - 2)
    while tail_above(excess, steps) > delta:
        excess += 1
    return (1 << bits) + excess


def _changes(exact: Mapping[int, int], other: Mapping[int, int]) -> list[int]:
    """Changes of the counts of all bins that either has."""
    return [exact.get(index, 0) - other.get(index, 0) for index in {*exact, *other}]


def _hidden_share(exact: Mapping[int, int], other: Mapping[int, int], columns: int) -> Fraction:
    """What delta is for: bins that only one of two neighbors occupies, one person and one bin a
    column in either of them. A bin of more people would need a higher threshold."""
    most = 0
    for first, second in ((exact, other), (other, exact)):
        alone = [count for index, count in first.items() if count and not second.get(index, 0)]
        most = max(most, sum(alone))
    return Fraction(most, columns)


def moved_counts(relation: Relation) -> int:
    """How many counts of one column a neighbor changes, each by one."""
    return 2 if relation == REPLACE_ONE else 1


def top_bin(kept: Mapping[int, int]) -> int | None:
    """The index of the largest kept count, the smallest index among ties; None if all are hidden.

    Ties are broken by index, never by order of appearance, which would depend on the data.
    """
    if not kept:
        return None
    return min(kept, key=lambda index: (-kept[index], index))


@dataclass(frozen=True)
class LikeliestBin:
    """The occupied bin of the largest noisy count, if that reaches the threshold.

    Exact answers are the people of each occupied bin. The caller owes that replacing one person
    moves one from a bin to another.

    Guarantees: (epsilon, delta)-DP for replace-one neighbors, whatever the bins.
    """

    epsilon: Fraction
    delta: float
    name: str = "bins"

    @property
    def threshold(self) -> int:
        return 1 + math.ceil(2 * math.log(1 / self.delta) / float(self.epsilon))

    @property
    def _laplace(self) -> Laplace:
        return Laplace(
            self.name, Fraction(2), 2 / self.epsilon, cells_changed=2, neighbors=REPLACE_ONE
        )

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        scale, cut = 2 / self.epsilon, float(self.threshold)
        return (
            self._laplace,
            Threshold(self.name, self.delta, cut, scale=scale, neighbors=REPLACE_ONE),
        )

    def sensitivity_share(
        self, exact: Mapping[int, int], other: Mapping[int, int]
    ) -> tuple[Fraction, ...]:
        places = exact.keys() | other.keys()
        changes = [exact.get(item, 0) - other.get(item, 0) for item in places]
        new = max(
            sum(other[item] for item in other.keys() - exact.keys()),
            sum(exact[item] for item in exact.keys() - other.keys()),
        )
        return (laplace_share(changes, self._laplace), Fraction(new))

    def draw(self, exact: Mapping[int, int], noise: Noise) -> int | None:
        """Ties to the smallest; None if no bin is likely enough."""
        bins = sorted(exact)
        noisy = np.array([exact[item] for item in bins], dtype=np.int64)
        noisy = noisy + noise.laplace(len(bins), 2 / self.epsilon)
        best = int(np.argmax(noisy)) if bins else 0
        if not bins or noisy[best] < self.threshold:
            return None
        return bins[best]
