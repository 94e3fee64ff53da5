"""Tables of persons and groups, and neighbours that differ in one person's groups and values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from privmean.people.engines import fetch
from privmean.people.pairframe import GROUP, FramePairs
from privmean.people.pairmatrix import MatrixPairs
from privmean.people.pairs import Weights
from privmean.people.records import PERSON
from privmean.privacy.budget import REPLACE_ONE

Own = tuple[tuple[int, float], ...]  # of one person: a place and a value in each of some groups


@dataclass(frozen=True)
class PairRows:
    """One tuple of pairs a person. keys: names of groups; private: only those count that somebody
    is in, and persons of more than `weights.kept` groups have none."""

    values: tuple[Own, ...]
    keys: tuple[str, ...]
    weights: Weights
    private: bool = False
    columns: tuple[str, ...] = ("value",)
    cap: None = None

    @classmethod
    def read(cls, pairs: FramePairs, private: bool) -> PairRows:
        """The pairs of a table of one's own, as the engine has weighed them."""
        own: dict[object, list[tuple[int, float]]] = {}
        for person, place, value in fetch(pairs.frame.select(PERSON, GROUP, "v")):
            own.setdefault(person, []).append((place, math.nan if value is None else value))
        values = [tuple(sorted(found)) for found in own.values()]
        values += [()] * (pairs.size() - len(values))
        keys = tuple(" ".join(key) for key in pairs.keys)
        return cls(tuple(values), keys, pairs.weights, private, pairs.columns)

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def people(self) -> MatrixPairs:
        most = self.weights.kept if self.private else len(self.keys)
        listed = [
            (k, place, x) for k, own in enumerate(self.values) for place, x in _own(own, most)
        ]
        listed = [item for item in listed if not math.isnan(item[2])]
        used = sorted({place for _, place, _ in listed}) if self.private else range(len(self.keys))
        where = {place: k for k, place in enumerate(used)}
        return MatrixPairs.of(
            np.array([item[0] for item in listed], dtype=np.int64),
            np.array([where[item[1]] for item in listed], dtype=np.int64),
            np.array([item[2] for item in listed], dtype=float),
            [self.keys[place] for place in used],
            self.weights,
            persons=len(self.values),
        )

    def put(self, where: int, own: Own) -> PairRows:
        return replace(self, values=(*self.values[:where], own, *self.values[where + 1 :]))

    def without(self, where: int) -> PairRows:
        return replace(self, values=(*self.values[:where], *self.values[where + 1 :]))

    def joined(self, own: Own) -> PairRows:
        return replace(self, values=(*self.values, own))


def _own(own: Own, most: int) -> Own:
    """The pairs of one person that count."""
    return own if len(own) <= most else ()


def pair_table(
    kind: str, persons: int, groups: int, weights: Weights, private: bool, seed: int
) -> PairRows:
    """Persons in a few groups each (one, where weights are not split); nobody is in the last."""
    rng = np.random.default_rng((seed, groups))
    most = weights.most + 2 if weights.split else 1
    values: list[Own] = []
    strange = [math.nan, 1e300, -1e300, 0.0, 2.0**40, 5e-324]
    for person in range(persons):
        size = min(groups, int(rng.integers(1, most + 1)))
        places = sorted(rng.choice(groups - 1, min(size, groups - 1), replace=False).tolist())
        if kind == "empty" or person == 5:
            places = []
        center = {"far": 1e9, "constant": 3.0}.get(kind, 3.0)
        spread = 0.0 if kind == "constant" else 100.0 if kind == "wide" else 1.0
        drawn = [float(rng.normal(center, spread)) if spread else center for _ in places]
        if person < len(strange) and places:
            drawn = [strange[person]] * len(places)
        values.append(tuple(zip(places, drawn, strict=True)))
    names = tuple(f"g{k:03d}" for k in range(groups))
    return PairRows(tuple(values), names, weights, private)


def own_pairs(rows: PairRows, known: list[float], rng: np.random.Generator) -> Own:
    """What one person may have: other groups, all of them, none, and hostile values in each."""
    groups = len(rows.keys)
    most = groups if rows.weights.split else 1
    size = int(rng.choice([0, 1, 1, min(2, most), most]))
    places = sorted(rng.choice(groups, size, replace=False).tolist())
    drawn = [float(x) for x in rng.choice(known, size)]
    if rng.random() < 0.4 and size:
        drawn = [drawn[0]] * size
    return tuple(zip(places, drawn, strict=True))


def pair_neighbours(
    rows: PairRows, relation: str, known: list[float], seed: int
) -> Iterator[tuple[PairRows, str]]:
    """Neighbours without end, and what was done."""
    rng = np.random.default_rng(seed)
    n = len(rows.values)
    while True:
        own = own_pairs(rows, known, rng)
        where = int(rng.integers(min(8, n)) if rng.random() < 0.5 else rng.integers(n))
        if relation == REPLACE_ONE:
            yield rows.put(where, own), "replaced"
        elif rng.random() < 0.5:
            yield rows.without(where), "left"
        else:
            yield rows.joined(own), "joined"
