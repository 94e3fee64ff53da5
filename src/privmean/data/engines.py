"""What differs between the engines once Narwhals has spoken: fetching and keeping results.

Texts that compare by their bytes, whatever rules a column or the session has for them.

Where texts that differ compare as equal (another case, an accent left out), people and groups
would be merged, and the one spelling of a group that an engine shows would be one person's choice.
SQL engines behind Ibis have their own words for the same (`sql_engines.py`); Polars has no rules.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from privmean.data import sql_engines as sqlengines
from privmean.data.duckdb_engine import identifier, shown
from privmean.data.person_records import Lazy, states_are_known
from privmean.errors import PrivmeanError, SchemaError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

IN_MEMORY = 1 << 22  # values, or pairs, of an engine of our own that are taken into memory
PLAIN = "UTF8_BINARY"  # Spark's name for comparing bytes


def is_spark(engine: nw.Implementation) -> bool:
    """Whether frames are Spark's, in a session of this process or of a server (Spark Connect)."""
    return engine.is_pyspark() or engine.is_pyspark_connect()


def bytewise(frame: Lazy) -> Lazy:
    """A frame of DuckDB or Spark whose texts compare by bytes from here on; others as they are."""
    native = frame.to_native()
    if frame.implementation.is_duckdb():
        made: Any = in_duckdb(native)
    elif is_spark(frame.implementation):
        made = _in_spark(native)
    else:
        return frame
    found: Lazy = nw.from_native(made)
    return found


def in_duckdb(relation: DuckDBPyRelation) -> DuckDBPyRelation:
    """The type that `COLLATE C` makes is kept by temporary tables, joins and casts, and stands
    above the connection's `default_collation`. A cast alone would not do: the column's own rules
    outlive it. JSON, a text by another name, is cast."""
    chosen = {
        identifier(
            column
        ): f"CAST({identifier(column)} AS VARCHAR) COLLATE C AS {identifier(column)}"
        for column, kind in zip(relation.columns, relation.types, strict=True)
        if kind.id == "varchar"
    }
    if not chosen:
        return relation
    return relation.project(
        ", ".join(chosen.get(identifier(column), identifier(column)) for column in relation.columns)
    )


def _in_spark(frame: Any) -> object:
    """Before version 4 Spark has no such rules, and no word for them."""
    chosen = [
        f"collate(`{field.name}`, '{PLAIN}') AS `{field.name}`"
        if getattr(field.dataType, "collation", PLAIN) != PLAIN
        else f"`{field.name}`"
        for field in frame.schema.fields
    ]
    return frame.selectExpr(*chosen)


_numbers = itertools.count()


class EngineError(PrivmeanError):
    """An engine failed in a way of its own, such as a panic."""


def lazy(native: object) -> Lazy:
    """A lazy frame of Narwhals around an engine's own."""
    frame: Lazy = nw.from_native(native)
    return frame


@contextlib.contextmanager
def interruptible(connection: DuckDBPyConnection | None = None) -> Iterator[None]:
    """Ctrl-C is what it is everywhere, also where DuckDB says it by an error of its own. While a
    connection of our own works it ends the query: raised inside of what DuckDB calls back (a text
    file is read there), it would be printed and lost.

    A panic of an engine, which `except Exception` does not hold, becomes an EngineError.
    """
    stopped: list[int] = []
    failed = False

    def stop(number: int, _: object) -> None:
        stopped.append(number)
        if connection is not None:
            connection.interrupt()

    here = threading.current_thread() is threading.main_thread()
    usual = signal.getsignal(signal.SIGINT) if connection is not None and here else None
    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, stop)
    try:
        yield
    except Exception as error:
        if not (stopped or str(error) == "Query interrupted"):
            raise
        stopped.append(signal.SIGINT)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException:
        failed = True  # raised below, without the engine's own words
    finally:
        if usual is signal.default_int_handler:
            signal.signal(signal.SIGINT, usual)
    if stopped:
        raise KeyboardInterrupt
    if failed:
        raise EngineError(
            "the engine failed; its message is withheld because it may quote records"
        ) from None


def fetch(frame: Lazy) -> list[tuple[Any, ...]]:
    """The rows of a small result, of a frame that is kept (`Home.keep`), as Python tuples."""
    native = frame.to_native()
    implementation = frame.implementation
    with interruptible():
        if implementation.is_duckdb():
            return [tuple(row) for row in native.fetchall()]
        if implementation.is_polars():
            return [tuple(row) for row in native.collect().rows()]
        if implementation.is_ibis():
            return sqlengines.rows(native)
        with sqlengines.withheld(UNREAD):
            return [tuple(row) for row in native.collect()]


