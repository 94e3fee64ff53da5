"""Tables of records to people: files and frames, each inside the engine that suits it.

A path to a table: one file, a folder, or a pattern; Parquet, CSV or JSON lines.

The names of a table's columns, and how many people it has: public facts, nothing else.

What the declared types of a table's columns exclude. Reads the schema, never a record.
"""

from __future__ import annotations

import glob
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from narwhals import dependencies as known

from privmean.data import column_types as kinds
from privmean.data import databases, list_columns, schema
from privmean.data import key_columns as objects
from privmean.data.array_table import ArrayPersonTable, UnorderedPersonTable
from privmean.data.column_types import PublicBounds, public_bounds
from privmean.data.duckdb_engine import Engine, created_enums
from privmean.data.engine_table import EnginePersonTable
from privmean.data.engines import EngineStore, bytewise, fetch, interruptible, is_spark, lazy
from privmean.data.parquet_files import ParquetTable, parquet_table
from privmean.data.person_records import PERSON, Lazy, person_rows, record_names, within_years
from privmean.data.roster import roster_frame
from privmean.data.schema import Columns
from privmean.data.text_files import READERS, ending, kind
from privmean.data.text_record import options, refuse
from privmean.data.typenames import type_name
from privmean.errors import ArgumentError, SchemaError

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

    from privmean.data.duckdb_engine import Array
    from privmean.data.text_scan import TextTable

CHECK = "check the path"
FORMS = {
    ".parquet": "parquet", ".pq": "parquet", ".parq": "parquet",
    ".csv": "csv", ".tsv": "csv",
    ".jsonl": "json", ".ndjson": "json", ".json": "json",
}  # fmt: skip


def open_table(engine: Engine, path: str, text: Mapping[str, object]) -> ParquetTable | TextTable:
    """The table behind a path. text: what the caller says of text files (`text.options`)."""
    where = Path(path)
    if not path:
        raise ArgumentError("source", path, "is empty", CHECK)
    try:
        if where.is_dir():
            return _folder(engine, path, where, text)
        is_file = where.is_file()
        if not is_file and (path == "-" or where.exists()):  # a pipe, a device
            raise ArgumentError(
                "source", path, "is not a file", "write the records to a regular file"
            )
        if not is_file and not any(sign in path for sign in "*?["):
            raise ArgumentError("source", path, "does not exist", CHECK)
        form = _form(where)
        if form == "parquet":
            return _parquet(engine, path, _literally(path) if is_file else path, text)
        files = [where] if is_file else _matching(path)
    except (OSError, ValueError) as problem:  # a name too long, a folder that may not be read
        if isinstance(problem, ArgumentError):
            raise
        raise ArgumentError("source", path, f"cannot be read ({kind(problem)})", CHECK) from None
    if not files:
        raise ArgumentError("source", path, "does not exist", CHECK)
    return _texts(form, files, text)


def is_text(path: str | os.PathLike[str]) -> bool:
    """Whether a path means text files, whose columns have no types of their own."""
    where = Path(path)
    if where.is_dir():
        return not any(where.rglob("*.parquet"))
    return FORMS.get(ending(where)) in READERS


def _folder(
    engine: Engine, path: str, where: Path, text: Mapping[str, object]
) -> ParquetTable | TextTable:
    """The files of a folder, which are of one format; hidden ones are left out."""
    columnar = any(item.is_file() for item in where.rglob("*.parquet"))
    files: dict[str, list[Path]] = {}
    for item in sorted(where.rglob("*")):
        form = FORMS.get(ending(item))
        hidden = any(part.startswith((".", "_")) for part in item.relative_to(where).parts)
        if form in READERS and not hidden and item.is_file():
            files.setdefault(form, []).append(item)
    if len(files) + columnar > 1:
        raise ArgumentError(
            "source", path, "is a folder with tables of several formats",
            "give a pattern such as 'folder/*.csv'",
        )  # fmt: skip
    if columnar:
        return _parquet(engine, path, _literally(str(where)) + "/**/*.parquet", text)
    if not files:
        raise ArgumentError(
            "source",
            path,
            "is a folder without .parquet, .csv or .jsonl files",
            "name another folder, or one file",
        )
    ((form, found),) = files.items()
    return _texts(form, found, text)


