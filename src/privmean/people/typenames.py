"""Names of column types for messages, from a fixed list.

The text of a type may hold private values: a list of categories is all distinct values of a column,
and the width of a NumPy text is the length of the longest one.
"""

from __future__ import annotations

import narwhals as nw
import numpy as np

OTHER = "another kind"
NAMES: tuple[tuple[str, tuple[type[nw.dtypes.DType], ...]], ...] = (
    ("text", (nw.String,)),
    ("categories", (nw.Categorical, nw.Enum)),
    ("booleans", (nw.Boolean,)),
    ("decimals", (nw.Decimal,)),
    ("dates", (nw.Date,)),
    ("times", (nw.Datetime,)),
    ("times of day", (nw.Time,)),
    ("durations", (nw.Duration,)),
    ("bytes", (nw.Binary,)),
    ("lists", (nw.List, nw.Array)),
    ("structs", (nw.Struct,)),
    ("objects", (nw.Object,)),
)
ARRAYS = {
    "b": "booleans", "i": "whole numbers", "u": "whole numbers", "f": "doubles", "U": "text",
    "S": "bytes", "M": "times", "m": "durations", "O": "objects", "c": "complex numbers",
}  # fmt: skip
SQL = {
    "VARCHAR": "text", "BOOLEAN": "booleans", "FLOAT": "doubles", "DOUBLE": "doubles",
    "DECIMAL": "decimals", "DATE": "dates", "TIMESTAMP": "times", "TIME": "times of day",
    "INTERVAL": "durations", "BLOB": "bytes", "STRUCT": "structs", "MAP": "structs",
    "ENUM": "categories",
}  # fmt: skip


def type_name(kind: nw.dtypes.DType) -> str:
    """Return the name of a Narwhals type."""
    if kind.is_integer():
        return "whole numbers"
    if kind.is_float():
        return "doubles"
    return next((name for name, classes in NAMES if isinstance(kind, classes)), OTHER)


def array_type_name(kind: np.dtype[np.generic]) -> str:
    """Return the name of a NumPy type."""
    return ARRAYS.get(kind.kind, OTHER)


def sql_type_name(kind: str) -> str:
    """Return the name of a type of DuckDB."""
    if kind.endswith("]"):
        return "lists"
    word = kind.partition("(")[0].partition(" ")[0].partition("_")[0]
    return (
        "whole numbers"
        if word.endswith("INT") or word.endswith("INTEGER")
        else SQL.get(word, OTHER)
    )
