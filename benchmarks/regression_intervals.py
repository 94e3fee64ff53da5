"""Intervals of pooled regressions beside those of the same fits without privacy.

    python benchmarks/regression_intervals.py [--runs 40] [--panels NAME ...] [--before FILE]

Unit: half-width of the cluster-robust interval of the same fit without privacy. Coverage: of 95%
intervals of single coefficients for those of the whole table, from which people are drawn with
replacement in each run; the least coverage is over coefficients. Error: over the standard error.
Told from 0: releases whose interval of the named coefficient leaves out 0. The panels of REAL are
real, of which those after nlswork chose no setting; the clinical panel (blood pressure on age, body
mass, smoking, sex, a 6% dummy) and the others are simulated. --before: a stored run of other code,
for ratios of half-widths.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import polars as pl

from panels import PANEL, Bank, reference
from privmean.data.schema import PublicShape
from privmean.estimators.regression.panel import PanelSums, Weighting
from privmean.estimators.regression.run_pooled import Pooled
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget
from report import few, publish, table

PURE, SMALL, LARGE = Budget(2.0), Budget(1.0, 1e-6), Budget(2.0, 1e-6)
MORE, MOST = Budget(3.0), Budget(8.0)
CURVE = "line through a curve"
# laws of a regressor of people, of which the response is a line but for .03 deviations
FITS = {
    "line that fits, 5% dummy": lambda rng, n: (rng.random(n) < 0.05) * 1.0,
    "line that fits, 90% zeros": lambda rng, n: (rng.random(n) < 0.1) * rng.exponential(size=n),
    "line that fits, lognormal": lambda rng, n: rng.lognormal(size=n),
}
REAL = {  # file, columns
    "randhie": ("randhie", "mdvis meddol coins female black xage mhi income"),
    "nlswork": ("nlswork", "ln_wage union tenure collgrad ttl_exp hours age south"),
    "ratings": ("insteval", "rating service lecture_age student_semester"),
    "labs": ("nafld_labs", "value age male bmi"),
    "arrivals": ("nycflights", "arr_delay dep_delay distance"),
}
# formula, people drawn (0: as many as there are), budgets, the coefficient to be told from 0
PANELS = {
    "randhie": ("mdvis ~ coins + female + black", 0, (PURE, LARGE), "coins"),
    "randhie, spending": ("meddol ~ coins + black + xage", 0, (LARGE,), "coins"),
    "nlswork": ("ln_wage ~ union + tenure", 0, (MORE,), "union"),
    "nlswork, three": ("ln_wage ~ collgrad + ttl_exp + tenure", 0, (LARGE, SMALL), "collgrad"),
    "nlswork, hours": ("hours ~ age + collgrad + south", 0, (LARGE, SMALL), "south"),
    "randhie, mental health": ("mhi ~ xage + female + income", 0, (LARGE, SMALL), "female"),
    "randhie, income": ("income ~ xage + female", 0, (LARGE, SMALL), "female"),
    "ratings": ("rating ~ service + lecture_age + student_semester", 0, (LARGE, SMALL), "service"),
    "labs": ("value ~ age + male + bmi", 0, (LARGE, SMALL), "male"),
    "arrivals": ("arr_delay ~ dep_delay", 0, (LARGE, SMALL), "dep_delay"),
    "clinical": ("bp ~ age + bmi + smoker + male", 4400, (PURE, LARGE, SMALL), "smoker"),
    "rare dummy": ("bp ~ age + bmi + rare", 4000, (PURE, LARGE), "rare"),
    **{
        name: ("y ~ arm + x", 4000, (PURE, SMALL), "arm")
        for name in (
            "normal", "t3", "lognormal", "pareto", "skewed regressor", "rare response", "counts",
            CURVE,
        )
    },
    **{name: ("y ~ arm + x", 20_000, (LARGE, MOST), "arm") for name in FITS},
}  # fmt: skip
ERRORS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "t3": lambda rng, n: rng.standard_t(3, n) / math.sqrt(3),
    "lognormal": lambda rng, n: (rng.lognormal(size=n) - math.exp(0.5)) / 2.16,
    "pareto": lambda rng, n: (rng.pareto(2.5, n) - 1 / 1.5) / 1.49,
}
FIGURES = ("shown", "ok", "coverage", "least", "half", "half_90", "error", "told")


def real(file: Path, columns: str) -> Bank:
    """The laboratory values of one kind alone: those that are measured most."""
    frame = pl.read_parquet(file)
    if "test" in frame.columns:
        frame = frame.filter(pl.col("test") == pl.col("test").mode().first())
    numbers = {name: frame[name].cast(pl.Float64).to_numpy() for name in columns.split()}
    return Bank.of(frame["person_id"].to_numpy(), numbers)


def clinic(rng: np.random.Generator, people: int = 40_000) -> Bank:
    """One to three visits six years apart, blood pressures with people's own levels."""
    visits = rng.integers(1, 4, people)
    who = np.repeat(np.arange(people), visits)
    turn = np.arange(len(who)) - np.repeat(np.cumsum(visits) - visits, visits)
    male = (rng.random(people) < 0.44)[who] * 1.0
    age = rng.uniform(32, 64, people)[who] + 6.0 * turn
    bmi = np.exp(rng.normal(3.24, 0.15, people))[who] + rng.normal(0, 1, len(who))
    smoker = (rng.random(people) < 0.49)[who] * (rng.random(len(who)) < 0.92)
    rare = (rng.random(people) < 0.06)[who] * 1.0
    level = 12 * rng.normal(size=people)[who] + 6 * rng.standard_gamma(2, len(who))
    bp = 60 + 0.9 * age + 1.5 * bmi - 1.5 * smoker - 2 * male + 6 * rare + level
    columns = {"bp": bp, "age": age, "bmi": bmi, "smoker": smoker, "male": male, "rare": rare}
    return Bank.of(who, columns)


