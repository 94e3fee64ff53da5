"""A table as a regression reads it: sums of products per person, and one regression per person.

Of a record every model column is IEEE arithmetic; of a person exact sums of products. The first
reading has every variable on three public grids, so that no unit is too fine or too coarse; the
second has (x - c)/s with released c and s. A record in which a model column is missing counts
nowhere in either. docs/proofs/pooled-regression.md, section 1.

The p x p systems of all people are solved together by elementwise elimination: every step is one
IEEE operation on arrays with one number a person, so a person's coefficients are the same bits
whatever the other people are (a batched library solver guarantees no such thing). A person is null,
with no coefficients at all, if records are fewer than asked, if a coefficient is not finite, or if
the smallest eigenvalue of X'X/T (public scales; for the within form of the centered regressors) is
below the public threshold. docs/proofs/longitudinal.md, sections 1 and 2.

One person's second moments are shortened to a ball and put on a lattice in the same way: no library
product of matrices, whose last bit may depend on the other rows. docs/proofs/pooled-regression.md,
sections 1 and 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from privmean import validate
from privmean.array_types import Flags, Floats, Integers
from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_products import ModelRecords, PersonMoments, Products, blocks
from privmean.data.person_table import PersonTable
from privmean.errors import ArgumentError
from privmean.estimators.noise_budget import Norm
from privmean.estimators.regression.formula import Model, Tree, read_formula
from privmean.estimators.regression.polynomial_design import Design, Units, design_of

if TYPE_CHECKING:
    from privmean.data.open_source import OpenedSource
    from privmean.data.table import Table


@dataclass(frozen=True)
class Independence:
    """A person's errors are independent: ordinary least squares."""

    @property
    def words(self) -> str:
        return "ordinary least squares"


@dataclass(frozen=True)
class Exchangeable:
    """Errors of a person with the same correlation for any two records.

    Parameters
    ----------
    icc : float
        Public intraclass correlation.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    fit = dict(working=pm.Exchangeable(0.5), epsilon=3.0, delta=1e-6)
    pm.regress(table, "ln_wage ~ ttl_exp + tenure", **fit)
    """

    icc: float

    def __post_init__(self) -> None:
        validate.keep(self, validate.number, "icc")
        if not 0 <= self.icc < 1:
            raise ArgumentError(
                "icc", self.icc, "must lie in [0, 1)", "give a correlation such as 0.3"
            )

    @property
    def words(self) -> str:
        return f"generalised least squares with correlation {self.icc:g} within a person"


@dataclass(frozen=True)
class AR1:
    """Errors of a person with autoregressive correlation of order 1.

    Parameters
    ----------
    phi : float
        Public correlation of consecutive records; records k places apart have phi^k.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    fit = dict(effect="per_person", working=pm.AR1(0.6), time="year", epsilon=2.0, delta=1e-6)
    pm.regress(table, "ln_wage ~ ttl_exp", **fit)
    """

    phi: float

    def __post_init__(self) -> None:
        validate.keep(self, validate.number, "phi")
        if not -1 < self.phi < 1:
            raise ArgumentError(
                "phi", self.phi, "must lie between -1 and 1", "give a coefficient such as 0.5"
            )

    @property
    def words(self) -> str:
        return f"generalised least squares with autoregressive coefficient {self.phi:g}"


Working = Independence | Exchangeable | AR1


