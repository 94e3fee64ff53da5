"""One regression for all persons: errors, coverage, lengths, and other ways at the same budget.

    python benchmarks/pooled.py [--runs 60] [--panel PATH]

A, B: log wages of nlswork (`ttl_exp + tenure`; `collgrad + race + age + age^2`, persons drawn with
replacement from 4711); C: a simulated treatment panel. Unit of errors: the standard error of the
same fit without privacy, cluster-robust (1: privacy costs as much as sampling). Error: median of
the absolute difference to the fit without privacy, and root mean square (median over terms).
Coverage: of 95 % intervals of single terms for the coefficients of all persons, least to most.
Length: over that of the fit without privacy; in brackets for the equation with long influences
shortened. The others release all second moments once (sufficient statistics, AdaSSP) with the
same exact law of noise in doubles: searching for scales as privmean does, or told the scales and
the 90 % quantile of persons' sizes, which are private; "wide": sufficient statistics with public
bounds ten times as wide as the spread. "own": the mean of persons' own coefficients, another
question, as an estimate of these.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np

from panels import PANEL, Bank, reference, trial, wages
from privmean.data.schema import PublicShape
from privmean.errors import InfeasibleError
from privmean.estimators.regression.mean_coefficients import CoefficientPanel, MeanCoefficients
from privmean.estimators.regression.panel import (
    Independence,
    PanelSums,
    Weighting,
    entry,
    person_moments,
)
from privmean.estimators.regression.run_pooled import Pooled, PooledRun
from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget
from report import publish, table

FORMULAS = {
    "A": "ln_wage ~ ttl_exp + tenure",
    "B": "ln_wage ~ collgrad + C(race, levels=[1, 2, 3]) + age + I(age**2)",
    "C": "y ~ arm + base + x + year",
}
CELLS = [
    (model, persons, epsilon, delta)
    for model in FORMULAS
    for persons in (1000, 4700, 20_000)
    for epsilon in (0.5, 1.0, 3.0)
    for delta in (0.0, 1e-6)
]
HOW = Weighting()


def told_units(people, design) -> dict[str, tuple[float, float]]:
    """Median and spread of every variable, without privacy."""
    units = {}
    for name in design.numeric:
        centre = float(np.nanmedian(people.means(name)))
        away = people.distances(name, centre)
        units[name] = centre, float(np.sqrt(np.nanmean(away**2))) + 1e-12
    return units


def matrices(people, design, units) -> np.ndarray:
    """One matrix of second moments a person."""
    moments = person_moments(people.again(units), design, HOW)
    q = len(design.terms) + 1
    return np.stack([[entry(moments, i, j) for j in range(q)] for i in range(q)]).transpose(2, 0, 1)


def size_of(rows: np.ndarray, law: str) -> np.ndarray:
    """The norm in which a matrix is shortened."""
    if law == "laplace":
        upper = np.triu_indices(rows.shape[1])
        return np.abs(rows[:, upper[0], upper[1]]).sum(axis=1)
    return np.sqrt((rows**2).sum(axis=(1, 2)))


def solved(rows, radius, law, strength, design, units, rng) -> list[np.ndarray]:
    """Coefficients of sufficient statistics, and with the ridge of AdaSSP. strength: epsilon or mu
    that is left for the one release."""
    n, q = len(rows), rows.shape[1]
    p, upper = q - 1, np.triu_indices(q)
    short = np.minimum(1, radius / np.maximum(size_of(rows, law), 1e-300))
    mean, noise = (rows * short[:, None, None]).mean(axis=0), np.zeros((q, q))
    if law == "laplace":
        sd = math.sqrt(2) * 2 * radius / strength / n
        noise[upper] = rng.laplace(size=len(upper[0])) * sd / math.sqrt(2)
    else:
        sd = math.sqrt(2) * radius / strength / n
        noise[upper] = rng.normal(size=len(upper[0])) * sd / math.sqrt(2)
        noise[np.diag_indices(q)] *= math.sqrt(2)
    noise = noise + np.triu(noise, 1).T
    seen = mean + noise
    least = max(float(np.linalg.eigvalsh(mean[:p, :p])[0]), 0.0)
    ridge = max(0.0, 2 * sd * math.sqrt(p) - least)
    back, found = units[design.response][1] * design.expansion(units).T, []
    for extra in (0.0, ridge):
        raw = back @ np.linalg.solve(seen[:p, :p] + extra * np.eye(p), seen[:p, p])
        raw[design.names.index("Intercept")] += units[design.response][0]
        found.append(raw)
    return found


def others(people, design, plan, seed) -> list[np.ndarray]:
    """Five ways: two that search, the same two told, one with wide public bounds."""
    rng = np.random.default_rng([seed, 1])
    law, strength = plan.parts.law, float(plan.parts.strength)
    units, *_ = PooledRun(plan, TrustedCurator(people, SimulatedNoise(seed)), people).units()
    first = plan.shares["scales"]
    root = 1.0 if law == "laplace" else 0.5  # epsilon adds, mu squared adds
    rows = matrices(people, design, units)
    radius = plan.kappa * float(np.median(size_of(rows, law)))  # not paid for
    made = solved(rows, radius, law, strength * (1 - first) ** root, design, units, rng)
    units = told_units(people, design)
    rows = matrices(people, design, units)
    radius = float(np.quantile(size_of(rows, law), 0.9))
    made += solved(rows, radius, law, strength, design, units, rng)
    wide = {name: (centre, 10 * scale) for name, (centre, scale) in units.items()}
    rows, q = matrices(people, design, wide), len(design.terms) + 1
    radius = q * (q + 1) / 2 if law == "laplace" else float(q)  # of any record within the bounds
    return [*made, solved(rows, radius, law, strength, design, wide, rng)[0]]


def own_errors(model, bank, persons, budget, runs, truth_of) -> str:
    """Median error of the mean of own coefficients as an estimate of those of one regression."""
    asked, errors = CoefficientPanel(FORMULAS[model], False), []
    least = len(asked.design.terms) + 1
    estimator = MeanCoefficients(asked.design, False, Independence(), 0.01, least, "mean", 1.0)
    try:
        plan = estimator.plan(budget, PublicShape(asked.design.names, persons, None))
    except InfeasibleError:
        return "refused"
    for seed in range(min(runs, 15)):
        some, plain, spread = truth_of(seed)
        people = some.people(asked, np.arange(persons))
        errors.append((plan.release(people, SimulatedNoise(seed)).estimate - plain) / spread)
    found = np.array(errors)
    shown = np.isfinite(found).mean()
    return f"{np.nanmedian(np.abs(found)):.1f}" if shown > 0.5 else "nothing"


def cell(model: str, bank: Bank, persons: int, budget: Budget, runs: int) -> list[str]:
    asked = PanelSums(FORMULAS[model], False)
    name = f"{model}, {persons}, {budget.describe()}"
    try:
        plan = Pooled(asked.design, HOW).plan(budget, PublicShape(asked.names, persons, None))
    except InfeasibleError:
        return [name, "refused", *[""] * 9]
    truth, _ = reference(bank.people(asked, np.arange(bank.n)), asked.design, HOW)
    errors, rest, inside, lengths = [], [], [], []

    def drawn(seed):
        some = bank.some(np.random.default_rng(seed).integers(0, bank.n, persons))
        people = some.people(asked, np.arange(persons))
        return some, *reference(people, asked.design, HOW)

    for seed in range(runs):
        some, plain, spread = drawn(seed)
        people = some.people(asked, np.arange(persons))
        release = plan.release(people, SimulatedNoise(seed))
        low, high = release.conf_int().T
        rows = np.eye(len(truth))
        short = [release.intervals.combined(row, 0.95, clipped=True)[2:] for row in rows]
        errors.append((release.estimate - plain) / spread)
        hit = ((low <= truth) & (truth <= high)).astype(float)
        inside.append(np.where(np.isfinite(low), hit, math.nan))
        whole = [(high - low) / 3.92 / spread, np.diff(np.array(short))[:, 0] / 3.92 / spread]
        lengths.append(whole)
        rest.append([(x - plain) / spread for x in others(people, asked.design, plan, seed)])
    found = np.array(errors)
    often = np.isfinite(found).mean(axis=0) >= 0.1
    other = [np.median(np.abs(np.array(rest)[:, k])) for k in range(5)]
    tail = [f"{other[0]:.1f}, {other[1]:.1f}", f"{other[2]:.1f}, {other[3]:.1f}", f"{other[4]:.0f}"]
    own = own_errors(model, bank, persons, budget, runs, drawn)
    if not often.any():
        return [name, "nothing", plan.parts.law, *[""] * 4, *tail, own]
    found, hits = found[:, often], np.array(inside)[:, often]
    length = np.nanmedian(np.array(lengths)[:, :, often], axis=(0, 2))
    cover = np.nanmean(hits, axis=0)
    missing = [term for term, shown in zip(asked.names, often, strict=True) if not shown]
    lost = f" ({', '.join(missing)} lost)" if missing else ""
    return [
        name, f"{np.isfinite(found).mean():.0%}{lost}",
        plan.parts.law, f"{np.nanmedian(np.abs(found)):.2f}",
        f"{np.median(np.sqrt(np.nanmean(found**2, axis=0))):.2f}",
        f"{cover.min():.2f} to {cover.max():.2f}", f"{length[0]:.1f} ({length[1]:.1f})",
        *tail, own,
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=60, help="of a cell; half of it at 20,000")
    parser.add_argument("--panel", type=Path, default=PANEL)
    options = parser.parse_args()
    start = time.perf_counter()
    banks = {"C": trial(20_000, np.random.default_rng(99))}
    if options.panel.exists():
        banks["A"] = banks["B"] = wages(options.panel)
    rows = []
    for model, persons, epsilon, delta in CELLS:
        if model in banks:
            runs = options.runs if persons < 20_000 else options.runs // 2
            rows.append(cell(model, banks[model], persons, Budget(epsilon, delta), runs))
    head = [
        "model, persons, budget", "shown", "law", "error (median)", "rms", "coverage", "length",
        "statistics, AdaSSP: searching", "told", "wide", "own",
    ]  # fmt: skip
    note = f"{options.runs} runs a cell, half of it at 20,000; own: 15."
    publish(
        "pooled",
        "One regression for all persons",
        f"{table(head, rows)}\n\n{note} {time.perf_counter() - start:.0f} s.",
        command=f"python benchmarks/pooled.py --runs {options.runs}",
    )


if __name__ == "__main__":
    main()
