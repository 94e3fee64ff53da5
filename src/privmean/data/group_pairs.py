"""Pairs of a person and a group: what means by group ask, and what the answers are.

A pair is a person and a group of which the person has a usable value; x is the person mean
of own records in that group. Every pair has a whole weight w, in parts of a person, and a whole
mass: weights of one person add up to at most `most * parts`, masses to at most `mass`
(docs/proofs/groups.md). All answers are exact whole numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from privmean import validate
from privmean.array_types import Floats, Integers
from privmean.data.array_kernels import log_cells, log_keys
from privmean.data.grids import LOG_GRID, RESOLUTION, LogGrid
from privmean.data.key_text import by_text
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


class GroupPairTable(CachedPersonTable, ABC):
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

    @abstractmethod
    def weighted_values(self, column: int) -> tuple[Floats, Integers]:
        """Values of pairs and their masses. Collects: for audits and tests only."""

    def missing(self, column: int) -> int:
        """Masses of pairs without a value: none, but where who is in a group is public, or there
        are several values."""
        return 0

    @abstractmethod
    def count_outside(self, column: int, lower: float, upper: float) -> tuple[int, int]:
        """Masses of pairs with x below `lower`, and above `upper`."""

    @abstractmethod
    def group_sums(self, boxes: Sequence[ClipInterval], column: int = 0) -> list[PairSums]:
        """The sums of every group, each on its own box, over pairs with that value."""

    @abstractmethod
    def select_groups(self, places: Sequence[int]) -> GroupPairTable:
        """The pairs of some groups alone, with the weights that they have."""

    @abstractmethod
    def centered_counts(self, units: CenteredSums, column: int = 0) -> Integers:
        """Masses per signed logarithmic bin of centered values, over the pairs of some groups."""


@dataclass(frozen=True)
class GroupPairQuery:
    """Pairs of people and groups as one summary of a table.

    value: one column of numbers; by: columns of keys; keys: public ones, as texts (kept in the
    order of texts), or None for every key that a person has, which people then hold as private.
    other: one more group for all records without a key or with another one. before, slope: a
    person's value is its mean less slope times that of this column (without one there is no pair).
    aliases: further texts for places of keys. public: who has records in which group is public:
    then a pair without a usable value stays, as a null, and a person of one group alone has its
    first key. resolution: as for `privmean.read`. more: further columns of values, whose pairs are
    the same ones: those with any usable value.
    """

    value: str
    by: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...] | None
    weights: GroupWeights = GroupWeights()
    resolution: float = RESOLUTION
    other: bool = False
    before: str | None = None
    slope: float = 1.0
    aliases: tuple[tuple[tuple[str, ...], int], ...] = ()
    public: bool = False
    more: tuple[str, ...] = ()
    names: tuple[str, ...] = field(init=False, default=(), compare=False)

    def __post_init__(self) -> None:
        from privmean.data.schema import checked

        checked("people", None, self.resolution)
        if self.keys is not None:
            object.__setattr__(self, "keys", by_text(self.keys))
        object.__setattr__(self, "names", (self.value, *self.more))

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The public keys of all groups, in the order in which people hold them."""
        if self.keys is None:
            return ()
        return (*self.keys, (OTHER,)) if self.other else self.keys


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


@dataclass(frozen=True)
class BinQuery:
    """Pairs of people and public bins of a time.

    value, time: columns; edges: of the bins, numbers or dates as texts. by, levels: a column whose
    values have the bins each, those of the first level first. keys: the bins in words.
    """

    value: str
    time: str
    edges: tuple[float, ...] | tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    weights: GroupWeights
    resolution: float
    by: str | None = None
    levels: tuple[str, ...] | tuple[float, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.value,)