def fit_persons(
    products: Products,
    *,
    working: Working,
    within: bool,
    threshold: float,
    least: int,
    scales: tuple[float, ...],
    moved: bool = False,
) -> Floats:
    """Coefficients, shape (n, p), NaN rows for null people.

    products: of the p terms and then the response. within: of deviations from person means
    (fixed effects). threshold: least eigenvalue of X'X/T with column j divided by scales[j].
    least: records a person, at least. moved: the first term is an intercept, and the threshold is
    for the other terms about person means, so that it is the same wherever their zero lies.
    """
    p = len(scales) - 1
    pairs = [(i, j) for i in range(p + 1) for j in range(i, p + 1)]
    count, sums = products.count, products.sums
    with np.errstate(all="ignore"):
        raw = {(i, j): products.squares[i, j] / (scales[i] * scales[j]) for i, j in pairs}
        one = [sums[:, j] / scales[j] for j in range(p + 1)]
        plain = raw
        if within:
            plain = {(i, j): raw[i, j] - one[i] * one[j] / count for i, j in pairs}
        weighted = plain
        if isinstance(working, Exchangeable) and not within:
            share = working.icc / (1 + (count - 1) * working.icc)
            weighted = {(i, j): raw[i, j] - share * (one[i] * one[j]) for i, j in pairs}
        elif isinstance(working, AR1):
            phi, square = working.phi, working.phi**2
            ends = {(i, j): products.ends[i, j] / (scales[i] * scales[j]) for i, j in pairs}
            lags = {(i, j): products.lags[i, j] / (scales[i] * scales[j]) for i, j in pairs}
            weighted = {
                at: (1 + square) * raw[at] - square * ends[at] - phi * lags[at] for at in pairs
            }
            # a lone record is first and last at once, and has weight 1 - phi^2 like any first one
        shift, about = int(moved), plain
        if moved:
            about = {(i, j): raw[i, j] - one[i] * one[j] / count for i, j in pairs}
        spread = {
            (i - shift, j - shift): about[i, j] / count - (threshold if i == j else 0.0)
            for i, j in pairs
            if i >= shift and j < p
        }
        enough = _eliminate(spread, [], p - shift)[1] if p > shift else count > 0
        fitted, regular = _eliminate(weighted, [weighted[i, p] for i in range(p)], p)
        rows = np.stack([fitted[j] * (scales[p] / scales[j]) for j in range(p)], axis=1)
        usable = enough & regular & (count >= least) & np.isfinite(rows).all(axis=1)
    rows[~usable] = np.nan
    return rows


def _eliminate(
    matrix: dict[tuple[int, int], Floats], right: list[Floats], p: int
) -> tuple[list[Floats], Flags]:
    """Symmetric elimination without pivoting of one p x p system a person.

    matrix: entries (i, j) with i <= j. Returns the solution (with a right-hand side) and where all
    pivots are positive, which is where the matrix is positive definite.
    """
    a = dict(matrix)
    b = list(right)
    positive = np.ones(len(a[0, 0]), dtype=bool)
    for k in range(p):
        positive &= a[k, k] > 0
        for i in range(k + 1, p):
            factor = a[k, i] / a[k, k]
            for j in range(i, p):
                a[i, j] = a[i, j] - factor * a[k, j]
            if b:
                b[i] = b[i] - factor * b[k]
    solution: list[Floats] = [np.zeros(0)] * p
    if b:
        for k in reversed(range(p)):
            rest = b[k]
            for j in range(k + 1, p):
                rest = rest - a[k, j] * solution[j]
            solution[k] = rest / a[k, k]
    return solution, positive


NEAR, LEAST = 2.0**-20, 2.0**-24  # distances that rounding may be: of a center, and at all
FINE = -20  # the grid of columns in standard units


@dataclass(frozen=True)
class PanelTable(ArrayPersonTable):
    """People of a panel, in any order. values: person means of the terms' columns are not kept; one
    row of NaN or 0 a person tells who has a record. own: of each variable, by name. again: the
    second reading; None where the source cannot be read as it was. opened: what was read.
    """

    own: dict[str, PersonMoments] = field(default_factory=dict, repr=False)
    again: Callable[[Units], Products | None] | None = field(default=None, repr=False)
    opened: OpenedSource | None = field(default=None, repr=False, compare=False)

    def means(self, name: str) -> Floats:
        """Person means; like all below functions of own records."""
        return self.own[name].mean

    def distances(self, name: str, center: float | None) -> Floats:
        """Own root mean squares about a released center, or about person means where it is None; 0
        for what rounding may be."""
        own = self.own[name]
        if center is None:
            found, place = own.within(), np.abs(own.mean)
        else:
            found, place = own.about(center), np.abs(center)
        near: Floats = np.where(found < np.maximum(place * NEAR, LEAST), 0.0, found)
        return near

    def spreads(self, name: str) -> Floats:
        """Own root mean squares about person means."""
        return self.own[name].within()


# a reading in standard units of a table, which may be open
Second = Callable[["Table", "OpenedSource | None", Units], Products]


