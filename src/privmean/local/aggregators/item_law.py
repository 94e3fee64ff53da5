"""The law of estimated shares of items.

Estimates of the frequencies of items.

Proofs: docs/proofs/local-items.md.

Shares of single items on demand, for domains too large to list.

Distributions from noisy frequencies.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.local.aggregators.estimate_result import Heterogeneity, cochran
from privmean.local.aggregators.scalar_law import MINIMAX, TESTED, UNIFORM, level_weights
from privmean.local.aggregators.tally import Batch, Tally, bit_count, rows_of
from privmean.local.clients.randomizers import BLOCK, sign_block, subset_size, subset_threshold
from privmean.local.exact_coins import WORD, signal
from privmean.local.mechanisms import HADAMARD, SKETCH
from privmean.local.round import Round


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
        result: Floats = chance * (1 - chance) * self.reach**2
        return result

    def noise(self, p: Floats | float) -> Floats | float:
        """The part of the variance that privacy adds; the rest is the sampling of people."""
        return self.variance(p) - p * (1 - p)


def is_row(round_: Round) -> bool:
    return round_.mechanism in (SKETCH, HADAMARD)


def item_law(round_: Round, level: int, epsilon: float | None = None) -> ItemLaw:
    """The law of a level (of another epsilon, for weights under a cap)."""
    from fractions import Fraction

    assert round_.items is not None
    exact = round_.menu[level] if epsilon is None else Fraction(repr(epsilon))
    if is_row(round_):
        c = 1.0 / signal(exact)
        return ItemLaw(0.5 + 0.5 / c, 0.5 - 0.5 / c, 2 * c, row=True)
    own = subset_threshold(exact, round_.items) / WORD
    rare = (subset_size(exact, round_.items) - own) / (round_.items - 1)
    return ItemLaw(own, rare, 1 / (own - rare))


def weight_variances(round_: Round, epsilons: list[float]) -> Floats:
    """What the weights are computed from: the variance at p = 0 plus 1/4 (rows: c^2)."""
    laws = [item_law(round_, k, epsilon) for k, epsilon in enumerate(epsilons)]
    extra = 0.0 if is_row(round_) else 0.25
    return np.array([law.variance(0.0) + extra for law in laws])


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


def sketch_column(seed: bytes, column: int, rows: int) -> Floats:
    """s(0..rows-1, column)."""
    blocks = b"".join(sign_block(seed, column, block) for block in range(-(-rows // BLOCK)))
    bits = np.unpackbits(np.frombuffer(blocks, np.uint8), bitorder="little", count=rows)
    return 1.0 - 2.0 * bits.astype(np.float64)


def hadamard_column(column: int, rows: int) -> Floats:
    """(-1)^popcount(j & column) for j = 0..rows-1."""
    common = np.arange(rows, dtype=np.int64) & column
    odd: Floats = (bit_count(common) & 1).astype(np.float64)
    return 1.0 - 2.0 * odd


def row_sums(tally: Tally, level: int, coordinate: int) -> Floats:
    """Each row's signed count over the number of reports, times c: the sketch of one level."""
    round_ = tally.round
    sums = tally.sums.reshape(len(round_.menu), round_.coordinates, -1)[level, coordinate]
    counts = tally.counts.reshape(len(round_.menu), -1)[level, coordinate]
    result: Floats = sums.astype(np.float64) / (float(counts) * signal(round_.menu[level]))
    return result


def column(round_: Round, item: int) -> Floats:
    """The signs of an item in all rows."""
    assert round_.rows is not None
    if round_.mechanism == HADAMARD:
        return hadamard_column(item, round_.rows)
    return sketch_column(round_.seed, item, round_.rows)


