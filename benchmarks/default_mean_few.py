"""The default mean with few persons.

The ten tuning columns (persons drawn again) and five laws at n*epsilon from 60 on. Total:
the error around the truth over that of an oracle with the true centre, the best symmetric limits
and all of epsilon; releases without an estimate have none. Geometric means over columns and laws.

    python benchmarks/default_mean_few.py [--runs 100]
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from default_mean_laws import MORE, NINE, Law, best_of, columns_of
from plans import planned
from privmean.central.default_mean import DefaultMean
from privmean.data.array_table import ArrayPersonTable
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import Budget
from report import publish, table
from study_laws import COLUMNS, DATA, synthetic

EPSILON = 0.5
ORDINARY = ("Gaussian(0, 1)", "t3", "lognormal 1", "half zeros", "Beta(2, 5)")
HARD = (
    "N(0, 1)", "N(1.67, .38)", "lognormal 1", "stars 80/12/4/2/2", "two groups 1e6 apart",
    "N(1990, 10)", "93 % ones", "1 and 2, 75/25", "ones 10 %", "counts, 70 % zeros",
    "counts, 90 % zeros", "minority 5 % at 50", "offset 1e3", "two-sided skew",
    "100 - 20 Gamma(.5)",
)  # fmt: skip


def cell(law: Law, n: int, runs: int) -> dict[str, float]:
    """Error in standard errors, root mean square and median; rates of outcomes."""
    plan = planned(DefaultMean(), Budget(epsilon=EPSILON), persons=n)
    errors, statuses, covers, silent = [], Counter(), 0, 0
    for run in range(runs):
        g = np.random.default_rng([11, n, run])
        x = law.draw(g, n)
        release = plan.release(ArrayPersonTable(x[:, None], ("v",)), SimulatedNoise(g))
        statuses[release.status] += 1
        interval = release.interval()
        holds = interval.lower[0] <= law.mean <= interval.upper[0]
        covers += holds
        silent += release.status == interval.status == "ok" and not holds
        if release.status not in ("failed", "point_mass"):
            errors.append((release.estimate[0] - x.mean()) / law.sd * math.sqrt(n))
    size = np.abs(errors)
    return {
        "rmse": math.sqrt(1 + float(np.mean(size**2))) if errors else math.nan,
        "median": math.sqrt(1 + (float(np.median(size)) / 0.6745) ** 2) if errors else math.nan,
        "failed": statuses["failed"] / runs,
        "point_mass": statuses["point_mass"] / runs,
        "covers": covers / runs,
        "silent": silent / runs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="+", default=[156, 300, 600, 1500])
    parser.add_argument("--set", choices=["columns", "hard"], default="columns")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--publish", action="store_true")
    a = parser.parse_args()
    if a.set == "columns":
        laws = {k: Law.among(x) for k, x in columns_of(a.data, tuple(COLUMNS)).items()}
        every = synthetic(1_000_000, 3)
        laws |= {name: Law.among(every[name]) for name in ORDINARY}
    else:
        laws = {name: Law.of(*{**NINE, **MORE}[name]) for name in HARD}
    rows: list[list[object]] = []
    for size in a.sizes:
        n = round(size / EPSILON)
        best = {name: best_of(law, n, EPSILON) for name, law in laws.items()}
        found = {name: cell(law, n, a.runs) for name, law in laws.items()}
        owed = {name: math.sqrt(1 + best[name] ** 2) for name in laws}
        ratio = {name: found[name]["rmse"] / owed[name] for name in laws}
        middle = {name: found[name]["median"] / owed[name] for name in laws}
        mean = {k: float(np.mean([item[k] for item in found.values()])) for k in
                ("failed", "point_mass", "covers", "silent")}  # fmt: skip
        geometric = [
            f"{math.exp(np.nanmean(np.log(list(item.values())))):.2f}" for item in (ratio, middle)
        ]
        rows.append([size, *geometric, *(f"{v:.3f}" for v in mean.values())])
        if a.set == "hard":
            rows[-1].append("; ".join(f"{k} {v:.2f}" for k, v in ratio.items()))
        print(*rows[-1], sep=" | ", flush=True)
        print("   ", "; ".join(
            f"{k} {v:.2f}" + (f" F{found[k]['failed']:.2f}" if found[k]["failed"] else "")
            + (f" A{found[k]['point_mass']:.2f}" if found[k]["point_mass"] else "")
            for k, v in ratio.items()), flush=True)  # fmt: skip
    if a.publish:
        head = ["persons x epsilon", "total", "median", "failed", "point_mass", "covers",
                "silent", *(["each"] if a.set == "hard" else [])]  # fmt: skip
        words = (
            f"epsilon .5, {a.runs} releases a cell. Covers: the truth of the mean by the printed "
            'interval; silent: "ok" and a miss.'
        )
        name = "default-mean-few" + ("" if a.set == "columns" else "-hard")
        title = "Default mean with few persons" + ("" if a.set == "columns" else ": hard laws")
        said = [word for word in sys.argv[1:] if not word.startswith("/")]
        command = " ".join(["python benchmarks/default_mean_few.py", *map(shlex.quote, said)])
        publish(name, title, f"{words}\n\n{table(head, rows)}", command=command)


if __name__ == "__main__":
    main()
