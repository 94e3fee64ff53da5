"""Records to one person's sums of products, exactly, inside the engine.

For a linear model every person needs sums over own records of x_i, y, x_i x_j and x_i y. Each
record's model columns are computed by IEEE arithmetic from that record, limited and read on a
public grid:

    z = floor(x/step + 1/2), |x| <= 2^40 step (step a public power of two, one a column),

products are taken and added exactly, and the sums become the nearest doubles. A record in which a
column of the model is missing is left out, by the person's own rule, and the person stays. With
`time`, products of records that follow each other in time, and of the first and last record, are
added for autoregressive weights; records of the same time are put in order by their values, so that
the sums depend on the records alone.

Sums are first taken in doubles, which engines add fastest. They are the exact integers wherever
what was added stays below 2^53 in absolute value, which the sums of squares tell. The sums of other
people are taken again in 128-bit integers (exact up to 2^46 records a person).
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np

from privmean.array_types import Flags, Floats
from privmean.data import schema
from privmean.data.engines import EngineStore, fetch_columns
from privmean.data.open_source import OpenedSource, open_source, typed
from privmean.data.person_records import (
    FLOAT,
    INTEGER,
    PERSON,
    WIDE,
    Lazy,
    between,
    divided,
    is_number,
    nearest,
)
from privmean.data.roster import roster_frame
from privmean.errors import ArgumentError, SchemaError

if TYPE_CHECKING:
    from privmean.data.table import Table

REACH_BITS = 40  # |z| <= 2^40: products below 2^81
TIME = "t"
DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(\z|[ T])"  # alone, or before a time of day
CERTAIN = 2.0**51  # sums of squares below this leave room for two products of records at once
EXACT = 2.0**53
RECORDS = 2.0**24  # a person: with fewer, sums in doubles are exact where its own squares are
DUST = 2.0**-24  # added to the count by a record: a person's records and these stay apart
MARKS = 32  # variables whose doubt is a bit of its own
GRIDS = (-40, -20, 0)  # a variable is read in steps of 2^g, limited to 2^(g + 40)
MIDDLE = math.ldexp(1.0, GRIDS[1])
WORD = 2.0**24
BLOCK = 1 << 14  # people at once: what is made on the way stays in a cache
SMALL, LARGE = math.ldexp(1.0, -8), math.ldexp(1.0, 19)  # sizes on the finest, the coarsest grid

CHANGED = "The table changed while it was read. Use a copy that nothing writes to."

Pair = tuple[int, int]
Trees = Sequence[Sequence[ast.expr]]


@dataclass(frozen=True)
class Products:
    """Sums of one person a row, in the order of their ids unless asked for in any. Columns: the
    terms, then the response.

    count: usable records, shape (n,). sums: shape (n, q). squares[i, j] for i <= j: sums of
    products, shape (n,). ends, lags: sums over the first and the last record, and over records that
    follow each other (both orders), if asked for. engine: the library that read the records.
    """

    count: Floats
    sums: Floats
    squares: Mapping[Pair, Floats]
    ends: Mapping[Pair, Floats]
    lags: Mapping[Pair, Floats]
    engine: str = "numpy"

    def parts(self) -> Iterator[Products]:
        """Some people after the other."""
        for people in blocks(len(self.count)):
            squares, ends, lags = (
                {at: item[people] for at, item in some.items()}
                for some in (self.squares, self.ends, self.lags)
            )
            yield Products(self.count[people], self.sums[people], squares, ends, lags, self.engine)


def blocks(people: int) -> list[slice]:
    """The places of all people, some at once; one block where there are none."""
    return [slice(start, start + BLOCK) for start in range(0, max(people, 1), BLOCK)]


@dataclass(frozen=True)
class PersonMoments:
    """One person a row: person means and root mean squares of one variable; NaN without a
    record."""

    mean: Floats
    square: Floats

    def about(self, centre: float) -> Floats:
        """Root mean square of own records about a center."""
        with np.errstate(all="ignore"):
            return np.sqrt(np.maximum(self.square - 2 * centre * self.mean + centre * centre, 0.0))

    def within(self) -> Floats:
        """Root mean square of own records about their person mean."""
        with np.errstate(all="ignore"):
            return np.sqrt(np.maximum(self.square - self.mean * self.mean, 0.0))

    @classmethod
    def of(cls, sums: Floats, squares: Floats, count: Floats) -> PersonMoments:
        """From sums over records."""
        with np.errstate(all="ignore"):
            return cls(np.divide(sums, count), np.divide(squares, count))

    @classmethod
    def by_size(
        cls, fine: PersonMoments, middle: PersonMoments, coarse: PersonMoments
    ) -> PersonMoments:
        """Each person's moments from the grid that holds the own size."""
        large, small = coarse.about(0.0) >= LARGE, middle.about(0.0) < SMALL
        found = [
            np.where(large, third, np.where(small, first, second))
            for first, second, third in zip(*map(_both, (fine, middle, coarse)), strict=True)
        ]
        return cls(*found)


