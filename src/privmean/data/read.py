"""`read`: any table of records, or an array, to people with one row each.

What a caller may say to readers: how text files are written, and the limits of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from privmean.data.grids import RESOLUTION
from privmean.data.list_columns import array_doubles, has_no_type, id_array, roster_texts
from privmean.data.schema import Estimand, checked
from privmean.data.text_record import Words, options, refuse
from privmean.data.typenames import array_type_name
from privmean.errors import ArgumentError, SchemaError
from privmean.validate import only_keywords, with_full_signature

if TYPE_CHECKING:
    from privmean.data.array_table import ArrayPersonTable
    from privmean.data.duckdb_engine import Array, Person, Records, Roster, Rows
    from privmean.data.engine_table import EnginePersonTable


class ReadOptions(Words, total=False):
    """The words of text files, and those for the engine that reads; None for nothing."""

    memory_limit: str | None
    threads: int | None
    temp_directory: str | None


reads = with_full_signature(ReadOptions, {"na_values": (), "types": ()})


def told(function: str, said: ReadOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """The words of text files, checked, and those for the engine."""
    text: dict[str, Any] = dict(said)
    only_keywords(function, text, ReadOptions.__annotations__)
    limits = ("memory_limit", "threads", "temp_directory")
    resources = {name: text.pop(name, None) for name in limits}
    return options(**text), resources


@reads
def read(
    source: Records | Rows,
    *,
    person: Person | None = None,
    values: str | Sequence[str] | None = None,
    estimand: Estimand = "people",
    max_records: int | None = None,
    resolution: float = RESOLUTION,
    roster: Roster | None = None,
    progress: bool = False,
    **said: Unpack[ReadOptions],
) -> ArrayPersonTable | EnginePersonTable:
    """Reduce records to people: one row per person, the mean of the records of the person.

    Parameters
    ----------
    source : path, DataFrame, table or array
        A .parquet, .csv, .tsv, .jsonl, .ndjson or .json (lines) file, also as .gz or .zst; a folder
        or a pattern of files; a pandas, Polars, PyArrow, DuckDB or PySpark table; a NumPy array.
    person : str or array, optional
        Column of person ids, or an array of ids. Without it, each row of an array is one person.
    values : str or list of str, optional
        Columns to average; * and ? are wildcards where the names are public.
    estimand : {"people", "records"}, default "people"
        People weighted equally, or people weighted by their records, up to `max_records`.
    max_records : int, optional
        The most records per person that count; required for "records".
    resolution : float, default 2**-36
        Public grid step of the values, a power of two. Values are limited to 2**80 steps.
    roster : list or path, optional
        Public ids of all people. Other people are dropped, and a person without records stays.
    progress : bool, default False
        Show progress on standard error.
    delimiter : str, optional
        CSV delimiter. Default: a comma, or a tab for .tsv.
    quote : str, optional
        CSV quote, '"' by default; "" for none.
    decimal : str, optional
        Decimal sign, "." by default or ",".
    encoding : str, optional
        "utf-8" by default, or an encoding of one byte per character.
    header : bool, optional
        True: the first line has public column names, which messages may show. False: columns are
        called "1", "2", ... Default: the first line names the columns and is not shown.
    na_values : list of str, optional
        Texts that mean missing.
    types : dict or list of str, optional
        Types of columns of text files, such as {"y": "boolean"}: "boolean" (bounds 0 and 1) or
        "unsigned" (lower bound 0). A value that the type excludes is missing.
    memory_limit : str, optional
        Memory for reading, such as "4GB"; the rest goes to disk.
    threads : int, optional
        Processors for reading.
    temp_directory : str, optional
        Folder for temporary files.

    Returns
    -------
    ArrayPersonTable or EnginePersonTable
        One row per person. Missing values are no records; a person without values stays as missing.

    Raises
    ------
    ArgumentError, SchemaError
        From arguments, the schema and the soundness of files, never from a record.

    Privacy
    -------
    Charges nothing. Each row is a function of the records of one person. The roster is public under
    replace-one and private under add-remove.

    Examples
    --------
    people = pm.read(pm.example("nlswork", "nlswork.csv"), person="person_id", values="hours")
    print(pm.mean(people, assume=(0, 168), epsilon=1.0))
    """
    weight, step = checked(estimand, max_records, resolution)
    text, resources = told("read", said)
    resources["progress"] = progress
    if isinstance(source, np.ndarray):
        refuse(text, "an array")
        return _array(source, person, values, weight, step, roster, resources)
    if person is None:
        raise ArgumentError("person", None, "is required", "name the column that identifies people")
    from privmean.data.open_source import read_table

    return read_table(source, person, values, weight, step, roster, text, resources)


def _array(
    source: Array,
    person: Person | None,
    values: str | Sequence[str] | None,
    max_records: int | None,
    resolution: float,
    roster: Roster | None,
    resources: Mapping[str, object],
) -> ArrayPersonTable:
    if source.ndim == 2 and not source.shape[1]:
        raise ArgumentError(
            "source", source.shape, "must have at least one column", "use shape (n,) or (n, d)"
        )
    if source.ndim not in (1, 2):
        raise ArgumentError(
            "source",
            source.shape,
            "must be an array of one or two dimensions",
            "use shape (n,) or (n, d)",
        )
    if source.dtype.kind not in "fiub":
        raise SchemaError(
            f"an array of {array_type_name(source.dtype)} does not hold numbers. "
            "Convert it to float64 first."
        )
    matrix = array_doubles(source)
    if isinstance(source, np.ma.MaskedArray):
        matrix = np.where(np.ma.getmaskarray(source), np.nan, matrix)
    if matrix.ndim == 1:
        matrix = matrix[:, np.newaxis]
    columns = _array_names(values, matrix.shape[1])
    if person is None:
        if roster is not None:
            raise ArgumentError(
                "roster",
                type(roster).__name__,
                "requires person ids",
                "pass person as an array of ids",
            )
        from privmean.data.array_table import ArrayPersonTable

        counts = None if max_records is None else (~np.isnan(matrix)).astype(np.int64)
        return ArrayPersonTable(matrix, columns, counts, max_records)
    if isinstance(person, str):
        raise ArgumentError(
            "person", person, "is not a column, because an array has no names",
            "remove it (one row per person), or pass an array of ids",
        )  # fmt: skip
    ids = id_array(person)
    if roster is not None and has_no_type(person):
        roster = roster_texts(roster)
    if ids.ndim != 1 or len(ids) != len(matrix) or ids.dtype.kind not in "OUSiubfM":
        raise ArgumentError(
            "person",
            f"an array of {array_type_name(ids.dtype)} of shape {ids.shape}",
            "must be one id per row",
            f"give an array of {len(matrix)} ids",
        )
    if isinstance(person, np.ma.MaskedArray):
        named = ~np.ma.getmaskarray(person)
        ids, matrix = ids[named], matrix[named]
    if ids.dtype.kind in "iu" and roster is None and not any(resources.values()):
        from privmean.data.array_table import grouped

        return grouped(ids, matrix, columns, max_records, resolution)
    from privmean.data.open_source import read_arrays

    return read_arrays(ids, matrix, columns, max_records, resolution, roster, resources)


def _array_names(values: str | Sequence[str] | None, width: int) -> tuple[str, ...]:
    if values is None:
        return ("value",) if width == 1 else tuple(f"value_{j}" for j in range(width))
    names = (values,) if isinstance(values, str) else tuple(values)
    if len(names) != width or len(set(names)) != width:
        raise ArgumentError(
            "values",
            list(names[:8]),
            "must name each column of the array",
            f"give {width} different names",
        )
    return tuple(str(item) for item in names)
