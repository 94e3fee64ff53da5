"""Whether two values are the same for everybody who can see them: NaN equals NaN, bit for bit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from privmean.data.column_counts import ColumnCounts

ATOMS = (int, bool, bytes, type(None))
# times, digests of them and names of runs differ from call to call, whatever the records; a number,
# however many digits it has, is compared
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d+:Z]*"
_DIGEST = r"(?<![\w.])(?=\d*[a-f])[0-9a-f]{16,}"
CHANGING = re.compile(f"{_TIME}|{_DIGEST}")


def same(a: object, b: object) -> bool:
    """Values of mechanisms, questions and outcomes. Functions are the same by their place in the
    code: what they do with private values shows in what they give."""
    if a is b:
        return True
    if isinstance(a, float) and isinstance(b, float):
        equal = a == b and math.copysign(1, a) == math.copysign(1, b)
        return equal or (math.isnan(a) and math.isnan(b))
    if type(a) is not type(b):
        return False
    if isinstance(a, str) and isinstance(b, str):
        return a == b or steady(a) == steady(b)
    if isinstance(a, ATOMS):
        return a == b
    if isinstance(a, np.ndarray):
        return _arrays(a, np.asarray(b))
    if isinstance(a, Mapping):
        return _mappings(a, b)  # type: ignore[arg-type]
    if isinstance(a, Sequence):
        others: Any = b
        return len(a) == len(others) and all(map(same, a, others))
    if isinstance(a, ColumnCounts) and isinstance(b, ColumnCounts):
        return same(a.distribution(), b.distribution())
    if is_dataclass(a):
        names = [item.name for item in fields(a) if item.compare]
        return all(same(getattr(a, name), getattr(b, name)) for name in names)
    if callable(a):
        return _place(a) == _place(b)
    return bool(a == b)


def steady(text: str) -> str:
    """The text without what changes from call to call."""
    return CHANGING.sub("*", text)


def _arrays(a: npt.NDArray[np.generic], b: npt.NDArray[np.generic]) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype == object:
        return all(map(same, a.ravel().tolist(), b.ravel().tolist()))
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def _mappings(a: Mapping[Any, Any], b: Mapping[Any, Any]) -> bool:
    """Order included: it is seen where a mapping is printed."""
    return list(a) == list(b) and all(same(value, b[key]) for key, value in a.items())


def _place(function: object) -> tuple[Any, ...]:
    function = getattr(function, "func", function)  # of a partial
    function = getattr(function, "__func__", function)  # of a bound method
    return getattr(function, "__module__", None), getattr(function, "__qualname__", None)