@dataclass(frozen=True)
class PanelSums:
    """What one regression of all people asks of a table. within: person means are taken off."""

    formula: str
    within: bool
    time: str | None = None

    @cached_property
    def model(self) -> Model:
        return read_formula(self.formula, intercept=not self.within, own=not self.within)

    @cached_property
    def design(self) -> Design:
        return design_of(self.model, within=self.within)

    @property
    def names(self) -> tuple[str, ...]:
        return self.design.names

    def reduce(self, table: Table) -> PanelTable:
        """Private, spends nothing."""
        return first_reading(table, self.model, self.design, self._again)

    def asked(self, units: Units) -> list[list[Tree]]:
        """Products of which a person's sums are read, in standard units."""
        return self.design.products(units)

    def _again(self, table: Table, opened: OpenedSource | None, units: Units) -> Products:
        asked = self.asked(units)
        steps = [math.ldexp(1.0, FINE)] * len(asked)
        records = model_records(table, self.model, self.time, opened)
        return records.products(asked, steps, ordered=False)  # all that is made of them is summed


def panel_of(people: PersonTable) -> PanelTable:
    """People whose records can be read again; others are refused."""
    if not isinstance(people, PanelTable):
        raise ArgumentError(
            "people", type(people).__name__, "requires records", "give a table with `person`"
        )
    return people


def first_reading(table: Table, model: Model, design: Design, second: Second) -> PanelTable:
    """The size of every variable, and what reads the table again."""
    trees = dict(design.trees)
    records = model_records(table, model)
    count, own = records.moments(
        [(trees[name],) for name in design.numeric],
        [(trees[name],) for name in sorted(design.indicators)],
    )
    some = np.where(count > 0, 0.0, np.nan)[:, None]
    rows = np.repeat(some, len(design.names), axis=1)

    def again(units: Units) -> Products | None:
        """After the charge: a source that cannot be read again is no exception."""
        try:
            made = second(table, records.opened if records.opened.by_name else None, units)
        except Exception:  # whatever an engine raises: an error would tell of the data
            return None
        return made if len(made.count) == len(count) else None

    named = dict(zip(design.numeric, own, strict=True))
    return PanelTable(
        rows, design.names, engine=records.engine, own=named, again=again, opened=records.opened
    )


def model_records(
    table: Table, model: Model, time: str | None = None, opened: OpenedSource | None = None
) -> ModelRecords:
    """The records of a table that are read for a model. opened: the table, if it is open."""
    return ModelRecords.of(table, model.columns, texts=model.texts, time=time, opened=opened)


BITS = 20  # lattice steps of a factor, and of an influence row, from 0 to the edge
AGAIN = "The table could not be read a second time as it was the first."
MATRIX_STEPS = 1 << (2 * BITS)  # of a matrix
ROW_STEPS = 1 << BITS
SHORTER = 1 - 2.0**-18
TRIES = 12
LEAST_PIVOT = 2.0**-40  # of the trace: what is below is rounding
Symmetric = dict[tuple[int, int], Floats]  # entries (i, j) with i <= j, one number a person


def parts(matrix: Symmetric) -> Iterator[Symmetric]:
    """The numbers of some people after the other: what is made of them stays in a cache."""
    for people in blocks(len(matrix[0, 0])):
        yield {at: item[people] for at, item in matrix.items()}


def joined(made: Iterable[Symmetric], people: int) -> Symmetric:
    """What is made of every part, for all people: rows of one array, got faster than many."""
    whole: Symmetric = {}
    for matrix, some in zip(made, blocks(people), strict=True):
        whole = whole or dict(zip(matrix, np.empty((len(matrix), people)), strict=True))
        for at, item in matrix.items():
            whole[at][some] = item
    return whole


def added(made: Iterable[Sequence[int]]) -> list[int]:
    """What is made of every part, summed over people."""
    return [sum(item) for item in zip(*made, strict=True)]


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


def combined(weights: Sequence[float] | Floats, items: Sequence[Floats]) -> Floats:
    """The sum of weighted numbers of every person, one after the other."""
    taken = [(w, item) for w, item in zip(weights, items, strict=True) if w]
    if not taken:
        return np.zeros(len(items[0]))
    (weight, first), *others = taken
    total: Floats = weight * first
    for weight, item in others:
        total += weight * item
    return total


