"""The heights of the k nearest of many random directions, and how many to favor.

M directions uniform on the sphere of d dimensions and their opposites are 2M candidates. Given a
pole, the favoured ones are the k directions with the largest |height|, each with the sign that
points to the pole. Proof: docs/proofs/local-ball.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from privmean.array_types import Floats
from privmean.local.clients.randomizers import best_cap, shrinkage
from privmean.local.exact_coins import WORD, odds_threshold
from privmean.local.mechanisms import LARGEST_CANDIDATES

NODES = 400


@dataclass(frozen=True)
class CandidateLaw:
    """Of the reported candidate: its mean height above the pole, and its mean squared height."""

    shrinkage: float
    square: float


@lru_cache(maxsize=1)
def _nodes() -> tuple[Floats, Floats]:
    """Upper tails u in (0, 1), dense near 0, where the nearest directions are, and weights."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    v = (nodes + 1) / 2
    return v**3, 1.5 * v**2 * weights


@lru_cache(maxsize=256)
def _heights(dimension: int) -> Floats:
    """The |height| with each upper tail of `_nodes`."""
    from scipy import special

    a = (dimension - 1) / 2
    result: Floats = 1.0 - 2.0 * special.betaincinv(a, a, _nodes()[0] / 2)
    return result


@lru_cache(maxsize=4096)
def _nearest(dimension: int, directions: int, size: int) -> tuple[float, float]:
    """Mean and mean square of the `size` largest of the |heights| of so many directions.

    A height of rank <= size is one of the M; given that its upper tail is u, at most size - 1 of
    the others lie above: (M/size) times the integral over u of height(u) P(Bin(M - 1, u) < size).
    """
    from scipy import special

    (tails, step), height = _nodes(), _heights(dimension)
    rank = np.ones(NODES) if size == directions else special.bdtr(size - 1, directions - 1, tails)
    law = directions / size * rank * step
    return float((law * height).sum()), float((law * height**2).sum())


@lru_cache(maxsize=4096)
def candidate_law(
    epsilon: Fraction, dimension: int, candidates: int, favoured: int
) -> CandidateLaw:
    """The law at a level, with the coin that is really thrown."""
    inside = odds_threshold(epsilon, favoured, candidates - favoured) / WORD
    mean, square = _nearest(dimension, candidates // 2, favoured)
    others = candidates - favoured
    # all candidates together have mean height 0 and mean squared height 1/d
    rest = (candidates / dimension - favoured * square) / others
    return CandidateLaw(
        mean * (inside - (1 - inside) * favoured / others), inside * square + (1 - inside) * rest
    )


@lru_cache(maxsize=1024)
def best_favoured(epsilon: Fraction, dimension: int, candidates: int) -> int:
    """How many candidates to favour: what makes a report's scale 1/shrinkage least.

    The shrinkage has one top: it is found by halving over the whole numbers 1 to candidates/2.
    """

    def at(size: int) -> float:
        return candidate_law(epsilon, dimension, candidates, size).shrinkage

    low, high = 1, candidates // 2
    while low < high:
        middle = (low + high) // 2
        if at(middle) < at(middle + 1):
            low = middle + 1
        else:
            high = middle
    return low


MOST_NUMBERS = 2**21  # normals that a client draws for a report
WORTH = 1.02  # more candidates are taken while they are this far from what endless ones give


@lru_cache(maxsize=256)
def enough_candidates(menu: tuple[Fraction, ...], dimension: int) -> int:
    """How many candidates a round offers: a power of two, at most 1024."""

    def told(scale: Callable[[Fraction], float]) -> float:
        return sum(scale(item) ** 2 for item in menu)

    ideal = told(lambda item: shrinkage(float(item), best_cap(float(item), dimension), dimension))
    number = 2
    while number < LARGEST_CANDIDATES and 2 * number * dimension <= MOST_NUMBERS:
        own = told(
            lambda item, n=number: (
                candidate_law(  # type: ignore[misc]
                    item, dimension, n, best_favoured(item, dimension, n)
                ).shrinkage
            )
        )
        if own * WORTH >= ideal:
            break
        number *= 2
    return number
