"""What the caller assumes about people's values, and the clipping radii that follow from it.

An assumption gives, for each column, a radius tau such that every one of n people lies within tau
of the center with probability at least 1 - gamma, and a small radius that one person leaves with
probability at most 1/4 (the half width of location bins); the bias of clipping follows. Accuracy
depends on it, privacy never does.

Source: Roth and Avella-Medina, "Differential Privacy with Dependent Data" (2025), Section 5, with
the between-person variance included and per-column radii (docs/proofs/winsorized.md, section 5).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError
from privmean.inference.interval import joined, values_within
from privmean.output import count_noun

T = TypeVar("T")
PerColumn = float | tuple[float, ...]
Range = tuple[float, float]
SMALL_LOG = math.log(8)  # 2 exp(-t^2/(2 s^2)) = 1/4 at t = s sqrt(2 ln 8)


@dataclass(frozen=True)
class Radii:
    """One number a column: tau (clipping radius), half (holds one person with probability 3/4), sd
    (a bound on the standard deviation of one person's value) and beyond (a bound on what clipping
    at tau can move the mean; 0 where it is not bounded or nothing is clipped)."""

    tau: tuple[float, ...]
    half: tuple[float, ...]
    sd: tuple[float, ...]
    beyond: tuple[float, ...] = ()

    def times(self, factor: float) -> Radii:
        """Everything in another unit."""
        numbers = (self.tau, self.half, self.sd, self.beyond)
        return Radii(*(tuple(factor * x for x in item) for item in numbers))


class Concentration(ABC):
    """A public assumption on how far people's values lie from their center, with a bound at every
    chance that anything is clipped: that of normal values unless `radii` says otherwise. factor: on
    that chance, for its proof."""

    factor = 2

    @property
    @abstractmethod
    def words(self) -> str:
        """The assumption in words, as printed with a release."""

    def deviations(self, dimension: int) -> tuple[float, ...]:
        """Bounds on the standard deviation of one person's value, by column."""
        raise NotImplementedError

    def radii(self, dimension: int, log: float) -> Radii:
        """Radii that a person leaves with probability at most factor * exp(-log)."""
        sds = self.deviations(dimension)
        return Radii(
            tuple(sd * math.sqrt(2 * log) for sd in sds),
            tuple(sd * math.sqrt(2 * SMALL_LOG) for sd in sds),
            sds,
        )

    def radius(self, n: int, dimension: int = 1, gamma: float = 0.05) -> Radii:
        """The radii of `dimension` columns for n people.

        n: public number of people (a public design number under add-remove). gamma: the chance
        that anything is clipped in a column.
        """
        validate.whole("n", n, least=1)
        validate.fraction("gamma", gamma)
        return self.radii(dimension, math.log(self.factor * n / gamma))


def clipped_at(concentration: Concentration, dimension: int, tail: float) -> Radii:
    """Radii that one person leaves with probability at most `tail`, and the bias of clipping there.

    With p(t) the bound on P(|y - center| > t), clipping moves the mean by at most the integral of p
    beyond tau, which in terms of the tail probability s = p(t) is the integral of
    tau(s) - tau(tail) over s from 0 to tail.
    """
    radii = concentration.radius(1, dimension, tail)
    beyond = [0.0] * dimension
    nodes, weights = np.polynomial.laguerre.laggauss(20)
    for node, weight in zip(nodes, weights, strict=True):
        farther = concentration.radius(1, dimension, tail * math.exp(-node)).tau
        for j in range(dimension):
            beyond[j] += tail * float(weight) * (farther[j] - radii.tau[j])
    return replace(radii, beyond=tuple(beyond))


def per_column(
    name: str, value: object, check: Callable[[str, object, str], float] = validate.positive
) -> PerColumn:
    """A number, or a tuple of them, one a column; each has to pass the check."""
    remedy = "give one number, or one per column"
    if not hasattr(value, "__len__") or isinstance(value, str | bytes):
        return check(name, value, remedy)
    found = tuple(check(name, item, remedy) for item in validate.listed(name, value, remedy))
    if not found:
        raise ArgumentError(name, value, "is empty", remedy)
    return found


def one_each(
    name: str, value: T | tuple[T, ...], dimension: int, noun: str = "number"
) -> tuple[T, ...]:
    """`value` as one for each of `dimension` columns. noun: what one of them is called."""
    items = value if isinstance(value, tuple) else (value,)
    if len(items) not in (1, dimension):
        has = f"has {count_noun(len(items), noun)} for {count_noun(dimension, 'column')}"
        raise ArgumentError(name, value, has, f"give one {noun}, or one per column")
    return items * dimension if len(items) == 1 else items


