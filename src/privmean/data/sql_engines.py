"""Tables of SQL engines through Ibis: running their queries, and where computed tables stay.

Narwhals writes the queries of `frame`; what is said here is what the engines do not agree on.

What is known of SQL engines, as far as it matters for exact sums.

Sessions of PostgreSQL that may write nothing, not even temporary tables: standbys, readers.

There every question reads the records again. All must be about the same records, so they are asked
in one transaction, which sees the database as it was when it began. It ends with the last table of
people that depends on it.

Tables of SQL engines through Ibis, as records (p, x0, ..) that compare alike everywhere.

Logarithmic bins in SQL engines: a guess, and comparisons with the edges of the bins about it.

Halving step by step, as `engine_table.log_cells` does elsewhere, is seven subqueries inside each
other, which an engine (DuckDB too, and Ibis) plans longer than it runs them. Here a logarithm says
which octave may hold a value, and comparisons with the edges about it say which bin does: the
answer is one of comparisons alone where the guess is off by one at most. It is off by less than
10^-12 of a bin. The edges are a power of two (exact wherever powers are nearer than half a step;
tests try each edge in each engine) and its products with 2 and the root of 2.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privmean.data.column_types import DIGITS
from privmean.data.duckdb_engine import identifier
from privmean.data.grids import HALF_OCTAVE, LogGrid
from privmean.data.sql_exact import LEAST, named_function, total
from privmean.errors import ArgumentError, SchemaError

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation
    from ibis.backends import BaseBackend
    from ibis.expr.datatypes import DataType
    from ibis.expr.schema import Schema
    from ibis.expr.types import Table, Value
    from psycopg import Connection
    from sqlglot import Expression


@dataclass(frozen=True)
class Facts:
    """What an engine is, where that matters.

    name: as Ibis calls it. wide: sums of 64-bit whole numbers do not overflow (they are decimals of
    any length). traps: arithmetic of doubles raises where it overflows, vanishes or divides by
    zero. melts: subqueries are written into each other, which doubles expressions at every step.
    collates: texts compare by a language's rules, unless they are told to compare by bytes. tries:
    it knows TRY_CAST, and Ibis writes CAST for it.
    """

    name: str
    wide: bool = False
    traps: bool = False
    melts: bool = False
    collates: bool = False
    tries: bool = False


KNOWN = {
    item.name: item
    for item in (
        Facts("datafusion", tries=True),
        Facts("clickhouse"),
        Facts("postgres", wide=True, traps=True, melts=True, collates=True),
    )
}


BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_held: dict[int, int] = {}  # tables of people that depend on the transaction of a connection


def hold(connection: Connection) -> Callable[[], object]:
    """Let the connection see one state of the database, and what lets go of it."""
    from psycopg.pq import TransactionStatus

    key = id(connection)
    if key not in _held:
        if (
            not connection.autocommit
            or connection.info.transaction_status != TransactionStatus.IDLE
        ):
            raise SchemaError(
                "this session must be allowed to make temporary tables. Give a "
                "connection with autocommit, or the right to make temporary tables."
            )
        connection.execute(BEGIN)
        _held[key] = 0
    _held[key] += 1

    def release() -> None:
        _held[key] -= 1
        if not _held[key]:
            del _held[key]
            connection.execute("COMMIT")

    return release


_numbers = itertools.count()


def backend(table: Table) -> BaseBackend:
    """The connection of an Ibis table."""
    return table._find_backend(use_default=False)


def facts(table: Table) -> Facts:
    return KNOWN[backend(table).name]


def statement(table: Table) -> str:
    """The query of a table, in the engine's words, of operations that never raise."""
    import ibis.expr.operations as ops

    known, made = facts(table), table.op()
    if isinstance(made, ops.SQLQueryResult):  # words already, which Ibis would read again
        own: str = made.query
        return own
    link = backend(table)
    tree = link.compiler.to_sqlglot(total(table, traps=known.traps))
    _spelled(tree)
    if known.tries:
        _tried(tree)
    if known.melts:
        _set_apart(tree)
    text: str = tree.sql(dialect=link.dialect)
    return text


def worded(
    table: Table,
    before: Sequence[Sequence[str]],
    sums: Sequence[str],
    after: Sequence[Sequence[str]],
    by: Sequence[str],
    schema: Schema,
) -> Table:
    """One row for every value of the columns `by` of a table, in the engine's own words: `sums` are
    aggregates of what the steps `before` select from the records, `after` steps from these. schema:
    of what comes out."""
    import ibis.expr.operations as ops

    link = backend(table)
    names = [named(name, link) for name in by]
    apart = " OFFSET 0" if facts(table).melts else ""
    text = statement(table)
    for number, step in enumerate([*before, [*sums], *after]):
        text = f"SELECT {', '.join([*names, *step])} FROM ({text}) AS step{number}"
        text += f" GROUP BY {', '.join(names)}" if number == len(before) else apart
    return ops.SQLQueryResult(text, schema, link).to_expr()


