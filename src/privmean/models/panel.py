"""A panel for one regression of all persons: read for sizes first, then in the units found.

Of a record every model column is IEEE arithmetic; of a person exact sums of products. The first
reading has every variable on three public grids, so that no unit is too fine or too coarse; the
second has (x - c)/s with released c and s. A record in which a model column is missing counts
nowhere in either. docs/proofs/pooled-regression.md, section 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_products import Products, person_products
from privmean.data.person_table import Floats, PersonTable
from privmean.errors import ArgumentError
from privmean.models.formula import Model, Tree, read_formula
from privmean.models.polynomial_design import Design, Units, design_of

if TYPE_CHECKING:
    from privmean.data.table import Table

GRIDS = (-40, -20, 0)  # a variable is read in steps of 2^g, limited to 2^(g + 40)
NEAR, LEAST = 2.0**-20, 2.0**-24  # distances that rounding may be: of a center, and at all
FINE = -20  # the grid of columns in standard units


@dataclass(frozen=True)
class PersonMoments:
    """One person a row: person means and root mean squares of one variable; NaN without a
    record."""

    mean: Floats
    square: Floats

    def about(self, centre: float) -> Floats:
        """Root mean square of own records about a center."""
        with np.errstate(all="ignore"):
            return np.sqrt(np.maximum(self.square - 2 * centre * self.mean + centre * centre, 0.0))

    def within(self) -> Floats:
        """Root mean square of own records about their person mean."""
        with np.errstate(all="ignore"):
            return np.sqrt(np.maximum(self.square - self.mean * self.mean, 0.0))


@dataclass(frozen=True)
class PanelTable(ArrayPersonTable):
    """People of a panel. values: person means of the terms' columns are not kept; one row of NaN or
    0 a person tells who has a record. own: of each variable, by name and grid. again: the second
    reading; None where the source cannot be read as it was.
    """

    own: dict[tuple[str, int], PersonMoments] = field(default_factory=dict, repr=False)
    again: Callable[[Units], Products | None] | None = field(default=None, repr=False)

    def means(self, name: str) -> Floats:
        """Person means, each from the grid that holds the own size; so are all below: functions of
        own records."""
        return self._own(name, lambda own: own.mean)

    def distances(self, name: str, center: float | None) -> Floats:
        """Own root mean squares about a released center, or about person means where it is None; 0
        for what rounding may be."""
        if center is None:
            found, place = self.spreads(name), np.abs(self.means(name))
        else:
            found, place = self._own(name, lambda own: own.about(center)), np.abs(center)
        near: Floats = np.where(found < np.maximum(place * NEAR, LEAST), 0.0, found)
        return near

    def spreads(self, name: str) -> Floats:
        """Own root mean squares about person means."""
        return self._own(name, PersonMoments.within)

    def _own(self, name: str, what: Callable[[PersonMoments], Floats]) -> Floats:
        fine, middle, coarse = (self.own[name, grid] for grid in GRIDS)
        large, small = coarse.about(0.0) >= math.ldexp(1.0, 19), math.ldexp(1.0, -8)
        found = np.where(large, what(coarse), what(middle))
        result: Floats = np.where(~large & (middle.about(0.0) < small), what(fine), found)
        return result


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
        return panel_products(table, self.model, asked, [math.ldexp(1.0, FINE)] * len(asked), True)


def panel_of(people: PersonTable) -> PanelTable:
    """People whose records can be read again; others are refused."""
    if not isinstance(people, PanelTable):
        raise ArgumentError(
            "people", type(people).__name__, "requires records", "give a table with `person`"
        )
    return people


def first_reading(table: Table, model: Model, design: Design, second: Second) -> PanelTable:
    """Every variable on three grids, and what reads the table again."""
    trees = dict(design.trees)
    numeric = design.numeric
    columns = [(trees[name],) for name in numeric for _ in GRIDS]
    first = panel_products(
        table,
        model,
        [*columns, *((trees[name],) for name in sorted(design.indicators))],
        [math.ldexp(1.0, grid) for _ in numeric for grid in GRIDS] + [1.0] * len(design.indicators),
        len(columns),
    )
    count = first.count
    own = {}
    with np.errstate(all="ignore"):
        for k, name in enumerate(numeric):
            for g, grid in enumerate(GRIDS):
                at = k * len(GRIDS) + g
                own[name, grid] = PersonMoments(
                    first.sums[:, at] / count, first.squares[at, at] / count
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

    return PanelTable(rows, design.names, engine=first.engine, own=own, again=again)


def panel_products(
    table: Table,
    model: Model,
    products: Sequence[Sequence[Tree]],
    steps: list[float],
    squares: bool | int,
    time: str | None = None,
) -> Products:
    """Sums a person of model columns, of the records in which none is missing."""
    return person_products(
        table.source,
        person=table.person,
        columns=model.columns,
        texts=model.texts,
        products=products,
        steps=steps,
        time=time,
        roster=table.roster,
        text=table.text,
        resources=table.resources.options(),
        squares=squares,
    )