@dataclass(frozen=True)
class DifferenceQuery:
    """One value a person: its person mean in the first group less that in the second, null for a
    person without both. pair: the two keys as texts."""

    value: str
    by: str
    pair: tuple[str, str]
    resolution: float = RESOLUTION

    @property
    def names(self) -> tuple[str, ...]:
        return (f"{self.value}: {self.pair[0]} - {self.pair[1]}",)


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
        weight = np.minimum(weights.parts, weights.parts * weights.max_groups // groups)
        return cls(
            (column,),
            tuple((key,) for key in keys),
            weights,
            np.asarray(group, np.int64),
            (np.asarray(value, float),),
            weight.astype(np.int64),
            (weights.mass // groups).astype(np.int64),
            len(known) if persons is None else persons,
            len(known),
            own=groups,
        )

    @property
    def engine(self) -> str:
        return self.made_by

    def size(self) -> int:
        return self.n

    def members(self) -> int:
        return self.known

    def group_weights(self) -> list[int]:
        return self._added(self.weight)

    def group_numbers(self) -> list[int]:
        assert self.own is not None
        size = np.arange(1, len(self.keys) + 1)
        found: list[int] = (np.bincount(self.own, minlength=len(size) + 1)[1:] // size).tolist()
        return found

    def with_weights(self, weights: GroupWeights) -> ArrayPairTable:
        assert self.own is not None
        weight = np.minimum(weights.parts, weights.parts * weights.max_groups // self.own)
        return replace(self, weights=weights, weight=weight.astype(np.int64), _cache={})

    def _log_counts(self, grid: LogGrid, column: int, origin: float) -> Integers:
        with np.errstate(all="ignore"):
            return _cells((self.values[column] - origin) * grid.factor, self.mass, grid)

    def _parts(self, column: int, sign: int, step: float, first: int, parts: int) -> Integers:
        x = sign * self.values[column]
        inside = (x > first * step) & (x <= (first + parts) * step)
        k = np.ceil(x[inside] * (1 / step)).astype(np.int64) - first - 1
        return np.bincount(np.maximum(k, 0), self.mass[inside], parts).astype(np.int64)

    def weighted_values(self, column: int) -> tuple[Floats, Integers]:
        return self.values[column], self.mass

    def missing(self, column: int) -> int:
        return int(self.mass[np.isnan(self.values[column])].sum())

    def count_outside(self, column: int, lower: float, upper: float) -> tuple[int, int]:
        value = self.values[column]
        below, above = self.mass[value < lower], self.mass[value > upper]
        return int(below.sum()), int(above.sum())

    def group_sums(self, boxes: Sequence[ClipInterval], column: int = 0) -> list[PairSums]:
        lower, upper, middle, step = (
            np.array([getattr(box, name) for box in boxes], dtype=float)
            for name in ("lower", "upper", "middle", "step")
        )
        g, value = self.group, self.values[column]
        known = ~np.isnan(value)
        with np.errstate(all="ignore"):
            x = np.clip(np.where(known, value, 0.0), lower[g], upper[g])
            z = np.floor((x - middle[g]) * (1.0 / step)[g] + 0.5).astype(np.int64)
        w = np.where(known, self.weight, 0)
        wz = w * z
        found = zip(self._added(w), self._added(wz), self._added(wz * z), strict=True)
        return [PairSums(*item) for item in found]

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
        known = np.zeros(width, dtype=bool)
        center, factor = np.zeros(width), np.zeros(width)
        places = list(units.places)
        known[places], center[places], factor[places] = True, units.centers, units.factors
        kept = known[self.group]
        g, x = self.group[kept], self.values[column][kept]
        with np.errstate(all="ignore"):
            return _cells((x - center[g]) * factor[g], self.mass[kept], LOG_GRID)

    def _added(self, numbers: Integers) -> list[int]:
        """Exact sums by group: of each half they are whole doubles below 2^53."""
        width = len(self.keys)
        low = np.bincount(self.group, numbers & ((1 << SPLIT) - 1), width)
        high = np.bincount(self.group, numbers >> SPLIT, width)
        return [(int(a) << SPLIT) + int(b) for a, b in zip(high, low, strict=True)]


def _cells(v: Floats, mass: Integers, grid: LogGrid) -> Integers:
    """Masses per logarithmic bin; nulls are in the zero bin."""
    v = np.where(np.isnan(v), 0.0, v)
    keys = log_keys(v, np.empty(len(v)), np.empty(len(v), dtype=np.int64))
    return log_cells(np.bincount(keys, mass, 4096).astype(np.int64), grid)