def _both(moments: PersonMoments) -> tuple[Floats, Floats]:
    return moments.mean, moments.square


@dataclass(frozen=True)
class ModelRecords:
    """The records of a table (p, x0 ..), and its columns as expressions of these."""

    records: Lazy
    places: Mapping[str, nw.Expr]
    opened: OpenedSource
    roster: object
    time: str | None

    @classmethod
    def of(
        cls,
        table: Table,
        columns: Sequence[str],
        *,
        texts: Sequence[str] = (),
        dates: Sequence[str] = (),
        time: str | None = None,
        opened: OpenedSource | None = None,
    ) -> ModelRecords:
        """texts: those of the columns that hold text; dates: those that hold dates, which are
        compared as texts. opened: the table, where it is open already."""
        if table.person is None:
            raise ArgumentError(
                "person", None, "is required", "name the column that identifies people"
            )
        opened = opened or open_source(table.source, table.text, table.resources.options())
        who = schema.person_column(opened.names, table.person)
        wanted = [*columns, *([] if time is None or time in columns else [time])]
        schema.value_columns(opened.names, who, wanted)
        for item in wanted:
            if item not in opened.names:
                raise SchemaError(f"column {item!r} is not in the table. Check its name.")
        records = typed(opened.records(who, wanted, (*texts, *dates)), who, wanted, texts, dates)
        if records.implementation.is_ibis():
            raise ArgumentError(
                "source",
                "a table of a database",
                "supports means only",
                "write the columns to Parquet for a regression or a curve",
            )
        places = {item: nw.col(f"x{j}") for j, item in enumerate(wanted)}
        records = records.filter(~nw.col(PERSON).is_null())
        return cls(records, places, opened, table.roster, time)

    @property
    def home(self) -> EngineStore:
        return self.opened.home

    @property
    def engine(self) -> str:
        """The library that reads the records."""
        return str(self.records.implementation.value)

    def products(
        self, products: Trees, steps: Sequence[float], *, ordered: bool = True
    ) -> Products:
        """Sums for model columns `products` (each the product of expressions in columns; none: 1).
        steps: the public grid of each. ordered: whether people are in the order of their ids."""
        q = len(products)
        pairs = [(i, j) for i in range(q) for j in range(i, q)]
        kept, found = self._fetched(self._sums(products, steps, pairs), ordered=ordered)
        doubtful = found.pop("doubtful") > 0
        if doubtful.any():
            exact = self._exact_sums(kept, doubtful, products, steps, pairs)
            for name, numbers in exact.items():
                found[name][doubtful] = numbers
        self.home.clear()
        count = found.pop("count")
        totals = list(found.values())
        sums = np.array(totals[:q]).T  # each column in one piece of memory
        m = len(pairs)
        squares, ends, lags = (
            dict(zip(pairs, totals[k : k + m], strict=False)) for k in (q, q + m, q + 2 * m)
        )
        return Products(count, sums, squares, ends, lags, self.engine)

    def moments(self, variables: Trees, others: Trees) -> tuple[Floats, list[PersonMoments]]:
        """Usable records of each person, and moments of variables, each from the grid that holds
        the own size; people in any order. others: further columns that may not be missing."""
        people = self._middle_sums(variables, others)
        kept, found = self._fetched(people, ordered=False, more=True)
        count, square = np.floor(found["count"]), MIDDLE * MIDDLE
        marks = found["doubtful"].astype(np.int64)
        doubtful = marks > 0
        own = [
            PersonMoments.of(found[f"z{j}"] * MIDDLE, found[f"s{j}"] * square, count)
            for j in range(len(variables))
        ]
        if doubtful.any():
            marked = int(np.bitwise_or.reduce(marks))
            places = [j for j in range(len(variables)) if marked >> j % MARKS & 1]
            sure = [trees for j, trees in enumerate(variables) if j not in places]
            columns = [variables[j] for j in places for _ in GRIDS]
            steps = [math.ldexp(1.0, grid) for _ in places for grid in GRIDS]
            pairs = [(k, k) for k in range(len(columns))]
            exact = self._exact_sums(kept, doubtful, columns, steps, pairs, [*others, *sure])
            some, *totals = exact.values()
            both = zip(totals, totals[len(pairs) :], strict=False)
            read = [PersonMoments.of(sums, squares, some) for sums, squares in both]
            count[doubtful] = some
            for k, j in enumerate(places):
                best = PersonMoments.by_size(*read[k * len(GRIDS) : (k + 1) * len(GRIDS)])
                own[j].mean[doubtful], own[j].square[doubtful] = best.mean, best.square
        self.home.clear()
        return count, own

    def _exact_sums(
        self,
        kept: Lazy,
        doubtful: Flags,
        products: Trees,
        steps: Sequence[float],
        pairs: Sequence[Pair],
        others: Trees = (),
    ) -> dict[str, Floats]:
        """Of the people whose sums in doubles may not be exact, from their records once more. How
        many these are is in no error."""
        them = kept.filter(nw.col("doubtful") > 0).select(PERSON)
        records = self.records.join(them, on=PERSON, how="semi")
        few = replace(self, records=records, roster=None)
        _, exact = few._fetched(few._sums(products, steps, pairs, others, exact=True))
        if len(exact["count"]) != np.count_nonzero(doubtful):
            raise SchemaError(CHANGED)
        return exact

    def _fetched(
        self, people: Lazy, *, ordered: bool = True, more: bool = False
    ) -> tuple[Lazy, dict[str, Floats]]:
        """Sums a person inside the engine, and in memory; people in the order of their ids if
        wanted, or needed since some are doubtful, whose exact sums come in this order. more:
        whether records are read again."""
        if self.roster is not None:
            wanted = roster_frame(self.roster, self.records, self.home)
            people = wanted.join(people, on=PERSON, how="left")
        names = [item for item in people.collect_schema().names() if item != PERSON]
        self.home.expect(len(names))
        kept = self.home.keep(people, more=more)
        found = {} if ordered else fetch_columns(kept.select(*names), names)
        if ordered or (found["doubtful"] > 0).any():
            found = fetch_columns(kept.sort(PERSON).select(*names), names)
        if self.roster is not None:  # who has no record has no sum
            found = {name: np.nan_to_num(item, copy=False) for name, item in found.items()}
        return kept, found

    def _usable(self, columns: Trees) -> Lazy:
        """(p, x0 .., usable): model columns, and records in which none is missing."""
        made = [
            reduce(lambda a, b: a * b, [_value(tree, self.places) for tree in trees])
            if trees
            else nw.lit(1.0)
            for trees in columns
        ]
        clock = [] if self.time is None else [self.places[self.time].alias(TIME)]
        x = [nw.col(f"x{j}") for j in range(len(columns))]
        frame = self.records.select(
            PERSON, *clock, *(item.alias(f"x{j}") for j, item in enumerate(made))
        )
        usable = reduce(lambda a, b: a & b, map(is_number, x))
        if self.time is not None:
            # a time that is missing or no number is no place in the order
            usable = usable & nw.col(TIME).is_finite().fill_null(False)
        # a column of its own: inside of each of q columns it would make a query of q^2 terms
        return frame.with_columns(usable.alias("usable"))

    def _middle_sums(self, variables: Trees, others: Trees) -> Lazy:
        """Sums in doubles on the grid that holds most sizes: z2 = 2^24 h (z + l) + l2, where
        z = 2^24 h + l and -2^23 <= l < 2^23, so that no term is negative. Where the sums of both
        are below 2^53, no |x| reaches 2^20, and the own size not 2^19. count: the usable records,
        and `DUST` for each in which a value that is not 0 is read as 0. doubtful: the bit j of the
        variables whose sums of this person may not do (those of one place modulo `MARKS` share
        one)."""
        q = range(len(variables))
        frame = self._usable([*variables, *others])
        x, z, high = ([nw.col(f"{name}{j}") for j in q] for name in "xzh")
        # what another grid may tell from 0, and this one does not
        near = [(item.abs() <= 0.5 * MIDDLE) & (item != 0.0) for item in x]
        dust = reduce(lambda a, b: a | b, near, nw.lit(False))
        one = nw.when(dust).then(nw.lit(1.0 + DUST)).otherwise(nw.lit(1.0))
        frame = frame.select(
            PERSON,
            _if_usable(one).alias("u"),
            *(_on_grid(x[j], MIDDLE).alias(f"z{j}") for j in q),
        )
        frame = frame.with_columns((z[j] * (1 / WORD) + 0.5).floor().alias(f"h{j}") for j in q)
        low = [z[j] - high[j] * WORD for j in q]
        people = frame.group_by(PERSON).agg(
            nw.col("u").sum().alias("count"),
            *(z[j].sum().alias(f"z{j}") for j in q),
            *((high[j] * (z[j] + low[j])).sum().alias(f"h{j}") for j in q),
            *((low[j] * low[j]).sum().alias(f"l{j}") for j in q),
        )
        low = [nw.col(f"l{j}") for j in q]
        sizes = [high[j] * WORD + low[j] for j in q]
        count = nw.col("count")
        doubts = []
        for j, size in enumerate(sizes):
            # a little more than what is small: what is read again is right in any case
            small = size <= count * (1.001 * (SMALL * (1 / MIDDLE)) ** 2)
            seen = (size > 0.0) | (count > count.floor())
            beyond = (count >= RECORDS) | (high[j] >= EXACT) | (low[j] >= EXACT)
            doubts.append(beyond | (small & seen))
        marks = [reduce(lambda a, b: a | b, doubts[k::MARKS]) for k in range(min(len(q), MARKS))]
        bits = [_one_if(mark) * 2.0**k for k, mark in enumerate(marks)]
        doubtful = reduce(lambda a, b: a + b, bits, nw.lit(0.0)).alias("doubtful")
        squares = [size.alias(f"s{j}") for j, size in enumerate(sizes)]
        return people.select(PERSON, "count", *z, *squares, doubtful)

    def _sums(
        self,
        products: Trees,
        steps: Sequence[float],
        pairs: Sequence[Pair],
        others: Trees = (),
        *,
        exact: bool = False,
    ) -> Lazy:
        """(p, count, d0, d1, ...): the sums as doubles; unless `exact`, `doubtful` is 1 where they
        may be no exact integers."""
        q = range(len(products))
        frame = self._usable([*products, *others])
        kept = [] if self.time is None else [nw.col(TIME)]
        spark = not (frame.implementation.is_duckdb() or frame.implementation.is_polars())
        wide = nw.Decimal(13, 0) if spark else WIDE
        whole = [_on_grid(nw.col(f"x{j}"), steps[j]) for j in q]
        if exact:
            whole = [item.cast(INTEGER).cast(wide) for item in whole]
        frame = frame.select(
            PERSON, *kept, U, *(item.alias(f"z{j}") for j, item in enumerate(whole))
        )
        z = [nw.col(f"z{j}") for j in q]
        terms = [*z, *(z[i] * z[j] for i, j in pairs)]
        if self.time is not None:
            order = [TIME, *(f"z{j}" for j in q)]
            # unusable records form a group of their own, so that they separate nobody
            before = [item.shift(1).over(PERSON, "u", order_by=order) for item in z]
            after = nw.col("u").shift(-1).over(PERSON, "u", order_by=order)
            first = nw.col("u").shift(1).over(PERSON, "u", order_by=order)
            frame = frame.with_columns(
                *(item.alias(f"b{j}") for j, item in enumerate(before)),
                first.alias("first"),
                after.alias("last"),
            )
            end = _one_if(nw.col("first").is_null()) + _one_if(nw.col("last").is_null())
            frame = frame.with_columns(
                (end.cast(INTEGER).cast(wide) if exact else end).alias("ends"),
                *(nw.col(f"b{j}").fill_null(0).alias(f"b{j}") for j in q),
            )
            b = [nw.col(f"b{j}") for j in q]
            terms += [nw.col("ends") * (z[i] * z[j]) for i, j in pairs]
            terms += [z[i] * b[j] + b[i] * z[j] for i, j in pairs]
        people = frame.group_by(PERSON).agg(
            nw.col("u").sum().alias("count"),
            *(item.sum().alias(f"t{k}") for k, item in enumerate(terms)),
        )
        scales = [steps[j] for j in q]
        scales += [steps[i] * steps[j] for i, j in pairs] * (1 if self.time is None else 3)
        m = range(len(terms))
        totals = [nw.col(f"t{k}").cast(FLOAT) for k in m]
        if exact and not spark:
            totals = nearest(people, len(terms))
        made = [(totals[k] * scales[k]).alias(f"d{k}") for k in m]
        if not exact:
            own = [len(q) + k for k, (i, j) in enumerate(pairs) if i == j]
            large = reduce(lambda a, b: a | b, [nw.col(f"t{k}") >= CERTAIN for k in own])
            made.append(_one_if(large).alias("doubtful"))
        return people.select(PERSON, "count", *made)


