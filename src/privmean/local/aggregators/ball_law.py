"""Estimates of the mean of vectors in a ball, and radii with explicit constants.

Proofs: docs/proofs/local-ball.md.

The heights of the k nearest of many random directions, and how many to favor.

M directions uniform on the sphere of d dimensions and their opposites are 2M candidates. Given a
pole, the favoured ones are the k directions with the largest |height|, each with the sign that
points to the pole. Proof: docs/proofs/local-ball.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from privmean.array_types import Floats
from privmean.local.aggregators.scalar_law import FEW, bennett
from privmean.local.aggregators.tally import SQUARE_SHIFT, UNIT_STEPS, Tally
from privmean.local.clients.randomizers import best_cap, mean_height, shrinkage
from privmean.local.exact_coins import WORD, odds_threshold, signal
from privmean.local.mechanisms import CLOSEST, LARGEST_CANDIDATES
from privmean.local.round import Round

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


@dataclass(frozen=True)
class BallLaw:
    """What a server knows of the reports of one level, in units of the radius.

    scale: the norm B of a report. signal: B h_d over the center's length (hemisphere: c).
    along: the largest variance of a report in one direction.
    """

    scale: float
    signal: float
    along: float


def ball_law(round_: Round, level: int, epsilon: float | None = None) -> BallLaw:
    """The law of a level (of another epsilon, for weights under a cap)."""
    assert round_.dimension is not None
    d = round_.dimension
    eps = float(round_.menu[level]) if epsilon is None else epsilon
    if round_.mechanism == CLOSEST:
        assert round_.candidates is not None
        exact = round_.menu[level] if epsilon is None else Fraction(repr(epsilon))
        law = candidate_law(exact, d, round_.candidates, round_.favoured[level])
        m, square = law.shrinkage, law.square  # the mean height above the pole and its square's
        return BallLaw(1 / m, 1 / m, max(square, (1 - square) / (d - 1)) / m**2)
    c = 1.0 / signal(eps)
    scale = c / mean_height(d)
    return BallLaw(scale, c, scale**2 / d)


def report_variances(tally: Tally, laws: list[BallLaw]) -> Floats:
    """The variance of one report in each coordinate: (levels, dimension), in units of the radius.

    From the reports' own second moments where they are kept and there are FEW reports or more,
    else the largest there can be.
    """
    counts = tally.by_level().astype(float)
    largest: Floats = np.array([law.along for law in laws])[:, None] * np.ones(tally.sums.shape)
    if tally.moments is None:
        return largest
    scale = np.array([law.scale for law in laws])[:, None]
    n = np.maximum(counts, 2.0)[:, None]
    mean = tally.sums / UNIT_STEPS / n
    square = tally.moments / (UNIT_STEPS / 2.0**SQUARE_SHIFT) ** 2 / n
    own = scale**2 * np.maximum(square - mean**2, 0.0) * n / (n - 1)
    result: Floats = np.where(counts[:, None] >= FEW, own, largest)
    return result


def axis_radius(
    round_: Round, laws: list[BallLaw], counts: Floats, weights: Floats, beta: float
) -> float:
    """The radius of one coordinate alone, in units of the ball's radius."""
    assert round_.dimension is not None
    d = round_.dimension
    scale = np.array([law.scale for law in laws])
    rounding = float((counts * weights * scale).sum()) / (2 * UNIT_STEPS)
    if round_.mechanism == CLOSEST:
        along = weights**2 * np.array([law.along for law in laws])
        return bennett(counts, weights * (scale + 1), along, beta) + rounding
    q = float((counts * (weights * np.array([law.signal for law in laws])) ** 2).sum())
    proxy = q if d == 1 else (1 + kappa(d)) * q
    return math.sqrt(2 * math.log(2 / beta) * proxy) + rounding


def kappa(dimension: int) -> float:
    """1/((d-1) h_d^2), the proxy of a report around its pole, in units of c^2."""
    return 1.0 / ((dimension - 1) * mean_height(dimension) ** 2)


def norm_factor(dimension: int, limit: float) -> float:
    """d + 2 sqrt(d L) + 2 L: a sub-Gaussian vector's squared norm stays below this."""
    return dimension + 2 * math.sqrt(dimension * limit) + 2 * limit


def radius(round_: Round, counts: Floats, weights: Floats, beta: float) -> float:
    """The l2 radius in units of the ball's radius, at any weights; may exceed 1."""
    assert round_.dimension is not None
    d = round_.dimension
    laws = [ball_law(round_, k) for k in range(len(round_.menu))]
    rounding = float((counts * weights * np.array([law.scale for law in laws])).sum())
    rounding *= math.sqrt(d) / (2 * UNIT_STEPS)
    anyhow = generic_radius(laws, counts, weights, beta)
    if round_.mechanism != CLOSEST:
        c = np.array([law.signal for law in laws])
        q = float((counts * (weights * c) ** 2).sum())
        anyhow = min(anyhow, hemisphere_radius(d, q, beta))
    return anyhow + rounding


def hemisphere_radius(dimension: int, q: float, beta: float) -> float:
    """The hemisphere mechanism's radius, its two parts together or apart; q = sum w^2 c^2."""
    one_sided, two_sided = math.log(1 / beta), math.log(2 / beta)
    if dimension == 1:
        return math.sqrt(2 * two_sided * q)
    k = kappa(dimension)
    first = math.sqrt((1 + k) * q * norm_factor(dimension, one_sided))
    second = math.sqrt(q) * (
        math.sqrt(k * norm_factor(dimension, two_sided)) + 1 + math.sqrt(2 * two_sided)
    )
    return min(first, second)


def generic_radius(laws: list[BallLaw], counts: Floats, weights: Floats, beta: float) -> float:
    """Any unbiased bounded reports (Klein and Rio 2005)."""
    used = counts > 0
    n, w = counts[used], weights[used]
    scale = np.array([law.scale for law in laws])[used]
    along = np.array([law.along for law in laws])[used]
    total = float((n * (w * scale) ** 2).sum())
    direction = float((n * w**2 * along).sum())
    largest = float(max(w * (scale + 1), default=0.0))
    limit = math.log(1 / beta)
    root = math.sqrt(total)
    return root + math.sqrt(2 * limit * (direction + 2 * largest * root)) + 3 * largest * limit
