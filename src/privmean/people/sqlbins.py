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

from privmean.people.grids import LOG_BINS, LOG_LOW, LOG_ZERO, log_edges
from privmean.people.sqlengines import facts
from privmean.people.sqlexact import plain

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation
    from ibis.expr.types import Table

LEAST_BIN = 2.0 ** (LOG_LOW // 2)  # below, the zero bin


def edges() -> dict[str, list[int] | list[float]]:
    """The bins of positive values: their numbers, where each begins, and where it ends."""
    low = [float(item) for item in log_edges()]
    return {
        "bin": list(range(LOG_BINS)),
        "place": [float(j) for j in range(LOG_BINS)],
        "low": low,
        "high": [*low[1:], math.inf],
    }


def log_cells(table: Table, bins: Table) -> Table:
    """With the logarithmic bin of v as k (a double); a null is in the zero bin. bins: `edges`."""
    import ibis

    v, (times, whole) = table["v"], plain(facts(table))
    size = v.abs()
    # one value for nulls and what is in the zero bin: a logarithm of zero may be an error
    size = ibis.cases((size >= LEAST_BIN, size), else_=LEAST_BIN)
    sized = table.mutate(size=size)
    guess = whole(times(sized["size"].ln(), 2.0 / math.log(2.0))) - LOG_LOW
    guess = ibis.cases((guess < 0, 0), (guess >= LOG_BINS, LOG_BINS - 1), else_=guess)
    guessed = sized.mutate(guess=guess.cast("int64"))
    found = guessed.join(bins, guessed["guess"] == bins["bin"])
    size, k = found["size"], found["place"]
    k = k + ibis.cases((size < found["low"], -1.0), (size >= found["high"], 1.0), else_=0.0)
    k = ibis.cases((found["v"] < 0.0, k + (LOG_ZERO + 1.0)), else_=k)
    inside = found["v"].abs() >= LEAST_BIN
    named = found.mutate(k=ibis.cases((inside, k), else_=float(LOG_ZERO)))
    return named.drop("size", "guess", *bins.columns)


def in_duckdb(relation: DuckDBPyRelation) -> DuckDBPyRelation:
    """The same in DuckDB's words, where the edges are two lists. A bin that is infinite or beyond
    the last is the last."""
    low, high = (_doubles(edges()[name]) for name in ("low", "high"))
    least = f"CAST('{LEAST_BIN!r}' AS DOUBLE)"
    # one value for nulls and what is in the zero bin, which no logarithm is asked about
    sized = f"*, CASE WHEN abs(v) >= {least} THEN abs(v) ELSE {least} END AS size"
    guess = f"floor(2 * log2(size)) + {1 - LOG_LOW}"  # lists begin at 1
    guessed = f"*, CAST(least(greatest({guess}, 1), {LOG_BINS}) AS BIGINT) AS guess"
    place = (
        f"CAST(guess - 1 AS DOUBLE) - CAST(size < {low}[guess] AS DOUBLE) "
        f"+ CAST(size >= {high}[guess] AS DOUBLE)"
    )
    k = f"least({place}, {LOG_BINS - 1}) + CASE WHEN v < 0 THEN {LOG_ZERO + 1} ELSE 0 END"
    found = f"CASE WHEN abs(v) >= {least} THEN {k} ELSE {LOG_ZERO} END"
    return relation.query(
        "privmean_rows",
        f"SELECT * EXCLUDE (size, guess), {found} AS k FROM "
        f"(SELECT {guessed} FROM (SELECT {sized} FROM privmean_rows))",
    )


def _doubles(items: Sequence[float]) -> str:
    """A list of doubles, each written as a text: a decimal of 17 digits is another number."""
    return f"CAST('[{', '.join(map(repr, items))}]' AS DOUBLE[])"
