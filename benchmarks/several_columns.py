"""The default mean of a few columns of real panels: coverage, statuses and parts of the intervals.

Every run draws the people of a panel again, with replacement, so that the panel's means are the
truth. Each column's interval is for itself. Agree: the release states of the column what the
interval states. ok covers: of the columns that say "ok", the intervals that hold the mean.

    python benchmarks/several_columns.py [--runs 40] [--only TEXT] [--label before]
"""

from __future__ import annotations

import argparse
import math
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plans import planned
from privmean.data.array_table import ArrayPersonTable
from privmean.estimators.means.choose_vector_method import ALONE, TOGETHER, Cheapest, predicted_half
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from report import few, publish, table
from study_laws import DATA

LEVEL = 0.95
PANELS = {
    "cells 3": ("cells", ("area_ch_1", "angle_ch_1", "fiber_length_ch_1")),
    "nlswork 3": ("nlswork", ("ln_wage", "hours", "tenure")),
    "randhie 5": ("randhie", ("mdvis", "income", "xage", "mhi", "disea")),
    # chose nothing
    "cells 8": ("cells", ("avg_inten_ch_1", "avg_inten_ch_2", "avg_inten_ch_3", "avg_inten_ch_4",
                          "entropy_inten_ch_1", "fiber_width_ch_1", "kurt_inten_ch_1",
                          "kurt_inten_ch_4")),
    "nlswork 4": ("nlswork", ("age", "grade", "ttl_exp", "wks_work")),
    "randhie 3": ("randhie", ("ghindx", "outpdol", "lfam")),
}  # fmt: skip
BUDGETS = (
    Budget(epsilon=1.0), Budget(epsilon=2.0), Budget(epsilon=1.0, delta=1e-6),
    Budget(epsilon=2.0, delta=1e-6), Budget(rho=0.1),
)  # fmt: skip


@dataclass
class Line:
    """One interval of one release."""

    agrees: bool
    ok: bool
    shown: bool
    covers: bool
    named: bool
    half: float
    parts: dict[str, float]
    error: float


def panel(data: Path, name: str) -> np.ndarray:
    """The mean of every person's records, people with all values only."""
    import duckdb

    file, columns = PANELS[name]
    each = ", ".join(f'avg("{c}") as "{c}"' for c in columns)
    rows = duckdb.sql(
        f"select {each} from '{data / file}.parquet' group by person_id order by person_id"
    ).fetchnumpy()
    x = np.array([np.ma.filled(rows[c].astype(float), np.nan) for c in columns]).T
    return x[~np.isnan(x).any(axis=1)]


def predicted(plan) -> str:
    """The half-width that a plan states."""
    name = getattr(plan, "name", "")
    if name == ALONE:
        return f"{predicted_half(plan.inner):.2f}"
    return f"{plan.inner.predicted_half():.2f}" if name == TOGETHER else ""


def lines(x: np.ndarray, budget: Budget, runs: int) -> tuple[list[str], list[Line]]:
    n, d = x.shape
    names = tuple(f"c{j}" for j in range(d))
    mean, se = x.mean(axis=0), x.std(axis=0) / math.sqrt(n)
    plan = planned(Cheapest(), budget, count=n, dimension=d)
    found = []
    for run in range(runs):
        g = np.random.default_rng([run, 7])
        again = x[g.integers(0, n, n)]
        release = plan.release(ArrayPersonTable(again, names), SimulatedNoise(g))
        statuses = release.statuses or (release.status,) * d
        for j in range(d):
            made = release.row_interval(j, LEVEL)
            low, high = made.lower[0], made.upper[0]
            scale = 1.96 * se[j]
            found.append(
                Line(
                    made.status == statuses[j],
                    statuses[j] == "ok",
                    math.isfinite(release.estimate[j]),
                    low <= mean[j] <= high,
                    made.target.startswith("mean"),
                    (high - low) / 2 / scale,
                    {key: value[0] / scale for key, value in made.half_widths.items()},
                    (release.estimate[j] - again[:, j].mean()) / se[j],
                )
            )
    return [plan.estimator.removeprefix("default "), predicted(plan)], found


def row(job: tuple[str, Budget, int, Path]) -> list[object]:
    name, budget, runs, data = job
    x = panel(data, name)
    try:
        said, found = lines(x, budget, runs)
    except Exception as error:
        return [name, *_words(budget), str(error)[:60], *[""] * 9]
    ok = [item for item in found if item.ok]
    shown = [item for item in found if item.shown]
    parts = {}
    for key in dict.fromkeys(key for item in shown for key in item.parts):
        parts[key] = float(np.median([item.parts.get(key, 0.0) for item in shown]))
    return [
        name, *_words(budget), *said,
        f"{np.mean([item.agrees for item in found]):.2f}",
        f"{len(ok) / len(found):.2f}",
        f"{np.mean([item.covers for item in ok]):.3f}" if ok else "",
        f"{np.mean([item.covers for item in found]):.3f}",
        f"{np.mean([item.named for item in found]):.2f}",
        f"{np.median([item.half for item in shown]):.2f}" if shown else "",
        ", ".join(f"{key} {value:.2f}" for key, value in parts.items()),
        f"{math.sqrt(np.mean([min(item.error**2, 1e6) for item in shown])):.2f}" if shown else "",
    ]  # fmt: skip


def _words(budget: Budget) -> tuple[str, str]:
    asked = f"rho {budget.rho:g}" if budget.is_zcdp else f"epsilon {float(budget.epsilon):g}"
    return asked + (", delta 1e-6" if budget.delta else ""), budget.neighbors


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--only", default="")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--label", default="", help="print only, for another tree")
    a = parser.parse_args()
    runs = few(a.runs)
    budgets = [
        Budget(**{**_given(b), "neighbors": relation})
        for b in BUDGETS for relation in (REPLACE_ONE, ADD_REMOVE)
        if not (b.delta and relation == ADD_REMOVE)  # as without delta
    ]  # fmt: skip
    jobs = [(name, b, runs, a.data) for name in PANELS if a.only in name for b in budgets]
    rows = []
    with ProcessPoolExecutor(2) as pool:
        for found in pool.map(row, jobs):
            rows.append(found)
            print(*found, sep=" | ", flush=True)
    head = ["panel, columns", "budget", "relation", "method", "predicted", "agree", "ok",
            "ok covers", "covers", "names the mean", "half", "parts of it", "error"]  # fmt: skip
    text = (
        f"95 % intervals of each column for itself, {runs} runs, people drawn again. Agree: the "
        "status of the column is that of its interval; ok covers: of the columns with status ok, "
        "the intervals that hold the mean; half and its parts (medians), and the predicted half "
        "of the plan, over the sampling half width 1.96 se; error: root mean square of the "
        "estimate less the sample's mean, over se.\n\n" + table(head, rows)
    )
    if a.label or a.only:
        print(text)
        return
    publish("several-columns", "A few columns of real panels", text,
            command=f"python benchmarks/several_columns.py --runs {a.runs}")  # fmt: skip


def _given(budget: Budget) -> dict[str, object]:
    if budget.is_zcdp:
        return {"rho": budget.rho}
    return {"epsilon": budget.epsilon, **({"delta": budget.delta} if budget.delta else {})}


if __name__ == "__main__":
    main()
