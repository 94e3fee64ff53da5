"""Columns that are mostly one value: does the default mean ever say "ok" beside a wrong number?

A part of the people has the value 0, the others lie far away; and years, N(1990, 10). Wrong: "ok",
and off by more than ten half widths of the interval. Silent: "ok" and a miss.

    python benchmarks/default_mean_zeros.py [--runs 7200]
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from plans import planned
from privmean.central.default_mean import DefaultMean
from privmean.data.array_table import ArrayPersonTable
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import Budget
from report import few, publish, table

SIZES = (1000, 2000, 5000, 10_000)  # people, at epsilon 1
ZEROS = (0.95, 0.98, 0.99)
MEAN, SD = 7.0, 0.8  # of the logarithm of the others
YEARS = (600, 2000)


def zeros(share: float, n: int, g: np.random.Generator) -> np.ndarray:
    return np.where(g.random(n) < share, 0.0, np.exp(g.normal(MEAN, SD, n)))


def years(n: int, g: np.random.Generator) -> np.ndarray:
    return g.normal(1990, 10, n)


def cell(
    draw: Callable[[np.random.Generator], np.ndarray], truth: float, n: int, runs: int, seed: int
) -> Counter[str]:
    """Statuses of releases about tables drawn anew."""
    g, noise, found = np.random.default_rng(seed), SimulatedNoise(seed), Counter()
    plan = planned(DefaultMean(), Budget(epsilon=1.0), persons=n)
    for _ in range(runs):
        release = plan.release(ArrayPersonTable(draw(g)[:, None], ("value",)), noise)
        found[release.status] += 1
        if release.status != "ok":
            continue
        interval = release.interval()
        lower, upper = interval.lower[0], interval.upper[0]
        found["silent"] += not lower <= truth <= upper
        found["wrong"] += abs(float(release) - truth) > 5 * (upper - lower)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=7200, help="releases a cell")
    runs = few(parser.parse_args().runs)
    mean = float(np.exp(MEAN + SD**2 / 2))
    cases = {
        f"{share:.0%} zeros, n = {n}": (partial(zeros, share, n), (1 - share) * mean, n)
        for share in ZEROS
        for n in SIZES
    }
    cases |= {f"N(1990, 10), n = {n}": (partial(years, n), 1990.0, n) for n in YEARS}
    with ProcessPoolExecutor(2) as pool:
        made = [pool.submit(cell, *case, runs, k) for k, case in enumerate(cases.values())]
        found = [item.result() for item in made]
    names = ("ok", "outliers_clipped", "point_mass", "modified_target", "failed", "silent", "wrong")
    rows = [
        [name, *(str(counts[key]) for key in names)]
        for name, counts in zip(cases, found, strict=True)
    ]
    total = sum(counts["wrong"] for counts in found)
    text = table(["column", *names], rows)
    text += f"\n\n{total} of {runs * len(cases)} releases say ok beside a wrong number."
    print(text)
    publish(
        "default-mean-zeros",
        f"Columns that are mostly one value, {runs} releases a cell, epsilon 1",
        text,
        command="python benchmarks/default_mean_zeros.py",
    )


if __name__ == "__main__":
    main()