def rows_of(frame: Lazy) -> int:
    """How many rows a kept frame has."""
    return int(fetch(frame.select(nw.len()))[0][0])


UNREAD = (
    "the engine could not read the table; its message is withheld because it may quote records. "
    "Run a query of your own on the same columns to see it (rights, types), or allow more memory"
)


def fetch_columns(frame: Lazy, names: Sequence[str]) -> dict[str, npt.NDArray[np.float64]]:
    """Columns of numbers by name, NaN for nulls."""
    native = frame.to_native()
    if frame.implementation.is_duckdb():
        with interruptible():
            found = native.fetchnumpy()
        columns = ((name, found[name].astype(np.float64, copy=False)) for name in names)
        # masked where a column has nulls; others do without a module that is slow to load
        return {name: x if type(x) is np.ndarray else x.filled(np.nan) for name, x in columns}
    if frame.implementation.is_polars():
        with interruptible():
            table = native.collect()
            return {name: table[name].cast(float).to_numpy(writable=True) for name in names}
    rows = fetch(frame)
    matrix = np.array(rows, dtype=np.float64).reshape(len(rows), len(names))
    return {name: matrix[:, j] for j, name in enumerate(names)}


class EngineStore:
    """Where computed tables of people stay: inside the engine, until nobody needs them.

    anchor: a connection of our own (with `owner`, which closes it), or the caller's relation, in
    whose connection temporary tables are made, or nothing for engines that keep frames themselves.
    closing: ends a session of our own with a database, and so its temporary tables.
    """

    def __init__(
        self, anchor: Any = None, owner: Any = None, closing: Callable[[], object] | None = None
    ) -> None:
        self._anchor = anchor
        self._owner = owner
        self._kept: list[Callable[[], object]] = [] if closing is None else [closing]
        self._tables: list[str] = []  # in an engine of our own
        self.texts = False  # whether ids are texts because their column has no type
        self.rows: int | None = None  # of the table computed last, where the engine has said so
        self._finalizer = weakref.finalize(self, _forget, self._kept)

    def takes(self, frame: Lazy, width: int) -> bool:
        """Whether a kept frame goes into memory: a small one of an engine of our own, which is a
        part of this process. NumPy answers in less time than it takes to plan a query."""
        return self._owner is not None and rows_of(frame) * width <= IN_MEMORY

    def clear(self) -> None:
        """Drop the tables of an engine of our own, once what they held is in memory."""
        for table in self._tables:
            self._anchor.execute(f"DROP TABLE {table}")
        self._tables.clear()

    def expect(self, width: int) -> None:
        """Tell an engine of our own how many sums a person the next table has, before its records
        are a query: DuckDB would look at that again after each statement that may change it."""
        if self._owner is not None:
            states_are_known(lambda query: self._anchor.execute(query).fetchall())
            self._owner.direct(width)

    def keep(self, frame: Lazy, *, more: bool = False) -> Lazy:
        """Compute `frame` once, so that later questions do not start over. more: whether records
        are read again, for which an engine of our own keeps the memory that it has.

        `rows` is then the number of its rows, or None. An engine's own words about a failure may
        quote records, so they are withheld.
        """
        self.rows = None
        try:
            with interruptible(None if self._owner is None else self._owner.connection):
                return lazy(self._computed(frame.to_native(), frame.implementation, more))
        except MemoryError:
            raise
        except Exception:
            pass  # raised below, so that the engine's error is not even its context
        stopped = getattr(getattr(self._owner, "meter", None), "problem", "")
        if stopped:
            raise SchemaError(stopped)
        raise SchemaError(UNREAD)

    def _computed(self, native: Any, implementation: nw.Implementation, more: bool) -> Any:
        if implementation.is_duckdb():
            return self._table(native, more=more)
        if implementation.is_polars():
            return native.collect().lazy()
        if implementation.is_ibis():
            return self._held(sqlengines.kept(native))
        return self._cached(native)

    def _cached(self, frame: Any) -> Any:
        """A Spark frame kept by the session. Where it may keep nothing (serverless sessions refuse)
        the frame itself, which every question reads again."""
        columns = (f"count(`{name}`)" for name in frame.columns)
        with contextlib.suppress(Exception):  # refused whatever is in it: nothing is read yet
            kept = frame.persist()
            self._kept.append(kept.unpersist)
            frame = kept
        # all of it now, so that nothing is read for the first time (and can fail) later
        ((rows, *_),) = frame.selectExpr("count(*)", *columns).collect()
        self.rows = int(rows)
        return frame

    def _held(self, made: tuple[Any, Callable[[], object]]) -> Any:
        """A table of an SQL session, dropped when nobody needs it."""
        table, drop = made
        self._kept.append(drop)
        return table

    def _table(self, relation: DuckDBPyRelation, *, more: bool = False) -> DuckDBPyRelation:
        """A temporary table: also in a connection to a file it leaves nothing behind."""
        table = f"privmean_people_{next(_numbers)}"
        if self._owner is not None:
            made = f"CREATE TEMP TABLE {table} AS {relation.sql_query()}"
            with shown(self._owner.meter or self._anchor, self._owner.progress):
                ((self.rows,),) = self._anchor.execute(made).fetchall()
            self._tables.append(table)
            if not more:
                self._owner.rest()
            return self._anchor.table(table)
        relation.query("privmean_rows", f"CREATE TEMP TABLE {table} AS FROM privmean_rows")
        anchor = self._anchor
        self._kept.append(lambda: anchor.query("privmean_rows", f"DROP TABLE temp.{table}"))
        return anchor.query("privmean_rows", f"FROM temp.{table}")

    def ids(self, ids: Sequence[object], kind: str) -> DuckDBPyRelation:
        """A DuckDB relation p of public ids, each cast to the SQL type `kind`."""
        literals = ", ".join("'" + str(item).replace("'", "''") + "'" for item in ids)
        sql = f"SELECT unnest(CAST([{literals}] AS {kind}[])) AS p"
        if self._owner is not None:
            return self._table(in_duckdb(self._anchor.sql(sql)))
        return self._table(in_duckdb(self._anchor.query("privmean_rows", sql)))

    def listed(self, ids: Sequence[object], like: Lazy) -> Lazy:
        """A frame (p) of public ids in the type of the ids of `like`, a table of an SQL engine."""
        native = like.select("p").to_native()
        kind = dict(native.schema().items())
        return lazy(self._held(sqlengines.written({"p": ids}, kind, native)))

    def small(self, columns: Mapping[str, Sequence[object]], like: Lazy) -> Lazy:
        """A table of public whole numbers, doubles and texts in the engine of `like`, as a lazy
        frame. Doubles keep every bit."""
        if like.implementation.is_polars():
            import polars as pl

            return lazy(pl.LazyFrame({name: list(items) for name, items in columns.items()}))
        if like.implementation.is_ibis():
            return lazy(self._held(sqlengines.small(columns, like.to_native())))
        if not like.implementation.is_duckdb():
            rows = list(zip(*columns.values(), strict=True))
            session = like.to_native().sparkSession
            return lazy(session.createDataFrame(rows, list(columns)))
        kinds = {name: SQL[type(items[0])] for name, items in columns.items()}
        if self._owner is not None:  # bound: DuckDB reads long texts of SQL slowly
            table = f"privmean_public_{next(_numbers)}"
            parts = [f"unnest(${j}::{kind}[]) AS {name}"
                     for j, (name, kind) in enumerate(kinds.items(), 1)]  # fmt: skip
            self._anchor.execute(
                f"CREATE TEMP TABLE {table} AS SELECT {', '.join(parts)}",
                [list(items) for items in columns.values()],
            )
            return lazy(self._anchor.table(table))
        parts = []
        for name, kind in kinds.items():
            texts = ", ".join("'" + str(_exact(i)).replace("'", "''") + "'" for i in columns[name])
            parts.append(f"unnest(CAST([{texts}] AS {kind}[])) AS {name}")
        relation = in_duckdb(self._anchor.query("privmean_rows", f"SELECT {', '.join(parts)}"))
        return lazy(self._table(relation))  # else its text would be read again by every question


SQL = {int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}


def _exact(item: object) -> object:
    return repr(float(item)) if isinstance(item, float) else item


def _forget(kept: list[Callable[[], object]]) -> None:
    for drop in kept:
        with contextlib.suppress(Exception):  # the engine may be gone already
            drop()


@atexit.register
def _clear_caches() -> None:
    """Empty the function caches of Narwhals before the interpreter ends.

    They outlive the modules and keep DuckDB's types alive, which DuckDB reports on standard error.
    """
    for module in [item for name, item in sys.modules.items() if name.startswith("narwhals")]:
        for item in list(vars(module).values()):
            clear = getattr(item, "cache_clear", None)
            if callable(clear):
                with contextlib.suppress(Exception):
                    clear()


def framed(columns: Mapping[str, list[Any]], names: Sequence[str], texts: Sequence[str]) -> Any:
    """Records as a Polars frame, the named columns as numbers or as texts; None without Polars."""
    if find_spec("polars") is None:
        return None
    import polars as pl

    kinds = {name: pl.String if name in texts else pl.Float64 for name in names}
    return pl.DataFrame(columns, schema_overrides=kinds, strict=False)
