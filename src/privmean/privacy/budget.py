"""What the caller allows: pure epsilon, (epsilon, delta), or zCDP rho.

Numbers of privacy events, and the correction of a lattice.

The numbers an accounting entry may hold: positive, finite, exact where they are exact.

What a discrete Gaussian costs beyond the continuous one: its lattice, in three corrections.

Of `answers` coordinates on a lattice of `scale` steps a deviation. Proof:
docs/proofs/discrete-gaussian.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from numbers import Rational
from operator import index
from typing import Any, Literal, NamedTuple, SupportsFloat, SupportsIndex, cast

from privmean import validate
from privmean.errors import ArgumentError, InfeasibleError

LARGEST_EXPONENT = 700.0  # exp of more overflows a double
LARGEST_LOSS = 1e100  # no guarantee is near it, and its square is still a double
# No mechanism has a number beyond it: squares and products of two are doubles, and a stored bill
# cannot ask for arithmetic that never ends.
LARGEST = 10**100
LONGEST_TEXT = 4000
LONGEST_EXPONENT = 4  # signs of it in a text
BEYOND = "is beyond the numbers of any mechanism"


def refused(name: str, value: object, problem: str) -> ArgumentError:
    """The error for an accounting entry that no mechanism can have."""
    return ArgumentError(name, value, problem, "give the numbers of the mechanism")


def positive_fraction(name: str, value: object) -> Fraction:
    """An exact positive rational from a Fraction, an integer, a double or text such as "7/3"."""
    if type(value) is Fraction and value.numerator > 0:  # nearly always: the rest takes its time
        return _within(name, value, value)
    if isinstance(value, bool) or (isinstance(value, str) and not _short(value)):
        raise refused(name, value, "is not a number")
    try:
        result = Fraction(cast(Rational | str, value))
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise refused(name, value, "is not a finite number") from None
    if result <= 0:
        raise refused(name, value, "must be greater than 0")
    return _within(name, value, result)


def _short(text: str) -> bool:
    """Whether a text is short, and so is the number that it stands for: an exponent of nine digits
    is a number that fills the memory."""
    _, mark, exponent = text.lower().partition("e")
    return len(text) <= LONGEST_TEXT and (not mark or len(exponent) <= LONGEST_EXPONENT)


def positive_float(name: str, value: object) -> float:
    """A finite double greater than zero."""
    if type(value) is float and 0.0 < value <= LARGEST_LOSS:
        return value
    if isinstance(value, bool | str):
        raise refused(name, value, "is not a number")
    try:
        result = float(cast(SupportsFloat, value))
    except (TypeError, ValueError, OverflowError):
        raise refused(name, value, "is not a number") from None
    if not (math.isfinite(result) and result > 0):
        raise refused(name, value, "must be finite and greater than 0")
    if result > LARGEST_LOSS:
        raise refused(name, value, BEYOND)
    return result


def count(name: str, value: object) -> int:
    """A whole number of at least one."""
    if type(value) is int and 1 <= value <= LARGEST:
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise refused(name, value, "must be a whole number of at least 1")
    number = index(cast(SupportsIndex, value))
    if number < 1:
        raise refused(name, value, "must be a whole number of at least 1")
    if number > LARGEST:
        raise refused(name, value, BEYOND)
    return number


def _within(name: str, value: object, result: Fraction) -> Fraction:
    """The same, unless it or its inverse is beyond the numbers of any mechanism."""
    above, below = result.numerator, result.denominator
    if above > LARGEST * below or below > LARGEST * above:
        raise refused(name, value, BEYOND)
    return result


class Correction(NamedTuple):
    """What is paid beyond the curve of a Gaussian part: epsilon that adds, what its delta is
    multiplied with, and delta that adds where the curve is used."""

    epsilon: float = 0.0
    factor: float = 1.0
    tail: float = 0.0


def correction(mu: float, scale: float, answers: int) -> Correction:
    """That of discrete Gaussian noise of `mu`. Below one step a deviation no curve is claimed."""
    return Correction(
        answers * min((12 + mu) / scale, LARGEST_LOSS) ** 2 / 12,
        math.exp(min(answers / 12 / scale / scale, LARGEST_EXPONENT)),
        answers * 5e-32 if scale >= 1 else 1.0,
    )


Relation = Literal["replace-one", "add-remove", "zero-out"]
Neighbors = Literal["replace-one", "add-remove"]  # what a caller may ask for
REPLACE_ONE: Relation = "replace-one"
ADD_REMOVE: Relation = "add-remove"
ZERO_OUT: Relation = "zero-out"  # streams only: values replaced by the center of the region
RELATIONS: tuple[Relation, Relation] = (REPLACE_ONE, ADD_REMOVE)
NEIGHBORS: tuple[Relation, Relation, Relation] = (REPLACE_ONE, ADD_REMOVE, ZERO_OUT)

LARGEST_EPSILON = 100.0
SMALLEST_EPSILON = 1e-6
SMALLEST_DELTA = 1e-300  # parts of it are still doubles of full precision
LATTICE = 2.0**20  # steps a standard deviation that Gaussian mechanisms use at least


def relation_of(neighbors: str) -> Relation:
    """The neighboring relation named by the argument `neighbors`."""
    validate.choice("neighbors", neighbors, list(RELATIONS))
    return REPLACE_ONE if neighbors == REPLACE_ONE else ADD_REMOVE


@lru_cache(maxsize=256)
def exact_fraction(value: float) -> Fraction:
    """The shortest decimal that names a double, as an exact fraction: 0.1 is 1/10."""
    return Fraction(repr(float(value)))


@dataclass(frozen=True)
class Budget:
    """The largest privacy loss allowed for one release, and its neighbors.

    Parameters
    ----------
    epsilon : float, optional
        Privacy budget; there is no default. Either epsilon or rho is required.
    delta : float, default 0.0
        Failure probability of approximate DP, far below 1/n. 0 is pure DP.
    rho : float, optional
        zCDP budget instead of epsilon and delta.
    neighbors : {"replace-one", "add-remove", "zero-out"}, default "replace-one"
        replace-one: n is public. add-remove: n is private. zero-out: for streams.

    Raises
    ------
    ArgumentError
        If the numbers cannot be used.

    Examples
    --------
    budget = pm.Budget(epsilon=1.0, delta=1e-6, neighbors="add-remove")
    print(budget.describe())
    """

    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None
    neighbors: Relation = REPLACE_ONE

    def __post_init__(self) -> None:
        validate.choice("neighbors", self.neighbors, list(NEIGHBORS))
        missing = "pass epsilon (with optional delta), or rho; there is no default"
        validate.one_of_two(missing, epsilon=self.epsilon, rho=self.rho)
        if self.epsilon is not None:
            epsilon = validate.positive("epsilon", self.epsilon)
            _check_reach("epsilon", self.epsilon, epsilon, SMALLEST_EPSILON, LARGEST_EPSILON)
            delta = validate.nonnegative("delta", self.delta)
            if delta >= 0.5:
                raise ArgumentError(
                    "delta", self.delta, "must be far below 1/n", "use for example 1e-6"
                )
            if 0 < delta < SMALLEST_DELTA:
                raise ArgumentError(
                    "delta",
                    self.delta,
                    "is too small",
                    f"give 0, or at least {SMALLEST_DELTA:g}",
                )
            object.__setattr__(self, "epsilon", epsilon)
            object.__setattr__(self, "delta", delta)
        else:
            if self.delta != 0:
                raise ArgumentError(
                    "delta", self.delta, "requires epsilon, not rho", "remove delta"
                )
            rho = validate.positive("rho", self.rho)
            smallest, largest = SMALLEST_EPSILON**2 / 2, LARGEST_EPSILON**2 / 2
            _check_reach("rho", self.rho, rho, smallest, largest)
            object.__setattr__(self, "rho", rho)

    @property
    def is_pure(self) -> bool:
        return self.epsilon is not None and self.delta == 0

    @property
    def is_zcdp(self) -> bool:
        return self.rho is not None

    def pure_epsilon(self) -> Fraction:
        """The largest epsilon for which pure epsilon-DP stays within this budget, rounded down.

        epsilon itself, as the decimal that was written (0.1 means 1/10, so that ten tenths make
        one), or sqrt(2 rho) for zCDP (epsilon-DP implies epsilon^2/2-zCDP).
        """
        if self.epsilon is not None:
            return exact_fraction(self.epsilon)
        assert self.rho is not None
        target = 2 * exact_fraction(self.rho)
        bits = 60 + max(0, -math.frexp(float(self.rho))[1])
        whole = (target.numerator << (2 * bits)) // target.denominator
        return Fraction(math.isqrt(whole), 1 << bits)

    def largest_pure_epsilon(self) -> Fraction:
        """`pure_epsilon`, or the double nearest to it where that is larger (by 1e-16 of it)."""
        if self.epsilon is not None:
            return max(exact_fraction(self.epsilon), Fraction(self.epsilon))
        return self.pure_epsilon()

    def gaussian_mu(self, answers: int = 1) -> float:
        """The largest mu for which one release of `answers` discrete Gaussian sums fits.

        The correction for a lattice of 2^20 steps a deviation or more is inside.
        """
        from privmean.privacy.gdp import gaussian_mu

        if self.rho is not None:
            return float((2 * self.rho) ** 0.5) * (1 - 1e-13)
        assert self.epsilon is not None
        first = gaussian_mu(self.epsilon, self.delta)
        if first <= 0:
            return 0.0
        lattice = correction(first, LATTICE, answers)
        kept = self.delta * (1 - 1e-11) - lattice.tail
        return gaussian_mu(self.epsilon - lattice.epsilon * (1 + 1e-12), kept / lattice.factor)

    def describe(self) -> str:
        forms = "rho={rho:g}", "(epsilon={epsilon:g}, delta={delta:g})", "epsilon={epsilon:g}"
        return describe_neighbors(self.epsilon, self.delta, self.rho, *forms)

    def to_dict(self) -> dict[str, Any]:
        if self.rho is not None:
            return {"rho": self.rho}
        return {"epsilon": self.epsilon, "delta": self.delta}


def describe_neighbors(
    epsilon: float | None, delta: float, rho: float | None, zcdp: str, both: str, pure: str
) -> str:
    """What is allowed or guaranteed, in the form that fits it: rho, epsilon and delta, or
    epsilon."""
    form = zcdp if rho is not None else both if delta else pure
    return form.format(epsilon=epsilon, delta=delta, rho=rho)


def _check_reach(name: str, given: object, number: float, smallest: float, largest: float) -> None:
    if not smallest <= number <= largest:
        raise ArgumentError(
            name,
            given,
            "is outside the supported range",
            f"give a number from {smallest:g} to {largest:g}",
        )


# --- parts of a budget: multiples of 2^-40, which add up exactly ----------------------------------
TICK = 2**40
LEAST_EPSILON = Fraction(1, 2**20)


def floor_epsilon(value: Fraction | float) -> Fraction:
    """The largest multiple of 2^-40 that is at most `value`."""
    exact = Fraction(value)
    return Fraction(exact.numerator * TICK // exact.denominator, TICK)


def root_epsilon(square: Fraction) -> Fraction:
    """The largest multiple of 2^-40 whose square is below `square`."""
    whole = square.numerator * TICK**2 // square.denominator
    return Fraction(max(math.isqrt(max(whole - 1, 0)), 0), TICK)


def require_epsilon(epsilon: Fraction, of: str = "") -> Fraction:
    """An epsilon that prices are parts of; InfeasibleError where it is below their steps."""
    if epsilon < LEAST_EPSILON:
        raise InfeasibleError(
            f"epsilon={float(epsilon):g}{of} is too small to divide",
            f"give at least epsilon={float(LEAST_EPSILON):.2g}{of}",
        )
    return epsilon
