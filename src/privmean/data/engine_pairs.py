"""Pairs inside an engine: one GROUP BY a question, nothing but aggregates leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw
import numpy as np

from privmean.array_types import Floats, Integers
from privmean.data.engine_table import KeptByEngine, Totals, clipped, log_cells
from privmean.data.engines import EngineStore, fetch, fetch_columns, rows_of
from privmean.data.grids import LOG_GRID, LogGrid
from privmean.data.group_pairs import (
    ArrayPairTable,
    CenteredSums,
    GroupPairTable,
    GroupWeights,
    PairSums,
)
from privmean.data.person_records import FLOAT, INTEGER, PERSON
from privmean.data.person_table import ClipInterval

GROUP = "g"


@dataclass(frozen=True)
class EnginePairTable(KeptByEngine, GroupPairTable):
    """One row a pair inside an engine: columns p (the person), g (the place of the key), v (v1 and
    so on for further values), w, m (mass) and o (groups of the person, where weights are split).
    Values are finite doubles, or null where who is in a group is public, or there are several
    values. roster: a frame with a row for each of all people, counted where their number is
    asked for (under replace-one alone).
    """

    frame: nw.LazyFrame[Any] = field(repr=False)
    columns: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    weights: GroupWeights
    home: EngineStore = field(default_factory=EngineStore, repr=False)
    roster: nw.LazyFrame[Any] | None = field(default=None, repr=False)
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    opened: Any = field(default=None, repr=False, compare=False)  # what it was read from, if kept

    def size(self) -> int:
        return self._once("size", lambda: 0 if self.roster is None else rows_of(self.roster))

    def members(self) -> int:
        return sum(self._numbers.values())

    def group_weights(self) -> list[int]:
        found = self._once("weights", lambda: self._added(GROUP, "w"))
        return [found.get(g, 0) for g in range(len(self.keys))]

    def group_numbers(self) -> list[int]:
        return [self._numbers.get(size, 0) for size in range(1, len(self.keys) + 1)]

    @property
    def _numbers(self) -> dict[int, int]:
        """People by the number of their groups: each has as many pairs."""
        return self._once(
            "numbers",
            lambda: {o: pairs // o for o, pairs in self._added("o", nw.lit(1)).items()},
        )

    def _added(self, by: str, item: str | nw.Expr) -> dict[int, int]:
        """The sum of a column of whole numbers by another one."""
        frame = self.frame.select(by, t=nw.col(item) if isinstance(item, str) else item)
        return {
            int(key): int(total) for key, total in fetch(frame.group_by(by).agg(nw.col("t").sum()))
        }

    def with_weights(self, weights: GroupWeights) -> EnginePairTable:
        frame = self.frame.with_columns(w=weight_of(nw.col("o"), weights))
        known = {key: self._cache[key] for key in ("size", "numbers") if key in self._cache}
        return replace(self, frame=frame, weights=weights, _cache=known)

    def _log_counts(self, grid: LogGrid, column: int, origin: float) -> Integers:
        v = self._value(column) - origin
        frame = self.frame.select(nw.col("m"), v=v if grid.factor == 1.0 else v * grid.factor)
        return _masses(frame, grid)

    def _value(self, column: int) -> nw.Expr:
        return nw.col(value_name(column))

    def _by_cell(self, frame: nw.LazyFrame[Any], k: nw.Expr) -> list[tuple[Any, ...]]:
        return fetch(frame.select("m", k=k).group_by("k").agg(m=nw.col("m").sum()))

    def weighted_values(self, column: int) -> tuple[Floats, Integers]:
        return self.collect().weighted_values(column)

    def missing(self, column: int) -> int:
        return self._once(("missing", column), lambda: self._missing(self._value(column)))

    def _missing(self, x: nw.Expr) -> int:
        totals = Totals()
        totals.add("m", nw.when(x.is_null()).then(nw.col("m")).otherwise(0).sum())
        return totals.of(self.frame)["m"]

    def count_outside(self, column: int, lower: float, upper: float) -> tuple[int, int]:
        x, mass, totals = self._value(column), nw.col("m"), Totals()
        for name, out in (("below", x < lower), ("above", x > upper)):
            totals.add(name, nw.when(out).then(mass).otherwise(0).sum())
        found = totals.of(self.frame)
        return found["below"], found["above"]

    def group_sums(self, boxes: Sequence[ClipInterval], column: int = 0) -> list[PairSums]:
        limits: dict[str, list[Any]] = {
            GROUP: list(range(len(boxes))),
            "low": [box.lower for box in boxes],
            "high": [box.upper for box in boxes],
            "middle": [box.middle for box in boxes],
            "per": [1.0 / box.step for box in boxes],
        }
        x, low, high = self._value(column), nw.col("low"), nw.col("high")
        frame = self._beside(limits).select(
            GROUP,
            w=nw.when(~x.is_null()).then(nw.col("w").cast(FLOAT)),
            z=((clipped(x, low, high) - nw.col("middle")) * nw.col("per") + 0.5).floor(),
        )
        w, z, totals = nw.col("w"), nw.col("z"), Totals()
        totals.add("w", w.cast(INTEGER).sum())
        totals.add_halves("wz", w * z)
        totals.add_halves("wzz", w * z * z)
        found = totals.by(frame, GROUP)
        return [PairSums(**found.get(g, {})) for g in range(len(boxes))]

    def centered_counts(self, units: CenteredSums, column: int = 0) -> Integers:
        known: dict[str, list[Any]] = {
            GROUP: list(units.places),
            "center": list(units.centers),
            "factor": list(units.factors),
        }
        v = (self._value(column) - nw.col("center")) * nw.col("factor")
        # kept: engines would write the product out again in every step of the bins
        frame = self.home.keep(self._beside(known).select(nw.col("m"), v=v))
        return _masses(frame, LOG_GRID)

    def _beside(self, columns: dict[str, list[Any]]) -> nw.LazyFrame[Any]:
        """The pairs of some groups with public numbers of their group."""
        if not columns[GROUP]:
            columns = {name: [0 if name in (GROUP, "new") else 1.0] for name in columns}
            return self.frame.filter(nw.col(GROUP) < 0).join(
                self.home.small(columns, self.frame), on=GROUP, how="inner"
            )
        return self.frame.join(self.home.small(columns, self.frame), on=GROUP, how="inner")

    def select_groups(self, places: Sequence[int]) -> EnginePairTable:
        known: dict[str, list[Any]] = {GROUP: list(places), "new": list(range(len(places)))}
        own = [value_name(j) for j in range(len(self.columns))]
        frame = self._beside(known).select(PERSON, *own, "w", "m", "o", nw.col("new").alias(GROUP))
        keys = tuple(self.keys[place] for place in places)
        return replace(self, frame=self.home.keep(frame), keys=keys, _cache={})

    def collect(self) -> ArrayPairTable:
        """The same pairs in memory: all of them leave the engine."""
        return array_pairs(self.frame, self.columns, self.keys, self.weights, self.size())


def array_pairs(
    frame: nw.LazyFrame[Any],
    columns: tuple[str, ...],
    keys: tuple[tuple[str, ...], ...],
    weights: GroupWeights,
    persons: int,
) -> ArrayPairTable:
    """Pairs in memory from a frame (g, v .., o) inside an engine, of so many people."""
    names = [value_name(j) for j in range(len(columns))]
    whole = (nw.col(name).cast(nw.Int32()).alias(name) for name in (GROUP, "o"))
    found = fetch_columns(frame.select(*whole, *names), [GROUP, "o", *names])
    group, own = (found.pop(name).astype(np.int64) for name in (GROUP, "o"))
    known = sum(pairs // size for size, pairs in enumerate(np.bincount(own).tolist()) if pairs)
    return ArrayPairTable(
        columns, keys, weights, group, tuple(found.values()), weights.of(own), weights.masses(own),
        persons, known, str(frame.implementation.value), own,
    )  # fmt: skip


def value_name(column: int) -> str:
    """The name of a value inside."""
    return f"v{column}" if column else "v"


def weight_of(groups: nw.Expr, weights: GroupWeights) -> nw.Expr:
    """The weight of each pair of people in so many groups, where weights are split."""
    part = (weights.parts * weights.max_groups) // groups
    weight = nw.when(part > weights.parts).then(nw.lit(weights.parts)).otherwise(part)
    return weight.cast(INTEGER)


def people_in(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """The people of a frame, one row each."""
    return frame.group_by(PERSON).agg(nw.len().alias("n"))


def _masses(frame: nw.LazyFrame[Any], grid: LogGrid) -> Integers:
    """Masses per logarithmic bin of v."""
    found = fetch(log_cells(frame, grid).group_by("k").agg(m=nw.col("m").sum()))
    counts = np.zeros(grid.cells, dtype=np.int64)
    for cell, mass in found:
        counts[int(cell)] += int(mass)
    return counts
