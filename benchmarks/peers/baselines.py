"""Baselines written for the suite. They show errors, not releases: their noise is NumPy's.

All are for replace-one neighbours with a public number of persons. What each must be told is in its
arguments; `noise` is a NumPy generator.
"""

from __future__ import annotations

import math

import numpy as np

from privmean.privacy.gdp import gaussian_mu

FAILURE = 0.01  # of Gaussian rows that CoinPress may clip, and of its steps that may miss


def clipped_laplace(
    means: np.ndarray, lower: float, upper: float, epsilon: float, noise: np.random.Generator
) -> float:
    """Person means clipped to public bounds, Laplace noise for replacing one of them."""
    scale = (upper - lower) / (len(means) * epsilon)
    return float(np.clip(means, lower, upper).mean() + noise.laplace(0, scale))


def group_privacy(
    values: np.ndarray,
    most: int,
    lower: float,
    upper: float,
    epsilon: float,
    noise: np.random.Generator,
) -> float:
    """The mean of records, every one protected at epsilon / most: a person has at most `most`."""
    scale = (upper - lower) * most / (len(values) * epsilon)
    return float(np.clip(values, lower, upper).mean() + noise.laplace(0, scale))


def strengths(epsilon: float, delta: float, steps: int) -> list[float]:
    """The GDP parameter of each step: a quarter of the squared budget for all but the last."""
    total = gaussian_mu(epsilon, delta) ** 2
    if steps == 1:
        return [math.sqrt(total)]
    return [math.sqrt(total / (4 * (steps - 1)))] * (steps - 1) + [math.sqrt(3 * total / 4)]


def coin_press(
    rows: np.ndarray,
    center: np.ndarray,
    radius: float,
    sd: float,
    epsilon: float,
    delta: float,
    noise: np.random.Generator,
    steps: int = 3,
) -> np.ndarray:
    """A mean in the style of CoinPress (Biswas, Dong, Kamath, Ullman 2020): the ball that is known
    to hold the mean shrinks step by step, each step a clipped mean with Gaussian noise.

    rows: shape (n, d), a row a person. center, radius: a public ball around the mean. sd: a public
    bound on the standard deviation of every column. Rows are clipped where one in a hundred
    Gaussian ones would be, as in the authors' code. A ball never grows from step to step.
    """
    n, d = rows.shape
    surprise = math.log(1 / FAILURE)
    tail = math.sqrt(d + 2 * math.sqrt(d * surprise) + 2 * surprise)  # length of a Gaussian vector
    spread = sd * tail
    for mu in strengths(epsilon, delta, steps):
        reach = min(radius + spread, math.sqrt(radius**2 + 6 * sd * radius + spread**2))
        offset = rows - center
        norms = np.linalg.norm(offset, axis=1)
        clipped = offset * np.minimum(1, reach / np.maximum(norms, 1e-300))[:, np.newaxis]
        noise_sd = 2 * reach / (n * mu)
        center = center + clipped.mean(axis=0) + noise.normal(0, noise_sd, d)
        radius = min(radius, tail * math.hypot(sd / math.sqrt(n), noise_sd))
    return center
