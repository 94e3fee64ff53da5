"""Roth and Avella-Medina (2025); numbers: the paper's figures as in the corrected specification."""

import math

import numpy as np
from published_case import Case, Reference, squared_error, table
from scipy.signal import lfilter

from privmean.estimators.concentration import SubGaussian
from privmean.published import PriestleyChao, VarianceAsPublished, WinsorizedAsPublished

NORMAL = SubGaussian(1.0)
SMALL, LARGE = math.sqrt(0.1), 100.0


def around_100(rng, n):
    """Normal people whose center is anywhere in a bin."""
    center = 100 + rng.uniform(-4, 4)
    return table(center + rng.standard_normal(n)), center


def columns(d):
    return lambda rng, n: (table(rng.standard_normal((n, d))), np.zeros(d))


def at_100(rng, n):
    return table(100 + rng.standard_normal(n)), 1.0


def responses(rng, n):
    """A sine at i/n with errors of autocorrelation 1/2 and variance 1."""
    errors = lfilter([math.sqrt(0.75)], [1, -0.5], rng.standard_normal(n + 100))[100:]
    return table(np.sin(2 * math.pi * np.arange(1, n + 1) / n) + errors), math.sin(0.6 * math.pi)


def variance(method, **settings):
    return lambda: VarianceAsPublished(SMALL, LARGE, 300.0, method, **settings)


def share(low, high):
    """Of estimates from `low` to `high`."""
    return lambda release, plan, truth: float(low <= release.estimate[0] <= high)


CASES = [
    Case("Winsorized mean (Figure 1)", lambda: WinsorizedAsPublished(NORMAL), around_100,
        Reference(7.1e-3, 0.0, squared_error, 400)),
    Case("Winsorized mean (Figure 2, radius tau)",
        lambda: WinsorizedAsPublished(NORMAL, half_width=2.039, radius=5.178), around_100,
        Reference(3.28e-3, 1.5e-4, squared_error, 400), n=5000,
        budget={"epsilon": 0.1, "delta": 4e-8}),
    Case("Winsorized mean, several columns", lambda: WinsorizedAsPublished(NORMAL), columns(3),
        n=5000, replayed={"epsilon": 0.9, "delta": 1e-6}, audited=20_000),
    Case("Winsorized mean, split halves", lambda: WinsorizedAsPublished(NORMAL, splitting=True),
        columns(3), n=20_000, replayed={"epsilon": 0.9, "delta": 1e-6}, audited=20_000),
    Case("Priestley-Chao curve (Corollary 4.11)",
        lambda: PriestleyChao(0.3, math.sqrt(3), 2 * math.pi, 1.0), responses,
        Reference(0.147, 0.021, squared_error, 200), n=4000,
        budget={"epsilon": 1.0, "delta": 1 / 4000**2}),
    Case("CoinPress (Figure 5)", variance("coinpress"), at_100,
        Reference(0.9, 0.015, share(0.64, 1.34), 150), n=10_000,
        budget={"epsilon": 1.0, "delta": 1e-8}, replayed={"epsilon": 1.0, "delta": 1e-6}),
    Case("bisection (Figure 5)", variance("bisection", gamma=0.1), at_100,
        Reference(1.0, 0.0, share(LARGE**2, LARGE**2), 10), n=6000,
        budget={"epsilon": 1.0, "delta": 1 / 6000**2}, replayed={"epsilon": 1.0, "delta": 1e-6}),
    Case("bisection, refined first", variance("bisection", gamma=0.1, refine_first=True), at_100,
        Reference(1.0, 0.02, share(0.3, 1.3), 60), n=10_000,
        budget={"epsilon": 1.0, "delta": 1e-8}, replayed={"epsilon": 1.0, "delta": 1e-6}),
]  # fmt: skip
