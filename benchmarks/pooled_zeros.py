"""Regressors of which most persons have a zero: how many releases show a number, and how exact.

    python benchmarks/pooled_zeros.py [--runs 60] [--panel PATH]

Persons of nlswork as they are (4,711), default settings, epsilon 1, pure. Shown: part of the
releases whose coefficient of that regressor is a number; error: median of its absolute difference
to the fit without privacy, and the median length of half an interval, in coefficients. Then a
level of 5 % of as many persons, whose size few releases see: how many print a coefficient more than
10 off (its standard error without privacy is 0.07), with the count of the persons behind a size and
without it.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from pathlib import Path

import numpy as np

import privmean as pm
from panels import PANEL
from privmean.models import run_pooled as pooled_run
from report import publish, table

FORMULAS = (
    ("ln_wage ~ union", "union"),
    ("ln_wage ~ union + age", "union"),
    ("ln_wage ~ union + grade", "union"),
    ("ln_wage ~ collgrad + union", "collgrad"),
    ("ln_wage ~ nev_mar + age", "nev_mar"),
    ("ln_wage ~ ttl_exp + tenure", "tenure"),
)


PERSONS, PART, WILD = 4_700, 0.05, 10.0


def rare(runs: int) -> list[list[object]]:
    rng = np.random.default_rng(1)
    level = rng.random(PERSONS) < PART
    y = 1 + 0.5 * level + rng.normal(0, 1, PERSONS)
    columns = {"p": np.arange(PERSONS), "x": level.astype(float), "y": y}
    people = pm.Table(columns, person="p")
    rows: list[list[object]] = []
    usual = pooled_run.CLEAR
    for name, deviations in (("with", usual), ("without", -math.inf)):
        pooled_run.CLEAR = deviations
        releases = [
            pm.regress(people, "y ~ x", epsilon=1.0, noise=pm.SimulatedNoise(seed)).rows()[-1]
            for seed in range(runs)
        ]
        shown = [row.estimate for row in releases if not math.isnan(row.estimate)]
        wild = sum(abs(value - 0.5) > WILD for value in shown)
        farthest = f"{max(abs(value - 0.5) for value in shown):.2g}" if shown else "-"
        rows.append([name, f"{len(shown) / runs:.0%}", f"{wild} of {runs}", farthest])
    pooled_run.CLEAR = usual
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--panel", type=Path, default=PANEL)
    options = parser.parse_args()
    people = pm.Table(options.panel, person="person_id")
    rows: list[list[object]] = []
    for formula, term in FORMULAS:
        exact = pm.regress(people, formula, epsilon=100.0)
        true = next(row.estimate for row in exact.rows() if row.term == term)
        said: Counter[str] = Counter()
        errors, halves = [], []
        for _ in range(options.runs):
            release = pm.regress(people, formula, epsilon=1.0)
            said[str(release.status)] += 1
            row = next(row for row in release.rows() if row.term == term)
            if not math.isnan(row.estimate):
                errors.append(abs(row.estimate - true))
                halves.append((row.upper - row.lower) / 2)
        rows.append(
            [
                f"`{formula}`", term, f"{true:.4f}", f"{len(errors) / options.runs:.0%}",
                f"{np.median(errors):.4f}", f"{np.median(halves):.4f}",
                ", ".join(f"{word} {number}" for word, number in said.most_common()),
            ]
        )  # fmt: skip
    head = ["formula", "regressor", "epsilon 100", "shown", "error", "half interval", "statuses"]
    levels = table(["count behind a size", "shown", "wild", "farthest"], rare(options.runs))
    said = f"A level of {PART:.0%} of {PERSONS:,} persons, pure, epsilon 1:"
    publish(
        "pooled-zeros",
        "One regression for all persons: regressors that are mostly zero",
        f"{table(head, rows)}\n\n{said}\n\n{levels}",
        command=f"python benchmarks/pooled_zeros.py --runs {options.runs}",
    )


if __name__ == "__main__":
    main()
