"""Coverage of the intervals of the default mean of many columns, column by column.

Every run draws new persons from a known law and releases with seeded noise. The clipped mean of the
population is that of twenty times as many persons, limited and shortened as the release says.

    python benchmarks/vector_coverage.py [--quick]
"""

from __future__ import annotations

import argparse
import math
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import report
from many_columns import clipped
from plans import planned
from privmean.data.array_table import ArrayPersonTable
from privmean.estimators.means.default_mean import DefaultMean
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget

LEVEL, BUDGET, FURTHER = 0.95, Budget(epsilon=1.0, delta=1e-6), 20
Draw = Callable[[np.random.Generator, int, int], np.ndarray]


def _nulls(g: np.random.Generator, n: int, d: int) -> np.ndarray:
    x = 5 + g.normal(size=(n, d))
    x[g.random((n, d)) < 0.3] = math.nan
    return x


LAWS: dict[str, Draw] = {
    "normal, mean 5": lambda g, n, d: 5 + g.normal(size=(n, d)),
    "normal, mean 0": lambda g, n, d: g.normal(size=(n, d)),
    "normal, mean 1000": lambda g, n, d: 1000 + g.normal(size=(n, d)),
    "t, 3 degrees, mean 5": lambda g, n, d: 5 + g.standard_t(3, size=(n, d)),
    "lognormal(1)": lambda g, n, d: np.exp(g.normal(size=(n, d))),
    "lognormal, 70 % zeros": lambda g, n, d: np.where(
        g.random((n, d)) < 0.3, np.exp(g.normal(size=(n, d))), 0.0
    ),
    "normal with a common factor": lambda g, n, d: (
        5 + 0.3 * g.normal(size=(n, d)) + g.normal(size=(n, 1))
    ),
    "normal, mean 5, 30 % without a value": _nulls,
}
SIZES = ((2000, 10, 200), (20_000, 10, 80), (2000, 100, 40))


def cell(law: str, n: int, d: int, runs: int) -> list[object]:
    """Share of columns covered: clipped mean, mean, this sample's clipped mean; and lengths."""
    draw = LAWS[law]
    g = np.random.default_rng(zlib.crc32(f"{law} {n} {d}".encode()))
    further = draw(g, FURTHER * n, d)
    mean = np.nanmean(further, axis=0)
    names = tuple(f"c{j}" for j in range(d))
    plan = planned(DefaultMean(), BUDGET, persons=n, dimension=d)
    hits: list[np.ndarray] = []
    for run in range(runs):
        x = draw(g, n, d)
        release = plan.release(ArrayPersonTable(x, names), SimulatedNoise(run))
        shown = np.array([o == "ok" for o in release.diagnostics["outcomes"].values()])
        if not shown.any():
            continue
        each = LEVEL**d  # a Sidak box at this level has LEVEL a column
        wide = release.interval(each, target="clipped")
        noise = release.noise_interval(each)
        ends = np.array([wide.lower, wide.upper, noise.lower, noise.upper])[:, shown]
        target = clipped(further, release, shown, plan.inner)
        sample = clipped(x, release, shown, plan.inner)
        hits.append(
            np.array([
                (ends[0] <= target) & (target <= ends[1]),
                (ends[0] <= mean[shown]) & (mean[shown] <= ends[1]),
                (ends[2] <= sample) & (sample <= ends[3]),
                (ends[1] - ends[0]) / (2 * 1.96 * np.nanstd(x[:, shown], axis=0) / math.sqrt(n)),
            ])
        )  # fmt: skip
    every = np.concatenate(hits, axis=1)
    share = f"{every.shape[1] / (runs * d):.2f}"
    found = [f"{item:.3f}" for item in every[:3].mean(axis=1)]
    return [law, n, d, runs, share, *found, f"{np.median(every[3]):.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a quarter of the runs; not published")
    quick = parser.parse_args().quick
    cells = [(law, n, d, runs // 4 if quick else runs) for n, d, runs in SIZES for law in LAWS]
    with ProcessPoolExecutor(3) as pool:
        rows = list(pool.map(cell, *zip(*cells, strict=True)))
    header = ["law of a column", "n", "d", "runs", "columns found", "clipped mean", "mean",
              "clipped mean of these persons", "length"]  # fmt: skip
    text = (
        "Share of columns covered by the 95 % interval (and, for these persons, by the interval of "
        "the noise alone), epsilon = 1, delta = 1e-6, replace-one. The interval is that for the "
        "clipped mean: what clipping moves the mean by is not in it. A release divides by those "
        "with a value where it sees enough of the others, else by all. Length: median, over that "
        "of the plain mean's interval without privacy.\n\n" + report.table(header, rows)
    )
    if quick:
        print(text)
        return
    report.publish(
        "vector-coverage", "Coverage of the default mean of many columns", text,
        command="python benchmarks/vector_coverage.py",
    )  # fmt: skip


if __name__ == "__main__":
    main()
