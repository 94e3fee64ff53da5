"""Logarithmic bins in SQL engines: a guess, and two comparisons with the edges of the bin.

Halving step by step, as `expressions.log_cells` does elsewhere, is seven subqueries inside each
other, which an engine (DuckDB too, and Ibis) plans longer than it runs them. Here a logarithm says
which bin may hold a value, and the edges of that bin, from a small public table, say which one
does: the answer is one of comparisons alone where the guess is off by one at most. It is off by
less than 10^-12 of a bin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from privmean.data.grids import LogGrid
from privmean.data.sql_engines import backend, facts, named, statement

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation
    from ibis.expr.types import Table


def edges(grid: LogGrid) -> dict[str, list[int] | list[float]]:
    """The bins of positive values: their numbers, where each begins, and where it ends."""
    low = [float(item) for item in grid.edges()]
    return {
        "bin": list(range(grid.bins)),
        "place": [float(j) for j in range(grid.bins)],
        "low": low,
        "high": [*low[1:], math.inf],
    }


def log_cells(table: Table, bins: Table, grid: LogGrid, null: int) -> Table:
    """With the logarithmic bin of v as k (a double), which is `null` for a null. bins: `edges`. In
    the engine's own words: planning expressions takes Ibis longer than an engine runs them."""
    import ibis
    import ibis.expr.operations as ops

    link = backend(table)
    kinds = ibis.expr.datatypes
    whole = link.compiler.type_mapper.to_string(kinds.int64)
    names = [named(name, link) for name in table.columns]
    inside = f"ABS(v) >= {_double(grid.least)}"
    last = _double(grid.bins - 1)
    steps = [
        # one value for nulls and what is in the zero bin: a logarithm of zero may be an error
        [f"CASE WHEN {inside} THEN ABS(v) ELSE {_double(grid.least)} END AS size"],
        ["size", f"FLOOR(LN(size) * {_double(2.0 / math.log(2.0))}) - {_double(grid.low)} AS near"],
        ["size", f"CAST(CASE WHEN near < {_double(0)} THEN {_double(0)} "
         f"WHEN near > {last} THEN {last} ELSE near END AS {whole}) AS guess"],
    ]  # fmt: skip
    apart = " OFFSET 0" if facts(table).melts else ""
    text = statement(table)
    for number, step in enumerate(steps):
        text = f"SELECT {', '.join([*names, *step])} FROM ({text}) AS step{number}{apart}"
    cell = (
        f"CASE WHEN {inside} THEN place + CASE WHEN size < low THEN {_double(-1)} "
        f"WHEN size >= high THEN {_double(1)} ELSE {_double(0)} END "
        f"+ CASE WHEN v < {_double(0)} THEN {_double(grid.zero + 1)} ELSE {_double(0)} END "
        f"WHEN v IS NULL THEN {_double(null)} ELSE {_double(grid.zero)} END AS k"
    )
    text = (
        f"SELECT {', '.join([*names, cell])} FROM ({text}) AS guessed "
        f"JOIN ({statement(bins)}) AS bins ON guess = bin"
    )
    schema = ibis.schema(dict(table.schema().items()) | {"k": kinds.float64})
    return ops.SQLQueryResult(text, schema, link).to_expr()


def _double(value: float) -> str:
    return f"CAST('{float(value)!r}' AS DOUBLE PRECISION)"


def in_duckdb(relation: DuckDBPyRelation, grid: LogGrid, null: int) -> DuckDBPyRelation:
    """The same in DuckDB's words, where the edges are two lists. A bin that is infinite or beyond
    the last is the last."""
    low, high = (_doubles(edges(grid)[name]) for name in ("low", "high"))
    least = f"CAST('{grid.least!r}' AS DOUBLE)"
    # one value for nulls and what is in the zero bin, which no logarithm is asked about
    sized = f"*, CASE WHEN abs(v) >= {least} THEN abs(v) ELSE {least} END AS size"
    guess = f"floor(2 * log2(size)) + {1 - grid.low}"  # lists begin at 1
    guessed = f"*, CAST(least(greatest({guess}, 1), {grid.bins}) AS BIGINT) AS guess"
    place = (
        f"CAST(guess - 1 AS DOUBLE) - CAST(size < {low}[guess] AS DOUBLE) "
        f"+ CAST(size >= {high}[guess] AS DOUBLE)"
    )
    k = f"least({place}, {grid.bins - 1}) + CASE WHEN v < 0 THEN {grid.zero + 1} ELSE 0 END"
    none = f"WHEN v IS NULL THEN {null} ELSE {grid.zero}"
    found = f"CASE WHEN abs(v) >= {least} THEN {k} {none} END"
    return relation.query(
        "privmean_rows",
        f"SELECT * EXCLUDE (size, guess), {found} AS k FROM "
        f"(SELECT {guessed} FROM (SELECT {sized} FROM privmean_rows))",
    )


def _doubles(items: Sequence[float]) -> str:
    """A list of doubles, each written as a text: a decimal of 17 digits is another number."""
    return f"CAST('[{', '.join(map(repr, items))}]' AS DOUBLE[])"
