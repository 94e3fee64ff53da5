"""The value of one person: computed from its records, and made a point of the public domain.

Nothing raises, whatever a value is. What is missing, not a number, or of the wrong shape becomes
the null of its domain: the middle of a range, the zero vector, or no item.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import islice
from typing import Any, SupportsFloat, cast

from privmean.local.round import Round

BLANK = r"[\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]*"
# a text that is a number for clients of every language: Python by itself also reads 1_0, inf and ٣
DECIMAL = re.compile(rf"{BLANK}([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?){BLANK}")


def real(value: object) -> float:
    """A float; NaN for anything that is none, whatever its conversion raises.

    An integer beyond the range of floats is infinite: it is clipped like any large number. A text
    is a number if it is a decimal number, with blanks around it at most.
    """
    try:
        if isinstance(value, bytes | bytearray):
            return math.nan
        if isinstance(value, str):
            found = DECIMAL.fullmatch(value)
            return float(found[1]) if found else math.nan
        return float(cast(SupportsFloat, value))
    except OverflowError:
        return _infinite(value)
    except Exception:  # a value may be of any type, and its type may raise anything
        return math.nan


def _infinite(value: Any) -> float:
    try:
        return math.inf if value > 0 else -math.inf
    except Exception:
        return math.nan


def reals(value: object, size: int) -> list[float]:
    """`size` floats; all NaN for anything of another shape."""
    missing = [math.nan] * size
    if value is None or isinstance(value, str | bytes):
        return missing
    try:
        entries = iter(cast("Iterable[object]", value))
    except Exception:
        return [real(value)] if size == 1 else missing
    try:
        result = [real(item) for item in islice(entries, size + 1)]  # it may have no end
    except Exception:
        return missing
    return result if len(result) == size else missing


def picked(round_: Round, value: object, nonce: bytes) -> tuple[float, float, float]:
    """The coordinate that the nonce assigns, with its bounds."""
    place = round_.coordinate(nonce)
    return (
        reals(value, round_.coordinates)[place],
        round_.lower[place],
        round_.upper[place],
    )


def unit_value(round_: Round, value: object, nonce: bytes) -> float:
    """The value clipped to its range and mapped to [-1, 1]; 0 for a null."""
    x, low, high = picked(round_, value, nonce)
    if math.isnan(x):
        return 0.0
    x = min(max(x, low), high)
    return min(max((x - low - (high - x)) / (high - low), -1.0), 1.0)


def item(round_: Round, value: object, nonce: bytes) -> int | None:
    """The item or the bin of the value; `other` for an unknown item, None for a null."""
    assert round_.items is not None
    if round_.bins is not None:
        x, low, high = picked(round_, value, nonce)
        if math.isnan(x):
            return None
        x = min(max(x, low), high)
        return min(int((x - low) / (high - low) * round_.bins), round_.bins - 1)
    x = real(value)
    if x.is_integer() and 0 <= x < round_.items:
        return int(x)
    return round_.other


def direction(round_: Round, value: object) -> tuple[list[float], float]:
    """A unit vector u and rho/r in [0, 1] with rho u the value clipped to the ball.

    The norm is taken after division by the largest entry, so that nothing under- or overflows. A
    null or zero value gives the first axis and 0.
    """
    assert round_.dimension is not None
    assert round_.radius is not None
    x = reals(value, round_.dimension)
    axis = [1.0] + [0.0] * (round_.dimension - 1)
    if any(math.isnan(item) for item in x):
        return axis, 0.0
    largest = max(abs(item) for item in x)
    if largest == 0.0:
        return axis, 0.0
    if math.isinf(largest):
        x = [math.copysign(1.0, item) if math.isinf(item) else 0.0 for item in x]
    else:
        x = [item / largest for item in x]
    norm = math.sqrt(math.fsum(item * item for item in x))
    share = largest / round_.radius * norm
    return [item / norm for item in x], min(share, 1.0)


LARGEST = 1.7976931348623157e308


def person_mean(records: Iterable[object] | None) -> float:
    """Return the mean of one person's records.

    Parameters
    ----------
    records : list of float
        Missing records are excluded; infinite records count as the largest float.

    Returns
    -------
    float
        The mean; NaN, which is reported as missing, without records.
    """
    clean = [min(max(x, -LARGEST), LARGEST) for x in _numbers(records) if not math.isnan(x)]
    if not clean:
        return math.nan
    try:
        return math.fsum(x / len(clean) for x in clean)
    except OverflowError:  # by a rounding, at the very end of the range
        half = math.fsum(x / 2 / len(clean) for x in clean)
        return 2 * min(max(half, -LARGEST / 2), LARGEST / 2)


def _numbers(records: object) -> list[float]:
    """The entries as floats; none if there is nothing to list."""
    if isinstance(records, str | bytes):
        return []
    try:
        return [real(item) for item in cast("Iterable[object]", records)]
    except Exception:
        return []


def _rows(covariates: object) -> list[list[float]]:
    try:
        return [_numbers(row) for row in cast("Iterable[object]", covariates)]
    except Exception:
        return []


def slope(covariates: Iterable[Iterable[object]], responses: Iterable[object]) -> list[float]:
    """Return one person's least-squares coefficients.

    Parameters
    ----------
    covariates : list of list of float
        One row per record, with a 1 for an intercept.
    responses : list of float
        One per record. Rows with missing or infinite numbers are excluded.

    Returns
    -------
    list of float
        The coefficients; all NaN if a pivot is below 1e-9 of the first (complete pivoting).
    """
    rows, ys = _rows(covariates), _numbers(responses)
    width = max((len(row) for row in rows), default=0)
    kept = [
        (row, y)
        for row, y in zip(rows, ys, strict=False)
        if len(row) == width and all(map(math.isfinite, row)) and math.isfinite(y)
    ]
    unknown = [math.nan] * width
    try:
        gram = [
            [math.fsum(row[i] * row[j] for row, _ in kept) for j in range(width)]
            + [math.fsum(row[i] * y for row, y in kept)]
            for i in range(width)
        ]
        order = list(range(width))
        first = 0.0
        for k in range(width):
            size, i, j = max(
                (abs(gram[a][b]), a, b) for a in range(k, width) for b in range(k, width)
            )
            first = max(first, size)
            if not size > 1e-9 * first:
                return unknown
            gram[k], gram[i] = gram[i], gram[k]
            for row in gram:
                row[k], row[j] = row[j], row[k]
            order[k], order[j] = order[j], order[k]
            for a in range(k + 1, width):
                factor = gram[a][k] / gram[k][k]
                for b in range(k, width + 1):
                    gram[a][b] -= factor * gram[k][b]
        solution = [0.0] * width
        for k in reversed(range(width)):
            rest = math.fsum(gram[k][b] * solution[order[b]] for b in range(k + 1, width))
            solution[order[k]] = (gram[k][width] - rest) / gram[k][k]
    except (ArithmeticError, ValueError):
        return unknown
    return solution if all(map(math.isfinite, solution)) else unknown
