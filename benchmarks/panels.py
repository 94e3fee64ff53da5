"""Panels to try regressions of all persons on: drawn persons of a real panel, and simulated ones.

A `Bank` holds records; `people` gives drawn persons as a regression reads them. Sums of products
are taken in doubles here, without the public grids of `privmean.data`, which are finer than 1e-6.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from privmean.data.person_products import GRIDS, PersonMoments, Products
from privmean.estimators.regression.mean_coefficients import CoefficientPanel
from privmean.estimators.regression.panel import (
    PanelSums,
    PanelTable,
    Weighting,
    entry,
    person_moments,
)
from privmean.estimators.regression.polynomial_design import Design

PANEL = Path(__file__).resolve().parents[2] / "shared" / "data" / "nlswork.parquet"


def value(tree: ast.expr, columns: dict[str, np.ndarray]) -> np.ndarray:
    """The expression of each record, in NumPy."""
    text = ast.unparse(tree)  # of a formula in this file
    return np.asarray(eval(text, {"__builtins__": {}}, dict(columns)), dtype=float)


def wage_records(path: Path) -> np.ndarray:
    """person_id, ln_wage, ttl_exp, tenure, union of the complete records of nlswork."""
    import duckdb

    names = 'person_id, ln_wage, ttl_exp, tenure, "union"'
    rows = duckdb.sql(f"SELECT {names} FROM '{path}' ORDER BY ALL").fetchall()
    data = np.array(rows, dtype=float)
    return data[np.isfinite(data).all(axis=1)]


@dataclass
class Bank:
    """columns: one number a record, sorted by person; starts: the first record of each person."""

    columns: dict[str, np.ndarray]
    starts: np.ndarray

    @classmethod
    def of(cls, who: np.ndarray, columns: dict[str, np.ndarray]) -> Bank:
        order = np.argsort(who, kind="stable")
        ids = np.asarray(who)[order]
        starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]])
        return cls({name: np.asarray(x, dtype=float)[order] for name, x in columns.items()}, starts)

    @property
    def n(self) -> int:
        return len(self.starts)

    def total(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, self.starts)

    def some(self, drawn: np.ndarray) -> Bank:
        """The records of the drawn persons alone, each draw a person of its own."""
        ends = np.append(self.starts[1:], len(next(iter(self.columns.values()))))
        size = (ends - self.starts)[drawn]
        starts = np.cumsum(size) - size
        at = np.repeat(self.starts[drawn] - starts, size) + np.arange(size.sum())
        return Bank({name: x[at] for name, x in self.columns.items()}, starts)

    def people(self, asked: PanelSums | CoefficientPanel, drawn: np.ndarray) -> PanelTable:
        """The drawn persons, whole, with replacement."""
        design, own_fits = asked.design, isinstance(asked, CoefficientPanel)
        trees = dict(design.trees)
        raw = {name: value(tree, self.columns) for name, tree in trees.items()}
        usable = np.all([np.isfinite(x) for x in raw.values()], axis=0)
        count = self.total(usable.astype(float))
        own = {}
        with np.errstate(all="ignore"):
            for name in design.numeric:
                x = np.where(usable, raw[name], 0.0)
                read = []
                for grid in GRIDS:
                    limit = math.ldexp(1.0, grid + 40)
                    step = math.ldexp(1.0, grid)
                    z = np.floor(np.clip(x, -limit, limit) / step + 0.5) * step
                    mean, square = self.total(z) / count, self.total(z * z) / count
                    read.append(PersonMoments(mean[drawn], square[drawn]))
                own[name] = PersonMoments.by_size(*read)

        def again(units):
            made = [
                np.where(usable, np.prod([value(t, self.columns) for t in factors], axis=0), 0.0)
                for factors in (design.whole if own_fits else design.products)(units)
            ]
            q = len(made)
            sums = np.stack([self.total(x) for x in made], axis=1)[drawn]
            squares = {
                (i, j): self.total(made[i] * made[j])[drawn] for i in range(q) for j in range(i, q)
            }
            return Products(count[drawn], sums, squares, {}, {})

        rows = np.where(count[drawn] > 0, 0.0, np.nan)[:, None]
        rows = np.repeat(rows, len(design.names), axis=1)
        return PanelTable(rows, design.names, own=own, again=again)


def reference(people: PanelTable, design: Design, how: Weighting) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients without privacy, and their cluster-robust standard errors."""
    units = {name: (0.0, 1.0) for name in design.numeric}
    for name in design.numeric:  # near enough to standardized to be solved in doubles
        centre = float(np.nanmedian(people.means(name))) if design.centred else 0.0
        away = people.distances(name, centre)
        units[name] = centre, float(np.sqrt(np.nanmean(away**2))) + 1e-12
    moments = person_moments(people.again(units), design, how)
    q = len(design.terms) + 1
    whole = np.stack([[entry(moments, i, j) for j in range(q)] for i in range(q)]).transpose(
        2, 0, 1
    )
    p = q - 1
    matrix = whole.mean(axis=0)
    beta = np.linalg.solve(matrix[:p, :p], matrix[:p, p])
    score = whole[:, :p, p] - whole[:, :p, :p] @ beta
    influence = score @ np.linalg.inv(matrix[:p, :p])
    scale = units[design.response][1]
    back = scale * design.expansion(units).T
    raw = back @ beta
    if "Intercept" in design.names and design.centred:
        raw[design.names.index("Intercept")] += units[design.response][0]
    n = len(influence)
    error = np.sqrt(((influence @ back.T) ** 2).sum(axis=0)) / n * math.sqrt(n / (n - 1))
    return raw, error


