"""The law of reports on numbers: one-bit, piecewise and hybrid, for values in [-1, 1].

Proofs: docs/proofs/local-scalar.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.local.aggregators.round_law import FEW, RoundLaw, Weighed, bands
from privmean.local.aggregators.tally import Tally, branches
from privmean.local.clients.randomizers import Window, hybrid_share, window
from privmean.local.exact_coins import signal
from privmean.local.round import HYBRID, ONE_BIT, PIECEWISE, Round


@dataclass(frozen=True)
class ScalarLaw:
    """What a server knows of the reports of one level, for values in [-1, 1].

    units: the value of one step of the payload, a branch. noise: the largest variance of a report
    given the value. variance: the largest variance of a report at all. reach: the largest
    |report|.
    """

    units: tuple[float, ...]
    noise: float
    variance: float
    reach: float

    def at(self, sigma: float) -> float:
        """The largest variance of a report if the values' standard deviation is at most sigma."""
        return min(self.variance, self.noise + min(sigma, 1.0) ** 2)


@lru_cache(maxsize=4096)  # of a level, in every estimate
def window_variance(law: Window, x: float) -> float:
    """Var(report | x) of the piecewise mechanism on its grid (rounding of the start included)."""
    m, w = law.size, law.width
    inside = law.chance
    half = m - w / 2
    position = (x + 1) / 2 * law.outside
    part = position - math.floor(position)
    centre = x * half
    second = centre**2 + part * (1 - part)  # E c^2 with the rounding
    spread = ((w + 1) ** 2 - 1) / 12
    total = m * (m + 1) * (2 * m + 1) / 3
    both = inside - (1 - inside) * (w + 1) / law.outside
    square = both * second + spread * both + (1 - inside) * total / law.outside
    return (square - (law.shrink * centre) ** 2) * law.unit**2


def scalar_law(round_: Round, level: int, epsilon: float | None = None) -> ScalarLaw:
    """The law of a level (of another epsilon, for weights under a cap)."""
    exact = round_.menu[level] if epsilon is None else Fraction(repr(epsilon))
    c = 1.0 / signal(exact)
    if round_.mechanism == ONE_BIT:
        return ScalarLaw((c,), c * c, c * c, c)
    law = window(exact)
    most = max(window_variance(law, 1.0), window_variance(law, 0.0))
    slack = law.unit**2 / 4  # the rounding between the points that were looked at
    noise, reach = most + slack, law.largest
    if round_.mechanism == PIECEWISE:
        return ScalarLaw((law.unit,), noise, noise + 1, reach)
    assert round_.mechanism == HYBRID
    share = hybrid_share(exact) / 2**32
    if share == 0:
        return ScalarLaw((c, law.unit), c * c, c * c, c)
    at_zero = share * window_variance(law, 0.0) + (1 - share) * c * c
    at_one = share * window_variance(law, 1.0) + (1 - share) * (c * c - 1)
    noise = max(at_zero, at_one) + slack
    return ScalarLaw((c, law.unit), noise, noise + 1, max(c, law.largest))


def level_sums(
    tally: Tally, laws: list[ScalarLaw], levels: list[int]
) -> tuple[Floats, Floats, Floats]:
    """Counts, sums and sums of squares of the reports of these levels in [-1, 1] units: (levels,
    coordinates)."""
    shape = (len(tally.round.menu), tally.round.sites, branches(tally.round))
    units = np.array([law.units for law in laws])[:, None, :]
    counts = tally.counts.reshape(shape)[levels]
    sums = tally.sums[:, 0].reshape(shape)[levels] * units
    squares = counts * units**2
    if tally.round.mechanism != ONE_BIT:
        raw = np.array([float(item) for item in tally.squares]).reshape(shape)[levels]
        squares = raw * units**2
    return counts.sum(axis=2).astype(float), sums.sum(axis=2), squares.sum(axis=2)


