"""One regression for all persons, beside one release of second moments.

    python benchmarks/pooled.py [--runs 40] [--panel nlswork.parquet]

A: log wages on experience and tenure; B: on college, race, age and its square (persons drawn with
replacement from 4711); C: a simulated treatment panel. Unit of errors: the standard error of the
same fit without privacy, cluster-robust (1: privacy costs as much as sampling). Error: median of
the absolute difference to the fit without privacy, and root mean square (median over terms).
Coverage: of 95 % intervals of single terms for the coefficients of all persons, least to most.
Length: over that of the fit without privacy; in brackets for the equation with long influences
shortened. Peers release all second moments once (sufficient statistics; AdaSSP) and know
the scales of all variables and the 90 % quantile of the sizes of persons' matrices, which are
private; Gaussian noise by mu, Laplace by epsilon, without any cost of searching.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np

from panels import PANEL, Bank, reference, trial, wages
from privmean.errors import Infeasible
from privmean.models.moment_rows import Weighting, entry, person_moments
from privmean.models.panel import PanelSums
from privmean.models.pooled import Pooled
from privmean.noise.simulated import SimulatedNoise
from privmean.people.shape import Shape
from privmean.privacy.budget import Budget
from report import publish, table

FORMULAS = {
    "A": "ln_wage ~ ttl_exp + tenure",
    "B": "ln_wage ~ collgrad + C(race, levels=[1, 2, 3]) + age + I(age**2)",
    "C": "y ~ arm + base + x + year",
}
PURE, MIXED = {}, {"delta": 1e-6}
CELLS = (
    ("A", 1000, 1.0, MIXED), ("A", 1000, 3.0, PURE), ("A", 4700, 0.5, MIXED),
    ("A", 4700, 1.0, MIXED), ("A", 4700, 1.0, PURE), ("A", 4700, 3.0, PURE),
    ("A", 20_000, 1.0, PURE), ("B", 1000, 3.0, MIXED), ("B", 4700, 1.0, MIXED),
    ("B", 4700, 3.0, MIXED), ("B", 20_000, 1.0, MIXED), ("C", 1000, 3.0, MIXED),
    ("C", 4700, 1.0, MIXED), ("C", 4700, 3.0, PURE), ("C", 20_000, 3.0, PURE),
)  # fmt: skip


def peers(people, design, budget, rng) -> list[np.ndarray]:
    """Sufficient statistics and AdaSSP on standardized columns."""
    units = {}
    for name in design.numeric:
        own = people.of(name, float(np.nanmedian(people.sizes(name))) + 1e-9)
        centre = float(np.nanmedian(own.mean))
        units[name] = centre, float(np.sqrt(np.nanmean(own.about(centre) ** 2))) + 1e-12
    moments = person_moments(people.again(units), design, Weighting())
    q = len(design.terms) + 1
    p = q - 1
    rows = np.stack([[entry(moments, i, j) for j in range(q)] for i in range(q)]).transpose(2, 0, 1)
    n, upper = len(rows), np.triu_indices(q)
    if budget.is_pure:
        size = np.abs(rows[:, upper[0], upper[1]]).sum(axis=1)
    else:
        size = np.sqrt((rows**2).sum(axis=(1, 2)))
    radius = float(np.quantile(size, 0.9))
    short = np.minimum(1, radius / np.maximum(size, 1e-300))
    mean = (rows * short[:, None, None]).mean(axis=0)
    noise = np.zeros((q, q))
    if budget.is_pure:
        sd = math.sqrt(2) * 2 * radius / budget.epsilon / n
        noise[upper] = rng.laplace(size=len(upper[0])) * sd / math.sqrt(2)
    else:
        sd = math.sqrt(2) * radius / budget.gaussian_mu() / n
        noise[upper] = rng.normal(size=len(upper[0])) * sd / math.sqrt(2)
        noise[np.diag_indices(q)] *= math.sqrt(2)
    noise = noise + np.triu(noise, 1).T
    seen = mean + noise
    least = max(float(np.linalg.eigvalsh(mean[:p, :p])[0]), 0.0)
    ridge = max(0.0, 2 * sd * math.sqrt(p) - least)
    back = units[design.response][1] * design.expansion(units).T
    found = []
    for extra in (0.0, ridge):
        raw = back @ np.linalg.solve(seen[:p, :p] + extra * np.eye(p), seen[:p, p])
        raw[design.names.index("Intercept")] += units[design.response][0]
        found.append(raw)
    return found


def cell(model: str, bank: Bank, persons: int, budget: Budget, runs: int) -> list[str]:
    asked = PanelSums(FORMULAS[model], False)
    how, name = Weighting(), f"{model}, {persons}, {budget.describe()}"
    try:
        plan = Pooled(asked.design, how).plan(budget, Shape(asked.names, persons, None))
    except Infeasible:
        return [name, "refused", *[""] * 6]
    truth, _ = reference(bank.people(asked, np.arange(bank.persons)), asked.design, how)
    errors, others, inside, lengths = [], [], [], []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        people = bank.people(asked, rng.integers(0, bank.persons, persons))
        plain, spread = reference(people, asked.design, how)
        release = plan.release(people, SimulatedNoise(seed))
        low, high = release.conf_int().T
        rows = np.eye(len(truth))
        short = [release.intervals.combined(row, 0.95, clipped=True)[2:] for row in rows]
        errors.append((release.estimate - plain) / spread)
        hit = ((low <= truth) & (truth <= high)).astype(float)
        inside.append(np.where(np.isfinite(low), hit, math.nan))
        whole = [(high - low) / 3.92 / spread, np.diff(np.array(short))[:, 0] / 3.92 / spread]
        lengths.append(whole)
        others.append([(x - plain) / spread for x in peers(people, asked.design, budget, rng)])
    found = np.array(errors)
    often = np.isfinite(found).mean(axis=0) >= 0.1
    found, hits = found[:, often], np.array(inside)[:, often]
    length = np.nanmedian(np.array(lengths)[:, :, often], axis=(0, 2))
    other = [np.median(np.abs(np.array(others)[:, k])) for k in (0, 1)]
    cover = np.nanmean(hits, axis=0)
    missing = [term for term, shown in zip(asked.names, often, strict=True) if not shown]
    lost = f" ({', '.join(missing)} lost)" if missing else ""
    return [
        name, f"{np.isfinite(found).mean():.0%}{lost}",
        plan.law, f"{np.nanmedian(np.abs(found)):.2f}",
        f"{np.median(np.sqrt(np.nanmean(found**2, axis=0))):.2f}",
        f"{cover.min():.2f} to {cover.max():.2f}", f"{length[0]:.1f} ({length[1]:.1f})",
        ", ".join(f"{x:.1f}" for x in other),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--panel", type=Path, default=PANEL)
    options = parser.parse_args()
    start = time.perf_counter()
    banks = {"C": trial(20_000, np.random.default_rng(99))}
    if options.panel.exists():
        banks["A"] = banks["B"] = wages(options.panel)
    rows = [
        cell(model, banks[model], persons, Budget(epsilon=epsilon, **more), options.runs)
        for model, persons, epsilon, more in CELLS
        if model in banks
    ]
    head = [
        "model, persons, budget", "shown", "law", "error (median)", "rms", "coverage", "length",
        "error of the peers",
    ]  # fmt: skip
    publish(
        "pooled",
        "One regression for all persons",
        f"{table(head, rows)}\n\n{options.runs} runs a cell. {time.perf_counter() - start:.0f} s.",
        command=f"python benchmarks/pooled.py --runs {options.runs}",
    )


if __name__ == "__main__":
    main()
