"""Clipping radii from a concentration assumption, and the arguments that assumptions share.

An assumption bounds how far one person's value lies from the center; everything a plan needs (the
radius that holds all people, the bins' half width, the bias of clipping) follows from that bound
(docs/proofs/winsorized.md, section 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError
from privmean.plurals import count_noun

PerColumn = float | tuple[float, ...]
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
        return Radii(
            tuple(factor * x for x in self.tau),
            tuple(factor * x for x in self.half),
            tuple(factor * x for x in self.sd),
            tuple(factor * x for x in self.beyond),
        )


class Concentration(Protocol):
    """A public assumption on how far people's values lie from their center."""

    @property
    def words(self) -> str:
        """The assumption in words, as printed with a release."""
        ...

    def radius(self, n: int, dimension: int = 1, gamma: float = 0.05) -> Radii:
        """The radii of `dimension` columns for n people.

        n: public number of people (a public design number under add-remove). gamma: the chance
        that anything is clipped in a column.
        """
        ...


class FromDeviations:
    """An assumption with a bound at every chance that anything is clipped: that of normal values
    unless `radii` says otherwise. factor: on that chance, for its proof."""

    factor = 2

    def deviations(self, dimension: int) -> tuple[float, ...]:
        """Bounds on the standard deviation of one person's value, by column."""
        raise NotImplementedError

    def radii(self, dimension: int, log: float) -> Radii:
        """Radii that a person leaves with probability at most factor * exp(-log)."""
        return gaussian_radii(self.deviations(dimension), log)

    def radius(self, n: int, dimension: int = 1, gamma: float = 0.05) -> Radii:
        """The radii of `dimension` columns for n people; see `Concentration`."""
        return self.radii(dimension, log_term(n, gamma, self.factor))


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


def per_column(name: str, value: object) -> PerColumn:
    """A positive number, or a tuple of them, one a column."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return validate.positive(name, value)
    try:
        items = tuple(validate.positive(name, item) for item in value)  # type: ignore[attr-defined]
    except TypeError:
        raise ArgumentError(
            name,
            value,
            "must be one number, or one number per column",
            "use for example sd=2.0 or sd=(2, 3)",
        ) from None
    if not items:
        raise ArgumentError(name, value, "is empty", "give one number per column")
    return items


def spread(name: str, value: PerColumn, dimension: int) -> tuple[float, ...]:
    """`value` as one number for each of `dimension` columns."""
    if not isinstance(value, tuple):
        return (value,) * dimension
    if len(value) != dimension:
        raise ArgumentError(
            name,
            value,
            f"has {count_noun(len(value), 'number')} for {count_noun(dimension, 'column')}",
            "give one number per column",
        )
    return value


def log_term(n: int, gamma: float, factor: int) -> float:
    """ln(factor n/gamma)."""
    validate.whole("n", n, least=1)
    validate.fraction("gamma", gamma)
    return math.log(factor * n / gamma)


def gaussian_radii(sds: tuple[float, ...], log: float) -> Radii:
    return Radii(
        tuple(sd * math.sqrt(2 * log) for sd in sds),
        tuple(sd * math.sqrt(2 * SMALL_LOG) for sd in sds),
        sds,
    )


def numbers(name: str, value: object) -> float | tuple[float, ...]:
    remedy = "give one number, or one per column"
    if not hasattr(value, "__len__") or isinstance(value, str | bytes):
        return validate.number(name, value, remedy)
    found = tuple(validate.number(name, item) for item in validate.listed(name, value, remedy))
    if not found:
        raise ArgumentError(name, value, "is empty", remedy)
    return found


def stretch(items: tuple[float, ...], size: int) -> tuple[float, ...]:
    return items * size if len(items) == 1 else items