def named(name: str, link: BaseBackend) -> str:
    """A column's name as the engine reads it."""
    import sqlglot as sg

    text: str = sg.to_identifier(name, quoted=True).sql(dialect=link.dialect)
    return text


BYTES, DOUBLE = "privmean_bytes", "privmean_double"
# PostgreSQL's own words for what Ibis cannot say. A decimal there may be NaN, infinite, or of more
# digits than a double has room for, which its cast makes an error.
SPELLED = {
    BYTES: 'CAST(x AS TEXT) COLLATE "C"',
    DOUBLE: (
        "CASE WHEN x < CAST('NaN' AS DECIMAL) THEN CASE WHEN ABS(x) < 1e-200 THEN 0 ELSE "
        "CAST(GREATEST(LEAST(x, 1e200), -1e200) AS DOUBLE PRECISION) END END"
    ),
}


def as_bytes(x: Value) -> Value:
    """A text that compares by its bytes, whatever the rules of its column."""
    from ibis.expr.datatypes import string

    return named_function(BYTES, (string,), string)(x)


def as_double(x: Value) -> Value:
    """A decimal of any length as a double, which is missing for NaN and limited to +-1e200."""
    from ibis.expr.datatypes import float64

    return named_function(DOUBLE, (x.type(),), float64)(x)


def _spelled(tree: Expression) -> None:
    """Write out the functions of our own."""
    import sqlglot as sg
    import sqlglot.expressions as sge

    for call in list(tree.find_all(sge.Anonymous)):
        template = SPELLED.get(call.name.lower())
        if template is not None:
            found = sg.parse_one(template, dialect="postgres")
            for place in list(found.find_all(sge.Column)):
                place.replace(call.expressions[0].copy())
            call.replace(sge.Paren(this=found))


def _tried(tree: Expression) -> None:
    """Casts that are tried stay so: what writes the text out takes them for casts that raise."""
    import sqlglot.expressions as sge

    for cast in list(tree.find_all(sge.TryCast)):
        kind = sge.to_identifier(cast.to.sql(dialect="datafusion"), quoted=False)
        cast.replace(
            sge.Anonymous(this="TRY_CAST", expressions=[sge.Alias(this=cast.this, alias=kind)])
        )


def _set_apart(tree: Expression) -> None:
    """Each subquery is computed as it stands: an offset of zero rows forbids to melt it. Not one
    of columns alone, which doubles nothing: a scan below an offset does not run in parallel."""
    import sqlglot.expressions as sge

    for inner in tree.find_all(sge.Subquery):
        query = inner.this
        if not isinstance(query, sge.Select) or query.args.get("offset") is not None:
            continue
        if not all(map(_plain, query.selects)):
            query.set("offset", sge.Offset(expression=sge.Literal.number(0)))


def _plain(item: Expression) -> bool:
    """A column, in another type or with other rules of comparison at most."""
    import sqlglot.expressions as sge

    item = item.unalias()
    while isinstance(item, sge.Cast | sge.Paren | sge.Collate):
        item = item.this
    return isinstance(item, sge.Column | sge.Star)


def rows(table: Table) -> list[tuple[Any, ...]]:
    """The rows of a small result as Python tuples."""
    link, text = backend(table), statement(table)
    with withheld():
        if link.name == "postgres":
            with link.con.cursor() as cursor, link.con.transaction():
                return list(cursor.execute(text).fetchall())
        if link.name == "datafusion":
            return [
                row
                for batch in link.con.sql(text).collect()
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
            ]
        return [tuple(row) for row in link.con.query(text).result_rows]


def counted(table: Table, column: str) -> list[tuple[Any, ...]]:
    """How many rows have each value of a column."""
    import ibis
    import ibis.expr.operations as ops

    name = named(column, backend(table))
    text = f"SELECT {name}, COUNT(*) AS n FROM ({statement(table)}) AS counted GROUP BY {name}"
    schema = ibis.schema({column: table.schema()[column], "n": "int64"})
    return rows(ops.SQLQueryResult(text, schema, backend(table)).to_expr())


def kept(table: Table) -> tuple[Table, Callable[[], object]]:
    """`table` computed once, in a table of the session that nobody else sees, and how it is
    dropped; where PostgreSQL allows no such table, the query itself, of a state that stays."""
    return _made(backend(table), statement(table), table.schema())


