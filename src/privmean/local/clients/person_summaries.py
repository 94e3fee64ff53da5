"""What a client computes from its own records before it randomizes. Total: nothing raises."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import cast

from privmean.local.clients.coerce_value import real

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
