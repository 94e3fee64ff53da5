"""Every estimator that the common suite (test_registry.py) tries: one line each.

An entry says how to make the estimator for values that were multiplied by a power of two, so that
the suite can check that its answers follow, and what it can be asked for. Settings are those that
suit 600 persons whose values are about normal with mean 3 and standard deviation 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from privmean.central.anisotropic.estimator import Anisotropic
from privmean.central.bounded import BoundedMean
from privmean.central.concentration import Bounded, SubGaussian, UnknownScale
from privmean.central.default_mean import DefaultMean
from privmean.central.heavy_tailed import BoundedMoment, HeavyTailed, PureCover
from privmean.central.winsorized import Winsorized
from privmean.models.magnitudes import Magnitudes
from privmean.models.quantiles import Quantiles
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget

PURE = Budget(epsilon=2.0)
MIXED = Budget(epsilon=2.0, delta=1e-6)
ZCDP = Budget(rho=1.0)
ANY = (PURE, MIXED, ZCDP)
BOTH = (REPLACE_ONE, ADD_REMOVE)


@dataclass(frozen=True)
class Entry:
    """make(unit): the estimator for values in these units. ordered: the roster's order matters.
    octaves: it looks at values on a logarithmic grid, so that scaling moves them to other noise."""

    name: str
    make: Callable[[float], Any]
    budgets: tuple[Budget, ...] = ANY
    relations: tuple[str, ...] = BOTH
    dimensions: tuple[int, ...] = (1, 2)
    ordered: bool = False
    octaves: bool = False


def _winsorized(assumption: Callable[[float], Any], **settings: Any) -> Callable[[float], Any]:
    return lambda unit: Winsorized(assumption(unit), **settings)


def _heavy(order: Any, bound: Any, reach: float = 0.0, **settings: Any) -> Callable[[float], Any]:
    def make(unit: float) -> HeavyTailed:
        bounds = [unit * item for item in bound] if isinstance(bound, tuple) else unit * bound
        near = (-reach * unit, reach * unit) if reach else None
        return HeavyTailed(BoundedMoment(order, bounds, range=near), **settings)

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
    Entry("in a range", lambda unit: Winsorized(SubGaussian(sd=unit), range=(-9 * unit, 9 * unit))),
    Entry("bounded moment", _heavy((2, 4), (1.0, 1.4), reach=9.0)),
    Entry("bounded moment, whole line", _heavy(4, 1.4), (MIXED,), BOTH, (1, 3)),
    Entry("one moment, certified", _heavy(2, 1.0, reach=9.0, mode="certified"), (PURE, ZCDP)),
    Entry(
        "bounded moment, extras",
        _heavy(4, 1.4, reach=9.0, private_radius=True, clipped_count=True),
        (PURE, MIXED),
        (REPLACE_ONE,),
    ),
    Entry(
        "cover",
        lambda unit: PureCover(BoundedMoment(4, 1.4 * unit, range=(-9 * unit, 9 * unit)), work=4e6),
        (PURE,),
        (REPLACE_ONE,),
    ),
    Entry(
        "unknown scale",
        lambda _: Winsorized(UnknownScale()),
        (MIXED,),
        (REPLACE_ONE,),
        (1,),
        ordered=True,
        octaves=True,
    ),
    Entry(
        "anisotropic",
        lambda unit: Anisotropic(unit**2),
        (MIXED,),
        dimensions=(1, 2, 5),
        octaves=True,
    ),
    Entry(
        "anisotropic, filtered mean alone",
        lambda unit: Anisotropic(unit**2, method="average"),
        (Budget(epsilon=6.0, delta=1e-6),),
        octaves=True,
    ),
    Entry(
        "magnitudes",
        lambda unit: Magnitudes(unit * 2.0**-10, unit * 2.0**10),
        ANY,
        (REPLACE_ONE,),
        (1, 3),
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
