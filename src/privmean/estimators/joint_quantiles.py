"""The law of errors of weighted sums of cells: of one sum exactly, of all together by simulation.

An error is a weighted sum of independent noises, one a cell, and of normal sampling errors. Sums
share cells, so that errors of neighboring points go together: the quantile of the largest of them,
in deviations, is less than what Bonferroni's bound gives. It is taken from fixed pseudo-random
numbers, the same in every run: post-processing, reads no data. docs/proofs/longitudinal.md, 5.

Scores of places by how many people lie below and above: for quantiles and for medians.

Functions of counts alone. docs/proofs/longitudinal.md, section 4, and quantiles.md, section 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from privmean.data.person_table import Floats
from privmean.inference.laplace_normal import quantile
from privmean.noise.noise_source import Integers

RUNS = 1 << 14  # simulated errors
FEWEST = 80  # of them beyond a quantile, for which it is taken from them
AT_ONCE = 1 << 11
STEP, LAST = 0.04, 60.0  # of the integral over frequencies, of errors of deviation 1
SMALL = 1e-4  # chance below which a bound stands for the integral


@dataclass(frozen=True, eq=False)
class JointErrors:
    """weights: of cells at every point, shape (points, cells). noise: scale of the noise of each
    cell (a deviation if gaussian, else Laplace); spread: sampling variance of each."""

    weights: Floats
    noise: Floats
    spread: Floats
    gaussian: bool

    @cached_property
    def sd(self) -> Floats:
        """Deviations of the errors, a point."""
        unit = 1.0 if self.gaussian else 2.0
        result: Floats = np.sqrt(self.weights**2 @ (unit * self.noise**2 + self.spread))
        return result

    def alone(self, level: float) -> Floats:
        """Half lengths, each point for itself."""
        alpha = 1 - level
        if self.gaussian:
            result: Floats = -ndtri(alpha / 2) * self.sd
            return result
        halves = []
        for row in self.weights:
            scales = np.abs(row) * self.noise
            scales = scales[scales > 0]
            sd = math.sqrt(float(row**2 @ self.spread))
            if len(scales) == 1:
                halves.append(float(quantile(alpha / 2, (float(scales[0]),), sd)))
            else:
                halves.append(half_of_sum(scales, sd, alpha))
        return np.array(halves)

    def together(self, level: float) -> Floats:
        """Half lengths that hold at all points."""
        points = len(self.weights)
        bound = self.alone(1 - (1 - level) / points)
        if points == 1 or (1 - level) * RUNS < FEWEST:
            return bound
        at = math.ceil(level * (RUNS + 1)) - 1
        result: Floats = np.minimum(bound, self._largest[at] * self._unit)
        return result

    @cached_property
    def _unit(self) -> Floats:
        """The half lengths in which errors are measured: far out, where the shapes of Laplace sums
        differ, as the largest of several errors is."""
        return self.alone(1 - 0.05 / len(self.weights))

    @cached_property
    def _largest(self) -> Floats:
        """The largest error over the points in units of half lengths of one, simulated, sorted."""
        draws = np.random.Generator(np.random.PCG64(20250101))
        cells, found = self.weights.shape[1], []
        for _ in range(RUNS // AT_ONCE):
            errors = np.sqrt(self.spread) * draws.standard_normal((AT_ONCE, cells))
            if self.gaussian:
                errors += self.noise * draws.standard_normal((AT_ONCE, cells))
            else:
                up, down = (draws.standard_exponential((AT_ONCE, cells)) for _ in range(2))
                errors += self.noise * (up - down)
            found.append(np.max(np.abs(errors @ self.weights.T) / self._unit, axis=1))
        return np.sort(np.concatenate(found))


def half_of_sum(scales: Floats, sd: float, alpha: float) -> float:
    """The half length that a sum of independent Laplace noises and a normal one exceeds with chance
    alpha, by the integral over its characteristic function; at small alpha an upper bound."""
    bound = _chernoff(scales, sd, alpha)
    if alpha < SMALL:
        return bound
    whole = math.hypot(sd, math.sqrt(2) * float(np.sqrt((scales**2).sum())))
    t = np.arange(STEP / 2, LAST, STEP)
    log = -0.5 * (t * sd / whole) ** 2 - np.log1p(np.outer(t, scales / whole) ** 2).sum(axis=1)
    weight = np.exp(log) / t

    def beyond(x: float) -> float:
        return 1 - 2 / math.pi * STEP * float(np.sin(t * x) @ weight)

    return float(brentq(lambda x: beyond(x) - alpha, 0.0, bound / whole, xtol=1e-9)) * whole


def _chernoff(scales: Floats, sd: float, alpha: float) -> float:
    """Chernoff's bound, at the best of many exponents."""
    largest = float(scales.max())
    share = np.linspace(0.001, 0.999, 999)
    s = share / largest
    log_mgf = 0.5 * (s * sd) ** 2 - np.log1p(-np.square(np.outer(s, scales))).sum(axis=1)
    return float(np.min((log_mgf + math.log(2 / alpha)) / s))


LEAST, MOST, OF = 2, 3, 4  # the cell that holds a quantile between 2/4 and 3/4


def quantile_scores(
    counts: Integers, slope: float, parts: tuple[int, int, int] = (LEAST, MOST, OF)
) -> Integers:
    """Scores of the candidate magnitudes: the upper edges of half octaves.

    counts: people in each candidate's half octave, smallest first (people beyond go to the last).
    With N_k of N people up to edge k, score k is -max(2N - 4N_k, 4N_{k-1} - 3N, 0) less a public
    amount that grows with k: the cells in which the quantiles from 50 to 75 % lie share the best
    score, also where one cell holds everybody. One person replaced moves every score by at most 4,
    one added or removed by at most 3. parts: a, b and c for the quantiles from a/c to b/c; then one
    person moves scores by at most c, or by the largest of a, c - a, b, c - b.
    """
    least, most, of = parts
    upto = of * np.cumsum(counts)
    number = int(upto[-1]) // of
    before = np.concatenate([[0], upto[:-1]])
    gap = np.maximum(np.maximum(least * number - upto, before - most * number), 0)
    public = np.floor(slope * np.arange(len(counts))).astype(np.int64)
    scores: Integers = -gap - public
    return scores


def median_scores(counts: Integers) -> Integers:
    """Scores of public bins: 0 for one that holds the median, else minus twice the people that
    lie between. One person replaced moves every score by at most 2, one added or removed by 1."""
    upto = np.cumsum(counts)
    number = int(upto[-1])
    before = upto - counts
    scores: Integers = -np.maximum(np.maximum(2 * before - number, number - 2 * upto), 0)
    return scores
