"""Clipped sums around a released center, each with less noise and a smaller radius than before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privmean.central.anisotropic.ellipsoid import STEPS
from privmean.data.person_table import Floats
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import Gaussian


class Powers:
    """Sums and maxima of powers of the standard deviations, kept once computed."""

    def __init__(self, deviations: Floats) -> None:
        self._deviations = deviations
        self._sums: dict[float, float] = {}
        self._most: dict[float, float] = {}
        self._persons: dict[tuple[float, float], float] = {}
        self._ends = float(deviations.min()), float(deviations.max())

    def total(self, power: float) -> float:
        if power not in self._sums:
            self._sums[power] = float((self._deviations**power).sum())
        return self._sums[power]

    def largest(self, power: float) -> float:
        if power not in self._most:
            self._most[power] = float(max(end**power for end in self._ends))
        return self._most[power]

    def person(self, own: float, u: float) -> float:
        """The squared distance of a person, exceeded with probability e^-u at most."""
        if (own, u) not in self._persons:
            found = self.total(own) + 2 * math.sqrt(self.total(2 * own) * u)
            self._persons[own, u] = found + 2 * self.largest(own) * u
        return self._persons[own, u]


def clip_radius(
    powers: Powers,
    noise: float,
    centre_exponent: float,
    n_guess: float,
    beta: float,
    exponent: float = 1.0,
) -> float:
    """A radius around a noisy center that holds n_guess people in the metric Sigma^(-exponent/4).

    The center's noise is `noise` times Sigma^(centre_exponent/4) times a standard normal vector.
    Tails of Hsu, Kakade and Zhang (2012) for the people and for the noise.
    """
    u = math.log(n_guess / beta)
    own, shape = 2 - exponent, centre_exponent - exponent
    slack = noise**2 * (2 * math.sqrt(3 * powers.total(2 * shape)) + 6 * powers.largest(shape))
    slack += 4 * noise * math.sqrt(2 * u * powers.largest(own + shape))
    return math.sqrt(powers.person(own, u) + noise**2 * powers.total(shape) + slack)


@dataclass(frozen=True)
class ClipStep:
    """One clipped sum in the metric of Sigma^(-exponent/4).

    mean_mu: of the sum. count_mu, count_steps: of the noisy number of people, if this step buys it
    (0 otherwise), and its lattice steps a person.
    """

    exponent: float
    mean_mu: float
    count_mu: float = 0.0
    count_steps: int = 0

    def events(self, dimension: int, relation: Relation) -> tuple[Gaussian, ...]:
        """The accounting. One person moves the sum by STEPS, or by 2 STEPS if replaced."""
        moved = float(2 * STEPS if relation == REPLACE_ONE else STEPS)
        bill = [Gaussian("clipped sum", moved, moved / self.mean_mu, dimension, neighbors=relation)]
        if self.count_mu:
            steps = float(self.count_steps)
            bill.append(
                Gaussian("count of people", steps, steps / self.count_mu, 1, neighbors=relation)
            )
        return tuple(bill)

    def scale(self, relation: Relation) -> float:
        """Noise of the sum, in lattice steps."""
        return (2 if relation == REPLACE_ONE else 1) * STEPS / self.mean_mu

    def noise(self, radius: float, relation: Relation, persons: float) -> float:
        """Noise of the center that this step gives, in its metric."""
        return self.scale(relation) / STEPS * radius / persons


def expected_chain(
    powers: Powers,
    steps: Sequence[ClipStep],
    noise: float,
    exponent: float,
    relation: Relation,
    n_guess: int,
    beta: float,
) -> tuple[list[float], float]:
    """Radii of the steps and the last noise, if the first center's noise is `noise`."""
    radii = []
    for step in steps:
        radius = clip_radius(powers, noise, exponent, n_guess, beta, step.exponent)
        noise, exponent = step.noise(radius, relation, n_guess), step.exponent
        radii.append(radius)
    return radii, noise


def step_of(radius: float, deviations: Floats, exponent: float) -> Floats:
    """The lattice step along each axis."""
    return np.asarray(radius / STEPS * deviations ** (exponent / 2))
