"""Records to pairs of a person and a group, inside the engine that suits them.

Grouped first, filtered inside the person: a record without a key, or with one that is not asked
for, belongs to no group; a value that cannot be used drops the pair and never the person.

Pairs of people and groups, and differences within people, as summaries of a table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import narwhals as nw
from narwhals import dependencies as known

from privmean.data import key_columns as objects
from privmean.data import schema
from privmean.data.engine_pairs import (
    GROUP,
    EnginePairTable,
    array_pairs,
    people_in,
    value_name,
    weight_of,
)
from privmean.data.engine_table import EnginePersonTable
from privmean.data.engines import EngineStore, fetch, rows_of
from privmean.data.grids import RESOLUTION
from privmean.data.group_pairs import (
    OTHER,
    GroupPairTable,
    GroupWeights,
)
from privmean.data.key_columns import form, key_expression
from privmean.data.key_text import by_text, label, spelled
from privmean.data.open_source import open_source, typed, types_of
from privmean.data.person_products import DATE, ModelRecords
from privmean.data.person_records import INTEGER, PERSON, person_rows, within_years
from privmean.data.roster import roster_frame
from privmean.data.typenames import type_name
from privmean.errors import ArgumentError

if TYPE_CHECKING:
    from privmean.data.person_table import PersonTable
    from privmean.data.table import Table

NOWHERE = -1  # the place of records of no group


@dataclass(frozen=True)
class Pairs:
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
    weights: GroupWeights = field(default=GroupWeights())
    resolution: float = RESOLUTION
    other: bool = False
    before: str | None = None
    slope: float = 1.0
    aliases: tuple[tuple[tuple[str, ...], int], ...] = ()
    public: bool = False
    more: tuple[str, ...] = ()
    names: tuple[str, ...] = field(init=False, default=(), compare=False)

    def __post_init__(self) -> None:
        schema.checked("people", None, self.resolution)
        if self.keys is not None:
            object.__setattr__(self, "keys", by_text(self.keys))
        object.__setattr__(self, "names", (self.value, *self.more))

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The public keys of all groups, in the order in which people hold them."""
        if self.keys is None:
            return ()
        return (*self.keys, (OTHER,)) if self.other else self.keys

    def reduce(self, table: Table) -> PersonTable:
        # the road hands people on unseen; who asks pairs takes them with `pairs_of`
        found: Any = read_pairs(self, table)
        return found  # type: ignore[no-any-return]


@dataclass(frozen=True)
class BinPairs:
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

    def reduce(self, table: Table) -> PersonTable:
        found: Any = read_bins(self, table)
        return found  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Difference:
    """One value a person: its person mean in the first group less that in the second, null for a
    person without both. pair: the two keys as texts."""

    value: str
    by: str
    pair: tuple[str, str]
    resolution: float = RESOLUTION

    @property
    def names(self) -> tuple[str, ...]:
        return (f"{self.value}: {self.pair[0]} - {self.pair[1]}",)

    def reduce(self, table: Table) -> PersonTable:
        return read_differences(self, table)


def read_pairs(asked: Pairs, table: Table) -> GroupPairTable:
    """The pairs that `asked` describes. Raises ArgumentError or SchemaError from the arguments,
    the schema and the soundness of files alone, never from a record."""
    more = asked.more if asked.before is None else (asked.before,)
    records, columns, home = _records(table, (asked.value, *asked.by, *more), asked)
    columns = (columns[0], *columns[len(columns) - len(asked.more) :]) if asked.more else columns
    if asked.keys is None:
        return _private(records, asked, columns[0], table.roster, home)
    rows = _placed_rows(records, asked, home)
    kept, everybody = _in_roster(rows, records, table.roster, home)
    value = nw.col("v0")
    if asked.before is not None:
        kept = kept.with_columns((value - nw.col("v1") * asked.slope).alias("v0"))
    usable = nw.col(GROUP) >= 0
    width = 1 + len(asked.more)
    if asked.more:  # a pair has any of the values
        kept = kept.with_columns(sum((nw.col(f"c{j}") for j in range(1, width)), nw.col("c0")))
    if asked.public:  # the number of records that can be used is not
        kept = kept.with_columns((nw.col("c0") * 0).alias("c0"))
    else:
        usable = usable & (nw.col("c0") > 0)
    if not asked.public and not asked.more:
        usable = usable & ~value.is_null()
    return _pair_table(kept, usable, columns[:width], asked.groups, asked.weights, home, everybody)