def ranges_of(given: Range | tuple[Range, ...] | None, columns: int) -> tuple[Range, ...] | None:
    """The public range of each column's center, from one pair, for all of them, or one a column."""
    if given is None:
        return None
    pairs: Any = given if isinstance(given[0], tuple) else (given,)
    return one_each("range", tuple(pairs), columns, "pair")


@dataclass(frozen=True)
class SubGaussian(Concentration):
    """Values of people are sub-Gaussian around the center.

    Parameters
    ----------
    sd : float or list of float
        Public sub-Gaussian scale, for all columns or one per column, in the unit of the value. For
        normal values it is the standard deviation.

    Privacy
    -------
    Accuracy depends on this assumption; privacy holds for any data.

    Examples
    --------
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    pm.mean(people, assume=pm.SubGaussian(sd=0.5), epsilon=1.0, delta=1e-6)
    """

    sd: PerColumn

    def __post_init__(self) -> None:
        object.__setattr__(self, "sd", per_column("sd", self.sd))

    @property
    def words(self) -> str:
        return f"people's values are sub-Gaussian with standard deviation {self.sd}"

    def deviations(self, dimension: int) -> tuple[float, ...]:
        return one_each("sd", self.sd, dimension)


@dataclass(frozen=True)
class LogSobolev(Concentration):
    """Records of a person have a log-Sobolev constant, and all people share one mean.

    Parameters
    ----------
    constant : float or list of float
        Largest log-Sobolev constant of one person's records, in squared units. Gaussian records
        have the operator norm of their covariance, AR(1) records at most sd^2 (1 + phi)/(1 - phi).
    records : int
        Public minimum of records per person.

    Privacy
    -------
    Accuracy depends on this assumption; privacy holds for any data.

    Notes
    -----
    If people differ in their means, use `BetweenWithin`. Source: Roth and Avella-Medina (2025),
    Section 5.

    Examples
    --------
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    # records of a person are normal and independent with standard deviation 0.5; at least one
    pm.mean(people, assume=pm.LogSobolev(constant=0.25, records=1), epsilon=1.0, delta=1e-6)
    """

    constant: PerColumn
    records: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "constant", per_column("constant", self.constant))
        object.__setattr__(self, "records", validate.whole("records", self.records, least=1))

    @property
    def words(self) -> str:
        return (
            f"the {self.records} records of a person have log-Sobolev constant at most "
            f"{self.constant}, and all people share one mean"
        )

    def deviations(self, dimension: int) -> tuple[float, ...]:
        constants = one_each("constant", self.constant, dimension)
        return tuple(math.sqrt(c / self.records) for c in constants)


@dataclass(frozen=True)
class BetweenWithin(Concentration):
    """Person means vary between people, and records vary within a person.

    Parameters
    ----------
    between_sd : float or list of float
        Standard deviation of person means around the center (sub-Gaussian), in the unit of the
        value.
    within_sd : float or list of float, optional
        Standard deviation of a person's independent records. Either this or `within_constant`.
    records : int, default 1
        Public minimum of records per person.
    within_constant : float or list of float, optional
        Log-Sobolev constant of a person's dependent records, in squared units.

    Privacy
    -------
    Accuracy depends on this assumption; privacy holds for any data.

    Examples
    --------
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    spread = pm.BetweenWithin(between_sd=0.4, within_sd=0.3, records=1)
    pm.mean(people, assume=spread, epsilon=1.0, delta=1e-6)
    """

    between_sd: PerColumn
    within_sd: PerColumn | None = None
    records: int = 1
    within_constant: PerColumn | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "between_sd", per_column("between_sd", self.between_sd))
        remedy = "give within_sd (independent records) or within_constant (dependent records)"
        both = {"within_sd": self.within_sd, "within_constant": self.within_constant}
        validate.one_of_two(remedy, **both)
        for name in ("within_sd", "within_constant"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, per_column(name, getattr(self, name)))
        object.__setattr__(self, "records", validate.whole("records", self.records, least=1))

    @property
    def words(self) -> str:
        inside = (
            f"records within a person by {self.within_sd}"
            if self.within_sd is not None
            else f"records within a person have log-Sobolev constant {self.within_constant}"
        )
        return (
            f"people's means vary by {self.between_sd} (standard deviation), {inside}, "
            f"{self.records} records a person"
        )

    def deviations(self, dimension: int) -> tuple[float, ...]:
        between = one_each("between_sd", self.between_sd, dimension)
        if self.within_sd is not None:
            within = tuple(s * s for s in one_each("within_sd", self.within_sd, dimension))
        else:
            assert self.within_constant is not None
            within = one_each("within_constant", self.within_constant, dimension)
        return tuple(
            math.sqrt(b * b + w / self.records) for b, w in zip(between, within, strict=True)
        )