def simulated(name: str, rng: np.random.Generator, people: int = 40_000) -> Bank:
    size = rng.integers(1, 7, people)
    who = np.repeat(np.arange(people), size)
    n, arm = len(who), (rng.random(people) < 0.5)[who] * 1.0
    s = {"skewed regressor": 0.7, CURVE: 0.4}.get(name, 0.28)
    x = np.exp(s * rng.normal(size=people)[who] + s * rng.normal(size=n))
    if name in FITS:
        x = FITS[name](rng, people)[who]
        y = 1 + arm + 2 * x + 0.03 * rng.normal(size=n)
    elif name in ERRORS:
        y = 1 + arm + 0.5 * x + ERRORS[name](rng, people)[who] + ERRORS[name](rng, n)
    elif name == "skewed regressor":
        y = 1 + arm + 0.5 * x + (1 + 0.3 * x) * rng.normal(size=n) + rng.normal(size=people)[who]
    elif name == CURVE:
        y = 1 + arm + 0.3 * x**2 + rng.normal(size=n) + rng.normal(size=people)[who]
    elif name == "rare response":
        y = (rng.random(n) < 0.03 + 0.04 * arm) * 1.0
    else:
        rate = np.exp(0.2 + 0.4 * arm + 0.2 * x + 0.8 * rng.normal(size=people)[who])
        y = rng.poisson(rate) * 1.0
    return Bank.of(who, {"y": y, "arm": arm, "x": x})


def bank_of(name: str, data: Path) -> Bank:
    source = REAL.get(name.partition(",")[0])
    if source is not None:
        return real(data / f"{source[0]}.parquet", source[1])
    rng = np.random.default_rng(7)
    return clinic(rng) if name in ("clinical", "rare dummy") else simulated(name, rng)


def cell(name: str, bank: Bank, budget: Budget, runs: int, first: int) -> dict[str, float]:
    formula, people, _, main = PANELS[name]
    people = people or bank.n
    asked, how = PanelSums(formula, False), Weighting()
    truth, _ = reference(bank.people(asked, np.arange(bank.n)), asked.design, how)
    plan = Pooled(asked.design, how).plan(budget, PublicShape(asked.names, people, None))
    inside, halves, errors, ok, told = [], [], [], 0, 0
    at = asked.names.index(main)
    for seed in range(first, first + runs):
        some = bank.some(np.random.default_rng(seed).integers(0, bank.n, people))
        drawn = some.people(asked, np.arange(people))
        plain, spread = reference(drawn, asked.design, how)
        release = plan.release(drawn, SimulatedNoise(seed))
        low, high = release.conf_int().T
        hit = ((low <= truth) & (truth <= high)).astype(float)
        inside.append(np.where(np.isfinite(low), hit, math.nan))
        halves.append((high - low) / 3.92 / spread)
        errors.append((release.estimate - plain) / spread)
        ok += release.status == "ok"
        told += bool(low[at] > 0 or high[at] < 0)
    hits = np.array(inside)
    error = math.sqrt(float(np.nanmedian(np.square(errors))) / 0.455)
    cover = np.nanmean(hits, axis=0)
    values = (
        np.isfinite(hits[:, at]).mean(), ok / runs, np.nanmean(hits), np.nanmin(cover),
        np.nanmedian(halves), np.nanquantile(halves, 0.9), error, told / runs,
    )  # fmt: skip
    return dict(zip(FIGURES, map(float, values), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--panels", nargs="*", default=list(PANELS))
    parser.add_argument("--data", type=Path, default=PANEL.parent)
    parser.add_argument("--before", type=Path, help="figures of other code, as --store writes them")
    parser.add_argument("--store", type=Path, help="write figures here, and publish nothing")
    options = parser.parse_args()
    start, runs = time.perf_counter(), few(options.runs)
    earlier = json.loads(options.before.read_text()) if options.before else {}
    figures: dict[str, dict[str, float]] = {}
    rows = []
    for name in options.panels:
        bank = bank_of(name, options.data)
        for budget in PANELS[name][2]:
            label = f"{name}, {budget.describe()}"
            found = figures[label] = cell(name, bank, budget, runs, options.seed)
            was = earlier.get(label)
            ratio = f"{found['half'] / was['half']:.2f}" if was else "-"
            told = f"{was['told']:.0%}, " if was else ""
            rows.append([
                label, f"{found['shown']:.0%}", f"{found['coverage']:.3f}, {found['least']:.2f}",
                f"{found['half']:.2f}, {found['half_90']:.2f}", ratio, f"{found['error']:.2f}",
                f"{told}{found['told']:.0%}", f"{found['ok']:.0%}",
            ])  # fmt: skip
            print(*rows[-1], sep=" | ", flush=True)
    if options.store:
        options.store.write_text(json.dumps(figures, indent=1))
        return
    head = [
        "panel, budget", "main coefficient shown", "coverage, least", "half-width, 90%",
        "half-width, after over before", "error", "told from 0 (before, after)", "ok",
    ]  # fmt: skip
    publish(
        "regression-intervals",
        "Intervals of pooled regressions",
        f"{table(head, rows)}\n\n{runs} runs a row. {time.perf_counter() - start:.0f} s.",
        command=f"python benchmarks/regression_intervals.py --runs {options.runs}",
    )


if __name__ == "__main__":
    main()