def read_bins(asked: BinPairs, table: Table) -> GroupPairTable:
    """The pairs of people and bins: a record is in the bin of its own time."""
    columns = list(dict.fromkeys((asked.value, asked.time, *([asked.by] if asked.by else []))))
    dated = isinstance(asked.edges[0], str)
    texts = (asked.by,) if asked.by and isinstance(asked.levels[0], str) else ()
    read = ModelRecords.of(table, columns, texts=texts, dates=(asked.time,) if dated else ())
    records, at, home = read.records, read.places, read.home
    time = at[asked.time]
    known, bins = time.str.contains(DATE) if dated else time.is_finite(), len(asked.edges) - 1
    # a column of its own, since an engine would work out the bin for each use of it
    binned = records.with_columns(place=_reached(time, asked.edges) - 1)
    place = nw.col("place")
    inside = known & (place >= 0) & (place < bins)
    if asked.by is not None:
        arm = at[asked.by]
        place = place + nw.when(arm == asked.levels[1]).then(nw.lit(bins)).otherwise(nw.lit(0))
        inside = inside & ((arm == asked.levels[0]) | (arm == asked.levels[1]))
    found = nw.when(inside).then(place).otherwise(nw.lit(NOWHERE)).cast(INTEGER)
    placed = binned.select(PERSON, at[asked.value].alias("x0"), found.alias(GROUP))
    counts = not asked.weights.split  # the most records decide where a person has one pair
    rows = person_rows(placed, 1, asked.resolution, counts=counts, by=(PERSON, GROUP))
    kept, everybody = _in_roster(rows, records, table.roster, home)
    usable = (nw.col(GROUP) >= 0) & ~nw.col("v0").is_null()
    named = (asked.value,)
    pairs: Any = _pair_table(kept, usable, named, asked.keys, asked.weights, home, everybody)
    return replace(pairs, opened=read.opened)  # type: ignore[no-any-return]


def _reached(time: nw.Expr, edges: Sequence[object], before: int = 0) -> nw.Expr:
    """How many edges a time has reached, by bisection. before: those in front of these."""
    if not edges:
        return nw.lit(before)
    middle = len(edges) // 2
    above = _reached(time, edges[middle + 1 :], before + middle + 1)
    below = _reached(time, edges[:middle], before)
    return nw.when(time >= edges[middle]).then(above).otherwise(below)


def read_differences(asked: Difference, table: Table) -> EnginePersonTable:
    """One row a person of the roster: the difference of its person means in two groups."""
    keys = tuple((key,) for key in asked.pair)
    pairs = Pairs(asked.value, (asked.by,), keys, resolution=asked.resolution)
    records, _, home = _records(table, (asked.value, asked.by), pairs)
    rows = _placed_rows(records, pairs, home)
    assert pairs.keys is not None
    first = pairs.keys.index(keys[0])  # people hold keys in the order of texts
    g, value = nw.col(GROUP), nw.col("v0")
    apart = rows.select(
        PERSON,
        nw.when(g == first).then(value).alias("a"),
        nw.when(g == 1 - first).then(value).alias("b"),
    )
    both = apart.group_by(PERSON).agg(nw.col("a").max(), nw.col("b").max())
    people = both.select(PERSON, (nw.col("a") - nw.col("b")).alias("v0"))
    if table.roster is not None:
        people = roster_frame(table.roster, records, home).join(people, on=PERSON, how="left")
    return EnginePersonTable(home.keep(people), asked.names, None, home)


