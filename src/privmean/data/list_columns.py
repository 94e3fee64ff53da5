"""Python lists as columns, item by item: no record decides the type of another one.

NumPy infers one type for a whole list: one NaN makes doubles of all ids, which merges whole numbers
beyond 2^53, and one text makes texts of all values. Here an id is a text, a value a double, and an
item that is neither is missing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from privmean.array_types import Floats
from privmean.data.typenames import array_type_name, type_name
from privmean.errors import ArgumentError, SchemaError

if TYPE_CHECKING:
    import narwhals as nw


Column: TypeAlias = Any  # a list, an array or a series

REAL = (int, float, np.integer, np.floating, np.bool_, Decimal, Fraction, str)
WHOLE = 2.0**63  # a double below it that is whole is the id of that whole number
PLAIN = {int, str}
ITEMS = ("to_pylist", "to_list", "tolist")  # what makes a list of a column


def is_listed(column: object) -> bool:
    """Whether a column has no type of its own."""
    return isinstance(column, list | tuple)


def number(item: object) -> float:
    """One value as a double, NaN for what is none; a text counts as in a text file."""
    if type(item) is float:
        return item
    if isinstance(item, np.timedelta64) or not isinstance(item, REAL):
        return math.nan
    try:
        return float(item)
    except OverflowError:
        return -math.inf if item < 0 else math.inf  # type: ignore[operator]
    except Exception:  # of a class of somebody's own
        return math.nan


def numbers(items: Sequence[object]) -> Floats:
    """Values as doubles."""
    return np.fromiter(map(number, items), dtype=np.float64, count=len(items))


def matrix(items: Sequence[object]) -> Floats:
    """Values, or rows of values, as an array. The first item says which of both and how long a row
    is, which is public; another kind of item is missing."""
    first: Any = items[0] if items else None
    if not _is_row(first):
        return numbers(items)
    width = len(first)
    found = np.full((len(items), width), math.nan)
    item: Any
    for place, item in enumerate(items):
        if _is_row(item) and len(item) == width:
            found[place] = numbers(list(item))
    return found


def ids(items: Sequence[object]) -> Column:
    """Ids as texts in an array of objects: 5 and 5.0 are one person. What is no id is None."""
    from privmean.data.key_columns import said

    return said(items if set(map(type, items)) <= PLAIN else [_id(item) for item in items])


def id_array(person: Column) -> Column:
    """Ids given beside an array. A series whose type NumPy lacks is a list: with a missing id it
    would become an array of another type."""
    if not has_no_type(person):
        return np.asarray(person)
    return ids(person if is_listed(person) else _items(person))


def has_no_type(person: object) -> bool:
    """Whether ids are texts here, since NumPy has no type that holds them whatever is missing."""
    return is_listed(person) or _has_own_type(person)


def roster_texts(roster: object) -> Column:
    """A roster in the form of ids of a list: 5 and 5.0 are one person there."""
    listed = roster if is_listed(roster) or isinstance(roster, str) else None
    if listed is None:
        name = next((name for name in ITEMS if hasattr(roster, name)), None)
        listed = roster if name is None else getattr(roster, name)()
    if isinstance(listed, str | bytes) or not isinstance(listed, Iterable):
        return roster  # refused by its kind
    return list(ids(list(listed)))


def value_array(given: Column) -> Column:
    """Values given as a list or a series as an array, missing ones NaN."""
    if is_listed(given):
        return matrix(given)
    if not _has_own_type(given):
        return np.asarray(given)
    kind = _type(given)
    if not _is_numeric(kind):
        raise SchemaError(
            f"a series of {type_name(kind)} does not hold numbers. Convert it to numbers first."
        )
    return numbers(_items(given))


def doubles(given: object) -> Floats:
    """Values as doubles, shape (n,) or (n, d); objects of an array count as items of a list."""
    found = value_array(given)
    if found.dtype.kind == "O":
        return matrix(found.tolist())
    if found.dtype.kind not in "fiub":
        raise SchemaError(
            f"an array of {array_type_name(found.dtype)} does not hold numbers. "
            "Convert it to float64 first."
        )
    return array_doubles(found)


def array_doubles(found: Column) -> Floats:
    """Numbers of an array as doubles. Nothing is said of one that is too large or signals."""
    with np.errstate(all="ignore"):
        return np.asarray(found, dtype=np.float64)


def column(values: Column) -> Column:
    """A column of named ones: an array, or a list where NumPy has no such type of numbers."""
    if is_listed(values):
        return list(values)
    if _has_own_type(values) and _is_numeric(_type(values)):
        return _items(values)
    if _has_own_type(values):
        return np.asarray(values, dtype=object)  # texts, whatever else they hold
    return np.ascontiguousarray(values)


def _has_own_type(column: object) -> bool:
    """Whether it is a series or an array of a library whose type NumPy does not share."""
    if isinstance(column, np.ndarray):
        return False
    from narwhals.dependencies import is_into_series

    known = is_into_series(column) or hasattr(column, "to_pylist") or hasattr(column, "isna")
    return known and not isinstance(getattr(column, "dtype", None), np.dtype)


def _type(column: Column) -> nw.dtypes.DType:
    import narwhals as nw

    levels = getattr(getattr(column, "dtype", None), "categories", None)  # of pandas
    if levels is not None and isinstance(getattr(levels, "dtype", None), np.dtype):
        column = levels
    if hasattr(column, "isna"):
        from pandas import Series

        column = Series(column)
    elif not nw.dependencies.is_into_series(column):
        from pyarrow import chunked_array

        column = chunked_array([column])
    found: nw.dtypes.DType = nw.from_native(column, series_only=True).dtype
    return found


def _is_numeric(kind: nw.dtypes.DType) -> bool:
    return kind.is_numeric() or type(kind).__name__ == "Boolean"


def _items(column: object) -> list[object]:
    name = next(name for name in ITEMS if hasattr(column, name))
    return list(getattr(column, name)())


def _is_row(item: object) -> bool:
    return isinstance(item, list | tuple) or (isinstance(item, np.ndarray) and item.ndim == 1)


def _id(item: object) -> object:
    if isinstance(item, float | np.floating):
        value = float.__float__(item) if isinstance(item, float) else float(item)
        if math.isfinite(value) and value.is_integer() and abs(value) < WHOLE:
            return str(int(value))
        return None if math.isnan(value) else repr(value)
    if isinstance(item, np.ndarray | Iterable) and not isinstance(item, str | bytes):
        return None
    return item


def in_arrays(given: Any, person: Any) -> tuple[Any, Any]:
    """Both as arrays; what is no list and no series, as it is. A series alone may have many records
    a person, of whom its index may know: it is not taken for one row a person."""
    from narwhals.dependencies import is_into_series, is_pandas_series

    if not (isinstance(given, list | tuple) or is_into_series(given)):
        return given, person
    if person is not None:
        labels = [item.index for item in (given, person) if is_pandas_series(item)]
        if len(labels) == 2 and not labels[0].equals(labels[1]):
            raise ArgumentError(
                "person",
                person,
                "must have the same index as the values",
                "sort both arrays in one order",
            )
        return value_array(given), id_array(person)
    if is_into_series(given):
        raise ArgumentError(
            "source", given, "is a series without person ids",
            "pass person, or series.to_numpy() if each value belongs to another person",
        )  # fmt: skip
    return value_array(given), None


BACKENDS = ("pandas", "polars", "pyarrow")


def frame_of(columns: Mapping[str, Sequence[object]], backend: str | None = None) -> Any:
    """A frame with these columns, of one length.

    backend: "pandas", "polars" or "pyarrow". None: the first of them that is imported already, else
    the first that is installed. Raises ArgumentError where there is none, or no such one.
    """
    import narwhals as nw

    if backend is None:
        installed = [name for name in BACKENDS if _there(name)]
        used = [name for name in installed if name in sys.modules]
        if not installed:
            raise ArgumentError(
                "backend",
                None,
                "is required",
                "install privmean[pandas], privmean[polars] or PyArrow, or use release.rows()",
            )
        backend = (used or installed)[0]
    elif backend not in BACKENDS:
        raise ArgumentError(
            "backend", backend, "cannot make frames", f"choose one of {', '.join(BACKENDS)}"
        )
    elif not _there(backend):
        extra = "arrow" if backend == "pyarrow" else backend
        raise ArgumentError("backend", backend, "is not installed", f"install privmean[{extra}]")
    plain = {name: list(values) for name, values in columns.items()}
    made = cast(Literal["pandas", "polars", "pyarrow"], backend)
    return nw.from_dict(plain, backend=made).to_native()


def _there(name: str) -> bool:
    return name in sys.modules or find_spec(name) is not None
