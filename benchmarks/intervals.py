"""End-to-end coverage and width of intervals after the default mean.

Persons are drawn anew in every run (from a real column taken as the population, or from a law), the
whole release runs with simulated noise, and the interval is asked whether it holds the population
mean. Failures count as they are printed (the whole line: wide, never wrong). The printed
assumption is checked against the population at the limits of the very run.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

from privmean.central.default_mean import DefaultMean
from privmean.noise.simulated import SimulatedNoise
from privmean.people.matrix import MatrixPeople
from privmean.privacy.budget import Budget
from report import publish, table
from study_laws import COLUMNS, DATA, oracle, person_means, synthetic


class Population:
    """A finite population with what is needed to check an assumption at any limit."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = np.sort(values)
        self.sums = np.concatenate([[0.0], np.cumsum(self.values)])
        self.mean = float(values.mean())

    def clipped(self, lower: float, upper: float) -> float:
        n = len(self.values)
        i = int(np.searchsorted(self.values, lower))
        j = int(np.searchsorted(self.values, upper, side="right"))
        return (i * lower + (n - j) * upper + self.sums[j] - self.sums[i]) / n

    def excess(self, first: tuple[float, float], last: tuple[float, float]) -> float:
        """Mean excess over the last limits of those beyond the first ones, the larger side."""
        n = len(self.values)
        j = int(np.searchsorted(self.values, first[1], side="right"))
        i = int(np.searchsorted(self.values, first[0]))
        above = (np.maximum(self.values[j:] - last[1], 0)).mean() if j < n else 0.0
        below = (np.maximum(last[0] - self.values[:i], 0)).mean() if i else 0.0
        return float(max(above, below))


def cell(
    population: Population, n: int, epsilon: float, runs: int, target: str | None, seed: int
) -> dict[str, float]:
    """Rates and widths over `runs` releases."""
    g = np.random.default_rng(seed)
    plan = DefaultMean(target=target).plan(Budget(epsilon=epsilon), persons=n)
    truth = population.mean
    rows = []
    for _ in range(runs):
        x = g.choice(population.values, n)
        release = plan.release(MatrixPeople(x[:, None], ("value",)), SimulatedNoise(g))
        interval = release.interval(0.95)
        lower, upper = interval.lower[0], interval.upper[0]
        width = (upper - lower) / (2 * 1.96 * x.std(ddof=1) / math.sqrt(n))
        shown = math.isfinite(width)
        holds = True
        aim = truth
        if shown:
            limits = interval.region[0]
            if interval.target == "mean":
                first = release.diagnostics.get("first limits", limits)
                holds = population.excess(tuple(first), limits) <= release.intervals.reach
            else:
                aim, holds = population.clipped(*limits), False
        marked = interval.status != "ok" or interval.target != "mean"
        rows.append((lower <= aim <= upper, lower <= truth <= upper, holds, marked, shown, width))
    own, mean, holds, marked, shown, width = (np.array(item) for item in zip(*rows, strict=True))
    missed_false = ~mean & ~holds
    return {
        "own": own.mean(),
        "mean": mean.mean(),
        "holds": holds.mean(),
        "if holds": mean[holds].mean() if holds.any() else math.nan,
        "n holds": int(holds.sum()),
        "marked": marked[missed_false].mean() if missed_false.any() else math.nan,
        "n missed": int(missed_false.sum()),
        "shown": shown.mean(),
        "width": float(np.median(width)),
        "se ratio": math.sqrt(
            1
            + (oracle(g.choice(population.values, n), epsilon) ** 2) / (population.values.var() / n)
        ),
    }


def words(c: dict[str, float]) -> list[str]:
    """Coverage, coverage where the assumption holds, and what is said where it does not."""
    held = f"{c['if holds']:.3f} ({c['holds']:.2f})" if c["n holds"] else "- (0)"
    named = f"{c['marked']:.2f} of {c['n missed']}" if c["n missed"] else "-"
    width = f"{c['width']:.2f} / {c['width'] / c['se ratio']:.2f}"
    return [f"{c['mean']:.3f}", held, named, width]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="40 runs a cell")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the Parquet tables")
    arguments = parser.parse_args()
    runs = 40 if arguments.quick else 300
    cells: list[tuple[str, np.ndarray, int, float]] = []
    laws = synthetic(1_000_000, 3)
    for name in (
        "Gaussian(0, 1)",
        "t3",
        "lognormal 1",
        "lognormal 1.5",
        "Pareto 2.5",
        "half zeros",
        "rare .002 at 100",
    ):
        for n, epsilon in ((1000, 1.0), (5000, 0.5), (5000, 1.0), (20000, 1.0)):
            cells.append((name, laws[name], n, epsilon))
    if arguments.data.exists():
        for name, x in person_means(arguments.data, COLUMNS).items():
            cells += [(name, x, len(x), epsilon) for epsilon in (0.5, 1.0)]
    rows: list[list[object]] = []
    held = covered = missed = named = 0.0
    for k, (name, x, n, epsilon) in enumerate(cells):
        population = Population(x)
        first = cell(population, n, epsilon, runs, None, k)
        second = cell(population, n, epsilon, runs, "mean", k)
        third = cell(population, n, epsilon, runs, "clipped", k)
        held += first["n holds"]
        covered += first["if holds"] * first["n holds"] if first["n holds"] else 0
        missed += first["n missed"]
        named += first["marked"] * first["n missed"] if first["n missed"] else 0
        clipped = [f"{third['own']:.3f}", f"{third['mean']:.3f}", f"{third['width']:.2f}"]
        rows.append([name, f"{n}/{epsilon:g}", *words(first), *words(second), *clipped])
    header = ["law", "n/epsilon"]
    for target in ("default", "mean"):
        header += [f"{target}: cover", "where true (rate)", "named", "width t / oracle"]
    header += ["clipped: own", "of the mean", "width"]
    text = (
        "Coverage of the population mean by the 95 % interval; coverage where the printed "
        "assumption is true at the limits of the run (and how often it is); of the misses where it "
        "is false, how many carry a status (tail seen, tail too thick, or relabelled) - the words "
        "of the assumption are always printed; median width over that of the t interval, and over "
        "the oracle's. For target clipped: coverage of its own target, and of the mean (not "
        "claimed).\n\n"
        + table(header, rows)
        + f"\n\n- default, all runs where the assumption is true: {covered / max(held, 1):.4f}"
        + f"\n- default, misses where it is false that carry a status: {named:.0f} of {missed:.0f}"
    )
    command = "python benchmarks/intervals.py" + (" --quick" if arguments.quick else "")
    publish("intervals", f"Intervals end to end, {runs} runs a cell", text, command=command)


if __name__ == "__main__":
    main()
