"""Records to one person's sums of products, exactly, inside the engine.

For a linear model every person needs sums over own records of x_i, y, x_i x_j and x_i y. Each
record's model columns are computed by IEEE arithmetic from that record, limited and read on a
public grid:

    z = floor(x/step + 1/2), |x| <= 2^40 step (step a public power of two, one a column),

products are taken and added in 128-bit integers (exact up to 2^46 records a person), and the sums
become the nearest doubles. A record in which a column of the model is missing is left out, by the
person's own rule, and the person stays. With `time`, products of records that follow each other in
time, and of the first and last record, are added for autoregressive weights; records of the same
time are put in order by their values, so that the sums depend on the records alone.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import narwhals as nw
import numpy as np

from privmean.array_types import Floats
from privmean.data import schema
from privmean.data.engines import fetch
from privmean.data.exact_totals import Lazy, nearest
from privmean.data.grids import LIMIT_BITS
from privmean.data.open_source import open_source, typed
from privmean.data.person_records import (
    FLOAT,
    INTEGER,
    PERSON,
    WIDE,
    divided,
    limited,
)
from privmean.data.roster import roster_frame
from privmean.errors import ArgumentError, SchemaError

REACH_BITS = 40  # |z| <= 2^40: products below 2^81
TIME = "t"
DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(\z|[ T])"  # alone, or before a time of day

Pair = tuple[int, int]


@dataclass(frozen=True)
class Products:
    """Sums of one person a row, people in the order of their ids. Columns: the terms, then the
    response.

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


def person_products(
    source: object,
    *,
    person: object,
    columns: Sequence[str],
    products: Sequence[Sequence[ast.expr]],
    steps: Sequence[float],
    texts: Sequence[str] = (),
    dates: Sequence[str] = (),
    time: str | None = None,
    roster: object = None,
    text: Mapping[str, object] | None = None,
    resources: Mapping[str, object] | None = None,
    squares: bool | int = True,
) -> Products:
    """Sums for model columns `products` (each the product of expressions in `columns`; none: 1).

    steps: the public grid of each model column. texts: those of the columns that hold text; dates:
    those that hold dates, which are compared as texts.
    squares: whether products of columns are wanted; a number: squares alone, of so many first
    columns.
    """
    opened = open_source(source, text or {}, dict(resources or {}))
    who = schema.person_column(opened.names, person)
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
    people = _sums(records, places, products, steps, time, squares)
    if roster is not None:
        people = roster_frame(roster, records, opened.home).join(people, on=PERSON, how="left")
    opened.home.expect(len(products) * (3 + 3 * len(products)))  # never fewer than there are
    kept = opened.home.keep(people)
    names = [item for item in kept.collect_schema().names() if item != PERSON]
    rows = fetch(kept.sort(PERSON).select(*names))
    table = np.array(rows, dtype=float).reshape(len(rows), len(names))
    table = np.where(np.isnan(table), 0.0, table)
    found = {item: np.ascontiguousarray(table[:, j]) for j, item in enumerate(names)}
    q = len(products)
    totals = [found[f"d{j}"] for j in range(len(names) - 1)]
    pairs = _pairs(q, squares)
    products_of = dict(zip(pairs, totals[q:], strict=False))
    ends, lags = {}, {}
    if time is not None:
        m = len(pairs)
        ends = dict(zip(pairs, totals[q + m :], strict=False))
        lags = dict(zip(pairs, totals[q + 2 * m :], strict=False))
    sums = np.stack(totals[:q], axis=1) if totals else np.zeros((len(rows), q))
    engine = kept.implementation.value
    return Products(found["count"], sums, products_of, ends, lags, engine)


