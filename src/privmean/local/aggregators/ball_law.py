"""The law of reports on vectors in a ball, and radii with explicit constants.

Proofs: docs/proofs/local-ball.md. Candidates: M directions uniform on the sphere of d dimensions
and their opposites are 2M candidates. Given a pole, the favoured ones are the k directions with the
largest |height|, each with the sign that points to the pole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from privmean.array_types import Floats
from privmean.local.aggregators.round_law import FEW, RoundLaw, Weighed
from privmean.local.aggregators.scalar_law import bennett, smallest
from privmean.local.aggregators.tally import SQUARE_SHIFT, UNIT_STEPS, Tally
from privmean.local.exact_coins import WORD, odds_threshold, signal
from privmean.local.round import LARGEST_CANDIDATES, Round

NODES = 400


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
    return np.asarray(1.0 - 2.0 * special.betaincinv(a, a, _nodes()[0] / 2))


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
) -> tuple[float, float]:
    """Of a reported candidate its mean height above the pole (the shrinkage), and its mean squared
    height, with the coin that is really thrown."""
    inside = odds_threshold(epsilon, favoured, candidates - favoured) / WORD
    mean, square = _nearest(dimension, candidates // 2, favoured)
    others = candidates - favoured
    # all candidates together have mean height 0 and mean squared height 1/d
    rest = (candidates / dimension - favoured * square) / others
    shrinkage = mean * (inside - (1 - inside) * favoured / others)
    return shrinkage, inside * square + (1 - inside) * rest


@lru_cache(maxsize=1024)
def best_favoured(epsilon: Fraction, dimension: int, candidates: int) -> int:
    """How many candidates to favour: what makes a report's scale 1/shrinkage least.

    The shrinkage has one top: it is found by halving over the whole numbers 1 to candidates/2.
    """

    def at(size: int) -> float:
        return candidate_law(epsilon, dimension, candidates, size)[0]

    low, high = 1, candidates // 2
    while low < high:
        middle = (low + high) // 2
        if at(middle) < at(middle + 1):
            low = middle + 1
        else:
            high = middle
    return low


def mean_height(dimension: int) -> float:
    """h_d = E|U_1| of a uniform direction U."""
    half = dimension / 2
    return math.exp(math.lgamma(half) - math.lgamma(half + 0.5)) / math.sqrt(math.pi)


def cap_shrinkage(epsilon: float, cap: float, dimension: int) -> float:
    """m with E[Z] = m V for a report Z in the cap of this height around the pole V, or else outside
    of it (PrivUnit, Bhowmick et al. 2018)."""
    from scipy import special

    # (1 + U_1)/2 has the Beta law with both parameters (d-1)/2
    a = (dimension - 1) / 2
    q = float(special.betainc(a, a, (1.0 - cap) / 2))
    p = 1.0 / (1.0 + math.exp(-epsilon) * (1.0 - q) / q)
    front = math.lgamma(a + 0.5) - math.lgamma(a) + a * math.log1p(-cap * cap)
    return math.exp(front) / (2 * math.sqrt(math.pi) * a) * (p / q - (1.0 - p) / (1.0 - q))


def endless_shrinkage(epsilon: float, dimension: int) -> float:
    """What the reports of more and more candidates come near to: those of the best cap."""
    highest = min(0.999, 1.5 * math.sqrt(2 * (epsilon + 2) / dimension))
    within = smallest(lambda share: -cap_shrinkage(epsilon, highest * share, dimension))
    return max(-within, cap_shrinkage(epsilon, 0.0, dimension))


MOST_NUMBERS = 2**21  # normals that a client draws for a report
WORTH = 1.02  # more candidates are taken while they are this far from what endless ones give


@lru_cache(maxsize=256)
def enough_candidates(menu: tuple[Fraction, ...], dimension: int) -> int:
    """How many candidates a round offers: a power of two, at most 1024."""

    def told(scale: Callable[[Fraction], float]) -> float:
        return sum(scale(item) ** 2 for item in menu)

    ideal = told(lambda item: endless_shrinkage(float(item), dimension))
    number = 2
    while number < LARGEST_CANDIDATES and 2 * number * dimension <= MOST_NUMBERS:
        own = told(
            lambda item, n=number: candidate_law(  # type: ignore[misc]
                item, dimension, n, best_favoured(item, dimension, n)
            )[0]
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
    if round_.candidates is not None:
        exact = round_.menu[level] if epsilon is None else Fraction(repr(epsilon))
        m, square = candidate_law(exact, d, round_.candidates, round_.favoured[level])
        return BallLaw(1 / m, 1 / m, max(square, (1 - square) / (d - 1)) / m**2)
    c = 1.0 / signal(eps)
    scale = c / mean_height(d)
    return BallLaw(scale, c, scale**2 / d)


def kappa(dimension: int) -> float:
    """1/((d-1) h_d^2), the proxy of a report around its pole, in units of c^2."""
    return 1.0 / ((dimension - 1) * mean_height(dimension) ** 2)


def norm_factor(dimension: int, limit: float) -> float:
    """d + 2 sqrt(d L) + 2 L: a sub-Gaussian vector's squared norm stays below this."""
    return dimension + 2 * math.sqrt(dimension * limit) + 2 * limit


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


