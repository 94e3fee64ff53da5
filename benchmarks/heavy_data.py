"""Generated persons for the benchmarks of the heavy-tailed and high-dimensional estimators."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Law:
    """A law of records with mean 0 and unit variance, and one moment bound that it satisfies."""

    name: str
    order: float
    bound: float
    draw: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def _t(df: float) -> Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]:
    return lambda rng, shape: rng.standard_t(df, shape) / math.sqrt(df / (df - 2))


def _pareto(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return (rng.pareto(3.0, shape) + 1 - 1.5) / math.sqrt(0.75)


def _lognormal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    e = math.e
    return (np.exp(rng.standard_normal(shape)) - math.sqrt(e)) / math.sqrt((e - 1) * e)


LAWS = {
    "Gaussian": Law("Gaussian", 4, 1.316, lambda rng, shape: rng.standard_normal(shape)),
    "t2.5": Law("t2.5", 2.25, 1.34, _t(2.5)),
    "t3": Law("t3", 2.5, 1.35, _t(3)),
    "t5": Law("t5", 4, 1.73, _t(5)),
    "Pareto 3": Law("Pareto 3", 2.5, 1.65, _pareto),
    "lognormal": Law("lognormal", 4, 3.27, _lognormal),
}


def person_means(
    law: Law, rng: np.random.Generator, persons: int, records: int, columns: int
) -> np.ndarray:
    """Means of `records` independent records a person, shape (persons, columns)."""
    total = np.zeros((persons, columns))
    step = max(1, 4_000_000 // (persons * columns))
    for start in range(0, records, step):
        count = min(step, records - start)
        total += law.draw(rng, (count, persons, columns)).sum(axis=0)
    return total / records


def elliptical_t3(rng: np.random.Generator, persons: int, records: int, columns: int) -> np.ndarray:
    """Person means of elliptical t3 records (one radius a record), unit variance a column."""
    total = np.zeros((persons, columns))
    for _ in range(records):
        radius = np.sqrt(1 / rng.chisquare(3, (persons, 1)))
        total += rng.standard_normal((persons, columns)) * radius
    return total / records


def geometric(values: list[float]) -> float:
    return math.exp(float(np.mean(np.log(values))))


def plus_minus(values: list[float] | np.ndarray) -> str:
    """Mean and standard error."""
    x = np.asarray(values, dtype=float)
    return f"{x.mean():.2f} ± {x.std(ddof=1) / math.sqrt(len(x)):.2f}"
