"""Slow, obvious versions of what the fast code does, and noise sources with known draws."""

from __future__ import annotations

import itertools
import json

import numpy as np

from privmean.noise.noise_source import SimulatedNoise
from privmean.streams.strategies import Buffered

QUICK = Buffered((0.25, 0.07), (0.6, 0.96))
BASE = {
    "epsilon": 1.0, "delta": 1e-6, "max_participations": 4, "min_separation": 3, "strategy": QUICK,
    "bounds": (0.0, 10.0),
}  # fmt: skip


BUDGET = ["--epsilon", "1", "--delta", "1e-6"]
ENDLESS = [  # a stream of the command line, without a number of steps
    "stream", "--person", "p", "--value", "v", *BUDGET, "--max-participations", "4",
    "--min-separation", "2",
]  # fmt: skip
EVENTS = [*ENDLESS, "--steps", "60"]
ROWS = [{"p": f"u{i % 7}", "v": float(i % 5)} for i in range(30)]


def dense(column, n):
    """The lower-triangular Toeplitz matrix of a first column."""
    c = np.zeros(n)
    c[: len(column)] = column[:n]
    at = np.subtract.outer(np.arange(n), np.arange(n))
    return np.where(at >= 0, c[np.maximum(at, 0)], 0.0)


def dense_of(strategy, n):
    """The matrix of any strategy, Toeplitz or scaled in time."""
    if not hasattr(strategy, "exponent"):
        return dense(strategy.column(n), n)
    from privmean.streams.strategies import column_scales

    weights, decays = np.array(strategy.weights), np.array(strategy.decays)
    scales = column_scales(weights, decays, strategy.exponent, n)
    load = strategy.loading
    if load is not None:
        blocks = [min(s // load.width, load.blocks - 1) for s in range(n)]
        scales = scales * [(1 + j / load.pace) ** -load.decline for j in blocks]
    t = np.arange(1, n + 1.0)
    return dense(strategy.base.column(n), n) * np.outer(t**-strategy.exponent, scales)


def patterns(n, most, separation):
    """Every set of steps one person may take part in."""
    for size in range(1, most + 1):
        for steps in itertools.combinations(range(n), size):
            if all(b - a >= separation for a, b in itertools.pairwise(steps)):
                yield steps


def true_sensitivity(matrix, most, separation):
    """The largest ||C x|| over all patterns and all signs (the extreme points)."""
    best = 0.0
    for steps in patterns(len(matrix), most, separation):
        columns = matrix[:, steps]
        for signs in itertools.product((1.0, -1.0), repeat=len(steps) - 1):
            best = max(best, float(np.linalg.norm(columns @ np.array([1.0, *signs]))))
    return best


class Scripted(SimulatedNoise):
    """Gaussian draws from a list, so that a stopped and a whole run can see the same noise."""

    def __init__(self, seed, unit=1.0):
        super().__init__(seed)
        self.generator = np.random.default_rng(seed)
        self.unit = unit
        self.drawn = 0

    def gaussian(self, size, scale):
        self.drawn += size
        return np.rint(self.generator.normal(0, self.unit * scale, size)).astype(np.int64)

    def laplace(self, size, scale):
        return np.rint(self.generator.laplace(0, float(scale), size)).astype(np.int64)


class Given:
    """Gaussian draws handed over beforehand, in order."""

    secure = False

    def __init__(self, draws):
        self.draws = list(np.ravel(draws))

    def gaussian(self, size, scale):
        del scale
        drawn, self.draws = self.draws[:size], self.draws[size:]
        return np.array(drawn, dtype=np.int64)


def exact(released):
    """Estimates of one column."""
    return [float(item) for item in released]


def lines(released):
    """Releases as they are written."""
    return [json.dumps(item.to_dict()) for item in released]


def shown(result):
    """The releases that a command wrote."""
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]