def _records(
    table: Table, names: Sequence[str], asked: Pairs
) -> tuple[nw.LazyFrame[Any], tuple[str, ...], EngineStore]:
    """The records (p, x0, ...) of these columns, those of `by` as texts of keys."""
    by = asked.by
    if table.person is None:
        raise ArgumentError("person", None, "is required", "name the column that identifies people")
    resources = table.resources.options()
    opened = open_source(table.source, table.text, resources)
    who = schema.person_column(opened.names, table.person)
    for name in by:
        schema.one_of(opened.names, "by", name)
    columns = schema.value_columns(opened.names, who, names)
    if len(columns) != len(names):
        raise ArgumentError("values", names[0], "must name one column", "name one column")
    if known.is_pandas_dataframe(table.source):
        chosen = objects.of_keys(table.source, (who, *columns), by)
        opened = open_source(chosen, table.text, resources)
    elif isinstance(table.source, Mapping):
        opened = open_source(objects.of_named(table.source, by), table.text, resources)
    records = opened.records(who, columns, by)
    return typed(_with_keys(records, asked), who, columns, by), columns, opened.home


def _placed_rows(records: nw.LazyFrame[Any], asked: Pairs, home: EngineStore) -> nw.LazyFrame[Any]:
    """One row a person and place of a key (p, g, v0, c0 and for `before` v1, c1)."""
    width = 1 + len(asked.more) + (asked.before is not None)
    placed = _placed(records, asked, home)
    return person_rows(placed, width, asked.resolution, counts=True, by=(PERSON, GROUP))


def _in_roster(
    rows: nw.LazyFrame[Any], records: nw.LazyFrame[Any], roster: object, home: EngineStore
) -> tuple[nw.LazyFrame[Any], nw.LazyFrame[Any] | None]:
    """The rows of people in the roster, and a frame with all of these, if there is a roster."""
    if roster is None:
        return home.keep(rows), None
    wanted = roster_frame(roster, records, home)
    return home.keep(rows.join(wanted, on=PERSON, how="inner")), wanted


def _private(
    records: nw.LazyFrame[Any],
    asked: Pairs,
    column: str,
    roster: object,
    home: EngineStore,
) -> GroupPairTable:
    """Pairs of all keys there are. A person of more groups than have a weight has no pair, so that
    nobody can make more keys than are paid for, and no key counts less for its text."""
    texts = [f"x{j}" for j in range(1, len(asked.by) + 1)]
    rows = person_rows(records, 1, asked.resolution, counts=True, by=(PERSON, *texts))
    kept, everybody = _in_roster(rows, records, roster, home)
    usable = kept.filter(nw.col("c0") > 0)
    for text in texts:
        usable = usable.filter(~nw.col(text).is_null())
    if asked.weights.split:
        own = usable.with_columns(nw.col("c0").count().over(PERSON).alias("own"))
        usable = own.filter(nw.col("own") <= asked.weights.kept)
    found = home.keep(usable.select(PERSON, *texts, "v0", "c0"))
    keys = by_text([tuple(row) for row in fetch(found.select(*texts).unique())])
    public: dict[str, list[Any]] = {
        name: [key[j] for key in keys] or [""] for j, name in enumerate(texts)
    }
    public[GROUP] = list(range(max(len(keys), 1)))
    placed = found.join(home.small(public, found), on=texts, how="inner")
    everybody = people_in(kept) if everybody is None else everybody
    return _pair_table(placed, None, (column,), keys, asked.weights, home, everybody)


