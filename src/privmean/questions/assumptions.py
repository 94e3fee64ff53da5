"""What accuracy may rest on: one argument, whose kind says which estimator reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privmean.errors import ArgumentError

BOUNDS, CONCENTRATION, MOMENT, COVARIANCE = "bounds", "concentration", "moment", "covariance"
WORDS = (BOUNDS, CONCENTRATION, MOMENT, COVARIANCE)


@dataclass(frozen=True, eq=False)
class Covariance:
    """A public upper bound of the covariance of one person's row: a variance for all columns, one
    variance a column, shape (d,), or a matrix, shape (d, d)."""

    bound: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Covariance) and np.array_equal(self.bound, other.bound)

    def __hash__(self) -> int:
        return hash(np.asarray(self.bound, dtype=float).tobytes())


def kind_of(assume: Any) -> str:
    """Which of the four kinds an assumption is."""
    from privmean.central.heavy_tailed import BoundedMoment, HeavyTailed, PureCover

    if isinstance(assume, Covariance):
        return COVARIANCE
    if isinstance(assume, BoundedMoment | HeavyTailed | PureCover):
        return MOMENT
    if isinstance(assume, list | tuple | np.ndarray):
        return BOUNDS
    if callable(getattr(assume, "radius", None)):
        return CONCENTRATION
    raise ArgumentError(
        "assume",
        assume,
        "is no assumption",
        "give bounds such as (0, 10), SubGaussian(sd=...), BoundedMoment(...) or Covariance(...)",
    )


def one_of(assume: Any, words: dict[str, Any]) -> Any:
    """`assume`, or the one assumption that was given by the word for its kind."""
    given = {name: value for name, value in words.items() if value is not None}
    if assume is not None:
        given = {"assume": assume, **given}
    if len(given) > 1:
        names = " and ".join(given)
        raise ArgumentError("assume", names, "are given together", "give one of them")
    for name, value in given.items():
        if name == COVARIANCE:
            return value if hasattr(value, "plan") else Covariance(value)
        if name == BOUNDS and not isinstance(value, list | tuple | np.ndarray):
            raise ArgumentError("bounds", value, "is not a pair", "give (lower, upper)")
        return value
    return None