def sketch_signs(seed: bytes, rows: Integers, columns: Integers) -> Integers:
    """s(row, column) of many pairs."""
    result = np.empty(len(rows), dtype=np.int64)
    for k, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        place = row % BLOCK
        block = sign_block(seed, column, row // BLOCK)
        result[k] = 1 - 2 * ((block[place >> 3] >> (place & 7)) & 1)
    return result


def level_values(tally: Tally, level: int, coordinate: int) -> Floats:
    """The unbiased shares from one level alone (NaN without reports)."""
    round_ = tally.round
    assert round_.items is not None
    counts = tally.counts.reshape(len(round_.menu), -1)[level, coordinate]
    if counts == 0:
        return np.full(round_.items, np.nan)
    if is_row(round_):
        rows = row_sums(tally, level, coordinate)
        if round_.mechanism == HADAMARD:
            return walsh(rows)[: round_.items]
        return np.array([column(round_, item) @ rows for item in range(round_.items)])
    law = item_law(round_, level)
    sums = tally.sums.reshape(len(round_.menu), round_.coordinates, -1)[level, coordinate]
    result: Floats = (sums / float(counts) - law.rare) / (law.own - law.rare)
    return result


def row_radius(
    round_: Round, counts: Floats, weights: Floats, beta: float, *, items: int | None = None
) -> float:
    """Hoeffding over all items; for the sketch, its bias too (p fixed before the seed).

    items: how many it must hold for at once (all).
    """
    items = items or round_.items or 1
    c = np.array([1.0 / signal(item) for item in round_.menu])
    q = float((counts * (weights * c) ** 2).sum())
    if round_.mechanism == HADAMARD:
        return math.sqrt(2 * math.log(2 * items / beta) * q)
    assert round_.rows is not None
    limit = 2 * math.log(4 * items / beta)
    return math.sqrt(limit * q) + math.sqrt(limit / round_.rows)


def bit_radii(
    round_: Round,
    counts: Floats,
    weights: Floats,
    raw: Floats,
    beta: float,
    *,
    items: int | None = None,
) -> Floats:
    """Radii of each item, all valid at once: Bernstein's bound solved for the true share.

    The variance of an item's reports depends on its share p, so the bound |raw - p| <= t(p) is
    inverted: the radius reaches the farthest p in [0, 1] that satisfies it. items: how many radii
    must hold at once (all).
    """
    laws = [item_law(round_, k) for k in range(len(round_.menu))]
    limit = math.log(2 * (items or round_.items or 1) / beta)
    used = counts > 0
    reach = np.array([law.reach for law in laws])
    step = float(max(weights[used] * reach[used], default=0.0)) * limit / 3

    def bound(p: Floats) -> Floats:
        v = sum(
            (n * w * w * law.variance(p) for n, w, law in zip(counts, weights, laws, strict=True)),
            np.zeros_like(p),
        )
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


def influence(round_: Round, counts: Floats, weights: Floats) -> float:
    """How far replacing one report can move one item's estimate."""
    laws = [item_law(round_, k) for k in range(len(round_.menu))]
    used = counts > 0
    reach = np.array([law.reach for law in laws])
    return float(max(weights[used] * reach[used], default=math.inf))


class Oracle(ABC):
    """The estimated share of an item from what each level says of it alone.

    weights: as in `estimate`; "tested" compares the levels for each item that is asked for.
    """

    def __init__(self, round_: Round, counts: Integers, weights: str) -> None:
        self._round, self._counts, self._asked = round_, counts, weights
        variances = weight_variances(round_, [float(e) for e in round_.menu])
        self._weights = {
            name: counts * level_weights(counts, variances, weights=name)[0]
            for name in (MINIMAX, UNIFORM)
        }
        self._laws = [item_law(round_, k) for k in range(len(round_.menu))]

    @abstractmethod
    def alone(self, item: int) -> Floats:
        """The item's share by each level's reports, shape (levels,); NaN without reports."""

    def agreement(self, item: int) -> Heterogeneity:
        """The test that all levels estimate the same share of this item."""
        return self._agreement(self.alone(item))

    def _agreement(self, alone: Floats) -> Heterogeneity:
        share = np.clip(self._mean(alone, MINIMAX), 0.0, 1.0)
        pairs = zip(self._laws, self._counts, strict=True)
        variances = np.array([float(law.seen(share, n)) / max(1, n) for law, n in pairs])
        return cochran(alone[:, None], variances[:, None])

    def _mean(self, alone: Floats, weights: str) -> Floats:
        used = self._counts > 0
        result: Floats = self._weights[weights][used] @ alone[used]
        return result

    def __call__(self, item: int) -> float:
        alone, weights = self.alone(item), self._asked
        if weights == TESTED:
            weights = UNIFORM if self._agreement(alone).related else MINIMAX
        return float(self._mean(alone, weights))


class ItemOracle(Oracle):
    """From a tally: one pass over the rows an item."""

    def __init__(self, tally: Tally, weights: str, coordinate: int = 0) -> None:
        counts = tally.counts.reshape(len(tally.round.menu), -1)[:, coordinate]
        super().__init__(tally.round, counts, weights)
        self._rows = {int(k): row_sums(tally, int(k), coordinate) for k in np.flatnonzero(counts)}

    def alone(self, item: int) -> Floats:
        result = np.full(len(self._counts), np.nan)
        signs = column(self._round, item)
        for level, rows in self._rows.items():
            result[level] = signs @ rows
        return result


class ReportOracle(Oracle):
    """From the reports themselves: one pass over them an item.

    For domains and numbers of rows too large for a tally: the rows may be so many (2^28 a level)
    that nearly every report has one of its own, and the sketch adds next to no bias.
    """

    def __init__(self, batch: Batch, weights: str) -> None:
        number = len(batch.round.menu)
        super().__init__(batch.round, np.bincount(batch.levels, minlength=number), weights)
        self._places, self._levels = rows_of(batch), batch.levels
        c = np.array([1.0 / signal(item) for item in batch.round.menu])
        signs = 2.0 * batch.payload[:, -1].astype(np.float64) - 1.0
        self._values: Floats = signs * c[batch.levels]

    def alone(self, item: int) -> Floats:
        if self._round.mechanism == HADAMARD:
            signs = 1.0 - 2.0 * (bit_count(self._places & item) & 1)
        else:
            columns = np.full(len(self._places), item, dtype=np.int64)
            signs = sketch_signs(self._round.seed, self._places, columns).astype(np.float64)
        sums = np.bincount(self._levels, signs * self._values, minlength=len(self._counts))
        with np.errstate(invalid="ignore", divide="ignore"):
            result: Floats = sums / self._counts
        return result
