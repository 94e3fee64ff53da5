"""Union and tenure in log wages: statsmodels' estimating equations, and releases, of one panel.

    python benchmarks/gee.py [--panel nlswork.parquet] [--runs 30]

Figures of statsmodels: benchmarks/gee_figures.py, kept in tests/estimators/gee_figures.json.
Without noise: the equation that is released, from sums of products. Private: root mean square of
the difference to statsmodels, over its cluster-robust standard error, and how often the 95 %
interval of a term holds its figure.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from panels import PANEL, Bank, reference
from privmean.data.schema import PublicShape
from privmean.estimators.regression.panel import PanelSums, Weighting
from privmean.estimators.regression.run_pooled import Pooled
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget
from report import publish, table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "estimators"))
from gee_cases import CASES, figures

BUDGETS = (Budget(epsilon=1.0, delta=1e-6), Budget(epsilon=3.0))


def records(path: Path) -> Bank:
    import duckdb

    names = "person_id, ln_wage, union, tenure"
    rows = duckdb.sql(
        f"SELECT person_id, ln_wage, \"union\", tenure FROM '{path}' ORDER BY ALL"
    ).fetchnumpy()
    kept = {key: np.ma.filled(x.astype(float), np.nan) for key, x in rows.items()}
    usable = np.all([np.isfinite(x) for x in kept.values()], axis=0)
    who, *columns = (name.strip() for name in names.split(","))
    return Bank.of(kept[who][usable], {name: kept[name][usable] for name in columns})


def lines(name: str, bank: Bank, runs: int) -> list[list[str]]:
    said = CASES[name]
    how = Weighting(said.get("weights"), said.get("icc", 0.0), said.get("effect") == "within")
    asked = PanelSums("ln_wage ~ union + tenure", how.within)
    people = bank.people(asked, np.arange(bank.n))
    made = figures()["nlswork"][name]
    estimate, error = np.array(made["estimate"]), np.array(made["std_error"])
    beta, _ = reference(people, asked.design, how)
    private = []
    for budget in BUDGETS:
        plan = Pooled(asked.design, how).plan(budget, PublicShape(asked.names, bank.n, None))
        off, held = [], []
        for seed in range(runs):
            release = plan.release(people, SimulatedNoise(seed))
            low, high = release.conf_int().T
            off.append((release.estimate - estimate) / error)
            held.append((low <= estimate) & (estimate <= high))
        private.append((np.sqrt(np.nanmean(np.square(off), axis=0)), np.mean(held, axis=0)))
    return [
        [
            name if j == len(estimate) - 2 else "", term,
            f"{estimate[j]:.4f} ± {error[j]:.4f}", f"{beta[j]:.4f}",
            *(f"{rms[j]:.2f}, {held[j]:.0%}" for rms, held in private),
        ]
        for j, term in enumerate(asked.names)
        if term != "Intercept"
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--panel", type=Path, default=PANEL)
    options = parser.parse_args()
    start = time.perf_counter()
    bank = records(options.panel)
    body = [line for name in CASES for line in lines(name, bank, options.runs)]
    head = ["equation", "term", "statsmodels", "without noise",
            *(f"{budget.describe()}: error, held" for budget in BUDGETS)]  # fmt: skip
    publish(
        "gee",
        "Estimating equations of statsmodels",
        f"{table(head, body)}\n\n{bank.n} persons of nlswork with a union status; "
        f"statsmodels {figures()['statsmodels']}; {options.runs} releases a cell. "
        f"{time.perf_counter() - start:.0f} s.",
        command="python benchmarks/gee.py",
    )


if __name__ == "__main__":
    main()
