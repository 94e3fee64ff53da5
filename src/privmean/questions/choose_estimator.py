"""Which estimator answers a mean: chosen by name, by what accuracy may depend on, or given
itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from privmean import validate
from privmean.errors import ArgumentError
from privmean.inference.clipped_intervals import TypeBounds
from privmean.questions.assumptions import (
    BOUNDS,
    CONCENTRATION,
    COVARIANCE,
    MOMENT,
    Related,
    argument_name,
    kind_of,
    random_effects,
)

if TYPE_CHECKING:
    from privmean.questions.base import Estimator

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
