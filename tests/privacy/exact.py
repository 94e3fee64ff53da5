"""Exact privacy losses of small discrete laws, sharing no code with the product.

A law of losses is a pair of arrays (loss, probability under the first neighbour).
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np

mpmath.mp.dps = 40


def discrete_laplace_losses(scale, shift: int):
    """Losses of P(k) ~ exp(-|k|/scale) against the same law moved by `shift` steps."""
    rate = float(1 / Fraction(scale))
    a = math.exp(-rate)
    norm = (1 - a) / (1 + a)
    # outputs at most 0 lose +shift*rate, at least `shift` lose -shift*rate
    losses = [shift * rate]
    masses = [1 / (1 + a)]
    for k in range(1, shift):
        losses.append((shift - 2 * k) * rate)
        masses.append(norm * a**k)
    losses.append(-shift * rate)
    masses.append(a**shift / (1 + a))
    return np.array(losses), np.array(masses)


def randomized_response_losses(epsilon: float):
    p = 1 / (1 + math.exp(-epsilon))
    return np.array([epsilon, -epsilon]), np.array([p, 1 - p])


def discrete_gaussian_losses(scale: float, shift: int):
    reach = math.ceil(40 * scale) + shift
    k = np.arange(-reach, reach + 1)
    p = np.exp(-((k / scale) ** 2) / 2)
    p /= p.sum()
    return ((k - shift) ** 2 - k**2) / (2 * scale**2), p


def product(*laws):
    """The law of the sum of independent losses."""
    losses, masses = np.zeros(1), np.ones(1)
    for more, p in laws:
        losses = np.add.outer(losses, more).ravel()
        masses = np.multiply.outer(masses, p).ravel()
        rounded = np.round(losses * 2**36).astype(np.int64)
        _, first, inverse = np.unique(rounded, return_index=True, return_inverse=True)
        losses, masses = losses[first], np.bincount(inverse, weights=masses)
    return losses, masses


def delta_of(law, epsilon: float) -> float:
    losses, masses = law
    over = losses > epsilon
    return float(np.sum(masses[over] * -np.expm1(epsilon - losses[over])))


def gaussian_delta(mu, epsilon) -> float:
    """delta of a mu-GDP mechanism with 40 digits (any real epsilon)."""
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    first = mpmath.ncdf(-epsilon / mu + mu / 2)
    return first - mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2)


def delta_with_gaussian(law, mu: float, epsilon: float) -> float:
    """delta of independent discrete losses together with one continuous Gaussian."""
    return float(
        sum(
            mpmath.mpf(p) * gaussian_delta(mu, epsilon - x)
            for x, p in zip(*law, strict=True)
            if p > 1e-40
        )
    )
