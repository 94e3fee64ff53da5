"""Baselines written for the suite. They show errors, not releases: their noise is NumPy's.

Those of one mean are for replace-one neighbours with a public number of persons, those by group for
add-remove. What each must be told is in its arguments; `noise` is a NumPy generator.
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


def bounded_average(
    values: np.ndarray, lower: float, upper: float, epsilon: float, noise: np.random.Generator
) -> float:
    """The average as BigQuery documents it and as Google's library computes it: values (one a
    person) clamped to the bounds, a noisy sum of deviations from their middle over a noisy count,
    half of epsilon each, and the quotient clamped to the bounds."""
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    total = float((np.clip(values, lower, upper) - middle).sum())
    total += noise.laplace(0, half / (epsilon / 2))
    count = max(1.0, len(values) + noise.laplace(0, 1 / (epsilon / 2)))
    return float(np.clip(middle + total / count, lower, upper))


def bounds_by_bins(
    values: np.ndarray, epsilon: float, noise: np.random.Generator
) -> tuple[float, float] | None:
    """Bounds from the data, as Google's library finds them (approximate bounds, its defaults):
    noisy counts by powers of 2 over all doubles of either sign; the outer ends of the outermost
    bins above a threshold that an empty one passes with chance 1e-9 in all. None: no bin does."""
    lowest, bins = -1022, 2047  # bin i: from 2^(lowest + i - 1), without it, to 2^(lowest + i)
    with np.errstate(divide="ignore"):
        place = np.ceil(np.log2(np.abs(values))) - lowest
    place = np.clip(np.where(values == 0, 0, place), 0, bins - 1).astype(int)
    sides = [np.bincount(place[values < 0], minlength=bins),
             np.bincount(place[values >= 0], minlength=bins)]  # fmt: skip
    threshold = -math.log(-2 * math.expm1(math.log1p(-1e-9) / (2 * bins - 1))) / epsilon
    below, above = (
        np.flatnonzero(side + noise.laplace(0, 1 / epsilon, bins) >= threshold) for side in sides
    )
    if not len(below) and not len(above):
        return None

    def edge(i: int) -> float:
        return math.ldexp(1.0, lowest + int(i)) if i >= 0 else 0.0

    lower = -edge(below[-1]) if len(below) else (edge(above[0] - 1) if above[0] else 0.0)
    upper = edge(above[-1]) if len(above) else (-edge(below[0] - 1) if below[0] else 0.0)
    return lower, upper


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
