"""What the caller allows: pure epsilon, (epsilon, delta), or zCDP rho."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from privmean import validate
from privmean.errors import ArgumentError

Relation = Literal["replace-one", "add-remove", "zero-out"]
REPLACE_ONE: Relation = "replace-one"
ADD_REMOVE: Relation = "add-remove"
ZERO_OUT: Relation = "zero-out"  # streams only: values replaced by the centre of the region
RELATIONS: tuple[Relation, Relation] = (REPLACE_ONE, ADD_REMOVE)

LARGEST_EPSILON = 100.0
SMALLEST_EPSILON = 1e-6


def relation_of(neighbors: str) -> Relation:
    """The neighbouring relation named by the argument `neighbors`."""
    validate.choice("neighbors", neighbors, list(RELATIONS))
    return REPLACE_ONE if neighbors == REPLACE_ONE else ADD_REMOVE


@dataclass(frozen=True)
class Budget:
    """The privacy loss a caller allows for one release.

    Either `epsilon` (with `delta`, 0 for pure differential privacy) or `rho` (zero-concentrated
    differential privacy). There is no default: the caller must choose.
    """

    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise ArgumentError(
                "epsilon",
                self.epsilon,
                "exactly one of epsilon and rho must be given",
                "give epsilon (and delta) or rho; there is no default",
            )
        if self.epsilon is not None:
            epsilon = validate.positive("epsilon", self.epsilon)
            if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
                raise ArgumentError(
                    "epsilon",
                    self.epsilon,
                    "is outside the range that means anything",
                    f"give a number from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}",
                )
            delta = validate.nonnegative("delta", self.delta)
            if delta >= 0.5:
                raise ArgumentError(
                    "delta", self.delta, "is no privacy at all", "give a number far below 1/persons"
                )
            object.__setattr__(self, "epsilon", epsilon)
            object.__setattr__(self, "delta", delta)
        else:
            if self.delta != 0:
                raise ArgumentError(
                    "delta", self.delta, "goes with epsilon, not with rho", "leave delta out"
                )
            rho = validate.positive("rho", self.rho)
            if rho > LARGEST_EPSILON**2 / 2:
                raise ArgumentError("rho", self.rho, "is no privacy at all", "give a smaller rho")
            object.__setattr__(self, "rho", rho)

    @property
    def is_pure(self) -> bool:
        return self.epsilon is not None and self.delta == 0

    @property
    def is_zcdp(self) -> bool:
        return self.rho is not None

    def pure_epsilon(self) -> Fraction:
        """The largest epsilon for which pure epsilon-DP stays within this budget, rounded down.

        epsilon itself, or sqrt(2 rho) for zCDP (epsilon-DP implies epsilon^2/2-zCDP).
        """
        if self.epsilon is not None:
            return Fraction(self.epsilon)
        assert self.rho is not None
        root = Fraction(int((2 * Fraction(self.rho)) ** 0.5 * 2**40), 2**40)
        while root * root > 2 * Fraction(self.rho):
            root -= Fraction(1, 2**40)
        return root

    def gaussian_mu(self) -> float:
        """The largest mu for which a mu-GDP Gaussian mechanism stays within this budget."""
        from privmean.privacy.gdp import gaussian_mu

        if self.epsilon is not None:
            return gaussian_mu(self.epsilon, self.delta)
        assert self.rho is not None
        return float((2 * self.rho) ** 0.5) * (1 - 1e-15)

    def describe(self) -> str:
        if self.rho is not None:
            return f"rho={self.rho:g}"
        if self.delta:
            return f"(epsilon={self.epsilon:g}, delta={self.delta:g})"
        return f"epsilon={self.epsilon:g}"

    def to_dict(self) -> dict[str, Any]:
        if self.rho is not None:
            return {"rho": self.rho}
        return {"epsilon": self.epsilon, "delta": self.delta}