def _texts(form: str, files: Sequence[Path], text: Mapping[str, object]) -> TextTable:
    from privmean.data.text_scan import TextTable

    return TextTable(READERS[form](files, text))


def _matching(pattern: str) -> list[Path]:
    found = (Path(item) for item in glob.glob(pattern, recursive=True))
    return sorted(item for item in found if item.is_file())


def _form(path: Path) -> str:
    form = FORMS.get(ending(path))
    if form is None:
        raise ArgumentError(
            "source",
            str(path),
            f"file type {ending(path) or '(none)'} is not supported",
            "convert it to Parquet or CSV, or pass a DataFrame",
        )
    return form


def _literally(path: str) -> str:
    """A path whose own *, ? and [ are not read as a pattern."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in path)


def _parquet(engine: Engine, path: str, pattern: str, text: Mapping[str, object]) -> ParquetTable:
    refuse(text, "Parquet")
    return parquet_table(engine, path, pattern)


Machine = Mapping[str, Any]
IDS = (nw.String, nw.Boolean, nw.Date, nw.Datetime, nw.Decimal)


@dataclass(frozen=True)
class OpenedSource:
    """A table before anything is read: its names, and how to get the records (p, x0, ...).
    declared: the type of a column if it is declared, where the types of the records do not say.
    by_name: whether a later reading finds columns by their names; in lines of text by their places,
    so that the first lines have to be looked at again."""

    names: Columns
    records: Callable[..., Lazy]
    home: EngineStore
    declared: Callable[[str], nw.dtypes.DType | None] | None = None
    by_name: bool = True


def read_table(
    source: object,
    person: object,
    values: object,
    max_records: int | None,
    resolution: float,
    roster: object,
    text: Mapping[str, object],
    resources: Machine,
) -> EnginePersonTable | UnorderedPersonTable:
    """People from a path or a frame: DuckDB, unless the frame has an engine of its own."""
    opened = open_source(source, text, resources)
    who = schema.person_column(opened.names, person)
    columns = schema.value_columns(opened.names, who, values)
    opened.home.expect(len(columns))
    records = typed(opened.records(who, columns), who, columns)
    people = _grouped(records, columns, max_records, resolution, roster, opened)
    return people.nearby()


def read_arrays(
    ids: Array,
    matrix: Array,
    columns: tuple[str, ...],
    max_records: int | None,
    resolution: float,
    roster: object,
    resources: Machine,
) -> ArrayPersonTable:
    """People in memory from arrays of records, grouped by DuckDB."""
    data = (np.ascontiguousarray(matrix[:, j]) for j in range(len(columns)))
    named = dict(zip(("person", *record_names(len(columns))), (ids, *data), strict=True))
    opened = open_arrays(named, resources)
    opened.home.expect(len(columns))
    records = opened.records("person", record_names(len(columns)))
    records = typed(records, "person", columns)
    people = _grouped(records, columns, max_records, resolution, roster, opened)
    return people.collect()


def open_arrays(arrays: Mapping[str, object], resources: Machine) -> OpenedSource:
    """A table given as arrays or lists by name, one number or id a record."""
    named = {str(item): list_columns.column(values) for item, values in arrays.items()}
    shapes = {(len(x),) if isinstance(x, list) else x.shape for x in named.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1:
        raise ArgumentError(
            "source",
            sorted(named),
            "must be arrays of one length",
            "give one number per record in each array",
        )
    columns = list(named.values())
    return _registered(list(named), lambda place: columns[place], resources)


def _grouped(
    records: Lazy,
    columns: tuple[str, ...],
    max_records: int | None,
    resolution: float,
    roster: object,
    opened: OpenedSource,
) -> EnginePersonTable:
    home = opened.home
    people = person_rows(records, len(columns), resolution, counts=max_records is not None)
    if roster is not None:
        wanted = roster_frame(roster, records, home)
        people = wanted.join(people, on=PERSON, how="left")
        if max_records is not None:
            people = people.with_columns(nw.col(f"c{j}").fill_null(0) for j in range(len(columns)))
    kept = home.keep(people)
    known_size = {} if home.rows is None else {"size": home.rows}
    return EnginePersonTable(kept, columns, max_records, home, known_size, opened)


def open_source(source: Any, text: Mapping[str, object], resources: Machine) -> OpenedSource:
    """A path, a frame, or arrays by name. text: what the caller says of text files."""
    if isinstance(source, str) and "://" in source and databases.is_address(source):
        refuse(text, "a table of a database")
        table, close = databases.table_at(source)
        return _in_session(table, resources, EngineStore(closing=close))
    if isinstance(source, str | os.PathLike):
        engine = Engine(**resources)
        return _scanned(engine, open_table(engine, os.path.expanduser(source), text))
    refuse(text, "a table that is no text file")
    if isinstance(source, Mapping):
        return open_arrays(source, resources)
    if isinstance(source, nw.DataFrame | nw.LazyFrame):
        source = source.to_native()
    if known.is_pandas_dataframe(source):
        labels = [str(item) for item in source.columns]
        return _registered(labels, lambda place: source.iloc[:, place], resources)
    if known.is_pyarrow_table(source):
        return _registered(source.column_names, source.column, resources)
    try:
        frame = nw.from_native(source)
    except TypeError:
        raise ArgumentError(
            "source",
            type(source).__name__,
            "is not a supported table",
            "give a path, a pandas, Polars, PyArrow, DuckDB, PySpark or Ibis table, or a NumPy "
            "array",
        ) from None
    engines = frame.implementation
    if isinstance(frame, nw.DataFrame) and not engines.is_polars():
        arrow = frame.to_arrow()
        return _registered(arrow.column_names, arrow.column, resources)
    if engines.is_ibis():
        return _in_session(source, resources, EngineStore())
    if not (engines.is_polars() or engines.is_duckdb() or is_spark(engines)):
        raise ArgumentError(
            "source",
            type(source).__name__,
            "is not a table of a supported engine",
            "use DuckDB, Polars, PySpark or Ibis, or write it to Parquet",
        )
    whole = frame.lazy()

    def records(person: str, values: Sequence[str], texts: Sequence[str] = ()) -> Lazy:
        chosen: Lazy = whole.select(
            nw.col(person).alias(PERSON),
            *(nw.col(item).alias(f"x{j}") for j, item in enumerate(values)),
        )
        return chosen

    columns = Columns(tuple(whole.columns))
    if not engines.is_duckdb():
        return OpenedSource(columns, records, EngineStore())

    def declared(name: str) -> nw.dtypes.DType | None:
        kind = types_of(whole.select(nw.col(name).alias("x0")), [name])["x0"]
        made = isinstance(kind, nw.Enum) and kind.categories not in created_enums(source)
        return None if made else kind

    return OpenedSource(columns, records, EngineStore(source), declared)


def _in_session(table: Any, resources: Machine, home: EngineStore) -> OpenedSource:
    """A table of an SQL engine, through Ibis."""
    from privmean.data.sql_engines import known_engine, listed_texts, records_of

    if any(resources.get(item) for item in ("memory_limit", "threads", "temp_directory")):
        raise ArgumentError(
            "resources",
            "a table of a database",
            "cannot be combined with a table of a database",
            "set the limits in the database",
        )
    known_engine(table)

    def records(person: str, values: Sequence[str], texts: Sequence[str] = ()) -> Lazy:
        return lazy(records_of(table, person, values, texts))

    def declared(name: str) -> nw.dtypes.DType | None:
        listed = listed_texts(table, name)
        own = lazy(table.select(x0=table[name]))
        return nw.Enum(listed) if listed else types_of(own, [name])["x0"]

    return OpenedSource(Columns(tuple(table.columns)), records, home, declared)


def _registered(
    names: Sequence[str], column: Callable[[int], object], resources: Machine
) -> OpenedSource:
    """A table in memory. Only the columns asked for reach the engine, under names of our own: its
    names know no upper and lower case, and a type it does not read may stand in another column."""
    engine = Engine(**resources)
    home = EngineStore(engine.connection, engine)

    def relation(label: str, chosen: Mapping[str, object]) -> DuckDBPyRelation:
        engine.connection.register(label, _table(chosen))
        return engine.connection.table(label)

    def records(person: str, values: Sequence[str], texts: Sequence[str] = ()) -> Lazy:
        wanted = (person, *values)
        labels = (PERSON, *record_names(len(values)))
        chosen: dict[str, object] = {}
        for label, item in zip(labels, wanted, strict=True):
            found = column(names.index(item))
            text = label == PERSON or item in texts
            home.texts = home.texts or (label == PERSON and isinstance(found, list))
            if isinstance(found, list):  # its use says the type of a list, not what it holds
                chosen[label] = (list_columns.ids if text else list_columns.numbers)(found)
                continue
            chosen[label] = kinds.readable(found)
            if text:
                chosen[label] = objects.texts(chosen[label])
        try:
            return lazy(relation("records", chosen))
        except Exception:  # which column it is, without the engine's own words
            for item, one in zip(wanted, chosen.values(), strict=True):
                try:
                    relation("column", {PERSON: one})
                except Exception:
                    raise SchemaError(
                        f"column {item!r} has a type that cannot be read. "
                        "Cast it to a number or text."
                    ) from None
            raise SchemaError(
                "the requested columns do not make one table. Check the frame."
            ) from None

    def declared(name: str) -> nw.dtypes.DType | None:
        return kinds.declared_kind(column(names.index(name)))

    return OpenedSource(Columns(tuple(names)), records, home, declared)


def _table(columns: Mapping[str, object]) -> object:
    """Columns as one table of their own kind: arrays, pandas or Arrow."""
    first = next(iter(columns.values()))
    if isinstance(first, np.ndarray):
        return dict(columns)
    if known.is_pandas_series(first):
        from pandas import DataFrame

        return DataFrame(dict(columns), copy=False)
    from pyarrow import table

    return table(dict(columns))


def _scanned(engine: Engine, table: ParquetTable | TextTable) -> OpenedSource:
    def records(person: str, values: Sequence[str], texts: Sequence[str] = ()) -> Lazy:
        try:
            with interruptible(engine.connection):
                return lazy(table.records(engine, person, values, texts))
        except SchemaError:
            raise
        except Exception:
            pass  # raised below, without the engine's own words
        raise SchemaError(
            f"the columns {[person, *values]} cannot be read from this file. "
            "Rename columns whose names differ only in case."
        )

    home = EngineStore(engine.connection, engine)
    if isinstance(table, ParquetTable):
        return OpenedSource(table.columns, records, home)
    return OpenedSource(table.columns, records, home, table.declared, by_name=False)


def types_of(records: Lazy, columns: Sequence[str]) -> nw.Schema:
    """Return the types of a frame of records (p, x0, ...), which are public. columns: how the
    caller calls them."""
    try:
        return records.collect_schema()
    except ValueError:  # a type that Narwhals has no name for
        raise SchemaError(
            f"one of the columns {list(columns)} has a type that cannot be read. "
            "Cast it to a number or text."
        ) from None


def typed(
    records: Lazy,
    person: str,
    columns: Sequence[str],
    texts: Sequence[str] = (),
    dates: Sequence[str] = (),
) -> Lazy:
    """Check types, which are public; every value a double (but texts in the columns `texts`, and
    dates as texts in `dates`), ids and texts that compare alike everywhere."""
    types = types_of(records, [person, *columns])
    records = within_years(records, types, [f"x{columns.index(item)}" for item in dates])
    duckdb = records.implementation.is_duckdb()
    kind = types[PERSON]
    who = nw.col(PERSON)
    if kind in (nw.Categorical, nw.Enum):
        who = who.cast(nw.String())
    elif kind.is_float():
        # NaN is a missing id, an infinity an id like others (`limited` says why not by `is_nan`)
        infinite = (who == math.inf) | (who == -math.inf)
        who = nw.when(who.is_finite() | infinite).then(who)
    elif not (kind.is_integer() or kind in IDS):
        raise SchemaError(
            f"column {person!r} of type {type_name(kind)} cannot identify "
            "people. Cast it to text or integers."
        )
    numbers = []
    for j, column in enumerate(columns):
        found = types[f"x{j}"]
        if column in texts:
            if found not in (nw.String, nw.Categorical, nw.Enum):
                raise SchemaError(
                    f"column {column!r} of type {type_name(found)} does not hold text. "
                    "Give its levels as numbers."
                )
            numbers.append(nw.col(f"x{j}").cast(nw.String()))
            continue
        if column in dates:
            zone = isinstance(found, nw.Datetime) and found.time_zone is not None
            if zone or found not in (nw.Date, nw.Datetime, nw.String, nw.Categorical, nw.Enum):
                raise SchemaError(
                    f"column {column!r} of type {type_name(found)} does not hold dates; "
                    + (
                        "cast it to dates, or to times without a zone"
                        if zone
                        else "give bins of numbers"
                    )
                )
            numbers.append(nw.col(f"x{j}").cast(nw.String()))
            continue
        if not (found.is_numeric() or found == nw.Boolean):
            made = "numbers; use levels for categories"
            if found.is_temporal():
                made = "a number, such as a year (bins of a curve can be dates)"
            raise SchemaError(
                f"column {column!r} of type {type_name(found)} does not hold "
                f"numbers. Name another column, or cast it to {made}."
            )
        x = nw.col(f"x{j}")
        if duckdb and _wide(found):
            x = x.cast(nw.String())  # its own cast of 128 bits to double rounds twice
        # one that is a double stays as it is: an engine may take the cast's result for nullable
        numbers.append(x if found == nw.Float64 else x.cast(nw.Float64()))
    return bytewise(records.select(who.alias(PERSON), *numbers))


def _wide(kind: nw.dtypes.DType) -> bool:
    """Whole numbers of more than 64 bits."""
    if isinstance(kind, nw.Decimal):
        return kind.scale == 0 and kind.precision > 18
    return bool(kind in (nw.Int128, nw.UInt128))


def column_names(source: object, person: str, header: bool | None = None) -> list[str]:
    """The columns, `person` checked to be one; no record is read. Empty where the caller must name
    them, or where the first line could be a record: header says that it is none."""
    opened = open_source(
        source,
        options(header=header),
        {"memory_limit": None, "threads": None, "temp_directory": None},
    )
    schema.person_column(opened.names, person)
    names = opened.names.names if opened.names.shown else None
    return list(names or ())


def count_persons(
    source: object,
    person: object,
    text: Mapping[str, object],
    resources: Mapping[str, object],
    columns: Sequence[tuple[str, str]] = (),
) -> int | None:
    """The people of a file, from its column of people alone; what it holds of them is not read.

    columns: names of others that are to be there, each after how a message calls it. None for
    sources of another kind: frames and arrays are counted when they are reduced.
    """
    if not isinstance(source, str | os.PathLike):
        return None
    opened = open_source(source, text, resources)
    who = schema.person_column(opened.names, person)
    for argument, name in columns:
        schema.one_of(opened.names, argument, name)
        if name == who:
            raise ArgumentError(
                argument, name, "is the column of person ids", "name another column"
            )
    records = typed(opened.records(who, ()), who, ()).filter(~nw.col(PERSON).is_null())
    people = records.group_by(PERSON).agg(nw.len().alias("n"))
    ((persons,),) = fetch(opened.home.keep(people.select(nw.len())))
    return int(persons)


def declared_bounds(
    source: object,
    person: object,
    values: Sequence[str] | None,
    keys: Sequence[str],
    text: Mapping[str, object],
    resources: Mapping[str, Any],
    people: Iterable[object] = (),
) -> tuple[tuple[str, ...], dict[str, PublicBounds]]:
    """The columns that `values` mean, and the public bounds of those of them, and of the columns of
    keys, that have some. people: what was read from this source, and so has it open."""
    if not text.get("types") and isinstance(source, str | os.PathLike) and is_text(source):
        return tuple(values or ()), {}
    opened_by = (getattr(item, "opened", None) for item in people)
    kept = (item for item in opened_by if item is not None)
    opened = (None if text.get("types") else next(kept, None)) or open_source(
        source, text, resources
    )
    who = schema.person_column(opened.names, person)
    named = () if values == () else schema.value_columns(opened.names, who, values)
    every = (*named, *(name for name in keys if name not in named))
    for name in keys:
        schema.one_of(opened.names, "by", name)
    if opened.declared is not None:
        kinds = {name: opened.declared(name) for name in every}
    else:
        types = types_of(opened.records(who, every, keys), every)
        kinds = {name: types[f"x{j}"] for j, name in enumerate(every)}
    known = {name: public_bounds(kind) for name, kind in kinds.items()}
    return named, {name: found for name, found in known.items() if found is not None}
