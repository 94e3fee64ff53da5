"""One person's second moments, shortened to a ball and put on a lattice: elementwise over people.

Every step is one IEEE operation on arrays with one number a person, so that a person's integers are
the same whoever else is in the table; no library product of matrices, whose last bit may depend on
the other rows. docs/proofs/pooled-regression.md, sections 1 and 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from privmean.data.person_products import Products
from privmean.data.person_table import Floats, Integers
from privmean.models.fit_person import Flags
from privmean.models.polynomial_design import Design

Norm = Literal["l1", "l2"]
BITS = 20  # lattice steps of a factor, and of an influence row, from 0 to the edge
MATRIX_STEPS = 1 << (2 * BITS)  # of a matrix
ROW_STEPS = 1 << BITS
SHORTER = 1 - 2.0**-18
TRIES = 12
LEAST_PIVOT = 2.0**-40  # of the trace: what is below is rounding
Symmetric = dict[tuple[int, int], Floats]  # entries (i, j) with i <= j, one number a person


def entry(matrix: Symmetric, i: int, j: int) -> Floats:
    return matrix[i, j] if i <= j else matrix[j, i]


@dataclass(frozen=True)
class Weighting:
    """cap: None for people weighted equally, or records up to which a person counts. icc: public
    correlation of a person's errors. within: deviations from person means."""

    max_records: int | None = None
    icc: float = 0.0
    within: bool = False


def person_moments(products: Products, design: Design, how: Weighting) -> Symmetric:
    """W: means over own records of products of the regressors and the response (last), weighted;
    zero for a person without a record."""
    place = {name: k for k, (name, _) in enumerate(design.columns)}
    of_variable = {powers: k for k, (_, powers) in enumerate(design.columns)}
    count = products.count
    with np.errstate(all="ignore"):
        share = np.where(count > 0, 1 / count, 0.0)
        mean = [products.sums[:, k] * share for k in range(len(place))]
        one = np.where(count > 0, 1.0, 0.0)
        columns: list[int | None] = []  # what is read, or None for a constant of the person
        own: list[Floats] = []
        for term in design.terms:
            if term.powers:
                columns.append(place[term.name])
                own.append(mean[place[term.name]])
            else:
                columns.append(None)
                constant = one if term.own is None else mean[of_variable[(term.own, 1),]]
                own.append(constant)
        columns.append(len(place) - 1)
        own.append(mean[-1])
        q = len(columns)
        weight = (
            one
            if how.max_records is None
            else np.minimum(count, how.max_records) * (1 / how.max_records)
        )
        if how.within:
            taken = one
        elif how.icc:
            taken = count * how.icc * (1 / (1 + (count - 1) * how.icc))
        else:
            taken = np.zeros(len(count))
        found: Symmetric = {}
        for i in range(q):
            for j in range(i, q):
                a, b = columns[i], columns[j]
                if a is None or b is None:
                    raw = own[i] * own[j]
                else:
                    raw = products.squares[min(a, b), max(a, b)] * share
                found[i, j] = weight * (raw - taken * (own[i] * own[j]))
        usable = np.isfinite(sum(found.values(), np.zeros(len(count))))
        return {at: np.where(usable, item, 0.0) for at, item in found.items()}


def transformed(matrix: Symmetric, rows: Floats) -> Symmetric:
    """B W B' for released B."""
    q = len(rows)
    half: list[list[Floats]] = []
    for a in range(q):
        line = []
        for d in range(q):
            total = np.zeros(len(matrix[0, 0]))
            for c in range(q):
                if rows[a][c]:
                    total = total + rows[a][c] * entry(matrix, c, d)
            line.append(total)
        half.append(line)
    found: Symmetric = {}
    for a in range(q):
        for b in range(a, q):
            total = np.zeros(len(matrix[0, 0]))
            for d in range(q):
                if rows[b][d]:
                    total = total + half[a][d] * rows[b][d]
            found[a, b] = total
    return found


def matrix_sizes(matrix: Symmetric, norm: Norm) -> Floats:
    """Frobenius norm, or the sum of absolute values of the upper triangle."""
    total = np.zeros(len(matrix[0, 0]))
    for (i, j), item in matrix.items():
        if norm == "l1":
            total = total + np.abs(item)
        else:
            total = total + (item * item if i == j else 2 * (item * item))
    return total if norm == "l1" else np.sqrt(total)


def _factor(matrix: Symmetric) -> Symmetric:
    """G, upper triangular with G'G = the matrix: pivots that are not positive give zero rows."""
    q = max(i for i, _ in matrix) + 1
    rest = dict(matrix)
    trace = sum((np.abs(rest[k, k]) for k in range(q)), np.zeros(len(rest[0, 0])))
    found: Symmetric = {}
    with np.errstate(all="ignore"):
        for k in range(q):
            pivot = rest[k, k]
            good = pivot > LEAST_PIVOT * trace
            root = np.where(good, 1 / np.sqrt(np.where(good, pivot, 1.0)), 0.0)
            for j in range(k, q):
                found[k, j] = rest[k, j] * root
            for i in range(k + 1, q):
                for j in range(i, q):
                    rest[i, j] = rest[i, j] - found[k, i] * found[k, j]
    return found


