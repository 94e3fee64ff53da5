"""Pairs of a person and a group: what means by group ask, and what the answers are.

A pair is a person and a group of which the person has a usable value; x is the person mean
of own records in that group. Every pair has a whole weight w, in parts of a person, and a whole
mass: weights of one person add up to at most `most * parts`, masses to at most `mass`
(docs/proofs/groups.md). All answers are exact whole numbers.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from privmean import validate
from privmean.array_types import Floats, Integers
from privmean.data.array_kernels import CHUNK, count_parts, log_cells, log_keys
from privmean.data.grids import LOG_GRID, LogGrid
from privmean.data.person_table import CachedPersonTable, ClipInterval
from privmean.errors import ArgumentError

PARTS, FEWER_PARTS, MANY = 256, 64, 32  # parts of a person; fewer of them for many groups each
MASS = 1024
MOST_GROUPS = 1000
OTHER = "other"


@dataclass(frozen=True)
class GroupWeights:
    """How one person counts. most: groups a person counts fully in. split: people in m > most
    groups count most/m in each (rounded down); else a person is in one group alone, the one with
    most usable records, ties to the first key in the order of texts.
    """

    max_groups: int = 1
    split: bool = False

    @property
    def parts(self) -> int:
        """A full person, in parts of a weight."""
        if not self.split:
            return 1
        return PARTS if self.max_groups <= MANY else FEWER_PARTS

    @property
    def kept(self) -> int:
        """Most pairs of a person that have a weight at all: `weight` of more groups is nothing."""
        return self.parts * self.max_groups if self.split else 1

    @property
    def mass(self) -> int:
        """A full person, in parts of a mass."""
        return MASS if self.split else 1

    def weight(self, groups: int) -> int:
        """Of each pair of a person in so many groups."""
        return min(self.parts, self.parts * self.max_groups // groups)

    def of(self, groups: Integers) -> Integers:
        """The weights of pairs, each of a person in so many groups."""
        sizes = np.arange(1, groups.max(initial=1) + 1)
        weights: Integers = np.minimum(self.parts, self.parts * self.max_groups // sizes)
        return weights[groups - 1]

    def masses(self, groups: Integers) -> Integers:
        """The masses of the same pairs."""
        return (self.mass // np.arange(1, groups.max(initial=1) + 1))[groups - 1]


@dataclass(frozen=True)
class PairSums:
    """Sums over the pairs of one group: of w, w z and w z^2, with z on the grid of the box."""

    w: int = 0
    wz: int = 0
    wzz: int = 0


@dataclass(frozen=True)
class CenteredSums:
    """Values of some groups as (x - center) times `factor`, each group in units of its own.

    places: which groups; centers, factors: one finite number each, factors above 0.
    """

    places: tuple[int, ...]
    centers: tuple[float, ...]
    factors: tuple[float, ...]


class GroupPairTable(CachedPersonTable):
    """The pairs of some value columns: the only view of the data that means by group have.

    columns: the names of the values. Of several, a pair has a usable one at least, and nulls where
    it has none. keys: the groups as texts, one a column of `by`. weights: how a person counts.
    Counts of bins and parts are masses.
    """

    columns: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    weights: GroupWeights
    max_records: None = None

    @property
    @abstractmethod
    def engine(self) -> str:
        """The library that reads the records."""

    @abstractmethod
    def size(self) -> int:
        """People in the roster. Public under replace-one only; private under add-remove."""

    @abstractmethod
    def members(self) -> int:
        """People with a pair; private."""

    @abstractmethod
    def group_weights(self) -> list[int]:
        """The sum of weights of every group."""

    @abstractmethod
    def group_numbers(self) -> list[int]:
        """People with a pair by the number of their groups: of one, of two, and so on."""

    @abstractmethod
    def with_weights(self, weights: GroupWeights) -> GroupPairTable:
        """The same pairs with other weights; both are split, so that masses stay."""

    def missing(self, column: int) -> int:
        """Masses of pairs without a value: none, but where who is in a group is public, or there
        are several values."""
        return 0

    @abstractmethod
    def group_sums(self, boxes: Sequence[ClipInterval], column: int = 0) -> list[PairSums]:
        """The sums of every group, each on its own box, over pairs with that value."""

    @abstractmethod
    def select_groups(self, places: Sequence[int]) -> GroupPairTable:
        """The pairs of some groups alone, with the weights that they have."""

    @abstractmethod
    def centered_counts(self, units: CenteredSums, column: int = 0) -> Integers:
        """Masses per signed logarithmic bin of centered values, over the pairs of some groups."""


def weights_of(max_groups: int, group_rule: str | None) -> GroupWeights:
    """The public settings `max_groups` and `group_rule` as weights."""
    most = validate.whole("max_groups", max_groups, least=1)
    if most > MOST_GROUPS:
        raise ArgumentError("max_groups", max_groups, "is too large", f"give at most {MOST_GROUPS}")
    if group_rule is None:
        return GroupWeights(most, most > 1)
    split = validate.choice("group_rule", group_rule, ["most_frequent", "split"]) == "split"
    if not split and most > 1:
        raise ArgumentError("group_rule", group_rule, "requires max_groups=1", "remove max_groups")
    return GroupWeights(most, split)


def pairs_of(people: object) -> GroupPairTable:
    """The same people as pairs; ArgumentError where they were read for something else."""
    if not isinstance(people, GroupPairTable):
        raise ArgumentError(
            "by",
            type(people).__name__,
            "requires a table of records",
            "give a table, or a path or a frame with person=",
        )
    return people


SPLIT = 20  # bits: halves of products whose sums are exact doubles


@dataclass(frozen=True)
class ArrayPairTable(GroupPairTable):
    """group: the place of the key of each pair, shape (pairs,); values: a column each, of the same
    shape, as weight and mass are. persons: in the roster; known: people with a pair; own: how many
    groups the person of a pair is in, where weights are split. Nothing is written to.
    """

    columns: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    weights: GroupWeights
    group: Integers = field(repr=False)
    values: tuple[Floats, ...] = field(repr=False)
    weight: Integers = field(repr=False)
    mass: Integers = field(repr=False)
    n: int = field(repr=False)
    known: int = field(repr=False)
    made_by: str = field(default="numpy", compare=False)
    own: Integers | None = field(default=None, repr=False)
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    opened: Any = field(default=None, repr=False, compare=False)  # what was read, if kept

    @classmethod
    def of(
        cls,
        person: Integers,
        group: Integers,
        value: Floats,
        keys: Sequence[str],
        weights: GroupWeights,
        *,
        persons: int | None = None,
        column: str = "value",
    ) -> ArrayPairTable:
        """From one row a pair (a person in one group only, where weights are not split).

        person: places of people from 0; group: places of keys. Both are of shape (pairs,).
        """
        known, per = np.unique(person, return_counts=True)
        groups = per[np.searchsorted(known, person)]
        if not weights.split and (per > 1).any():
            raise ValueError("one pair a person, where weights are not split")
        return cls(
            (column,),
            tuple((key,) for key in keys),
            weights,
            np.asarray(group, np.int64),
            (np.asarray(value, float),),
            weights.of(groups),
            weights.masses(groups),
            len(known) if persons is None else persons,
            len(known),
            own=groups,
        )

    @property
    def engine(self) -> str:
        return self.made_by

    def collect(self) -> ArrayPairTable:
        """The pairs are in memory already."""
        return self

    def size(self) -> int:
        return self.n

    def members(self) -> int:
        return self.known

    def group_weights(self) -> list[int]:
        found: list[float] = np.bincount(self.group, self.weight, len(self.keys)).tolist()
        return list(map(int, found))

    def group_numbers(self) -> list[int]:
        assert self.own is not None
        size = np.arange(1, len(self.keys) + 1)
        found: list[int] = (np.bincount(self.own, minlength=len(size) + 1)[1:] // size).tolist()
        return found

    def with_weights(self, weights: GroupWeights) -> ArrayPairTable:
        assert self.own is not None
        return replace(self, weights=weights, weight=weights.of(self.own), _cache={})

    def _slices(self) -> Iterator[slice]:
        """Pairs in pieces that stay in cache."""
        return (slice(start, start + CHUNK) for start in range(0, len(self.group), CHUNK))

    def _log_counts(self, grid: LogGrid, column: int, origin: float) -> Integers:
        keys = np.zeros(4096)
        with np.errstate(all="ignore"):
            for s in self._slices():
                keys += _keys((self.values[column][s] - origin) * grid.factor, self.mass[s])
        return log_cells(keys.astype(np.int64), grid)

    def _parts(self, column: int, sign: int, step: float, first: int, parts: int) -> Integers:
        return count_parts(self.values[column], sign, step, first, parts, self.mass)

    def weighted_values(self, column: int) -> tuple[Floats, Integers]:
        return self.values[column], self.mass

    def missing(self, column: int) -> int:
        return int(self.mass[np.isnan(self.values[column])].sum())

    def count_outside(self, column: int, lower: float, upper: float) -> tuple[int, int]:
        value, mass = self.values[column], self.mass
        return int(mass[value < lower].sum()), int(mass[value > upper].sum())

    def group_sums(self, boxes: Sequence[ClipInterval], column: int = 0) -> list[PairSums]:
        lower, upper, middle, step = (
            np.array([getattr(box, name) for box in boxes], dtype=float)
            for name in ("lower", "upper", "middle", "step")
        )
        per, width, totals = 1.0 / step, len(self.keys), np.zeros((4, len(boxes)), dtype=np.int64)
        for s in self._slices():
            g, x, w = self.group[s], self.values[column][s], self.weight[s].astype(float)
            with np.errstate(all="ignore"):
                z = np.clip(x, lower[g], upper[g])
                z = np.floor((z - middle[g]) * per[g] + 0.5)
            null = np.isnan(z)
            if null.any():
                z[null] = w[null] = 0.0
            wz = w * z
            wzz = wz * z  # a whole number, of two words whose sums are doubles
            high = np.floor(wzz * 2.0**-SPLIT)
            words = (w, wz, high, wzz - high * 2.0**SPLIT)
            totals += np.array([np.bincount(g, item, width) for item in words], dtype=np.int64)
        by_group = totals.T.tolist()
        return [PairSums(a, b, (high << SPLIT) + low) for a, b, high, low in by_group]

    def select_groups(self, places: Sequence[int]) -> ArrayPairTable:
        new = np.full(len(self.keys), -1)
        new[list(places)] = np.arange(len(places))
        kept = new[self.group] >= 0
        return replace(
            self,
            keys=tuple(self.keys[place] for place in places),
            group=new[self.group[kept]],
            values=tuple(item[kept] for item in self.values),
            weight=self.weight[kept],
            mass=self.mass[kept],
            own=None if self.own is None else self.own[kept],
            _cache={},
        )

    def centered_counts(self, units: CenteredSums, column: int = 0) -> Integers:
        width = len(self.keys)
        center, factor = np.full(width, math.nan), np.zeros(width)
        places = list(units.places)
        center[places], factor[places] = units.centers, units.factors
        keys = np.zeros(4096)
        with np.errstate(all="ignore"):
            for s in self._slices():
                g = self.group[s]
                kept = ~np.isnan(center[g])
                g, x = g[kept], self.values[column][s][kept]
                keys += _keys((x - center[g]) * factor[g], self.mass[s][kept])
        return log_cells(keys.astype(np.int64), LOG_GRID)


def _keys(v: Floats, mass: Integers) -> Floats:
    """Masses per key of `log_keys`; nulls are in the zero bin. Writes to v."""
    null = np.isnan(v)
    if null.any():
        v[null] = 0.0
    keys = log_keys(v, np.empty(len(v)), np.empty(len(v), dtype=np.int64))
    return np.bincount(keys, mass, 4096).astype(np.float64, copy=False)
