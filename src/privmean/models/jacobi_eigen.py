"""Eigenvectors of a small symmetric matrix by Jacobi's rotations, in plain Python.

Sums are in a fixed order, so that the same released matrix gives the same bits on every machine: a
library's eigenvectors differ in the last bit, and with them rows that are made from them.
"""

from __future__ import annotations

import math

import numpy as np

from privmean.data.person_table import Floats

SWEEPS = 60


def eigen(matrix: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues, increasing, and eigenvectors as columns."""
    a = [[float(x) for x in row] for row in matrix]
    n = len(a)
    v = [[1.0 if i == j else 0.0 for j in range(n)] for i in range(n)]
    largest = max((abs(x) for row in a for x in row), default=0.0)
    for _ in range(SWEEPS):
        off = max((abs(a[i][j]) for i in range(n) for j in range(i + 1, n)), default=0.0)
        if off <= 1e-15 * largest:
            break
        for i in range(n):
            for j in range(i + 1, n):
                if abs(a[i][j]) > 1e-300:
                    _rotate(a, v, i, j)
    order = sorted(range(n), key=lambda k: a[k][k])
    values = np.array([a[k][k] for k in order])
    return values, np.array([[v[i][k] for k in order] for i in range(n)])


def _rotate(a: list[list[float]], v: list[list[float]], i: int, j: int) -> None:
    """The rotation that makes entry (i, j) zero."""
    theta = (a[j][j] - a[i][i]) / (2 * a[i][j])
    t = math.copysign(1.0, theta) / (abs(theta) + math.sqrt(theta * theta + 1))
    c = 1 / math.sqrt(t * t + 1)
    s = t * c
    for k in range(len(a)):
        x, y = a[k][i], a[k][j]
        a[k][i], a[k][j] = c * x - s * y, s * x + c * y
    for k in range(len(a)):
        x, y = a[i][k], a[j][k]
        a[i][k], a[j][k] = c * x - s * y, s * x + c * y
    for row in v:
        x, y = row[i], row[j]
        row[i], row[j] = c * x - s * y, s * x + c * y


def times(a: Floats, b: Floats) -> Floats:
    """The product of two small matrices, added in a fixed order."""
    total = np.zeros((len(a), b.shape[1]))
    for k in range(a.shape[1]):
        total = total + a[:, k : k + 1] * b[k : k + 1, :]
    return total