def _made(link: BaseBackend, text: str, schema: Schema) -> tuple[Table, Callable[[], object]]:
    import ibis.expr.operations as ops

    if link.name == "postgres" and not _may_make(link):
        return ops.SQLQueryResult(text, schema, link).to_expr(), hold(link.con)
    name = f"privmean_people_{next(_numbers)}_{secrets.token_hex(4)}"
    kind = "TABLE" if link.name == "datafusion" else "TEMPORARY TABLE"
    where = " ENGINE = Memory" if link.name == "clickhouse" else ""
    run(link, f"CREATE {kind} {name}{where} AS {text}")
    made = ops.DatabaseTable(name=name, schema=schema, source=link).to_expr()
    return made, lambda: run(link, f"DROP TABLE {name}")


MAY_MAKE = (
    "SELECT has_database_privilege(current_database(), 'TEMP') AND NOT pg_is_in_recovery() "
    "AND NOT current_setting('transaction_read_only')::boolean"
)


def _may_make(link: BaseBackend) -> bool:
    """Whether the session may make temporary tables: a right that does not depend on records."""
    with withheld(), link.con.cursor() as cursor, link.con.transaction():
        (found,) = cursor.execute(MAY_MAKE).fetchone()
    return bool(found)


LISTED = (
    "SELECT enumlabel FROM pg_catalog.pg_enum JOIN pg_catalog.pg_attribute ON atttypid = enumtypid "
    "WHERE attrelid = to_regclass(%s) AND attname = %s ORDER BY enumsortorder"
)


def listed_texts(table: Table, column: str) -> tuple[str, ...]:
    """The texts of an enumerated type of PostgreSQL, for a column of a stored table; else none."""
    import ibis.expr.operations as ops

    link, stored = backend(table), table.op()
    if link.name != "postgres" or not isinstance(stored, ops.DatabaseTable):
        return ()
    parts = (stored.namespace.database, stored.name)
    place = ".".join(named(part, link) for part in parts if part)
    with withheld(), link.con.cursor() as cursor, link.con.transaction():
        return tuple(row[0] for row in cursor.execute(LISTED, (place, column)).fetchall())


def run(link: BaseBackend, text: str) -> None:
    """A statement without a result."""
    with withheld():
        if link.name == "postgres":
            with link.con.cursor() as cursor, link.con.transaction():
                cursor.execute(text)
        elif link.name == "datafusion":
            link.con.sql(text).collect()
        else:
            link.con.command(text)


UNANSWERED = (
    "the database could not answer; its message is withheld because it may quote records. "
    "Run a query of your own on the same columns to see it"
)


@contextlib.contextmanager
def withheld(message: str = UNANSWERED) -> Iterator[None]:
    """An engine's own words about a failure may quote records: `message` is said instead."""
    failed = False
    try:
        yield
    except MemoryError:
        raise
    except Exception:
        failed = True  # raised below, so that the engine's error is not even its context
    if failed:
        raise SchemaError(message)


def small(
    columns: Mapping[str, Sequence[object]], like: Table
) -> tuple[Table, Callable[[], object]]:
    """A table of public whole numbers, doubles and texts in the engine of `like`, and how it is
    dropped."""
    kinds = {int: "int64", float: "float64", str: "string"}
    return written(columns, {name: kinds[type(items[0])] for name, items in columns.items()}, like)


def written(
    columns: Mapping[str, Sequence[object]], kinds: Mapping[str, DataType], like: Table
) -> tuple[Table, Callable[[], object]]:
    """Public columns of given types, none of them empty, as a table of the session; every item
    goes there as a text, so that doubles keep every bit."""
    import ibis

    link = backend(like)
    schema = ibis.schema(dict(kinds))
    texts = [[_text(item, link.dialect) for item in items] for items in columns.values()]
    places = [f"column{j}" for j in range(1, len(columns) + 1)]
    if link.name == "clickhouse":  # which reads arrays five times faster than rows of VALUES
        zipped = ", ".join(f"[{', '.join(items)}]" for items in texts)
        source = f"(SELECT arrayJoin(arrayZip({zipped})) AS listed)"
        places = [f"tupleElement(listed, {j})" for j in range(1, len(columns) + 1)]
    else:
        listed = ", ".join(f"({', '.join(row)})" for row in zip(*texts, strict=True))
        source = f"(VALUES {listed}) AS listed"
    mapper = link.compiler.type_mapper
    chosen = ", ".join(
        f'CAST({place} AS {mapper.to_string(kind)}) AS "{name}"'
        for place, (name, kind) in zip(places, schema.items(), strict=True)
    )
    if not all(texts):
        chosen = ", ".join(
            f'CAST(NULL AS {mapper.to_string(kind)}) AS "{name}"' for name, kind in schema.items()
        )
        return _made(link, f"SELECT {chosen} LIMIT 0", schema)
    return _made(link, f"SELECT {chosen} FROM {source}", schema)