@dataclass(frozen=True)
class BoundedWithin(Concentration):
    """Records of a person are independent within public bounds, and person means vary.

    Parameters
    ----------
    between_sd : float or list of float
        Standard deviation of person means around the center (sub-Gaussian), in the unit of the
        value.
    lower, upper : float
        Public bounds of the records.
    records : int
        Public minimum of records per person.

    Privacy
    -------
    Accuracy depends on this assumption; privacy holds for any data.

    Examples
    --------
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    spread = pm.BoundedWithin(between_sd=0.4, lower=-2.3, upper=5.3, records=1)
    pm.mean(people, assume=spread, epsilon=1.0, delta=1e-6)
    """

    between_sd: PerColumn
    lower: float
    upper: float
    records: int
    # both parts stay inside with probability 1 - 4 exp(-log): 3/4 at log = ln 16
    factor = 4

    def __post_init__(self) -> None:
        object.__setattr__(self, "between_sd", per_column("between_sd", self.between_sd))
        low, high = validate.bounds("lower, upper", (self.lower, self.upper))
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)
        object.__setattr__(self, "records", validate.whole("records", self.records, least=1))

    @property
    def words(self) -> str:
        return (
            f"records lie in [{self.lower:g}, {self.upper:g}], {self.records} a person, "
            f"independent given the person, and people's means vary by {self.between_sd} "
            "(standard deviation)"
        )

    def radii(self, dimension: int, log: float) -> Radii:
        between = one_each("between_sd", self.between_sd, dimension)
        width = self.upper - self.lower

        def reach(log: float) -> tuple[float, ...]:
            noise = width * math.sqrt(log / (2 * self.records))
            return tuple(math.sqrt(2 * b * b * log) + noise for b in between)

        sds = tuple(math.sqrt(b * b + width**2 / (4 * self.records)) for b in between)
        return Radii(reach(log), reach(math.log(16)), sds)


@dataclass(frozen=True)
class Bounded(Concentration):
    """Values of people lie within public bounds; values outside are clipped.

    Parameters
    ----------
    lower, upper : float or list of float
        Public bounds, for all columns or one per column, in the unit of the value.
    declared : bool, default False
        Whether the column type implies the bounds, so that no value can lie outside.

    Privacy
    -------
    No location step is needed, and delta is left unspent. Privacy holds for any data.

    Examples
    --------
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    pm.mean(people, assume=pm.Bounded(-2.3, 5.3), epsilon=1.0)
    """

    lower: float | tuple[float, ...]
    upper: float | tuple[float, ...]
    declared: bool = False

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            ends = per_column(name, getattr(self, name), validate.number)
            object.__setattr__(self, name, ends)
        for pair in self._pairs:
            validate.bounds("lower, upper", pair)

    @property
    def _pairs(self) -> tuple[Range, ...]:
        """The limits of as many columns as were named."""
        named = [len(x) for x in (self.lower, self.upper) if isinstance(x, tuple)]
        return self.limits(max(named, default=1))

    @property
    def words(self) -> str:
        return joined(values_within(*pair) for pair in self._pairs)

    def limits(self, dimension: int) -> tuple[Range, ...]:
        """(lower, upper) of each column."""
        lows = one_each("lower", self.lower, dimension)
        return tuple(zip(lows, one_each("upper", self.upper, dimension), strict=True))

    def radii(self, dimension: int, log: float) -> Radii:
        half = tuple((high - low) / 2 for low, high in self.limits(dimension))
        return Radii(half, half, half, (0.0,) * dimension)


@dataclass(frozen=True)
class UnknownScale(Concentration):
    """Values of people are roughly normal with an unknown scale, found from pairs of people.

    Parameters
    ----------
    smallest, largest : float, default 2**-20 and 2**20
        Public range of the standard deviation. A wide range costs little: one noisy count per
        octave.
    safety : float, optional
        Factor on the squared scale: 1.2 by default, or 4 if the scale step is noisy. Heavy tails
        need a larger factor.

    Privacy
    -------
    Accuracy depends on this assumption; privacy holds for any data.

    Examples
    --------
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    pm.mean(people, assume=pm.UnknownScale(), epsilon=1.0, delta=1e-6)
    """

    smallest: float = 2.0**-20
    largest: float = 2.0**20
    safety: float | None = None

    def __post_init__(self) -> None:
        validate.keep(self, validate.positive, "smallest", "largest")
        if self.smallest > self.largest:
            raise ArgumentError(
                "smallest", self.smallest, "must be below the largest", "give the smallest first"
            )
        if self.safety is not None:
            validate.keep(self, validate.positive, "safety")

    @property
    def words(self) -> str:
        return (
            f"people's values are close to normal with a standard deviation between "
            f"{self.smallest:g} and {self.largest:g}, found privately"
        )

    def deviations(self, dimension: int) -> tuple[float, ...]:
        """In units of the scale that will be found."""
        return (1.0,) * dimension
