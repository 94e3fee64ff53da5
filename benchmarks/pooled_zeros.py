"""Regressors of which most persons have a zero: how many releases show a number, and how exact.

    python benchmarks/pooled_zeros.py [--runs 40] [--panel PATH]

Persons of nlswork as they are (4,711), default settings, epsilon 1, pure. Shown: part of the
releases whose coefficient of that regressor is a number; error: median of its absolute difference
to the fit without privacy, and the median length of half an interval, in coefficients.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from pathlib import Path

import numpy as np

import privmean as pm
from panels import PANEL
from report import publish, table

FORMULAS = (
    ("ln_wage ~ union", "union"),
    ("ln_wage ~ union + age", "union"),
    ("ln_wage ~ union + grade", "union"),
    ("ln_wage ~ collgrad + union", "collgrad"),
    ("ln_wage ~ nev_mar + age", "nev_mar"),
    ("ln_wage ~ ttl_exp + tenure", "tenure"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--panel", type=Path, default=PANEL)
    options = parser.parse_args()
    people = pm.Table(options.panel, person="person_id")
    rows: list[list[object]] = []
    for formula, term in FORMULAS:
        exact = pm.regress(people, formula, epsilon=1e6)
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
    head = ["formula", "regressor", "epsilon 1e6", "shown", "error", "half interval", "statuses"]
    publish(
        "pooled-zeros",
        "One regression for all persons: regressors that are mostly zero",
        table(head, rows),
        command=f"python benchmarks/pooled_zeros.py --runs {options.runs}",
    )


if __name__ == "__main__":
    main()
