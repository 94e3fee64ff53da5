"""What a client computes from its own records before it randomizes. Total: nothing raises."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from privmean.local.clients.domain import real


def person_mean(records: Iterable[Any]) -> float:
    """The mean of one person's records; NaN (a null, which is reported as such) without any.

    Missing records are left out; infinite ones count as the largest float.
    """
    largest = 1.7976931348623157e308
    clean = [min(max(x, -largest), largest) for x in map(real, records) if not math.isnan(x)]
    return math.fsum(x / len(clean) for x in clean) if clean else math.nan


def slope(covariates: Iterable[Iterable[Any]], responses: Iterable[Any]) -> list[float]:
    """One person's least-squares coefficients; all NaN where they are not determined.

    covariates: one row a record (put a 1 in each row for an intercept). Rows with anything
    missing or infinite are left out. Solved by elimination with complete pivoting; a pivot below
    1e-9 of the first one counts as not determined.
    """
    rows = [[real(x) for x in row] for row in covariates]
    ys = [real(y) for y in responses]
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
    except (OverflowError, ValueError):
        return unknown
    return solution if all(map(math.isfinite, solution)) else unknown
