"""`read`: any table of records, or an array, to people with one row each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Unpack, get_args

import numpy as np

from privmean import validate
from privmean.data.array_table import ArrayPersonTable
from privmean.data.list_columns import has_no_type, id_array, roster_texts
from privmean.data.read_options import ReadOptions, reads, told
from privmean.data.text_format import refuse
from privmean.data.typenames import array_type_name
from privmean.errors import ArgumentError, SchemaError

if TYPE_CHECKING:
    from privmean.data.engine_table import EnginePersonTable
    from privmean.data.source_types import Array, Person, Records, Roster, Rows

Estimand = Literal["people", "records"]
ESTIMANDS: tuple[Estimand, ...] = get_args(Estimand)
LARGEST_CAP = 2**20  # w z fits a double exactly, with |z| <= 2^21
FINEST, COARSEST = 2.0**-100, 2.0**100


@reads
def read(
    source: Records | Rows,
    *,
    person: Person | None = None,
    values: str | Sequence[str] | None = None,
    estimand: Estimand = "people",
    max_records: int | None = None,
    resolution: float = 2.0**-40,
    roster: Roster | None = None,
    progress: bool = False,
    **said: Unpack[ReadOptions],
) -> ArrayPersonTable | EnginePersonTable:
    """Reduce records to people: one row a person, the mean of the person's own records.

    source: the path of a .parquet, .csv, .tsv, .jsonl, .ndjson or .json (lines) file, text files
    also as .gz or .zst; a folder or a pattern of such files; a pandas or Polars (also lazy) frame,
    a PyArrow table, a DuckDB relation, a PySpark frame; or a NumPy array.
    person: the column of person ids. For an array of records (shape (N,) or (N, d)): an array of
    N ids; without it, every row of the array is one person already and is taken as it is.
    values: a column name or a list of them; * and ? are wildcards (not for JSON lines, nor for CSV
    unless header=True). For arrays: names to use.
    estimand: "people" (every person counts once) or "records" (a person counts by the number of
    usable records, up to `max_records`, which is required then).
    resolution: a power of two. Values are rounded to multiples of it and limited to
    +-resolution 2^80, so that sums are exact and a person's row depends on nothing but that
    person's records. A public choice, never taken from the data.
    roster: ids of all persons, if they are publicly known; others are left out, and a person
    without records stays as a null person. Without it the roster is every id in the table.
    delimiter (a comma, or a tab for .tsv), quote ('"'; "" for none), decimal ("." or ","), encoding
    ("utf-8", or an encoding of one byte a character), header (False: columns are called "1", "2",
    ...; True: the first line is public and messages may show it; not said: it names the columns
    and is not shown), na_values (texts that mean missing): how CSV files are written. Encoding
    and null words hold for JSON lines too.
    memory_limit ("4GB"), threads, temp_directory: for the engine that reads files; it spills to
    disk what does not fit. progress: show on standard error how far it is.

    Missing values, NaN and text where a number should be are no records; infinities are limited
    like any other value; rows without an id are dropped. A person without a usable value stays,
    with a null. Columns of typed tables that hold no numbers (text, dates, durations) are refused.
    In text files one physical line is one record, whatever it holds (docs/hostile-records.md).

    Raises ArgumentError or SchemaError. Whether it raises depends on the arguments, the schema and
    the soundness of files alone, never on a record.

    Example:
        people = pm.read(pm.example("nlswork", "nlswork.csv"), person="person_id", values="hours")
        print(pm.mean(people, assume=(0, 168), epsilon=1.0))

    Guarantees: none are spent here. Each row is a function of one person's records; the roster is
    public under replace-one neighbours and private under add-remove.
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


def checked(estimand: str, max_records: object, resolution: float) -> tuple[int | None, float]:
    """The record cap and the resolution, refused from the arguments alone."""
    validate.choice("estimand", estimand, ESTIMANDS)
    weight = _cap(estimand, max_records)
    step = validate.power_of_two("resolution", resolution)
    if not FINEST <= step <= COARSEST:
        raise ArgumentError(
            "resolution", resolution, "is out of range", "choose between 2**-100 and 2**100"
        )
    return weight, step


def _cap(estimand: str, max_records: object) -> int | None:
    if estimand == "people":
        if max_records is not None:
            raise ArgumentError(
                "max_records",
                max_records,
                "requires estimand='records'",
                "remove it, or use estimand='records'",
            )
        return None
    remedy = "give the most records per person that count"
    if max_records is None:
        raise ArgumentError("max_records", None, "is required for estimand='records'", remedy)
    result = validate.whole("max_records", max_records, least=1, remedy=remedy)
    if result > LARGEST_CAP:
        raise ArgumentError(
            "max_records", max_records, "is too large", f"give at most {LARGEST_CAP}"
        )
    return result


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
    matrix = np.asarray(source, dtype=np.float64)
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
        from privmean.data.group_arrays import grouped

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
