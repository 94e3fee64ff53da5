"""Tables of records to people: files and frames, each inside the engine that suits it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from narwhals import dependencies as known

from privmean.errors import ArgumentError, SchemaError
from privmean.people import schema
from privmean.people.engines import Home, lazy
from privmean.people.files import Engine, Table, name, open_table
from privmean.people.frame import FramePeople
from privmean.people.matrix import MatrixPeople
from privmean.people.records import PERSON, person_rows, record_names
from privmean.people.roster import roster_frame

Machine = Mapping[str, Any]
IDS = (nw.String, nw.Boolean, nw.Date, nw.Datetime, nw.Decimal)


@dataclass(frozen=True)
class Opened:
    """A table before anything is read: its names, and how to get the records (p, x0, ...)."""

    names: Sequence[str]
    records: Callable[[str, Sequence[str]], nw.LazyFrame[Any]]
    home: Home


def read_table(
    source: Any,
    person: Any,
    values: Any,
    cap: int | None,
    resolution: float,
    roster: Any,
    delimiter: str | None,
    machine: Machine,
) -> FramePeople:
    """People from a path or a frame: DuckDB, unless the frame has an engine of its own."""
    opened = _open(source, delimiter, machine)
    who = schema.person_column(opened.names, person)
    columns = schema.value_columns(opened.names, who, values)
    records = _typed(opened.records(who, columns), who, columns)
    return _grouped(records, columns, cap, resolution, roster, opened.home)


def read_arrays(
    ids: np.ndarray[Any, Any],
    matrix: np.ndarray[Any, Any],
    columns: tuple[str, ...],
    cap: int | None,
    resolution: float,
    roster: Any,
    machine: Machine,
) -> MatrixPeople:
    """People in memory from arrays of records, grouped by DuckDB."""
    engine = Engine(**machine)
    named = {PERSON: np.ascontiguousarray(ids)}
    for j, x in enumerate(record_names(len(columns))):
        named[x] = np.ascontiguousarray(matrix[:, j])
    engine.connection.register("records", named)
    records = lazy(engine.connection.table("records"))
    home = Home(engine.connection, engine)
    people = _grouped(_typed(records, "person", columns), columns, cap, resolution, roster, home)
    return people.collect()


def open_arrays(arrays: Mapping[str, Any], machine: Machine) -> Opened:
    """A table given as arrays by name, one number or id a record."""
    named = {str(item): np.ascontiguousarray(values) for item, values in arrays.items()}
    if len({values.shape for values in named.values()}) != 1 or any(
        values.ndim != 1 for values in named.values()
    ):
        raise ArgumentError(
            "source", sorted(named), "are no arrays of one length", "give one number a record each"
        )
    return _registered(named, list(named), machine)


def _grouped(
    records: nw.LazyFrame[Any],
    columns: tuple[str, ...],
    cap: int | None,
    resolution: float,
    roster: Any,
    home: Home,
) -> FramePeople:
    people = person_rows(records, len(columns), resolution, counts=cap is not None)
    if roster is not None:
        wanted = roster_frame(roster, records, home)
        people = wanted.join(people, on=PERSON, how="left")
        if cap is not None:
            people = people.with_columns(nw.col(f"c{j}").fill_null(0) for j in range(len(columns)))
    home.expect(len(columns))
    kept = home.keep(people)
    known_size = {} if home.rows is None else {"size": home.rows}
    return FramePeople(kept, columns, cap, home, known_size)


def _open(source: Any, delimiter: str | None, machine: Machine) -> Opened:
    if isinstance(source, str | os.PathLike):
        engine = Engine(**machine)
        table = open_table(engine.connection, os.fspath(source), delimiter)
        return _scanned(engine, table)
    if isinstance(source, nw.DataFrame | nw.LazyFrame):
        source = source.to_native()
    if known.is_pandas_dataframe(source):
        return _registered(source, [str(item) for item in source.columns], machine)
    if known.is_pyarrow_table(source):
        return _registered(source, source.column_names, machine)
    try:
        frame = nw.from_native(source)
    except TypeError:
        raise ArgumentError(
            "source",
            type(source).__name__,
            "is no table that can be read",
            "give a path, a pandas, Polars, PyArrow, DuckDB or PySpark table, or a NumPy array",
        ) from None
    engines = frame.implementation
    if isinstance(frame, nw.DataFrame) and not engines.is_polars():
        arrow = frame.to_arrow()
        return _registered(arrow, arrow.column_names, machine)
    if not (engines.is_polars() or engines.is_duckdb() or engines.is_pyspark()):
        raise ArgumentError(
            "source",
            type(source).__name__,
            "is a lazy table of an engine that is not supported",
            "use DuckDB, Polars or PySpark, or write it to Parquet",
        )
    whole = frame.lazy()

    def records(person: str, values: Sequence[str]) -> nw.LazyFrame[Any]:
        chosen: nw.LazyFrame[Any] = whole.select(
            nw.col(person).alias(PERSON),
            *(nw.col(item).alias(f"x{j}") for j, item in enumerate(values)),
        )
        return chosen

    home = Home(source) if engines.is_duckdb() else Home()
    return Opened(whole.collect_schema().names(), records, home)


def _registered(table: Any, names: Sequence[str], machine: Machine) -> Opened:
    engine = Engine(**machine)
    engine.connection.register("records", table)
    return _scanned(engine, Table("frame", tuple(names), name("records")))


def _scanned(engine: Engine, table: Table) -> Opened:
    def records(person: str, values: Sequence[str]) -> nw.LazyFrame[Any]:
        return lazy(engine.connection.sql(table.records(person, values)))

    return Opened(table.columns, records, Home(engine.connection, engine))


def _typed(records: nw.LazyFrame[Any], person: str, columns: Sequence[str]) -> nw.LazyFrame[Any]:
    """Check types, which are public; every value a double, ids that compare alike everywhere."""
    types = records.collect_schema()
    kind = types[PERSON]
    who = nw.col(PERSON)
    if kind in (nw.Categorical, nw.Enum):
        who = who.cast(nw.String())
    elif kind.is_float():
        who = nw.when(who.is_finite()).then(who)  # NaN is a missing id
    elif not (kind.is_integer() or kind in IDS):
        raise SchemaError(
            f"column {person!r} of type {kind} cannot name persons; cast it to text or integers"
        )
    numbers = []
    for j, column in enumerate(columns):
        found = types[f"x{j}"]
        if not (found.is_numeric() or found == nw.Boolean):
            raise SchemaError(
                f"column {column!r} of type {found} does not hold numbers; name another column or "
                "cast it to a number"
            )
        numbers.append(nw.col(f"x{j}").cast(nw.Float64()))
    return records.select(who.alias(PERSON), *numbers)
