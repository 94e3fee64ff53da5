"""The number of ones of whole numbers, also with a NumPy that cannot count them (before 2.0)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

ONES = np.array([number.bit_count() for number in range(256)], dtype=np.uint8)


def counted_by_bytes(words: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Ones of each number that is not negative."""
    plain = np.ascontiguousarray(words)
    parts = ONES[plain.view(np.uint8).reshape(*plain.shape, plain.dtype.itemsize)]
    found: npt.NDArray[np.uint8] = parts.sum(axis=-1, dtype=np.uint8)
    return found


bit_count = getattr(np, "bitwise_count", counted_by_bytes)