def _with_keys(records: nw.LazyFrame[Any], asked: Pairs) -> nw.LazyFrame[Any]:
    """Keys as their canonical texts. A listed key that the types, which are public, leave no record
    to have is refused."""
    by = asked.by
    types = types_of(records, by)
    keyed = within_years(records, types, [f"x{j}" for j in range(1, len(by) + 1)])
    keyed = keyed.with_columns(
        key_expression(f"x{j}", types[f"x{j}"], name).alias(f"x{j}")
        for j, name in enumerate(by, start=1)
    )
    kinds = [types[f"x{j}"] for j in range(1, len(by) + 1)]
    forms = [form(kind) for kind in kinds]
    places = _places(asked)
    found = {
        place
        for key, place in places.items()
        if all(re.fullmatch(one, text) for (one, _), text in zip(forms, key, strict=True))
    }
    for key in asked.keys or ():
        if places[key] not in found:
            raise ArgumentError(
                "keys", label(key), f"cannot be in a column of {', '.join(map(type_name, kinds))}",
                f"give {', '.join(words for _, words in forms)}",
            )  # fmt: skip
    return keyed


def _places(asked: Pairs) -> dict[tuple[str, ...], int]:
    """The place of every text of a listed key in the order of texts."""
    own = ((key, place) for place, key in enumerate(asked.keys or ()))
    return spelled((*own, *asked.aliases))


def _placed(records: nw.LazyFrame[Any], asked: Pairs, home: EngineStore) -> nw.LazyFrame[Any]:
    """Records (p, x0, g, and for `before` x1): g is the place of the key in the order of texts."""
    assert asked.keys is not None
    texts = [f"x{j}" for j in range(1, len(asked.by) + 1)]
    places = list(_places(asked).items())
    public: dict[str, list[Any]] = {
        name: [key[j] for key, _ in places] for j, name in enumerate(texts)
    }
    public["h"] = [place for _, place in places]
    joined = records.join(home.small(public, records), on=texts, how="left")
    elsewhere = len(asked.keys) if asked.other else NOWHERE
    place = nw.col("h").fill_null(elsewhere).cast(INTEGER)
    more = len(asked.more) + (asked.before is not None)
    others = [nw.col(f"x{len(texts) + j}").alias(f"x{j}") for j in range(1, more + 1)]
    return joined.select(PERSON, "x0", place.alias(GROUP), *others)


def _pair_table(
    rows: nw.LazyFrame[Any],
    usable: nw.Expr | None,
    columns: tuple[str, ...],
    keys: tuple[tuple[str, ...], ...],
    weights: GroupWeights,
    home: EngineStore,
    everybody: nw.LazyFrame[Any] | None,
) -> GroupPairTable:
    """Pairs with their weights from rows (p, g, v0 .., c0), c0 the usable values, of which those
    that are `usable` are pairs. everybody: a frame with a row for each of all people; None: those
    of the rows. In memory where the engine's store says so."""
    values = [nw.col(f"v{j}").alias(value_name(j)) for j in range(len(columns))]
    pairs = rows if usable is None else rows.filter(usable)
    g, one = nw.col(GROUP), nw.lit(1).cast(INTEGER)
    if weights.split:
        whole = one if usable is None else nw.when(usable).then(one).otherwise(one - one)
        people = rows.select(PERSON, o=whole).group_by(PERSON).agg(nw.col("o").sum().cast(INTEGER))
        people = home.keep(people)
        everybody = people if everybody is None else everybody
        pairs = pairs.join(people, on=PERSON, how="inner").select(PERSON, g, *values, "o")
    else:
        # most records first, then the first key: no two pairs of a person have one score
        groups = max(len(keys), 1)
        pairs = pairs.with_columns((nw.col("c0") * groups + (groups - 1) - g).alias("score"))
        pairs = pairs.with_columns(nw.col("score").max().over(PERSON).alias("best"))
        pairs = pairs.filter(nw.col("score") == nw.col("best")).select(PERSON, g, *values, o=one)
    everybody = people_in(rows) if everybody is None else everybody
    if home.takes(rows, len(columns)):
        held = array_pairs(pairs, columns, keys, weights, rows_of(everybody))
        home.clear()
        return held
    o = nw.col("o")
    mass = (weights.mass // o).cast(INTEGER) if weights.split else one
    weight = weight_of(o, weights) if weights.split else one
    pairs = home.keep(pairs.with_columns(w=weight, m=mass))
    return EnginePairTable(pairs, columns, keys, weights, home, everybody)
