"""Estimates of means in [-1, 1] from one-bit, Laplace, piecewise and hybrid reports.

Proofs: docs/proofs/local-scalar.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from privmean.local.aggregators.batch import Batch, int32_of, piecewise_branch
from privmean.local.aggregators.gate import HONEST_LOSS, laplace_limit
from privmean.local.aggregators.tally import Tally, branches
from privmean.local.aggregators.weights import FEW
from privmean.local.clients.scalar import Window, hybrid_share, window
from privmean.local.coins import signal
from privmean.local.descriptor import Round
from privmean.local.mechanisms import HYBRID, LAPLACE, ONE_BIT, PIECEWISE

Floats = npt.NDArray[np.float64]


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
    bit = ScalarLaw((c,), c * c, c * c, c)
    if round_.mechanism == ONE_BIT:
        return bit
    if round_.mechanism == LAPLACE:
        step = 2.0**-round_.grid_bits
        decay = float(exact) * step / 2  # q = e^-decay
        noise = 2 * step**2 * math.exp(-decay) / math.expm1(-decay) ** 2 + step**2 / 4
        reach = laplace_limit(round_, level) * step
        return ScalarLaw((step,), noise, noise + 1, reach)
    law = window(exact)
    most = max(window_variance(law, 1.0), window_variance(law, 0.0))
    slack = law.unit**2 / 4  # the rounding between the points that were looked at
    piecewise = ScalarLaw((law.unit,), most + slack, most + slack + 1, law.largest)
    if round_.mechanism == PIECEWISE:
        return piecewise
    assert round_.mechanism == HYBRID
    share = hybrid_share(exact) / 2**32
    if share == 0:
        return ScalarLaw((c, law.unit), c * c, c * c, c)
    at_zero = share * window_variance(law, 0.0) + (1 - share) * c * c
    at_one = share * window_variance(law, 1.0) + (1 - share) * (c * c - 1)
    noise = max(at_zero, at_one) + slack
    return ScalarLaw((c, law.unit), noise, noise + 1, max(c, law.largest))


def level_sums(tally: Tally, laws: list[ScalarLaw]) -> tuple[Floats, Floats, Floats]:
    """Counts, sums and sums of squares of the reports in [-1, 1] units: (levels, coordinates)."""
    shape = (len(laws), tally.round.sites, branches(tally.round))
    units = np.array([law.units for law in laws])[:, None, :]
    counts = tally.counts.reshape(shape)
    sums = tally.sums[:, 0].reshape(shape) * units
    squares = counts * units**2
    if tally.round.mechanism != ONE_BIT:
        raw = np.array([float(item) for item in tally.squares]).reshape(shape)
        squares = raw * units**2
    return counts.sum(axis=2).astype(float), sums.sum(axis=2), squares.sum(axis=2)


def report_variances(
    round_: Round, laws: list[ScalarLaw], counts: Floats, sums: Floats, squares: Floats
) -> Floats:
    """The variance of one report of each level, for approximate intervals: (levels, coordinates).

    The reports' own where there are FEW or more, else the largest there can be. Bits are counted
    with two more of each kind (Agresti and Coull 1998), so that a variance is never zero.
    """
    largest = np.array([law.variance for law in laws])[:, None] + np.zeros_like(counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        if round_.mechanism == ONE_BIT:
            share = (counts + sums / np.sqrt(largest) + 4) / (2 * counts + 8)
            own = 4 * share * (1 - share) * largest
        else:
            own = np.maximum(squares - sums**2 / counts, 0.0) / (counts - 1)
    return np.where(counts >= FEW, own, largest)


def hoeffding(counts: Floats, weights: Floats, laws: list[ScalarLaw], beta: float) -> float:
    """One-bit reports: sqrt(2 ln(2/beta) sum w^2 c^2)."""
    reach = np.array([law.reach for law in laws])
    return math.sqrt(2 * math.log(2 / beta) * float((counts * (weights * reach) ** 2).sum()))


def bernstein(counts: Floats, weights: Floats, laws: list[ScalarLaw], beta: float) -> float:
    """Bounded reports: sqrt(2 v L) + (2/3) L max w (C + 1), with v = sum w^2 variance."""
    limit = math.log(2 / beta)
    v = float((counts * weights**2 * np.array([law.variance for law in laws])).sum())
    used = counts > 0
    step = max(np.array([law.reach + 1 for law in laws])[used] * weights[used], default=0.0)
    return math.sqrt(2 * v * limit) + 2 / 3 * limit * float(step)


def laplace_chernoff(
    counts: Floats, weights: Floats, epsilons: list[float], grid_bits: int, beta: float
) -> float:
    """Discrete Laplace reports: the Chernoff bound, minimised over its one parameter."""
    step = 2.0**-grid_bits
    used = counts > 0
    n, w = counts[used], weights[used]
    decay = np.array(epsilons)[used] * step / 2
    square = float((n * w * w).sum()) / 2
    constant = math.log(2 / beta)

    def bound(share: float) -> float:
        lam = share * float((decay / (w * step)).min())
        a = lam * w * step
        # ln[(1-q)^2 / ((1 - q e^a)(1 - q e^-a))] with q = e^-decay
        logs = 2 * np.log(-np.expm1(-decay)) - np.log(-np.expm1(a - decay))
        logs -= np.log(-np.expm1(-a - decay))
        return (lam * lam * square + float((n * logs).sum()) + constant) / lam

    return _smallest(bound)


def _smallest(function: Callable[[float], float]) -> float:
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


def radius(round_: Round, counts: Floats, weights: Floats, beta: float) -> float:
    """The radius of one coordinate in [-1, 1] units, at any weights."""
    laws = [scalar_law(round_, k) for k in range(len(round_.menu))]
    if round_.mechanism == ONE_BIT:
        return hoeffding(counts, weights, laws, beta)
    if round_.mechanism == LAPLACE:
        epsilons = [float(item) for item in round_.menu]
        chernoff = laplace_chernoff(counts, weights, epsilons, round_.grid_bits, beta - HONEST_LOSS)
        return chernoff
    return bernstein(counts, weights, laws, beta)


def influence(laws: list[ScalarLaw], counts: Floats, weights: Floats) -> float:
    """2 max w C: how far replacing one report can move the mean, in [-1, 1] units."""
    used = counts > 0
    reach = np.array([law.reach for law in laws])
    return float(max(2 * weights[used] * reach[used], default=math.inf))


def report_values(batch: Batch) -> Floats:
    """The unbiased value in [-1, 1] units that each single report stands for."""
    laws = [scalar_law(batch.round, k) for k in range(len(batch.round.menu))]
    units = np.array([law.units for law in laws])
    branch = np.zeros(len(batch), dtype=np.int64)
    if batch.round.mechanism == HYBRID:
        branch[:] = piecewise_branch(batch.round, batch.nonces, batch.levels)
    unit: Floats = units[batch.levels, branch]
    if batch.round.mechanism == ONE_BIT:
        return (2.0 * batch.payload[:, -1].astype(np.float64) - 1.0) * unit
    return int32_of(batch).astype(np.float64) * unit
