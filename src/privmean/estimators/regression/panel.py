"""A panel for one regression of all persons: read for sizes first, then in the units found.

Of a record every model column is IEEE arithmetic; of a person exact sums of products. The first
reading has every variable on three public grids, so that no unit is too fine or too coarse; the
second has (x - c)/s with released c and s. A record in which a model column is missing counts
nowhere in either. docs/proofs/pooled-regression.md, section 1.

One regression a person, from that person's sums of products alone.

The p x p systems of all people are solved together by elementwise elimination: every step is one
IEEE operation on arrays with one number a person, so a person's coefficients are the same bits
whatever the other people are (a batched library solver guarantees no such thing).

A person is null, with no coefficients at all, if records are fewer than asked, if a coefficient is
not finite, or if the smallest eigenvalue of X'X/T (public scales; for the within form of the
centered regressors) is below the public threshold. docs/proofs/longitudinal.md, sections 1 and 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from privmean import validate
from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_products import ModelRecords, PersonMoments, Products
from privmean.data.person_table import Floats, PersonTable
from privmean.errors import ArgumentError
from privmean.estimators.regression.formula import Model, read_formula
from privmean.estimators.regression.polynomial_design import Design, Units, design_of

if TYPE_CHECKING:
    from privmean.data.table import Table

Flags = npt.NDArray[np.bool_]


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
        if not 0 <= validate.number("icc", self.icc) < 1:
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
        if not -1 < validate.number("phi", self.phi) < 1:
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
    """People of a panel. values: person means of the terms' columns are not kept; one row of NaN or
    0 a person tells who has a record. own: of each variable, by name. again: the second
    reading; None where the source cannot be read as it was.
    """

    own: dict[str, PersonMoments] = field(default_factory=dict, repr=False)
    again: Callable[[Units], Products | None] | None = field(default=None, repr=False)

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


Second = Callable[["Table", Units], Products]  # a reading in standard units


@dataclass(frozen=True)
class PanelSums:
    """What one regression of all people asks of a table. within: person means are taken off."""

    formula: str
    within: bool

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

    def _again(self, table: Table, units: Units) -> Products:
        asked = self.design.products(units)
        return model_records(table, self.model).products(
            asked, [math.ldexp(1.0, FINE)] * len(asked)
        )


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
            made = second(table, units)
        except Exception:  # whatever an engine raises: an error would tell of the data
            return None
        return made if len(made.count) == len(count) else None

    named = dict(zip(design.numeric, own, strict=True))
    return PanelTable(rows, design.names, engine=records.engine, own=named, again=again)


def model_records(table: Table, model: Model, time: str | None = None) -> ModelRecords:
    """The records of a table that are read for a model."""
    return ModelRecords.of(table, model.columns, texts=model.texts, time=time)
