"""Every estimator that the common suite (test_registry.py) tries: one line each.

An entry says how to make the estimator for values that were multiplied by a power of two, so that
the suite can check that its answers follow, and what it can be asked for. Settings are those that
suit 600 persons whose values are about normal with mean 3 and standard deviation 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from plans import planned
from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_products import GRIDS, PersonMoments, Products
from privmean.data.person_table import PersonTable
from privmean.estimators.anisotropic.anisotropic_mean import AnisotropicMean
from privmean.estimators.concentration import Bounded, SubGaussian, UnknownScale
from privmean.estimators.heavy_tailed import BoundedMoment, HeavyTailedMean
from privmean.estimators.means.bounded import BoundedMean
from privmean.estimators.means.default_mean import DefaultMean
from privmean.estimators.quantiles import Quantiles
from privmean.estimators.regression.panel import PanelSums, PanelTable, Weighting
from privmean.estimators.regression.private_scale import PrivateScale
from privmean.estimators.regression.run_pooled import Pooled
from privmean.estimators.winsorized import WinsorizedMean
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget

PURE = Budget(epsilon=2.0)
MIXED = Budget(epsilon=2.0, delta=1e-6)
ZCDP = Budget(rho=1.0)
ANY = (PURE, MIXED, ZCDP)
BOTH = (REPLACE_ONE, ADD_REMOVE)


@dataclass(frozen=True)
class Entry:
    """make(unit): the estimator for values in these units. ordered: the roster's order matters.
    octaves: it looks at values on a logarithmic grid, so that scaling moves them to other noise.
    people: how persons are made of an array, where they are not its rows."""

    name: str
    make: Callable[[float], Any]
    budgets: tuple[Budget, ...] = ANY
    relations: tuple[str, ...] = BOTH
    dimensions: tuple[int, ...] = (1, 2)
    ordered: bool = False
    octaves: bool = False
    people: Callable[[np.ndarray], PersonTable] | None = None

    def plan(
        self, budget: Budget, relation: str, dimension: int, persons: int = 600, unit: float = 1.0
    ) -> Any:
        """The plan for so many persons: their number, or under add-remove a guess of it."""
        known = {"count": persons, "dimension": dimension, "relation": relation}
        return planned(self.make(unit), budget, **known)

    def table(self, values: np.ndarray) -> PersonTable:
        """The persons with these rows."""
        if self.people is not None:
            return self.people(values)
        return ArrayPersonTable(values, tuple(f"c{j}" for j in range(values.shape[1])))


MEAN = PanelSums("y ~ 1", False)  # a regression whose one coefficient is the mean


def one_record_each(values: np.ndarray) -> PanelTable:
    """A panel with one record a person, as a regression reads it."""
    with np.errstate(all="ignore"):
        there = ~np.isnan(values[:, 0])
        read = []
        for grid in GRIDS:
            step, limit = math.ldexp(1.0, grid), math.ldexp(1.0, grid + 40)
            z = np.floor(np.clip(values[:, 0], -limit, limit) / step + 0.5) * step
            read.append(PersonMoments(z, z * z))
        own = dict.fromkeys(MEAN.design.numeric, PersonMoments.by_size(*read))

    def again(units: Mapping[str, tuple[float, float]]) -> Products:
        ((center, scale),) = units.values()
        limit = math.ldexp(1.0, 20)
        with np.errstate(all="ignore"):
            y = np.clip((np.where(there, values[:, 0], 0.0) - center) / scale, -limit, limit)
        one, y = there.astype(float), np.where(there, y, 0.0)
        return Products(one, y[:, None], {(0, 0): y * y}, {}, {})

    rows = np.where(there, 0.0, np.nan)[:, None]
    return PanelTable(rows, MEAN.names, own=own, again=again)


def _winsorized(assumption: Callable[[float], Any], **settings: Any) -> Callable[[float], Any]:
    return lambda unit: WinsorizedMean(assumption(unit), **settings)


def _heavy(order: Any, bound: Any, reach: float = 0.0, **settings: Any) -> Callable[[float], Any]:
    def make(unit: float) -> HeavyTailedMean:
        bounds = [unit * item for item in bound] if isinstance(bound, tuple) else unit * bound
        near = (-reach * unit, reach * unit) if reach else None
        return HeavyTailedMean(BoundedMoment(order, bounds, range=near), **settings)

    return make


REGISTRY: tuple[Entry, ...] = (
    Entry("default", lambda _: DefaultMean(), dimensions=(1,), octaves=True),
    Entry(
        "default, interval first",
        lambda _: DefaultMean(target="mean"),
        dimensions=(1,),
        octaves=True,
    ),
    Entry(
        "default, columns",
        lambda _: DefaultMean(),
        (MIXED, ZCDP),
        (REPLACE_ONE,),
        (2, 5),
        octaves=True,
    ),
    Entry("bounded", lambda unit: BoundedMean((0.0, 8 * unit))),
    Entry("limits", _winsorized(lambda unit: Bounded(0.0, 8 * unit))),
    Entry("sub-Gaussian", _winsorized(lambda unit: SubGaussian(sd=unit)), (MIXED,)),
    Entry(
        "in a range", lambda unit: WinsorizedMean(SubGaussian(sd=unit), range=(-9 * unit, 9 * unit))
    ),
    Entry("bounded moment", _heavy((2, 4), (1.0, 1.4), reach=9.0)),
    Entry("bounded moment, whole line", _heavy(4, 1.4), (MIXED,), BOTH, (1, 3)),
    Entry(
        "bounded moment, private radius",
        _heavy(4, 1.4, reach=9.0, private_radius=True),
        (PURE, MIXED),
        (REPLACE_ONE,),
    ),
    Entry(
        "unknown scale",
        lambda _: WinsorizedMean(UnknownScale()),
        (MIXED,),
        (REPLACE_ONE,),
        (1,),
        ordered=True,
        octaves=True,
    ),
    Entry(
        "anisotropic",
        lambda unit: AnisotropicMean(unit**2),
        (MIXED,),
        dimensions=(1, 2, 5),
        octaves=True,
    ),
    Entry(
        "anisotropic, filtered mean alone",
        lambda unit: AnisotropicMean(unit**2, method="average"),
        (Budget(epsilon=6.0, delta=1e-6),),
        octaves=True,
    ),
    Entry(
        "magnitudes",
        lambda unit: PrivateScale(unit * 2.0**-10, unit * 2.0**10),
        ANY,
        (REPLACE_ONE,),
        (1, 3),
    ),
    Entry(
        "regression of all persons",
        lambda _: Pooled(MEAN.design, Weighting()),
        (Budget(epsilon=5.0), Budget(epsilon=4.0, delta=1e-6), ZCDP),  # half of 600 are enough
        dimensions=(1,),
        octaves=True,
        people=one_record_each,
    ),
    Entry("quantiles", lambda _: Quantiles((0.5,)), dimensions=(1,), octaves=True),
    Entry(
        "quantiles, limited",
        lambda unit: Quantiles((0.5,), bounds=(-9 * unit, 9 * unit)),
        (PURE, ZCDP),
        dimensions=(1,),
        octaves=True,
    ),
)
