"""Agarwal, Kamath, Majid, Mouzakis, Silver and Ullman (2024)."""

import math

import numpy as np
from published_case import Case, Reference, table

from privmean.estimators.heavy_tailed import BoundedMoment
from privmean.published import PureCover, ThreadedMean

RECORDS = 10


def rows(d):
    """Means of 10 normal records, in d columns."""

    def made(rng, n):
        center = rng.uniform(-0.2, 0.2, d)
        return table(center + rng.standard_normal((n, d)) / math.sqrt(RECORDS)), center

    return made


def moment(half):
    return BoundedMoment(4, 1.316, RECORDS, range=(-half, half))


def over_sampling(release, plan, truth):
    """l2 error over that of the mean of all records."""
    error = float(np.linalg.norm(release.estimate - truth))
    return error / math.sqrt(plan.dimension / (plan.n * RECORDS))


def over_algorithm_2(release, plan, truth):
    """Squared error over what sampling and noise of the last block make."""
    step, n, d = plan.rounds[-1], plan.sizes[-1], plan.dimension
    expected = d / (n * RECORDS) + d * (step.scales[0] / n) ** 2
    return float(np.sum((release.estimate - truth) ** 2)) / expected


CASES = [
    Case("threaded clip-and-noise (Algorithm 4)", lambda: ThreadedMean(moment(5.0)), rows(10),
        Reference(1.0, 0.03, over_algorithm_2, 100), n=5000,
        replayed={"epsilon": 8.0, "delta": 1e-4}),
    Case("threaded clip-and-noise, whole line",
        lambda: ThreadedMean(BoundedMoment(4, 1.316, RECORDS)), rows(2), n=5000,
        replayed={"epsilon": 8.0, "delta": 1e-4}),
    Case("choice from a cover (Algorithm 8)", lambda: PureCover(moment(1.0), work=2e7), rows(2),
        Reference(1.90, 0.23, over_sampling, 40), n=200, audited=200, budget={"epsilon": 1.0},
        replayed={"epsilon": 2.0}),
    Case("choice from a cover, one column", lambda: PureCover(moment(5.0), work=1e6), rows(1),
        n=300, budget={"epsilon": 1.0}, replayed={"epsilon": 2.0}),
]  # fmt: skip