class BallRound(RoundLaw):
    """The mean of vectors in a ball, in units of its radius."""

    norm, each = "l2", False
    target = "mean of the vectors clipped to the ball"

    def __init__(self, round_: Round, used: Sequence[int]) -> None:
        assert round_.dimension is not None
        assert round_.radius is not None
        self.width = round_.dimension
        super().__init__(round_, used)
        self.norms = np.array([law.scale for law in self.laws])
        self.scale, self.reach = np.array([round_.radius]), 2 * self.norms

    def level_law(self, level: int, epsilon: float | None) -> BallLaw:
        return ball_law(self.round, level, epsilon)

    def weighed_by(self, laws: list[BallLaw]) -> Floats:
        return np.array([[law.scale**2] for law in laws])

    def effective(self) -> Floats:
        return np.array([[law.signal**2] for law in self.laws])

    def read(self, tally: Tally) -> None:
        counts = tally.by_level()[self.used].astype(float)
        self.counts, scale = counts[:, None], self.norms[:, None]
        sums = tally.sums[self.used]
        self.sums = (sums / UNIT_STEPS * scale)[:, None, :]
        self._seen: Floats = np.array([law.along for law in self.laws])[:, None] + 0.0 * sums
        if tally.moments is not None:  # their own where there are FEW reports or more
            n = np.maximum(counts, 2.0)[:, None]
            mean = sums / UNIT_STEPS / n
            square = tally.moments[self.used] / (UNIT_STEPS / 2.0**SQUARE_SHIFT) ** 2 / n
            own = scale**2 * np.maximum(square - mean**2, 0.0) * n / (n - 1)
            self._seen = np.where(self.counts >= FEW, own, self._seen)

    def seen(self, site: int, raw: Floats) -> Floats:
        return self._seen

    def noise(self, site: int, raw: Floats) -> tuple[Floats, Floats | float]:
        return self._seen, 0.0

    def radius(self, at: Weighed, beta: float, *, alone: bool = False) -> Floats | float:
        """The l2 radius, which may exceed 1, or that of one coordinate."""
        d, hemisphere = self.width, self.round.candidates is None
        rounding = float((at.counts * at.weights * self.norms).sum()) / (2 * UNIT_STEPS)
        q = at.squared(np.array([law.signal for law in self.laws]))
        if not alone:
            limit = self._generic_radius(at, beta)
            if hemisphere:
                limit = min(limit, hemisphere_radius(d, q, beta))
            return limit + rounding * math.sqrt(d)
        if hemisphere:
            proxy = q if d == 1 else (1 + kappa(d)) * q
            return math.sqrt(2 * math.log(2 / beta) * proxy) + rounding
        along = at.weights**2 * np.array([law.along for law in self.laws])
        return bennett(at.counts, at.weights * (self.norms + 1), along, beta) + rounding

    def _generic_radius(self, at: Weighed, beta: float) -> float:
        """Any unbiased bounded reports (Klein and Rio 2005)."""
        root = math.sqrt(at.squared(self.norms))
        direction = at.squared(np.array([math.sqrt(law.along) for law in self.laws]))
        largest, limit = at.largest(self.norms + 1), math.log(1 / beta)
        return root + math.sqrt(2 * limit * (direction + 2 * largest * root)) + 3 * largest * limit

    def shown(self, raw: Floats, radii: Floats, project: bool) -> tuple[Floats, Floats, bool]:
        trivial = bool(radii[0, 0] >= 1)
        norm = float(np.sqrt((raw * raw).sum()))
        value = np.zeros_like(raw) if trivial else raw / max(1.0, norm)
        return value, np.minimum(radii, 1.0), trivial
