"""The public list of people, where one is given: each person once, the same on every engine.

A public roster from a file: one id a line, or a column of a CSV.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from privmean.data import schema
from privmean.data.engines import EngineStore, lazy
from privmean.data.list_columns import roster_texts
from privmean.data.person_records import PERSON, Lazy
from privmean.data.text_files import TextFile, csv_files, ending, readable
from privmean.data.text_record import TextFormat, csv_fields, lines, options
from privmean.data.typenames import type_name
from privmean.errors import ArgumentError


def roster_frame(roster: object, records: Lazy, home: EngineStore) -> Lazy:
    """The ids of `roster` as a frame (p) of the records' engine, in the type of their ids.

    Ids that are one in that type ("1" and 1 among whole numbers) are one person.
    """
    kind = records.collect_schema()[PERSON]
    ids = public_ids(roster_texts(roster) if home.texts else roster, kind)
    implementation = records.implementation
    try:
        if implementation.is_polars():
            import polars as pl

            native = records.select(PERSON).to_native().collect_schema()[PERSON]
            made: Any = pl.LazyFrame({PERSON: ids}, schema={PERSON: native})
        elif implementation.is_duckdb():
            made = home.ids(ids, str(records.to_native().select(PERSON).types[0]))
        elif implementation.is_ibis():
            made = home.listed(ids, records).to_native()
        else:
            native = records.select(PERSON).to_native()
            made = native.sparkSession.createDataFrame([(item,) for item in ids], native.schema)
        # ids can also become one in the engine: two doubles as one single, two decimals as one
        return home.keep(lazy(made).group_by(PERSON).agg(nw.len().alias("n")).select(PERSON))
    except Exception:
        raise _unfit(f"{len(ids)} ids", kind) from None


def public_ids(roster: object, kind: nw.dtypes.DType) -> list[object]:
    """The ids in the order given, each once, as Python values of the type `kind`."""
    listed = roster.tolist() if hasattr(roster, "tolist") else roster
    listed = listed.to_list() if hasattr(listed, "to_list") else listed
    if isinstance(listed, str | bytes) or not isinstance(listed, Iterable):
        raise ArgumentError("roster", roster, "is not a list of ids", "give the ids of all people")
    ids = list(listed)
    if any(_missing(item) for item in ids):
        raise ArgumentError(
            "roster", len(ids), "must not hold missing ids", "remove the missing ids"
        )
    return list(dict.fromkeys(_converted(item, kind) for item in ids))


def _missing(item: object) -> bool:
    try:
        return item is None or bool(item != item)  # noqa: PLR0124 (NaN and NaT differ from themselves)
    except (TypeError, ValueError):  # pandas' NA cannot say
        return True


def _converted(item: Any, kind: nw.dtypes.DType) -> object:
    if kind == nw.String:
        return str(item)
    try:
        if kind == nw.Boolean:
            if not isinstance(item, bool | np.bool_):
                raise ValueError
            return bool(item)
        if kind.is_integer():
            number = int(item)
            if isinstance(item, bool) or (not isinstance(item, str) and number != item):
                raise ValueError
            if not _fits(number, str(kind)):
                raise ValueError
            return number
        if kind.is_float():
            if isinstance(item, bool) or math.isnan(float(item)):  # of a text
                raise ValueError
            return float(item)
        hash(item)
    except (TypeError, ValueError, OverflowError):
        raise _unfit(item, kind) from None
    return item


def _fits(number: int, kind: str) -> bool:
    """Whether a whole number fits a type such as Int64 or UInt8."""
    bits = int("".join(sign for sign in kind if sign.isdigit()) or 64)
    if kind.startswith("U"):
        return 0 <= number < 1 << bits
    return -(1 << (bits - 1)) <= number < 1 << (bits - 1)


def _unfit(given: object, kind: nw.dtypes.DType) -> ArgumentError:
    return ArgumentError(
        "roster", given, f"must have the type of the ids ({type_name(kind)})", "convert it"
    )


def roster_ids(path: str, column: str, written: Mapping[str, Any]) -> list[str]:
    """The ids in a file: every line of a text file, or the column of a .csv or .tsv file.

    written: how text files are written, as keywords of `privmean.read`. Ids are read like those of
    the table, so that the same bytes are the same person. Empty lines are left out. Raises
    ArgumentError or SchemaError.
    """
    where, given = Path(path), options(**written)
    if not where.is_file():
        raise ArgumentError("roster", path, "does not exist", "check the path")
    with readable(where):
        if ending(where) in (".csv", ".tsv"):
            found = csv_files([where], given)
            schema.one_of(found.columns, "roster_column", column)
            place = found.columns.place(column)
            return _ids(found.files[0], place, skip=found.headed())
        form = TextFormat(encoding=given.get("encoding", "utf-8"), quote="", delimiter="\x1f")
        return _ids(TextFile(where, form), 0, skip=False)


def _ids(file: TextFile, place: int, *, skip: bool) -> list[str]:
    with file.opened() as (stream, _):
        rows = lines(stream)
        if skip:
            next(rows, None)
        found = (csv_fields(line, file.form, [place])[0] for line, _ in rows)
        return [item for item in found if item is not None]