def _sums(
    records: Lazy,
    places: Mapping[str, nw.Expr],
    products: Sequence[Sequence[ast.expr]],
    steps: Sequence[float],
    time: str | None,
    squares: bool | int,
) -> Lazy:
    """(p, count, d0, d1, ...): the sums as doubles."""
    q = range(len(products))
    frame = records.filter(~nw.col(PERSON).is_null())
    made = [
        reduce(lambda a, b: a * b, [_value(tree, places) for tree in trees], nw.lit(1.0))
        for trees in products
    ]
    clock = [] if time is None else [places[time].alias(TIME)]
    frame = frame.select(PERSON, *clock, *(item.alias(f"x{j}") for j, item in enumerate(made)))
    kept = [nw.col(TIME)] if time is not None else []
    frame = frame.select(
        PERSON,
        *kept,
        *(
            limited(nw.col(f"x{j}"), steps[j] * 2.0 ** (REACH_BITS - LIMIT_BITS)).alias(f"x{j}")
            for j in q
        ),
    )
    usable = reduce(lambda a, b: a & b, [~nw.col(f"x{j}").is_null() for j in q])
    if time is not None:
        # a time that is missing or no number is no place in the order
        usable = usable & nw.col(TIME).is_finite().fill_null(False)
    # a column of its own: inside of each of q columns it would make a query of q^2 terms
    frame = frame.with_columns(usable.alias("usable"))
    usable = nw.col("usable")
    spark = not (frame.implementation.is_duckdb() or frame.implementation.is_polars())
    wide = nw.Decimal(13, 0) if spark else WIDE
    whole = [(nw.col(f"x{j}") * (1 / steps[j]) + 0.5).floor() for j in q]
    # every person stays: unusable records count 0 in every sum
    frame = frame.select(
        PERSON,
        *kept,
        nw.when(usable).then(nw.lit(1)).otherwise(nw.lit(0)).cast(INTEGER).alias("u"),
        *(
            nw.when(usable)
            .then(item)
            .otherwise(nw.lit(0.0))
            .cast(INTEGER)
            .cast(wide)
            .alias(f"z{j}")
            for j, item in enumerate(whole)
        ),
    )
    z = [nw.col(f"z{j}") for j in q]
    pairs = _pairs(len(q), squares)
    terms = [*z, *(z[i] * z[j] for i, j in pairs)]
    if time is not None:
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
        one = nw.when(nw.col("first").is_null()).then(nw.lit(1)).otherwise(nw.lit(0))
        two = nw.when(nw.col("last").is_null()).then(nw.lit(1)).otherwise(nw.lit(0))
        frame = frame.with_columns(
            (one + two).cast(INTEGER).alias("ends"),
            *(nw.col(f"b{j}").fill_null(0).alias(f"b{j}") for j in q),
        )
        b = [nw.col(f"b{j}") for j in q]
        end = nw.col("ends").cast(wide)
        terms += [end * (z[i] * z[j]) for i, j in pairs]
        terms += [z[i] * b[j] + b[i] * z[j] for i, j in pairs]
    m = len(terms)
    frame = frame.select(PERSON, "u", *(item.alias(f"m{k}") for k, item in enumerate(terms)))
    people = frame.group_by(PERSON).agg(
        nw.col("u").sum().cast(FLOAT).alias("count"),
        *(nw.col(f"m{k}").sum().alias(f"t{k}") for k in range(m)),
    )
    scales = [steps[j] for j in q]
    scales += [steps[i] * steps[j] for i, j in pairs] * (1 if time is None else 3)
    if spark:
        totals = [nw.col(f"t{k}").cast(FLOAT).alias(f"d{k}") for k in range(m)]
    else:
        totals = nearest(people, m)
    people = people.select(PERSON, "count", *totals)
    return people.select(
        PERSON, "count", *((nw.col(f"d{k}") * scales[k]).alias(f"d{k}") for k in range(m))
    )


def _pairs(columns: int, squares: bool | int) -> list[Pair]:
    """The products of columns that are wanted."""
    if isinstance(squares, bool):
        return [(i, j) for i in range(columns) for j in range(i, columns) if squares]
    return [(j, j) for j in range(squares)]


OPERATIONS: dict[type[ast.operator], Callable[[nw.Expr, nw.Expr], nw.Expr]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    # a division by zero is an error, a null or an infinity, by engine: here it is missing
    ast.Div: lambda left, right: divided(left, nw.when(right != 0.0).then(right)),
}


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
        return nw.when(known).then(nw.when(holds).then(nw.lit(1.0)).otherwise(nw.lit(0.0)))
    gap = _value(tree.left, places) - _value(level, places)
    if isinstance(sign, ast.Eq | ast.NotEq):
        same, other = (1.0, 0.0) if isinstance(sign, ast.Eq) else (0.0, 1.0)
        chosen = nw.when(gap == 0.0).then(nw.lit(same)).otherwise(nw.lit(other))
    elif isinstance(sign, ast.Lt | ast.GtE):
        inside, outside = (1.0, 0.0) if isinstance(sign, ast.Lt) else (0.0, 1.0)
        chosen = nw.when(gap < 0.0).then(nw.lit(inside)).otherwise(nw.lit(outside))
    else:
        inside, outside = (1.0, 0.0) if isinstance(sign, ast.Gt) else (0.0, 1.0)
        chosen = nw.when(gap > 0.0).then(nw.lit(inside)).otherwise(nw.lit(outside))
    return nw.when(gap.is_finite()).then(chosen)
