"""Numbers and what holds them as plain data, ready for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, SupportsFloat, cast

import numpy as np


def plain(value: object) -> bool | str | int | float | None:
    """One value; a number that is not finite becomes None."""
    if isinstance(value, bool | str | int) or value is None:
        return value
    number = float(cast(SupportsFloat, value))
    if not math.isfinite(number):
        return None
    return int(value) if isinstance(value, int | np.integer) else number


def plain_tree(value: object) -> Any:
    """Mappings and sequences of such values, as dictionaries and lists."""
    if isinstance(value, Mapping):
        return {str(key): plain_tree(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain_tree(item) for item in value]
    if isinstance(value, bool | str | int | float | np.floating | np.integer) or value is None:
        return plain(value)
    return str(value)
