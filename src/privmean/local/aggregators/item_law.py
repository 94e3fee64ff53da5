"""The law of reports on items; shares of single items on demand, for domains too large to list.

Proofs: docs/proofs/local-items.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.local.aggregators.estimate_result import Heterogeneity, cochran
from privmean.local.aggregators.round_law import (
    MINIMAX,
    TESTED,
    UNIFORM,
    RoundLaw,
    Weighed,
    level_weights,
)
from privmean.local.aggregators.tally import Tally, bit_count
from privmean.local.clients.randomizers import (
    BLOCK,
    sign_block,
    sketch_sign,
    subset_size,
    subset_threshold,
)
from privmean.local.exact_coins import WORD, signal
from privmean.local.round import HADAMARD, SKETCH, Round

SLACK = 2.0**-30  # of beta: for the rounding of the search for a radius, as in 0.2


def project_to_simplex(raw: Floats) -> tuple[Floats, float]:
    """Return the nearest distribution in L2, max(raw - tau, 0) with sum 1, and tau.

    Parameters
    ----------
    raw : array (items,)
        Noisy frequencies.

    Returns
    -------
    array (items,), float
        The distribution, and tau.

    Notes
    -----
    If every entry of `raw` is within t of a distribution p, the projection is within t + |tau| of
    p, and |tau| <= t. The largest error can double: see docs/proofs/local-items.md.
    """
    raw = np.asarray(raw, dtype=float)
    falling = np.sort(raw)[::-1]
    over = (np.cumsum(falling) - 1.0) / np.arange(1, len(raw) + 1)
    last = int(np.flatnonzero(falling > over)[-1])
    tau = float(over[last])
    return np.maximum(raw - tau, 0.0), tau


@dataclass(frozen=True)
class ItemLaw:
    """What a server knows of the reports of one level.

    A report gives each item a number with the mean 1 for its own item and 0 for others. own,
    rare: the chance of a 1 bit at the own and at another item (bit vectors), or of the right sign
    and the wrong one (rows). reach: the width of the numbers' range. row: whether reports are
    signs in a row.
    """

    own: float
    rare: float
    reach: float
    row: bool = False

    def variance(self, p: Floats | float) -> Floats | float:
        """Variance of one item's number if a share p of the people holds the item."""
        if self.row:
            return (self.reach / 2) ** 2 - p * p
        chance = self.rare + p * (self.own - self.rare)
        return chance * (1 - chance) * self.reach**2

    def seen(self, p: Floats, reports: float) -> Floats:
        """The variance at an estimated share p, for approximate intervals.

        Bits are counted with two more of each kind (Agresti and Coull 1998): a count of zero says
        little about the chance of a one.
        """
        chance = 0.5 + p / self.reach if self.row else self.rare + p * (self.own - self.rare)
        chance = (reports * np.clip(chance, 0.0, 1.0) + 2) / (reports + 4)
        return chance * (1 - chance) * self.reach**2

    def noise(self, p: Floats | float) -> Floats | float:
        """The part of the variance that privacy adds; the rest is the sampling of people."""
        return self.variance(p) - p * (1 - p)


def item_law(round_: Round, level: int, epsilon: float | None = None) -> ItemLaw:
    """The law of a level (of another epsilon, for weights under a cap)."""
    assert round_.items is not None
    exact = round_.menu[level] if epsilon is None else Fraction(repr(epsilon))
    if round_.rows is not None:
        c = 1.0 / signal(exact)
        return ItemLaw(0.5 + 0.5 / c, 0.5 - 0.5 / c, 2 * c, row=True)
    own = subset_threshold(exact, round_.items) / WORD
    rare = (subset_size(exact, round_.items) - own) / (round_.items - 1)
    return ItemLaw(own, rare, 1 / (own - rare))


def walsh(values: Floats) -> Floats:
    """The Walsh-Hadamard transform of a vector whose length is a power of two."""
    result = values.copy()
    half = 1
    while half < len(result):
        pairs = result.reshape(-1, 2, half)
        top, bottom = pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]
        pairs[:, 0], pairs[:, 1] = top, bottom
        half *= 2
    return result


