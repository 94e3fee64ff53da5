"""What accuracy may depend on: one argument, whose kind says which estimator of a mean reads it.

An estimator is chosen by name, by an assumption, or given itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from privmean import validate
from privmean.errors import ArgumentError

if TYPE_CHECKING:
    from privmean.estimators.concentration import Concentration
    from privmean.estimators.heavy_tailed import BoundedMoment, HeavyTailedMean
    from privmean.estimators.winsorized import RandomEffects
    from privmean.questions.base import Estimator

Pair: TypeAlias = tuple[float, float]
Bounds: TypeAlias = Pair | list[float] | list[int] | Sequence[Pair] | npt.NDArray[np.float64]
CovarianceBound: TypeAlias = (
    float | Sequence[float] | Sequence[Sequence[float]] | npt.NDArray[np.float64]
)
Moment: TypeAlias = "BoundedMoment | HeavyTailedMean"

BOUNDS, CONCENTRATION, MOMENT, COVARIANCE = "bounds", "concentration", "moment", "covariance"


@dataclass(frozen=True, eq=False)
class Covariance:
    """A public upper bound of the covariance of one person's row.

    Parameters
    ----------
    bound : float, array (d,) or array (d, d)
        A variance for all columns, one variance per column, or a matrix, in squared units.
    scales : {"sd", "same", "mahalanobis"}, default "sd"
        Units in which the minimized L2 error counts columns: public standard deviations, own units
        (one vector), or standard deviations along the axes of the covariance.

    Privacy
    -------
    Accuracy depends on this assumption; privacy holds for any data.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    known = pm.Covariance([0.25, 16.0])  # of a person's ln_wage and tenure, at most
    pm.mean(table, ["ln_wage", "tenure"], assume=known, epsilon=2.0, delta=1e-6)
    """

    bound: CovarianceBound
    scales: Literal["sd", "same", "mahalanobis"] = "sd"

    def __post_init__(self) -> None:
        validate.choice("scales", self.scales, ("sd", "same", "mahalanobis"))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Covariance) or self.scales != other.scales:
            return False
        return np.array_equal(self.bound, other.bound)

    def __hash__(self) -> int:
        return hash((np.asarray(self.bound, dtype=float).tobytes(), self.scales))


if TYPE_CHECKING:
    Clipping: TypeAlias = Bounds | Concentration
    Assumption: TypeAlias = Clipping | Moment | Covariance
    Related: TypeAlias = float | RandomEffects
else:
    # of fields that texts fill, by name: what they may hold is checked where they are read
    Clipping = Assumption = Related = object
Auto = Literal["auto"]


def kind_of(assume: object) -> str:
    if isinstance(assume, Covariance):
        return COVARIANCE
    if isinstance(assume, list | tuple | np.ndarray):
        return BOUNDS
    if callable(getattr(assume, "radius", None)) and not isinstance(assume, type):
        return CONCENTRATION
    # last: their module loads much that the others do without
    from privmean.estimators.heavy_tailed import BoundedMoment, HeavyTailedMean

    if isinstance(assume, BoundedMoment | HeavyTailedMean):
        return MOMENT
    raise ArgumentError(
        "assume",
        assume,
        "is not an assumption",
        "use bounds such as (0, 10), SubGaussian, BoundedMoment or Covariance",
    )


def argument_name(assume: object) -> str:
    """The argument that an assumption was given by, for an error: a pair is said by `bounds`."""
    return BOUNDS if isinstance(assume, list | tuple | np.ndarray) else "assume"


def given_estimator(
    method: object, besides: Mapping[str, object], problem: str, remedy: str
) -> Estimator:
    """An estimator that was given as the method: it has what accuracy may depend on in itself.
    besides: arguments that it makes idle, by name."""
    if isinstance(method, type) or not callable(getattr(method, "plan", None)):
        raise ArgumentError("method", method, problem, remedy)
    for name, value in besides.items():
        if value is not None and not (name == "clustering" and value == 1.0):
            raise ArgumentError(
                name,
                value,
                f"is not used by the estimator given as method ({type(method).__name__})",
                "set it in the estimator",
            )
    return cast("Estimator", method)
