"""Many columns, some of which hold a value that most persons share, or a code far out.

    python benchmarks/many_columns_shared.py [--runs 30]

Error of the default mean in standard errors of the plain mean, with sampling: geometric mean over
columns of the root mean square over releases. Radius: of the last rows, over the square root of the
number of columns. The first way ends rounds as soon as they promise no more, and calls no column
back.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from contextlib import ExitStack
from unittest import mock

import numpy as np

from plans import planned
from privmean.central import vector_rounds
from privmean.central.default_mean import DefaultMean
from privmean.data.array_table import ArrayPersonTable
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import Budget
from report import publish, table

BUDGET = Budget(epsilon=1.0, delta=1e-6)
WAYS = ("nobody called back", "as released")
Draw = Callable[[np.random.Generator, int], np.ndarray]


def rate(p: float) -> Draw:
    return lambda g, n: (g.random(n) < p).astype(float)


def normal(mean: float, sd: float, code: float = 0.0, share: float = 0.0) -> Draw:
    return lambda g, n: np.where(g.random(n) < share, code, g.normal(mean, sd, n))


HALF, YEAR, T3 = rate(0.5), normal(1990, 10), lambda g, n: g.standard_t(3, n)
STARS = lambda g, n: g.choice(np.arange(1.0, 6.0), n, p=[0.02, 0.02, 0.03, 0.13, 0.8])  # noqa: E731
TABLES: dict[str, list[Draw]] = {
    "rates .99 .98 .95 .9, six of .5": [*map(rate, (0.99, 0.98, 0.95, 0.9)), *[HALF] * 6],
    "three of each rate .97 .95 .9 .9, eight of .5": [
        *map(rate, (0.97, 0.95, 0.9, 0.9) * 3), *[HALF] * 8
    ],
    "five of stars, most 5; five of .5": [STARS] * 5 + [HALF] * 5,
    "two of years, 3 % coded 9999; eight normal":
        [normal(1990, 10, 9999, 0.03)] * 2 + [normal(50, 10)] * 8,
    "two of N(50, 10), 3 % coded 9999; eight of .5": [normal(50, 10, 9999, 0.03)] * 2 + [HALF] * 8,
    "five of years, five of .5": [YEAR] * 5 + [HALF] * 5,
    "three N(10^6, 1), five N(0, 1)": [normal(1e6, 1)] * 3 + [normal(0, 1)] * 5,
    "20 normal": [normal(3, 1)] * 20,
    "12 of t, 3 degrees": [T3] * 12,
    "6 lognormal 1.2, four of .5": [lambda g, n: np.exp(g.normal(0, 1.2, n))] * 6 + [HALF] * 4,
    "8 Pareto 2.5": [lambda g, n: 1 + g.pareto(2.5, n)] * 8,
}  # fmt: skip


def cell(draws: list[Draw], n: int, way: str, runs: int) -> tuple[float, float]:
    """Error, and the largest radius."""
    d = len(draws)
    plan = planned(DefaultMean(), BUDGET, persons=n, dimension=d)
    errors, radii = [], []
    with ExitStack() as stack:
        if way == WAYS[0]:
            norms = vector_rounds.Norms
            stack.enter_context(mock.patch.object(norms, "far", return_value=0.0))
            stack.enter_context(mock.patch.object(norms, "typical", 0.0))
        for run in range(runs):
            g = np.random.default_rng([run, n])
            x = np.array([draw(g, n) for draw in draws]).T
            people = ArrayPersonTable(x, tuple(f"c{j}" for j in range(d)))
            release = plan.release(people, SimulatedNoise(g))
            unit = x.std(axis=0) / math.sqrt(n)
            errors.append(1 + ((release.estimate - x.mean(axis=0)) / unit) ** 2)
            radii.append(release.diagnostics["radius"] / math.sqrt(d))
    error = np.sqrt(np.nanmean(errors, axis=0))
    return float(np.exp(np.log(error).mean())), max(radii)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=30)
    a = parser.parse_args()
    rows = []
    for n in (3000, 10_000):
        for name, draws in TABLES.items():
            (one, far), (two, near) = (cell(draws, n, way, a.runs) for way in WAYS)
            ratio = f"{two / one:.2f}"
            rows.append([n, name, f"{one:.2f}", f"{two:.2f}", ratio, f"{far:.1f}", f"{near:.1f}"])
            print(*rows[-1], sep=" | ", flush=True)
    head = ["persons", "columns", *(f"error, {way}" for way in WAYS), "ratio",
            *(f"largest radius, {way}" for way in WAYS)]  # fmt: skip
    publish(
        "many-columns-shared", "Many columns: values that most persons share",
        f"epsilon 1, delta 1e-6, {a.runs} releases a cell.\n\n{table(head, rows)}",
        command=f"python benchmarks/many_columns_shared.py --runs {a.runs}",
    )  # fmt: skip


if __name__ == "__main__":
    main()