def _text(item: object, dialect: str) -> str:
    import sqlglot.expressions as sge

    shown = repr(float(item)) if isinstance(item, float) else str(item)
    text: str = sge.Literal.string(shown).sql(dialect=dialect)
    return text


OTHERS = {"duckdb", "polars", "pyspark"}  # which have homes of their own


def known_engine(table: Table) -> None:
    """Refuse an engine whose arithmetic has not been compared with the other homes."""
    name = backend(table).name
    if name in KNOWN:
        return
    remedy = "use a table of PostgreSQL, ClickHouse or DataFusion, or write it to Parquet"
    if name in OTHERS:
        remedy = f"give {name}'s own table, without Ibis"
    raise ArgumentError("source", name, "is not a supported engine of Ibis", remedy)


def records_of(table: Table, person: str, values: Sequence[str], texts: Sequence[str]) -> Table:
    """The records of a table: the column of people, and the columns asked for, those of `texts`
    as they are."""
    chosen = {
        f"x{j}": _as_text(table[item]) if item in texts else _number(table[item])
        for j, item in enumerate(values)
    }
    return table.select(p=_id(table[person]), **chosen)


def _id(x: Value) -> Value:
    import ibis

    if x.type().is_floating():  # two zeros are one person
        return ibis.cases(((x > -LEAST) & (x < LEAST), 0.0), else_=x)
    return _as_text(x)


def _as_text(x: Value) -> Value:
    return as_bytes(x) if x.type().is_string() and facts(x.as_table()).collates else x


def _number(x: Value) -> Value:
    """Decimals as the nearest doubles: an engine's own cast may round twice, or raise."""
    kind = x.type()
    if not kind.is_decimal():
        return x
    digits = kind.precision
    if facts(x.as_table()).traps:
        return as_double(x) if digits is None or digits > DIGITS else x.cast("float64")
    return x if digits is None or digits > DIGITS else x.cast("string").cast("float64")


def log_cells(table: Table, grid: LogGrid, null: int) -> Table:
    """With the logarithmic bin of v as k (a double), which is `null` for a null. In the engine's
    own words: planning expressions takes Ibis longer than an engine runs them."""
    import ibis
    import ibis.expr.operations as ops

    link = backend(table)
    names = [named(name, link) for name in table.columns]
    apart = " OFFSET 0" if facts(table).melts else ""
    text = log_words(statement(table), names, grid, null, apart)
    schema = ibis.schema(dict(table.schema().items()) | {"k": ibis.expr.datatypes.float64})
    return ops.SQLQueryResult(text, schema, link).to_expr()


def in_duckdb(relation: DuckDBPyRelation, grid: LogGrid, null: int) -> DuckDBPyRelation:
    """The same for a relation of DuckDB."""
    names = [identifier(name) for name in relation.columns]
    return relation.query("privmean_rows", log_words("FROM privmean_rows", names, grid, null))


def log_words(text: str, names: Sequence[str], grid: LogGrid, null: int, apart: str = "") -> str:
    """A query of the columns `names` of another one, v among them, and k. apart: what keeps an
    engine from writing subqueries into each other."""
    zero, one, two, root = map(_double, (0, 1, 2, 2 * HALF_OCTAVE))
    least, most = _double(grid.least), _double(grid.edges()[-1])
    inside = f"ABS(v) >= {least}"
    steps = [
        # one value for nulls and what is in the zero bin: a logarithm of zero may be an error
        [f"CASE WHEN {inside} THEN CASE WHEN ABS(v) <= {most} THEN ABS(v) ELSE {most} END "
         f"ELSE {least} END * {_double(1 / grid.least)} AS size"],
        ["size", f"FLOOR(LN(size) * {_double(1 / math.log(2))}) AS octave"],
        ["size", "octave", f"POWER({two}, octave) AS edge"],
    ]  # fmt: skip
    for number, step in enumerate(steps):
        text = f"SELECT {', '.join([*names, *step])} FROM ({text}) AS step{number}{apart}"
    cell = (
        f"CASE WHEN {inside} THEN octave * {two} + CASE WHEN size < edge THEN -{one} "
        f"WHEN size >= edge * {two} THEN {two} WHEN size >= edge * {root} THEN {one} "
        f"ELSE {zero} END + CASE WHEN v < {zero} THEN {_double(grid.zero + 1)} ELSE {zero} END "
        f"WHEN v IS NULL THEN {_double(null)} ELSE {_double(grid.zero)} END AS k"
    )
    return f"SELECT {', '.join([*names, cell])} FROM ({text}) AS edged"


def _double(value: float) -> str:
    return f"CAST('{float(value)!r}' AS DOUBLE PRECISION)"