def _if_usable(item: nw.Expr) -> nw.Expr:
    """Every person stays: unusable records count 0 in every sum."""
    return nw.when(nw.col("usable")).then(item).otherwise(nw.lit(0.0))


def _on_grid(x: nw.Expr, step: float) -> nw.Expr:
    """The point of a public grid that is nearest to a usable number, which is limited to it."""
    return _if_usable((between(x, step * 2.0**REACH_BITS) * (1 / step) + 0.5).floor())


def _one_if(condition: nw.Expr) -> nw.Expr:
    return nw.when(condition).then(nw.lit(1.0)).otherwise(nw.lit(0.0))


U = _one_if(nw.col("usable")).alias("u")

OPERATIONS: dict[type[ast.operator], Callable[[nw.Expr, nw.Expr], nw.Expr]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    # a division by zero is an error, a null or an infinity, by engine: here it is missing
    ast.Div: lambda left, right: divided(left, nw.when(right != 0.0).then(right)),
}


# how the difference of both sides is compared with 0, and what it is where that holds
TESTS: dict[type[ast.cmpop], tuple[Callable[[nw.Expr, float], nw.Expr], float]] = {
    ast.Eq: (operator.eq, 1.0), ast.NotEq: (operator.eq, 0.0),
    ast.Lt: (operator.lt, 1.0), ast.GtE: (operator.lt, 0.0),
    ast.Gt: (operator.gt, 1.0), ast.LtE: (operator.gt, 0.0),
}  # fmt: skip