def lattice_matrices(
    matrix: Symmetric, radius: float, norm: Norm
) -> dict[tuple[int, int], Integers]:
    """Z = G'G in whole numbers, positive semidefinite exactly, of norm at most 2^40 for a matrix of
    norm `radius`: longer ones are shortened, and a matrix that is not finite is zero."""
    q = max(i for i, _ in matrix) + 1
    with np.errstate(all="ignore"):
        size = matrix_sizes(matrix, norm)
        short = np.where(size > radius, radius / size, 1.0)
        unit = np.sqrt(short) * (ROW_STEPS / math.sqrt(radius))
        factor = {at: item * unit for at, item in _factor(matrix).items()}
        finite = np.isfinite(sum((np.abs(x) for x in factor.values()), size))
    unit = np.where(finite, 1.0, 0.0)
    for attempt in range(TRIES):
        whole = {
            at: np.trunc(np.clip(np.where(finite, item, 0.0) * unit, -ROW_STEPS, ROW_STEPS)).astype(
                np.int64
            )
            for at, item in factor.items()
        }
        found: dict[tuple[int, int], Integers] = {}
        for i in range(q):
            for j in range(i, q):
                total = np.zeros(len(size), dtype=np.int64)
                for k in range(i + 1):
                    total = total + whole[k, i] * whole[k, j]
                found[i, j] = total
        over = _too_long(found, norm)
        if not over.any():
            return found
        unit = np.where(over, 0.0 if attempt == TRIES - 2 else unit * SHORTER, unit)
    return found


def _too_long(matrix: dict[tuple[int, int], Integers], norm: Norm) -> Flags:
    if norm == "l1":
        total = sum((np.abs(x) for x in matrix.values()), np.zeros_like(matrix[0, 0]))
        long: Flags = total > MATRIX_STEPS
        return long
    # entries below 2^53 are exact as doubles; the room is for the rounding of squares and sums
    real = {at: item.astype(np.float64) for at, item in matrix.items()}
    square = np.zeros(len(real[0, 0]))
    for (i, j), item in real.items():
        square = square + (item * item if i == j else 2 * (item * item))
    over: Flags = square > float(MATRIX_STEPS) ** 2 * (1 - 2.0**-40)
    return over


def influence_rows(matrix: Symmetric, residual: Floats, regressors: Floats) -> list[Floats]:
    """A_t' W u for every target t: its regressor row A_t (released) and the residual's row u."""
    q = len(residual)
    inner = []
    for c in range(q):
        total = np.zeros(len(matrix[0, 0]))
        for d in range(q):
            if residual[d]:
                total = total + entry(matrix, c, d) * residual[d]
        inner.append(total)
    rows = []
    for row in regressors:
        total = np.zeros(len(matrix[0, 0]))
        for c in range(q):
            if row[c]:
                total = total + row[c] * inner[c]
        rows.append(total)
    return rows


def row_sizes(rows: list[Floats], norm: Norm) -> Floats:
    total = np.zeros(len(rows[0]))
    for item in rows:
        total = total + (np.abs(item) if norm == "l1" else item * item)
    return total if norm == "l1" else np.sqrt(total)


def lattice_rows(rows: list[Floats], radius: float, norm: Norm) -> list[Integers]:
    """The rows shortened to the ball and truncated: of norm at most 2^20 in whole numbers; a row
    that is not finite is zero."""
    with np.errstate(all="ignore"):
        size = row_sizes(rows, norm)
        unit = np.where(size > radius, radius / size, 1.0) * (ROW_STEPS / radius)
        finite = np.isfinite(size)
        scaled = [np.where(finite, item * unit, 0.0) for item in rows]
    unit = np.ones(len(size))
    for attempt in range(TRIES):
        whole = [
            np.trunc(np.clip(item * unit, -ROW_STEPS, ROW_STEPS)).astype(np.int64)
            for item in scaled
        ]
        if norm == "l1":
            over = sum((np.abs(x) for x in whole), np.zeros_like(whole[0])) > ROW_STEPS
        else:
            over = sum((x * x for x in whole), np.zeros_like(whole[0])) > ROW_STEPS**2
        if not over.any():
            break
        unit = np.where(over, 0.0 if attempt == TRIES - 2 else unit * SHORTER, unit)
    return whole


def triangle(q: int) -> list[tuple[int, int]]:
    """The entries of an upper triangle, row by row."""
    return [(i, j) for i in range(q) for j in range(i, q)]
