"""Columns of many that are answered 0: a reading that finds more of them, and what that costs.

A column whose few nonzero values spread over many octaves is not found by the reading of the looks
(each octave pays two deviations). Tried: the run of octaves whose persons are farthest above noise
for its length (a z of 5, or 4 where persons away from zero are certain), which is free. The error
is over all columns, a column without an answer counting as 0.

    python benchmarks/many_columns_thin.py [--runs 5]
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from unittest import mock

import numpy as np

from many_columns import BUDGET, PACKAGED, packaged, spam
from plans import planned
from privmean.central import octave_counts as octaves
from privmean.central.default_mean import DefaultMean
from privmean.central.log_histogram import Segment
from privmean.data.array_table import ArrayPersonTable
from privmean.noise.simulated import SimulatedNoise
from report import publish, table
from study_laws import DATA

LONGEST, NEEDED = 10, 5.0
BEST = octaves.best_segment


def spread(counts, price, start=0):
    """`best_segment`, or the run of octaves that stands out by `NEEDED` deviations of its sum."""
    usual = BEST(counts, price, start)
    sd = price / octaves.PRICE
    if start or usual.score >= octaves.MAIN * sd:
        return usual
    total = np.concatenate([[0.0], np.cumsum(counts)])
    best = (NEEDED, 0, 0)
    for length in range(2, LONGEST + 1):
        sums = (total[length:] - total[:-length]) / (sd * math.sqrt(length))
        best = max(best, (float(sums.max()), int(sums.argmax()), length))
    above, first, length = best
    return Segment(above * octaves.MAIN * sd, first, first + length - 1) if length else usual


def row(x: np.ndarray, runs: int) -> list[float]:
    n, d = x.shape
    plan, se = planned(DefaultMean(), BUDGET, persons=n, dimension=d), np.nanstd(x, 0) / n**0.5
    found, shown_error, error = [], [], []
    for run in range(runs):
        g = np.random.default_rng([run, 1])
        drawn = x[g.integers(0, n, n)]
        names = tuple(f"c{j}" for j in range(d))
        release = plan.release(ArrayPersonTable(drawn, names), SimulatedNoise(g))
        seen = np.array([o == "ok" for o in release.diagnostics["outcomes"].values()])
        answers = np.where(seen, release.estimate, 0.0)
        off = (answers - np.nanmean(drawn, 0)) / se
        found.append(seen.mean())
        shown_error.append(math.sqrt(1 + float(np.mean(off[seen] ** 2))))
        error.append(math.sqrt(1 + float(np.mean(off**2))))
    return [float(np.mean(item)) for item in (found, shown_error, error)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--data", type=Path, default=DATA)
    a = parser.parse_args()
    tables = {"spam": spam(a.data)}
    tables |= {name: packaged(*PACKAGED[name]) for name in ("loan applications", "driving laws")}
    rows: list[list[object]] = []
    for name, x in tables.items():
        for way, reading in (("today", BEST), ("runs of octaves", spread)):
            with mock.patch.object(octaves, "best_segment", reading):
                numbers = row(x, a.runs)
            rows.append([name, way, *(f"{v:.2f}" for v in numbers)])
            print(*rows[-1], sep=" | ", flush=True)
    head = ["table", "way", "answered", "error of these", "error of all, others 0"]
    words = f"epsilon 1, delta 1e-6, {a.runs} runs, in standard errors, with sampling."
    publish(
        "many-columns-thin", "Many columns: those that are answered 0",
        f"{words}\n\n{table(head, rows)}",
        command=f"python benchmarks/many_columns_thin.py --runs {a.runs}",
    )  # fmt: skip


if __name__ == "__main__":
    main()