def _value(tree: ast.expr, places: Mapping[str, nw.Expr]) -> nw.Expr:
    """The expression of one record; comparisons give 1 or 0, and null where a side is missing."""
    if isinstance(tree, ast.Name):
        return places[tree.id]
    if isinstance(tree, ast.Constant):
        assert isinstance(tree.value, int | float)
        return nw.lit(float(tree.value))
    if isinstance(tree, ast.UnaryOp):
        inner = _value(tree.operand, places)
        return inner * -1.0 if isinstance(tree.op, ast.USub) else inner
    if isinstance(tree, ast.BinOp):
        left = _value(tree.left, places)
        if isinstance(tree.op, ast.Pow):
            assert isinstance(tree.right, ast.Constant)
            return reduce(lambda a, b: a * b, [left] * int(str(tree.right.value)))
        return OPERATIONS[type(tree.op)](left, _value(tree.right, places))
    assert isinstance(tree, ast.Compare)
    level, sign = tree.comparators[0], tree.ops[0]
    if isinstance(level, ast.Constant) and isinstance(level.value, str):
        given, edge = _value(tree.left, places), nw.lit(level.value)
        if isinstance(sign, ast.Eq):
            known, holds = ~given.is_null(), given == edge
        else:  # dates: a text that is none is missing
            known = given.str.contains(DATE)
            holds = given < edge if isinstance(sign, ast.Lt) else given >= edge
        return nw.when(known).then(_one_if(holds))
    gap = _value(tree.left, places) - _value(level, places)
    test, one = TESTS[type(sign)]
    chosen = nw.when(test(gap, 0.0)).then(nw.lit(one)).otherwise(nw.lit(1.0 - one))
    return nw.when(gap.is_finite()).then(chosen)
