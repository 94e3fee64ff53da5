"""Column types that look different from one engine to the next, brought under one rule.

Parquet knows no durations: whoever writes one stores whole numbers, and says in the file's
metadata what they were. DuckDB reads the numbers, Polars and Spark the metadata. Here they are no
numbers anywhere: whether a second is 1 or 1 000 000 000 of them is for the caller to say. Decimals
of more than 38 digits are read by one engine only, so by none; half precision and 256-bit decimals
of fewer digits are widened or narrowed, exactly, for engines that lack them.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from narwhals import dependencies as known

from privmean.data.duckdb_engine import quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DURATION = 18  # of the union `Type` in Arrow's Schema.fbs
DIGITS = 38
ARROW, SPARK = b"ARROW:schema", b"org.apache.spark.sql.parquet.row.metadata"


@dataclass(frozen=True)
class PublicBounds:
    """What a declared type says of every value of a column. kind: the type. keys: the only texts
    that a column of keys can hold, None where the type lists none."""

    kind: str
    lower: float = -math.inf
    upper: float = math.inf
    keys: tuple[str, ...] | None = None


BOOLEAN = PublicBounds("Boolean", 0.0, 1.0)


def public_bounds(kind: nw.dtypes.DType | None) -> PublicBounds | None:
    """Return what a declared type, which is public, excludes; None where that is nothing."""
    if kind is None:
        return None
    if kind == nw.Boolean:
        return BOOLEAN
    if isinstance(kind, nw.Enum):
        return PublicBounds("Enum", keys=tuple(kind.categories))
    if kind.is_unsigned_integer():
        return PublicBounds(type(kind).__name__, 0.0, 255.0 if kind == nw.UInt8 else math.inf)
    if kind == nw.Int8:
        return PublicBounds("Int8", -128.0, 127.0)
    return None


def declared_kind(column: Any) -> nw.dtypes.DType | None:
    """Return the type of a column in memory if somebody declared it; None if it follows from what
    the column holds. A missing entry makes doubles of NumPy's whole numbers, so that of its types
    only Booleans count. Categories of pandas and dictionaries of Arrow are made from records."""
    if isinstance(column, list):
        return None
    if isinstance(column, np.ndarray):
        return nw.Boolean() if column.dtype.kind == "b" else None
    kind: nw.dtypes.DType = nw.from_native(column, series_only=True).dtype
    inferred = known.is_pandas_series(column) and isinstance(column.dtype, np.dtype)
    if kind in (nw.Categorical, nw.Enum) or (inferred and kind != nw.Boolean):
        return None
    return kind


def readable(column: Any) -> Any:
    """A column in memory (array, pandas or Arrow) in a type that DuckDB reads, if there is one."""
    if isinstance(column, np.ndarray):
        return column.astype(np.float32) if column.dtype == np.float16 else column
    series = known.is_pandas_series(column)
    kind = getattr(column.dtype, "pyarrow_dtype", None) if series else column.type
    if kind is None:
        return column
    import pyarrow as pa

    if pa.types.is_float16(kind):
        kind = pa.float32()
    elif pa.types.is_decimal256(kind) and kind.precision <= DIGITS and kind.scale >= 0:
        kind = pa.decimal128(kind.precision, kind.scale)
    else:
        return column
    if not series:
        return column.cast(kind, safe=False)  # a malformed entry is no error
    import pandas as pd

    cast = column.array.__arrow_array__().cast(kind, safe=False)
    return pd.Series(pd.arrays.ArrowExtensionArray(cast), index=column.index)


def hidden_types(connection: DuckDBPyConnection, pattern: str) -> dict[str, dict[str, str]]:
    """By file: the columns that hold no numbers by what the files of `pattern` say of them, while
    DuckDB reads numbers, with an SQL type that shows it."""
    where = quoted(pattern)
    said = connection.execute(
        "SELECT key, value, list(file_name) FROM parquet_kv_metadata("
        f"{where}) WHERE key IN ('{ARROW.decode()}'::BLOB, '{SPARK.decode()}'::BLOB) GROUP BY ALL"
    ).fetchall()
    found: dict[str, dict[str, str]] = {}
    for key, value, files in said:
        types = dict.fromkeys(durations({bytes(key): bytes(value)}), "INTERVAL")
        for file in files:
            found.setdefault(file, {}).update(types)
    wide = f"SELECT file_name, name FROM parquet_schema({where}) WHERE precision > {DIGITS}"
    for file, column in connection.execute(wide).fetchall():
        found.setdefault(file, {})[column] = "BLOB"
    return found


def durations(metadata: dict[bytes, bytes]) -> set[str]:
    """The columns that a Parquet file's metadata calls durations."""
    found: set[str] = set()
    # metadata of another kind say nothing: columns are then what their numbers are
    with contextlib.suppress(ValueError, struct.error, IndexError):
        found |= _arrow_durations(base64.b64decode(metadata.get(ARROW, b"")))
    with contextlib.suppress(ValueError, AttributeError, TypeError, KeyError, RecursionError):
        fields = json.loads(metadata.get(SPARK, b"{}")).get("fields", [])
        found |= {item["name"] for item in fields if str(item["type"]).startswith("interval")}
    return found


def _arrow_durations(message: bytes) -> set[str]:
    """Top-level fields of type Duration in an encapsulated Arrow schema message."""
    if not message:
        return set()
    start = 8 if message[:4] == b"\xff\xff\xff\xff" else 4
    schema = _target(message, _slot(message, _target(message, start), 2))
    fields = _target(message, _slot(message, schema, 1))
    (count,) = struct.unpack_from("<I", message, fields)
    found = set()
    for place in range(fields + 4, fields + 4 + 4 * count, 4):
        field = _target(message, place)
        if message[_slot(message, field, 2)] == DURATION:
            text = _target(message, _slot(message, field, 0))
            (length,) = struct.unpack_from("<I", message, text)
            found.add(message[text + 4 : text + 4 + length].decode())
    return found


def _target(buffer: bytes, place: int) -> int:
    """Where the FlatBuffers offset at `place` points to."""
    (offset,) = struct.unpack_from("<I", buffer, place)
    return int(place + offset)


def _slot(buffer: bytes, table: int, number: int) -> int:
    """The place of a field of a FlatBuffers table."""
    (back,) = struct.unpack_from("<i", buffer, table)
    (offset,) = struct.unpack_from("<H", buffer, table - back + 4 + 2 * number)
    if not offset:
        raise ValueError("no such field")
    return int(table + offset)