def wages(path: Path) -> Bank:
    """Log wages of 4711 persons."""
    import polars as pl

    frame = pl.read_parquet(path)
    numbers = {name: frame[name].cast(pl.Float64).to_numpy() for name in frame.columns}
    return Bank.of(numbers["person_id"], numbers)


def curved(
    persons: int, rng: np.random.Generator, regressor: str, response: str, growing: bool = False
) -> Bank:
    """A skewed regressor x ("normal", or the deviation of its log) and a response that is a curve
    in it ("log", "sqrt", "square", "exp" or "line"); growing: errors in proportion to x."""
    size = rng.integers(2, 9, persons)
    who = np.repeat(np.arange(persons), size)
    z = 0.7 * rng.normal(size=persons)[who] + 0.714 * rng.normal(size=len(who))
    x = np.maximum(z + 3, 0.05) if regressor == "normal" else np.exp(float(regressor) * z)
    steep = 0.5 if regressor == "normal" else 1.0
    curve = {
        "log": np.log, "sqrt": lambda x: 2 * np.sqrt(x), "square": lambda x: 0.3 * x * x,
        "exp": lambda x: np.exp(np.minimum(steep * x, 30)), "line": lambda x: x,
    }[response](x)  # fmt: skip
    errors = rng.normal(size=len(who)) * (x if growing else 1.0)
    return Bank.of(who, {"x": x, "y": curve + 0.5 * rng.normal(size=persons)[who] + errors})


def trial(persons: int, rng: np.random.Generator) -> Bank:
    """A treatment panel: 2 to 10 records, an arm and a base that are constant within a person, a
    skewed regressor, calendar years, t5 errors, person effects of unequal variance in the arms."""
    size = rng.integers(2, 11, persons)
    who = np.repeat(np.arange(persons), size)
    n = len(who)
    arm = (rng.random(persons) < 0.5).astype(float)
    base = rng.normal(50, 10, persons)
    x = np.exp(rng.normal(0, 0.6, n) + 0.4 * rng.normal(size=persons)[who])
    year = 2000 + rng.integers(0, 10, n).astype(float)
    effect = rng.normal(size=persons) * (1 + 0.5 * arm)
    y = (
        10 + 1.5 * arm[who] + 0.05 * base[who] + 0.8 * x + 0.1 * (year - 2000)
        + effect[who] + rng.standard_t(5, n)
    )  # fmt: skip
    return Bank.of(who, {"y": y, "arm": arm[who], "base": base[who], "x": x, "year": year})
