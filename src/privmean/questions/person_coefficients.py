"""A person's own regression coefficients as one row a person: the summary of effect
"per_person"."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from privmean import validate
from privmean.data.array_table import ArrayPersonTable
from privmean.errors import ArgumentError
from privmean.models.fit_person import AR1, Exchangeable, Independence, Working, fit_persons
from privmean.models.formula import INTERCEPT, Model, read_formula

if TYPE_CHECKING:
    from privmean.data.table import Table


@dataclass(frozen=True)
class PersonCoefficients:
    """A person's own regression coefficients; sizes: public scales of terms and response."""

    formula: str
    fixed_effects: bool
    working: Working
    time: str | None
    threshold: float
    records: int
    sizes: tuple[float, ...]
    resolution: float

    @property
    def model(self) -> Model:
        return read_formula(self.formula, intercept=not self.fixed_effects)

    @property
    def by_time(self) -> bool:
        """Whether records are ordered."""
        return isinstance(self.working, AR1)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.model.names)

    def reduce(self, table: Table) -> ArrayPersonTable:
        """Private, spends nothing."""
        from privmean.models.panel import panel_products

        model = self.model
        products = panel_products(
            table,
            model,
            [*(trees for _, trees in model.terms), (model.response,)],
            [self.resolution * size for size in self.sizes],
            True,
            self.time if self.by_time else None,
        )
        rows = fit_persons(
            products,
            working=self.working,
            within=self.fixed_effects,
            threshold=self.threshold,
            least=self.records,
            scales=self.sizes,
        )
        return ArrayPersonTable(rows, model.names, engine=products.engine)


def sizes_of(scales: Mapping[str, float] | None, model: Model) -> tuple[float, ...]:
    """Public scales of the terms and then the response, rounded to powers of two."""
    given = dict(scales or {})
    names = [*model.names, ast.unparse(model.response)]
    for item in given:
        if item not in names or item == INTERCEPT:
            raise ArgumentError(
                "scales", item, "is not a term of the formula", f"choose one of {', '.join(names)}"
            )
    result = []
    for item in names:
        size = validate.positive("scales", given.get(item, 1.0))
        result.append(2.0 ** round(math.log2(min(max(size, 2.0**-60), 2.0**60))))
    return tuple(result)


def working_of(working: object, fixed_effects: bool, time: str | None) -> Working:
    """A working covariance that goes with the other settings."""
    if working == "independence":
        working = Independence()
    if not isinstance(working, Independence | Exchangeable | AR1):
        raise ArgumentError(
            "working", working, "is not a working covariance", "give Exchangeable(icc) or AR1(phi)"
        )
    if fixed_effects and not isinstance(working, Independence):
        raise ArgumentError(
            "working", working, "cannot be combined with fixed_effects", "choose one of them"
        )
    if isinstance(working, AR1) and time is None:
        raise ArgumentError(
            "time", None, "is required by AR1", "name the column that orders records"
        )
    return working
