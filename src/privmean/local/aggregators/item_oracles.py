"""Shares of single items on demand, for domains too large to list.

Proofs: docs/proofs/local-items.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.local.aggregators.batch import Batch, rows_of
from privmean.local.aggregators.heterogeneity_test import Heterogeneity, cochran
from privmean.local.aggregators.item_law import (
    column,
    item_law,
    row_sums,
    sketch_signs,
    weight_variances,
)
from privmean.local.aggregators.level_weights import MINIMAX, TESTED, UNIFORM, level_weights
from privmean.local.aggregators.tally import Tally
from privmean.local.bit_counts import bit_count
from privmean.local.exact_coins import signal
from privmean.local.mechanisms import HADAMARD
from privmean.local.round import Round


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
