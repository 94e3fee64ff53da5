"""What accuracy may depend on: one argument, whose kind says which estimator of a mean reads it.

An estimator is chosen by name, by an assumption, or given itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt

from privmean import validate
from privmean.errors import ArgumentError

if TYPE_CHECKING:
    from privmean.estimators.concentration import Concentration
    from privmean.estimators.heavy_tailed import BoundedMoment, HeavyTailedMean
    from privmean.estimators.random_effects import RandomEffects
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
    """Which of the four kinds an assumption is."""
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


def random_effects(clustering: Related) -> RandomEffects | None:
    """What is said of clustered people, where it is more than a number."""
    if isinstance(clustering, int | float):
        return None
    from privmean.estimators.random_effects import RandomEffects

    return clustering if isinstance(clustering, RandomEffects) else None


def one_of(assume: object, words: Mapping[str, object]) -> Any:
    """`assume`, or the one assumption that was given by the word for its kind.

    What kinds a question takes is for the question to say, which reads the result.
    """
    given: dict[str, Any] = {name: value for name, value in words.items() if value is not None}
    if assume is not None:
        given = {"assume": assume, **given}
    if len(given) > 1:
        names = " and ".join(given)
        raise ArgumentError(
            "assume", names, "cannot be combined", "pass one of them", subject=names
        )
    for name, value in given.items():
        if name == COVARIANCE:
            return value if hasattr(value, "plan") else Covariance(value)
        if name == BOUNDS and not isinstance(value, list | tuple | np.ndarray):
            raise ArgumentError("bounds", value, "must be a pair", "use bounds=(lower, upper)")
        return value
    return None


# --- which estimator answers a mean --------------------------------------------------------------
Named = Literal[
    "auto",
    "default",
    "winsorized",
    "bounded",
    "heavy-tailed",
    "anisotropic",
    "magnitudes",
]
METHODS: tuple[Named, ...] = get_args(Named)
OF = {
    BOUNDS: "bounded",
    CONCENTRATION: "winsorized",
    MOMENT: "heavy-tailed",
    COVARIANCE: "anisotropic",
}


def chosen(method: object, assume: object, clustering: Related, *, by_records: bool) -> Estimator:
    """The estimator of a mean by its name or itself, with what accuracy may depend on.

    by_records: it has to answer the mean over records. Raises ArgumentError for words that do not
    go together.
    """
    if not isinstance(method, str):
        return _served(_as_given(method, assume, clustering), by_records)
    kind = _kind(validate.choice("method", method, METHODS), assume)
    return _served(_made(kind, assume, clustering, by_records), by_records)


def _as_given(estimator: object, assume: object, clustering: Related) -> Estimator:
    if isinstance(estimator, type) or not callable(getattr(estimator, "plan", None)):
        raise ArgumentError(
            "method",
            estimator,
            "is not a name of a method or an estimator",
            f"choose one of {', '.join(METHODS)}, or an estimator such as pm.WinsorizedMean(...)",
        )
    for name, value in ((argument_name(assume), assume), ("clustering", clustering)):
        if value is not None and not (name == "clustering" and value == 1.0):
            raise ArgumentError(
                name,
                value,
                f"is not used by the estimator given as method ({type(estimator).__name__})",
                "set it in the estimator",
            )
    return cast("Estimator", estimator)


def _kind(method: str, assume: object) -> str:
    """The method's name, where an assumption or nothing may stand for it."""
    said = None if assume is None else kind_of(assume)
    named = None if said is None else OF[said]
    kind = method if method != "auto" else (named or "default")
    if said is not None and kind != named:
        raise ArgumentError(
            "method",
            method,
            f"cannot be combined with the assumption {assume!r}",
            f"use method={named!r}, or remove the assumption",
        )
    return kind


def _made(kind: str, given: Any, clustering: Related, by_records: bool) -> Estimator:
    # given: of the kind that the method asks for
    effect: Any = clustering if random_effects(clustering) is None else 1.0
    if kind == "default":
        from privmean.estimators.means.default_mean import DefaultMean

        return DefaultMean(design_effect=effect)
    if kind == "winsorized":
        from privmean.estimators.concentration import UnknownScale
        from privmean.estimators.winsorized import WinsorizedMean

        return WinsorizedMean(UnknownScale() if given is None else given, design_effect=effect)
    if kind == "magnitudes":
        from privmean.estimators.regression.private_scale import PrivateScale

        return PrivateScale(design_effect=effect)
    if given is None and kind != "anisotropic":
        raise ArgumentError(
            "assume", None, f"is required for method={kind!r}", f"give {_example(kind)}"
        )
    if kind == "bounded":
        if by_records:
            from privmean.estimators.concentration import Bounded
            from privmean.estimators.winsorized import WinsorizedMean
            from privmean.inference.clipped_intervals import TypeBounds

            limits = Bounded(*_limits(given), declared=isinstance(given, TypeBounds))
            return WinsorizedMean(limits, design_effect=effect)
        from privmean.estimators.means.bounded import BoundedMean

        return BoundedMean(given, design_effect=effect)
    if effect != 1.0:
        raise ArgumentError("clustering", effect, f"is not used by method={kind!r}", "remove it")
    if kind == "heavy-tailed":
        from privmean.estimators.heavy_tailed import HeavyTailedMean

        return given if isinstance(given, HeavyTailedMean) else HeavyTailedMean(given)
    from privmean.estimators.anisotropic.anisotropic_mean import AnisotropicMean

    return AnisotropicMean() if given is None else AnisotropicMean(given.bound, scales=given.scales)


def _served(estimator: Estimator, by_records: bool) -> Estimator:
    """The estimator, if it answers the mean over records where that is asked for."""
    if by_records and not getattr(estimator, "serves_records", False):
        raise ArgumentError(
            "method",
            type(estimator).__name__,
            "cannot estimate a mean over records",
            "use bounds, a concentration or HeavyTailedMean(..., weights=...), or "
            "estimand='people'",
        )
    return estimator


def _example(kind: str) -> str:
    if kind == "bounded":
        return "bounds, such as assume=(0, 10)"
    return "assume=BoundedMoment(order=..., bound=...)"


def _limits(bounds: Any) -> tuple[Any, Any]:
    """(lower, upper) as numbers, or one number a column each, from one pair or a pair a column."""
    pairs: Sequence[Any] = list(bounds)
    if hasattr(pairs[0], "__len__"):
        return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
    return validate.bounds("bounds", bounds)
