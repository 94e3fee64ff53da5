"""Assumed errors behind person-specific coefficients, and public limits of coefficients."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from privmean import validate
from privmean.central.clipping_radii import numbers
from privmean.central.concentration import SubGaussian
from privmean.errors import ArgumentError
from privmean.questions.assumptions import Bounds
from privmean.signatures import known_keywords


@known_keywords
@dataclass(frozen=True)
class WorkingErrors:
    """Assumed standard deviations behind person-specific coefficients.

    Parameters
    ----------
    residual_sd : float
        Standard deviation of the errors, in the unit of the response.
    between_sd : float or list of float, default 0.0
        Standard deviation of the coefficients between people, for all terms or one per term.
    coefficient_bounds : (float, float) or list of pairs, optional
        Public bounds of the mean coefficients; required if delta is 0.

    Privacy
    -------
    Accuracy depends on this assumption; privacy holds for any data.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    known = pm.WorkingErrors(residual_sd=0.4, between_sd=0.1)
    formula = "ln_wage ~ ttl_exp"
    pm.regress(table, formula, effect="per_person", assume=known, epsilon=2.0, delta=1e-6)
    """

    residual_sd: float
    between_sd: float | tuple[float, ...] = 0.0
    coefficient_bounds: Bounds | None = None

    def __post_init__(self) -> None:
        validate.positive("residual_sd", self.residual_sd)
        between = numbers("between_sd", self.between_sd)
        object.__setattr__(self, "between_sd", between)
        for item in between if isinstance(between, tuple) else (between,):
            validate.nonnegative("between_sd", item)
        if self.coefficient_bounds is not None:
            pairs = validate.listed(
                "coefficient_bounds",
                self.coefficient_bounds,
                "give (lower, upper), or a pair a term",
            )
            if not pairs or not hasattr(pairs[0], "__len__"):
                pairs = (pairs,)
            for pair in pairs:
                validate.bounds("coefficient_bounds", pair)

    def concentration(self, spread: tuple[float, ...]) -> SubGaussian:
        """Concentration of coefficients. spread: their standard deviation for unit errors."""
        between = self.between_sd
        each = tuple(between) if isinstance(between, Iterable) else (between,) * len(spread)
        if len(each) != len(spread):
            raise ArgumentError(
                "between_sd", between, "must be one number per term", f"give {len(spread)} numbers"
            )
        return SubGaussian(
            tuple(
                math.hypot(validate.nonnegative("between_sd", b), self.residual_sd * s)
                for b, s in zip(each, spread, strict=True)
            )
        )


def ranges_of(given: Bounds | None, p: int) -> tuple[tuple[float, float], ...] | None:
    """One pair of limits a term."""
    if given is None:
        return None
    pairs = list(given)
    if pairs and not hasattr(pairs[0], "__len__"):
        pairs = [given] * p
    if len(pairs) != p:
        raise ArgumentError(
            "assume", given, f"has {len(pairs)} pairs for {p} terms", "give one per term"
        )
    return tuple(validate.bounds("assume", pair) for pair in pairs)