def transformed(matrix: Symmetric, rows: Floats) -> Symmetric:
    """B W B' for released B."""
    q = range(len(rows))
    columns = [[entry(matrix, c, d) for c in q] for d in q]
    half = [[combined(row, column) for column in columns] for row in rows]
    return {(a, b): combined(rows[b], half[a]) for a in q for b in q[a:]}


def matrix_sizes(matrix: Symmetric, norm: Norm) -> Floats:
    """Frobenius norm, or the sum of absolute values of the upper triangle."""
    total = np.zeros(len(matrix[0, 0]))
    for (i, j), item in matrix.items():
        if norm == "l1":
            total += np.abs(item)
        else:
            total += item * item if i == j else 2 * (item * item)
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

    def made(unit: Floats) -> Symmetric:
        """Sums of products below 2^53: exact as doubles."""
        whole = {at: _steps(np.where(finite, item, 0.0), unit) for at, item in factor.items()}
        found: Symmetric = {}
        for i in range(q):
            for j in range(i, q):
                total = whole[0, i] * whole[0, j]
                for k in range(1, i + 1):
                    total += whole[k, i] * whole[k, j]
                found[i, j] = total
        return found

    found = _shortened(made, lambda found: _too_long(found, norm), len(size))
    return {at: item.astype(np.int64) for at, item in found.items()}


Made = TypeVar("Made")


def _shortened(made: Callable[[Floats], Made], over: Callable[[Made], Flags], size: int) -> Made:
    """Whole numbers made at a part of their size each person, which is smaller where rounding has
    made them too long; 0 where nothing helps."""
    unit = np.ones(size)
    for attempt in range(TRIES):
        found = made(unit)
        long = over(found)
        if not long.any():
            break
        unit = np.where(long, 0.0 if attempt == TRIES - 2 else unit * SHORTER, unit)
    return found


def _steps(values: Floats, unit: Floats) -> Floats:
    """Values times a unit, truncated to whole steps of a row."""
    scaled = values * unit
    np.clip(scaled, -ROW_STEPS, ROW_STEPS, out=scaled)
    return np.trunc(scaled, out=scaled)


def _too_long(matrix: Symmetric, norm: Norm) -> Flags:
    if norm == "l1":
        total = sum((np.abs(x) for x in matrix.values()), np.zeros_like(matrix[0, 0]))
        long: Flags = total > MATRIX_STEPS
        return long
    # the room is for the rounding of squares and sums
    square = np.zeros(len(matrix[0, 0]))
    for (i, j), item in matrix.items():
        square += item * item if i == j else 2 * (item * item)
    over: Flags = square > float(MATRIX_STEPS) ** 2 * (1 - 2.0**-40)
    return over


def influence_rows(matrix: Symmetric, residual: Floats, regressors: Floats) -> list[Floats]:
    """A_t' W u for every target t: its regressor row A_t (released) and the residual's row u."""
    q = range(len(residual))
    inner = [combined(residual, [entry(matrix, c, d) for d in q]) for c in q]
    return [combined(row, inner) for row in regressors]


def row_sizes(rows: Floats | Sequence[Floats], norm: Norm) -> Floats:
    total = np.zeros(len(rows[0]))
    for item in rows:
        total = total + (np.abs(item) if norm == "l1" else item * item)
    return total if norm == "l1" else np.sqrt(total)


def lattice_rows(rows: Floats | Sequence[Floats], radius: float, norm: Norm) -> list[Integers]:
    """The rows shortened to the ball and truncated: of norm at most 2^20 in whole numbers; a row
    that is not finite is zero."""
    with np.errstate(all="ignore"):
        size = row_sizes(rows, norm)
        unit = np.where(size > radius, radius / size, 1.0) * (ROW_STEPS / radius)
        finite = np.isfinite(size)
        scaled = [np.where(finite, item * unit, 0.0) for item in rows]

    def long(whole: list[Floats]) -> Flags:
        return row_sizes(whole, norm) > ROW_STEPS

    whole = _shortened(lambda unit: [_steps(item, unit) for item in scaled], long, len(size))
    return [item.astype(np.int64) for item in whole]


def triangle(q: int) -> list[tuple[int, int]]:
    """The entries of an upper triangle, row by row."""
    return [(i, j) for i in range(q) for j in range(i, q)]