def column(round_: Round, item: int) -> Floats:
    """The signs of an item in all rows."""
    assert round_.rows is not None
    if round_.mechanism == HADAMARD:  # (-1)^popcount(row & item)
        odd = bit_count(np.arange(round_.rows, dtype=np.int64) & item) & 1
    else:
        count = -(-round_.rows // BLOCK)
        blocks = b"".join(sign_block(round_.seed, item, block) for block in range(count))
        signs = np.frombuffer(blocks, np.uint8)
        odd = np.unpackbits(signs, bitorder="little", count=round_.rows)
    return np.asarray(1.0 - 2.0 * odd)


def sketch_signs(seed: bytes, rows: Integers, columns: Integers) -> Integers:
    """s(row, column) of many pairs."""
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    return np.array([sketch_sign(seed, row, column) for row, column in pairs], dtype=np.int64)


class ItemRound(RoundLaw):
    """The shares of items, or of bins of each coordinate."""

    norm = "sup"

    def __init__(self, round_: Round, used: Sequence[int]) -> None:
        assert round_.items is not None
        self.width = round_.items
        super().__init__(round_, used)
        self.reach = np.array([law.reach for law in self.laws])
        self.target = "shares of the items" if round_.bins is None else "shares of the bins"

    def level_law(self, level: int, epsilon: float | None) -> ItemLaw:
        return item_law(self.round, level, epsilon)

    def weighed_by(self, laws: list[ItemLaw]) -> Floats:
        """The variance at p = 0 plus 1/4 (rows: c^2)."""
        extra = 0.25 if self.round.rows is None else 0.0
        found = np.array([law.variance(0.0) + extra for law in laws])
        return np.repeat(found[:, None], self.sites, axis=1)

    def planned(self) -> Floats:
        return self.variances(1 / self.width)

    def variances(self, share: float) -> Floats:
        """If each item has this share of the people."""
        found = np.array([float(law.variance(share)) for law in self.laws])
        return np.repeat(found[:, None], self.sites, axis=1)

    def read(self, tally: Tally) -> None:
        self.counts = tally.counts.reshape(-1, self.sites)[self.used].astype(float)
        self.sums = np.array(
            [[self._sums(tally, k, j) for j in range(self.sites)] for k in self.used]
        )

    def _sums(self, tally: Tally, level: int, site: int) -> Floats:
        """The sums of the numbers that reports give each item."""
        sums = row_sums(tally, level, site)
        if self.round.mechanism == HADAMARD:
            return walsh(sums)[: self.width]
        if self.round.mechanism == SKETCH:
            return np.array([column(self.round, item) @ sums for item in range(self.width)])
        law = self.laws[level]
        return np.asarray((sums - self.counts[level, site] * law.rare) / (law.own - law.rare))

    def seen(self, site: int, raw: Floats) -> Floats:
        p = np.clip(raw, 0.0, 1.0)
        pairs = zip(self.laws, self.counts[:, site], strict=True)
        return np.array([law.seen(p, n) for law, n in pairs])

    def noise(self, site: int, raw: Floats) -> tuple[Floats, Floats | float]:
        p = np.clip(raw, 0.0, 1.0)
        return np.array([law.noise(p) for law in self.laws]), p * (1 - p)

    def radius(self, at: Weighed, beta: float, *, alone: bool = False) -> Floats | float:
        items, rows = 1 if alone else self.width, self.round.rows
        if rows is None:
            beta -= SLACK / (1 if alone else self.sites)
            return self._bit_radii(at, math.log(2 * items / beta))
        # Hoeffding over the items; for the sketch, its bias too (p fixed before the seed)
        q = at.squared(self.reach / 2)
        if self.round.mechanism == HADAMARD:
            return math.sqrt(2 * math.log(2 * items / beta) * q)
        limit = 2 * math.log(4 * items / beta)
        return math.sqrt(limit * q) + math.sqrt(limit / rows)

    def _bit_radii(self, at: Weighed, limit: float) -> Floats:
        """Radii of each item: Bernstein's bound solved for the true share.

        The variance of an item's reports depends on its share p, so the bound |raw - p| <= t(p) is
        inverted: the radius reaches the farthest p in [0, 1] that satisfies it.
        """
        raw, step = at.raw, at.largest(self.reach) * limit / 3

        def bound(p: Floats) -> Floats:
            terms = zip(at.counts * at.weights**2, self.laws, strict=True)
            v = sum((part * law.variance(p) for part, law in terms), np.zeros_like(p))
            return step + np.sqrt(step**2 + 2 * limit * v)

        start = np.clip(raw, 0.0, 1.0)

        def farthest(end: float) -> Floats:
            inside, outside = start.copy(), np.full_like(raw, end)
            inside = np.where(np.abs(outside - raw) <= bound(outside), outside, inside)
            for _ in range(60):
                middle = (inside + outside) / 2
                good = np.abs(middle - raw) <= bound(middle)
                inside, outside = np.where(good, middle, inside), np.where(good, outside, middle)
            return np.maximum(np.abs(outside - raw), np.abs(inside - raw))

        return np.maximum(farthest(1.0), farthest(0.0))

    def shown(self, raw: Floats, radii: Floats, project: bool) -> tuple[Floats, Floats, bool]:
        value, final = np.full(raw.shape, 1 / self.width), np.ones(raw.shape)
        for j in np.flatnonzero(self.counts.any(axis=0)):
            value[j], tau = project_to_simplex(raw[j]) if project else (raw[j], 0.0)
            final[j] = np.minimum(radii[j] + abs(tau), 1.0 if project else math.inf)
        return value, final, bool(final.max() >= 1)


def row_sums(tally: Tally, level: int, site: int) -> Floats:
    """A tally's sums of a level; of rows over tanh(epsilon/2), which is a sketch of the shares."""
    round_ = tally.round
    sums = tally.sums.reshape(len(round_.menu), round_.coordinates, -1)[level, site]
    unit = 1.0 if round_.rows is None else signal(round_.menu[level])
    return np.asarray(sums.astype(np.float64) / unit)


class ItemOracle:
    """The estimated share of an item: one pass over the rows of a tally.

    weights: as in `estimate`; "tested" compares the levels for each item that is asked for.
    """

    def __init__(self, tally: Tally, weights: str, coordinate: int = 0) -> None:
        self._round, self._asked = tally.round, weights
        counts = tally.counts.reshape(len(tally.round.menu), -1)[:, coordinate]
        law = ItemRound(tally.round, range(len(tally.round.menu)))
        self._counts, self._laws = counts, law.laws
        self._weights = {
            name: counts * level_weights(counts.astype(float), law.trusted[:, 0], weights=name)
            for name in (MINIMAX, UNIFORM)
        }
        self._rows = {int(k): row_sums(tally, int(k), coordinate) for k in np.flatnonzero(counts)}

    def alone(self, item: int) -> Floats:
        """The item's share by each level's reports, shape (levels,); NaN without reports."""
        result = np.full(len(self._counts), np.nan)
        signs = column(self._round, item)
        for level, rows in self._rows.items():
            result[level] = signs @ rows / self._counts[level]
        return result

    def agreement(self, alone: Floats) -> Heterogeneity:
        """The test that all levels estimate the same share of an item."""
        share = np.clip(self._mean(alone, MINIMAX), 0.0, 1.0)
        pairs = zip(self._laws, self._counts, strict=True)
        variances = np.array([float(law.seen(share, n)) / max(1, n) for law, n in pairs])
        return cochran(alone[:, None], variances[:, None])

    def _mean(self, alone: Floats, weights: str) -> Floats:
        used = self._counts > 0
        return self._weights[weights][used] @ alone[used]

    def __call__(self, item: int) -> float:
        alone, weights = self.alone(item), self._asked
        if weights == TESTED:
            weights = UNIFORM if self.agreement(alone).related else MINIMAX
        return float(self._mean(alone, weights))
