"""What the caller assumes about people's values, and the clipping radius that follows from it.

An assumption gives, for each column, a radius tau such that every one of n people lies within tau
of the center with probability at least 1 - gamma, and a small radius that one person leaves with
probability at most 1/4 (the half width of location bins). Accuracy rests on it, privacy never does.

Source: Roth and Avella-Medina, "Differential Privacy with Dependent Data" (2025), Section 5, with
the between-person variance included and per-column radii (docs/proofs/winsorized.md, section 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privmean import validate
from privmean.central.clipping_radii import (
    Concentration,
    FromDeviations,
    PerColumn,
    Radii,
    clipped_at,
    numbers,
    per_column,
    spread,
    stretch,
)
from privmean.errors import ArgumentError
from privmean.inference.assumptions import joined, values_within
from privmean.plurals import count_noun

__all__ = [
    "BetweenWithin",
    "Bounded",
    "BoundedWithin",
    "Concentration",
    "LogSobolev",
    "Radii",
    "SubGaussian",
    "UnknownScale",
    "clipped_at",
]


@dataclass(frozen=True)
class SubGaussian(FromDeviations):
    """Each value is sub-Gaussian around the center with proxy sd^2 (for a normal law: its sd).

    sd: one number, or one a column, in the units of the data.

    Example:
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
        return spread("sd", self.sd, dimension)


@dataclass(frozen=True)
class LogSobolev(FromDeviations):
    """A person's records have a log-Sobolev constant, and all people share one mean.

    constant: the largest over people of the constant of one person's vector of records (the
    operator norm of its covariance for Gaussian records; at most sd^2 (1+phi)/(1-phi) for an AR(1)
    with coefficient phi), never that of all people together. records: public records a person.
    People that differ in their means need `BetweenWithin`.

    Example:
        people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
        # records of a person are normal and independent, of deviation 0.5; at least one a person
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
        constants = spread("constant", self.constant, dimension)
        return tuple(math.sqrt(c / self.records) for c in constants)


@dataclass(frozen=True)
class BetweenWithin(FromDeviations):
    """Persons' own means vary by between_sd, and records vary within a person.

    between_sd: standard deviation of people's own means (sub-Gaussian). Exactly one of within_sd
    (independent records) and within_constant (log-Sobolev constant of a person's records, for
    dependent ones). records: public number of records a person, at least.

    Example:
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
        between = spread("between_sd", self.between_sd, dimension)
        if self.within_sd is not None:
            within = tuple(s * s for s in spread("within_sd", self.within_sd, dimension))
        else:
            assert self.within_constant is not None
            within = spread("within_constant", self.within_constant, dimension)
        return tuple(
            math.sqrt(b * b + w / self.records) for b, w in zip(between, within, strict=True)
        )


@dataclass(frozen=True)
class BoundedWithin(FromDeviations):
    """Records lie in [lower, upper], independent given the person; people's means vary.

    between_sd: standard deviation of people's own means (sub-Gaussian); records: public number of
    records a person, at least.

    Example:
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
        between = spread("between_sd", self.between_sd, dimension)
        width = self.upper - self.lower

        def reach(log: float) -> tuple[float, ...]:
            noise = width * math.sqrt(log / (2 * self.records))
            return tuple(math.sqrt(2 * b * b * log) + noise for b in between)

        sds = tuple(math.sqrt(b * b + width**2 / (4 * self.records)) for b in between)
        return Radii(reach(log), reach(math.log(16)), sds)


@dataclass(frozen=True)
class Bounded(FromDeviations):
    """Every person's value lies in [lower, upper] (values outside are moved to the limits).

    lower, upper: numbers, or one a column. declared: whether the type of the column implies them,
    so that no value can lie beyond. No location step is needed: all of the budget goes to
    the mean, delta is not used, and nothing is assumed about tails.

    Example:
        people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
        pm.mean(people, assume=pm.Bounded(-2.3, 5.3), epsilon=1.0)
    """

    lower: float | tuple[float, ...]
    upper: float | tuple[float, ...]
    declared: bool = False

    def __post_init__(self) -> None:
        lower, upper = numbers("lower", self.lower), numbers("upper", self.upper)
        lows = lower if isinstance(lower, tuple) else (lower,)
        highs = upper if isinstance(upper, tuple) else (upper,)
        size = max(len(lows), len(highs))
        for pair in zip(stretch(lows, size), stretch(highs, size), strict=True):
            validate.bounds("lower, upper", pair)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @property
    def words(self) -> str:
        size = max(len(x) if isinstance(x, tuple) else 1 for x in (self.lower, self.upper))
        return joined(values_within(*pair) for pair in self.limits(size))

    def limits(self, dimension: int) -> tuple[tuple[float, float], ...]:
        """(lower, upper) of each column."""
        lows = self.lower if isinstance(self.lower, tuple) else (self.lower,)
        highs = self.upper if isinstance(self.upper, tuple) else (self.upper,)
        for name, items in (("lower", lows), ("upper", highs)):
            if len(items) not in (1, dimension):
                raise ArgumentError(
                    name,
                    items,
                    f"has {count_noun(len(items), 'number')} for {count_noun(dimension, 'column')}",
                    "give one per column",
                )
        return tuple(zip(stretch(lows, dimension), stretch(highs, dimension), strict=True))

    def radii(self, dimension: int, log: float) -> Radii:
        half = tuple((high - low) / 2 for low, high in self.limits(dimension))
        return Radii(half, half, half, (0.0,) * dimension)


@dataclass(frozen=True)
class UnknownScale(FromDeviations):
    """Values are roughly normal with an unknown scale, found privately from pairs of people.

    smallest, largest: public range of the standard deviation (wide is cheap: one noisy count an
    octave). safety: factor kappa on the squared scale; by default 1.2, or 4 (one octave of safety)
    where the plan's scale step is noisy. The scale is of the bulk of persons: heavy tails need a
    larger safety.

    Example:
        people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
        pm.mean(people, assume=pm.UnknownScale(), epsilon=1.0, delta=1e-6)
    """

    smallest: float = 2.0**-20
    largest: float = 2.0**20
    safety: float | None = None

    def __post_init__(self) -> None:
        small, large = validate.positive("smallest", self.smallest), self.largest
        validate.positive("largest", large)
        if small > large:
            raise ArgumentError(
                "smallest", small, "must be below the largest", "give the smallest first"
            )
        if self.safety is not None:
            validate.positive("safety", self.safety)

    @property
    def words(self) -> str:
        return (
            f"people's values are close to normal with a standard deviation between "
            f"{self.smallest:g} and {self.largest:g}, found privately"
        )

    def deviations(self, dimension: int) -> tuple[float, ...]:
        """In units of the scale that will be found."""
        return (1.0,) * dimension