def report_variances(
    round_: Round,
    laws: list[ScalarLaw],
    counts: Floats,
    sums: Floats,
    squares: Floats,
    groups: Integers,
) -> Floats:
    """The variance of one report of each level, for approximate intervals: (levels, coordinates).

    The reports' own where there are FEW or more, else the largest there can be. Bits are counted
    with two more of each kind (Agresti and Coull 1998), so that a variance is never zero. groups:
    the band of each level; in a band of several every variance is the same part of its largest.
    """
    largest = np.array([law.variance for law in laws])[:, None] + np.zeros_like(counts)
    if int(groups.max()) + 1 < len(laws):
        return _banded_variances(largest, counts, sums, squares, groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        if round_.mechanism == ONE_BIT:
            share = (counts + sums / np.sqrt(largest) + 4) / (2 * counts + 8)
            own = 4 * share * (1 - share) * largest
        else:
            own = np.maximum(squares - sums**2 / counts, 0.0) / (counts - 1)
    return np.where(counts >= FEW, own, largest)


def _banded_variances(
    largest: Floats, counts: Floats, sums: Floats, squares: Floats, groups: Integers
) -> Floats:
    """Every report counts by what its level tells: theirs is a weighted sample variance."""
    result = largest.copy()
    for j in range(counts.shape[1]):
        for k in range(int(groups.max()) + 1):
            mine = (groups == k) & (counts[:, j] > 0)
            n, v = counts[mine, j], largest[mine, j]
            if n.sum() < FEW:
                continue
            mean = (sums[mine, j] / v).sum() / (n / v).sum()
            off = ((squares[mine, j] - 2 * mean * sums[mine, j] + n * mean**2) / v).sum()
            result[mine, j] = v * max(off, 0.0) / (n.sum() - 1)
    return result


def bennett(counts: Floats, steps: Floats, variances: Floats, beta: float) -> float:
    """Sums of independent bounded terms, by Chernoff and Bennett's bound, over its one parameter.

    counts: terms of each kind; steps: their largest |term - mean|; variances: of one term.
    """
    used = counts > 0
    n, m, v = counts[used], steps[used], variances[used]
    constant = math.log(2 / beta)

    def bound(share: float) -> float:
        lam = 60 * share / float(m.max())
        a = lam * m
        return (float((n * v / m**2 * (np.expm1(a) - a)).sum()) + constant) / lam

    return smallest(bound)


def smallest(function: Callable[[float], float]) -> float:
    """The least value on (0, 1) by golden section on the log scale; any point is a valid bound."""
    ratio = (math.sqrt(5) - 1) / 2
    low, high = -20.0, 20.0  # logit scale

    def at(z: float) -> float:
        return function(1 / (1 + math.exp(-z)))

    for _ in range(50):
        first, second = high - ratio * (high - low), low + ratio * (high - low)
        if at(first) < at(second):
            high = second
        else:
            low = first
    return at((low + high) / 2)


class ScalarRound(RoundLaw):
    """Means of numbers, in units of half the range around its middle."""

    norm, width = "absolute", 1

    def __init__(self, round_: Round, used: Sequence[int]) -> None:
        # of a curve all points have the same bounds
        low, high = (np.broadcast_to(x, (round_.sites,)) for x in (round_.lower, round_.upper))
        half = high / 2 - low / 2
        self.sigma = np.minimum(np.array(round_.sigma or (math.inf,)) / half, 1.0)
        super().__init__(round_, used)
        self.middle, self.scale = low / 2 + high / 2, half
        self.reach = 2 * np.array([law.reach for law in self.laws])
        self.target = "mean of the values clipped to their bounds"
        if round_.points:
            self.target += " at each design point"
        if round_.sigma and round_.mechanism != ONE_BIT:
            self.notes = (
                f"weights and radius take a standard deviation of at most {list(round_.sigma)}",
            )

    def level_law(self, level: int, epsilon: float | None) -> ScalarLaw:
        return scalar_law(self.round, level, epsilon)

    def weighed_by(self, laws: list[ScalarLaw]) -> Floats:
        return np.array([[law.at(s) for s in self.sigma] for law in laws])

    def read(self, tally: Tally) -> None:
        self.counts, sums, squares = level_sums(tally, self.laws, self.used)
        self.sums = sums[:, :, None]
        if self.round.step is not None:
            variances = np.array([law.variance for law in self.laws])
            self.groups = bands(self.counts.sum(axis=1), variances)
        self._seen = report_variances(
            self.round, self.laws, self.counts, sums, squares, self.groups
        )

    def seen(self, site: int, raw: Floats) -> Floats:
        return self._seen[:, [site]]

    def noise(self, site: int, raw: Floats) -> tuple[Floats, Floats | float]:
        return np.array([[law.noise] for law in self.laws]), self.sigma[site] ** 2

    def radius(self, at: Weighed, beta: float, *, alone: bool = False) -> Floats | float:
        reach = np.array([law.reach for law in self.laws])
        if self.round.mechanism == ONE_BIT:  # Hoeffding
            return math.sqrt(2 * math.log(2 / beta) * at.squared(reach))
        steps = at.weights * (reach + 1)
        return bennett(at.counts, steps, at.weights**2 * self.trusted[:, at.site], beta)

    def shown(self, raw: Floats, radii: Floats, project: bool) -> tuple[Floats, Floats, bool]:
        trivial = radii >= 1
        value = np.where(trivial, 0.0, np.clip(raw, -1.0, 1.0))
        return value, np.where(trivial, 1.0, radii), bool(trivial.all())
