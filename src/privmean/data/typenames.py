"""Names of column types for messages, from a fixed list.

The text of a type may hold private values: a list of categories is all distinct values of a column,
and the width of a NumPy text is the length of the longest one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import narwhals as nw
    import numpy as np

OTHER = "another kind"
CLASSES = {
    "String": "text", "Categorical": "categories", "Enum": "categories", "Boolean": "booleans",
    "Decimal": "decimals", "Date": "dates", "Datetime": "times", "Time": "times of day",
    "Duration": "durations", "Binary": "bytes", "List": "lists", "Array": "lists",
    "Struct": "structs", "Object": "objects",
}  # fmt: skip
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
    return CLASSES.get(type(kind).__name__, OTHER)


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
