"""Quantiles and variances of persons' values with nothing given.

    python benchmarks/quantiles.py [--runs 400] [--data folder of the development tables]

First quartiles, beside the exponential mechanism told the range.

Error: root mean square error (towards the quantile of the law) over that of the sample quantiles
without privacy. Peer: the exponential mechanism on ranks, at a third of epsilon a quartile, told
the least and the largest value of the sample (which are private: no one can run it so). Coverage:
of 95 % intervals of a quartile alone, and of the band for the whole distribution function.
The last rows draw persons with replacement from log wages of 4711 persons. The second table has
laws of which values repeat: how often an interval holds the quantile, how often it does to within
one step of rounded values (which is what it says where they do not show), and how long it is. The
third: quantiles far out of laws that begin or end, some of them with a pole there. The last has
people drawn from columns of real tables and from laws, under three budgets: geometric means over
columns of the root mean square error towards the column's own number, over its sampling error (or a
hundredth of its spread, where values repeat), and how often "ok" and an interval that misses meet.
"""

from __future__ import annotations

import argparse
import time
import zlib
from pathlib import Path

import numpy as np
from scipy import stats

import privmean as pm
from privmean.data.array_table import ArrayPersonTable
from privmean.data.schema import PublicShape
from privmean.estimators.moment_variance import MomentVariance
from privmean.estimators.quantiles import Quantiles
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget
from report import publish, table

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
COLUMNS = {
    "nlswork": "age grade msp union wks_ue ttl_exp tenure hours wks_work ln_wage birth_yr",
    "randhie": "income xage meddol mentdol mdvis ghindx lnmeddol educdec disea drugdol inpmis linc",
    "cdnow": "quantity amount",
    "online_retail": "unit_price amount quantity",
    "nycflights": "dep_delay distance air_time",
    "insteval": "rating lecture_age",
    "nafld_labs": "bmi age",
    "cells": "area_ch_1 kurt_inten_ch_1 var_inten_ch_4 angle_ch_1 skew_inten_ch_3",
    "spambase": "word_freq_you word_freq_george word_freq_3d capital_run_length_average",
}
QUARTILES = (0.25, 0.5, 0.75)
OUTER = (0.01, 0.02, 0.05, 0.1, 0.9, 0.95, 0.98, 0.99)
ENDING = {
    "beta(1/2, 1/2)": stats.beta(0.5, 0.5),
    "beta(.3, .3)": stats.beta(0.3, 0.3),
    "uniform": stats.uniform(0, 1),
    "exponential": stats.expon(),
    "gamma 1/2": stats.gamma(0.5),
}
LAWS = {
    "normal(100, 1)": stats.norm(100, 1),
    "lognormal 1": stats.lognorm(1),
    "exponential": stats.expon(),
    "t3": stats.t(3),
    "uniform": stats.uniform(0, 1),
    "gamma 1/2": stats.gamma(0.5),
}
CELLS = ((500, 1.0), (1000, 1.0), (4700, 0.5), (4700, 1.0), (20_000, 1.0))

REPEATING = {
    "0 (60 %) or 1": lambda n, rng: (rng.random(n) < 0.4) * 1.0,
    "0 (95 %) or 1": lambda n, rng: (rng.random(n) < 0.05) * 1.0,
    "1 to 5": lambda n, rng: rng.choice(5, n, p=[0.05, 0.1, 0.3, 0.35, 0.2]) + 1.0,
    "90 % at 5, normal(5, 3)": lambda n, rng: np.where(rng.random(n) < 0.9, 5, rng.normal(5, 3, n)),
    "40 % at 0, lognormal": lambda n, rng: np.where(
        rng.random(n) < 0.4, 0, rng.lognormal(3, 0.5, n)
    ),
    "80 % at 0, lognormal": lambda n, rng: np.where(
        rng.random(n) < 0.8, 0, rng.lognormal(3, 0.5, n)
    ),
    "Poisson(5.3)": lambda n, rng: rng.poisson(5.3, n) + 0.0,
    **{
        f"rounded normal(100.3, {sd})": lambda n, rng, sd=sd: np.round(rng.normal(100.3, sd, n))
        for sd in (2, 6, 8, 12, 16, 40)
    },
}


def exponential_mechanism(rng, values, q, epsilon, low, high) -> float:
    ends = np.concatenate([[low], np.sort(values), [high]])
    gaps = np.diff(ends)
    ranks = np.arange(len(gaps))
    score = np.log(np.maximum(gaps, 1e-300)) - epsilon / 2 * np.abs(ranks - q * len(values))
    k = int(np.argmax(score + rng.gumbel(size=len(score))))
    return float(rng.uniform(ends[k], ends[k + 1]))


def seeded(name, persons, seed) -> tuple[np.random.Generator, SimulatedNoise]:
    """Streams of values and of noise that no two runs and no two cells share."""
    key = [seed, persons, zlib.crc32(name.encode())]
    return np.random.default_rng([*key, 1]), SimulatedNoise(np.random.default_rng([*key, 2]))


def cell(name, draw, truth, cdf, persons, epsilon, runs) -> list[str]:
    plan = Quantiles(QUARTILES).plan(Budget(epsilon=epsilon), PublicShape.of(1, persons))
    errors: dict[str, list] = {"private": [], "peer": [], "plain": []}
    inside, band, shown = np.zeros(3), 0, 0
    for seed in range(runs):
        rng, noise = seeded(f"{name} {epsilon}", persons, seed)
        values = draw(persons, rng)
        release = plan.release(ArrayPersonTable(values[:, None], ("y",)), noise)
        if release.status != "ok":
            continue
        shown += 1
        one = release.intervals.alone(0.95)
        inside += (np.array(one.lower) <= truth) & (truth <= np.array(one.upper))
        held = release.intervals.band(0.95)
        exact = cdf(held.at)
        band += bool(np.all((held.lower <= exact + 1e-12) & (exact <= held.upper + 1e-12)))
        low, high = values.min(), values.max()
        errors["private"].append(release.estimate - truth)
        errors["plain"].append(np.quantile(values, QUARTILES) - truth)
        errors["peer"].append(
            [exponential_mechanism(rng, values, q, epsilon / 3, low, high) for q in QUARTILES]
            - truth
        )
    size = {k: np.sqrt(np.mean(np.square(np.array(v)), axis=0)) for k, v in errors.items()}
    own, peer = size["private"] / size["plain"], size["peer"] / size["plain"]
    return [
        name, f"{persons}, {epsilon:g}", f"{shown / runs:.0%}",
        ", ".join(f"{x:.2f}" for x in own), ", ".join(f"{x:.2f}" for x in peer),
        f"{np.sqrt(np.mean(own**2)) / np.sqrt(np.mean(peer**2)):.2f}",
        ", ".join(f"{x:.1%}" for x in inside / shown), f"{band / shown:.1%}",
    ]  # fmt: skip


def repeating(name, draw, persons, epsilon, runs) -> list[str]:
    many = np.sort(draw(2_000_001, np.random.default_rng(99)))
    truth = np.array([many[int(np.ceil(q * len(many))) - 1] for q in QUARTILES])
    plan = Quantiles(QUARTILES).plan(Budget(epsilon=epsilon), PublicShape.of(1, persons))
    inside, near, shown, lengths = np.zeros(3), np.zeros(3), np.zeros(3), []
    step = 1.0 if name.startswith("rounded") else 0.0
    for seed in range(runs):
        rng, noise = seeded(name, persons, seed)
        release = plan.release(ArrayPersonTable(draw(persons, rng)[:, None], ("y",)), noise)
        there = np.isfinite(release.estimate)
        one = release.intervals.alone(0.95)
        low, high = np.array(one.lower), np.array(one.upper)
        shown += there
        inside += there & (low <= truth) & (truth <= high)
        near += there & (low - step <= truth) & (truth <= high + step)
        lengths.append(np.where(there, np.where(there, high, 0) - np.where(there, low, 0), np.nan))
    return [
        name, f"{persons}, {epsilon:g}", ", ".join(f"{x:.0%}" for x in shown / runs),
        ", ".join(f"{x:.1%}" for x in inside / np.maximum(shown, 1)),
        ", ".join(f"{x:.1%}" for x in near / np.maximum(shown, 1)) if step else "",
        ", ".join(f"{x:.2g}" for x in np.nanmedian(lengths, axis=0)),
    ]  # fmt: skip


def far(name, law, persons, epsilon, runs) -> list[str]:
    truth = law.ppf(OUTER)
    plan = Quantiles(OUTER).plan(Budget(epsilon=epsilon), PublicShape.of(1, persons))
    inside, shown, lengths = np.zeros(len(OUTER)), np.zeros(len(OUTER)), []
    for seed in range(runs):
        rng, noise = seeded(name, persons, seed)
        values = law.rvs(persons, random_state=rng)[:, None]
        release = plan.release(ArrayPersonTable(values, ("y",)), noise)
        there = np.isfinite(release.estimate)
        one = release.intervals.alone(0.95)
        low, high = np.array(one.lower), np.array(one.upper)
        shown += there
        inside += there & (low <= truth) & (truth <= high)
        lengths.append(np.where(there, high, np.inf) - np.where(there, low, 0))
    return [
        name, f"{persons}, {epsilon:g}", ", ".join(f"{x:.0%}" for x in shown / runs),
        ", ".join(f"{x:.1%}" for x in inside / np.maximum(shown, 1)),
        ", ".join(f"{x:.2g}" for x in np.median(lengths, axis=0)),
    ]  # fmt: skip


def populations(folder: Path) -> dict[str, dict[str, tuple[int, np.ndarray]]]:
    """How many people are drawn, and from which values: of real columns and of laws."""
    rng = np.random.default_rng(7)
    real = {}
    for name, columns in COLUMNS.items():
        if (path := folder / f"{name}.parquet").exists():
            people = pm.read(path, person="person_id", values=columns.split())
            for column, values in zip(columns.split(), people.matrix().T, strict=True):
                real[f"{name}.{column}"] = len(values), values
    many = 200_001
    drawn = {
        "normal": rng.normal(size=many), "lognormal": rng.lognormal(size=many),
        "t3": rng.standard_t(3, many), "10^6 + normal": 1e6 + rng.normal(size=many),
        "0 or 1": (rng.random(many) < 0.3) * 1.0, "1 to 5": REPEATING["1 to 5"](many, rng),
        "98 % zeros": np.where(rng.random(many) < 0.98, 0, rng.lognormal(3, 0.5, many)),
        "half missing": np.where(rng.random(many) < 0.5, np.nan, rng.normal(-3, 2, many)),
    }  # fmt: skip
    laws = {f"{name} {n}": (n, values) for name, values in drawn.items() for n in (1500, 5000)}
    return {"columns": real, "laws": laws}


def targets(values: np.ndarray, persons: int, points: tuple[float, ...]) -> np.ndarray:
    """What is estimated of a population and its sampling error, a row each; no points: variance."""
    known = np.sort(values[np.isfinite(values)])
    number, sd = persons * len(known) / len(values), known.std()
    if not points:
        around = (known - known.mean()) ** 2
        kurtosis = (around**2).mean() / around.mean() ** 2
        return np.array([[sd**2], [sd**2 * np.sqrt(max(kurtosis - 1, 0.02) / number)]])
    q = np.array(points)
    away = 1.96 * np.sqrt(q * (1 - q) / number)
    place = lambda part: np.quantile(known, np.clip(part, 0, 1), method="inverted_cdf")  # noqa: E731
    spread = min(sd, (place(0.75) - place(0.25)) / 1.35 or sd)
    return np.array(
        [place(q), np.maximum((place(q + away) - place(q - away)) / 3.92, spread / 100)]
    )


def on_columns(points: tuple[float, ...], group: dict, budget: Budget, runs: int) -> list[str]:
    """points: of the quantiles; none: the variance."""
    errors, shown, ok, silent, held, number = [], 0, 0, 0, 0, 0
    estimator = Quantiles(points) if points else MomentVariance()
    for name, (persons, values) in group.items():
        truth, unit = targets(values, persons, points)
        known = persons if budget.neighbors == "replace-one" else None
        plan = estimator.plan(budget, PublicShape.of(1, known, persons))
        squares = []
        for seed in range(runs):
            rng, noise = seeded(f"{name} {budget.describe()}", persons, seed)
            drawn = rng.choice(values, persons)[:, None]
            release = plan.release(ArrayPersonTable(drawn, ("y",)), noise)
            there = np.isfinite(release.estimate)
            made = release.intervals.alone(0.95) if points else release.interval()
            low, high = np.array(made.lower), np.array(made.upper)
            inside = (low <= truth * (1 + 1e-12)) & (truth <= high) & there
            squares.append(np.where(there, ((release.estimate - truth) / unit) ** 2, np.nan))
            fine = there & (release.status == "ok")
            shown, ok, held = shown + there.sum(), ok + fine.sum(), held + inside.sum()
            silent, number = silent + (fine & ~inside).sum(), number + len(there)
        kept = np.array(squares)[:, np.isfinite(squares).mean(axis=0) >= 0.5]
        errors += np.maximum(np.sqrt(np.nanmean(kept, axis=0)), 0.05).tolist()
    return [
        f"{np.exp(np.mean(np.log(errors))):.2f}", f"{shown / number:.0%}", f"{ok / number:.0%}",
        f"{held / max(shown, 1):.1%}", f"{silent / max(ok, 1):.1%}",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    start = time.process_time()
    rows = []
    for name, law in LAWS.items():
        truth = law.ppf(QUARTILES)
        for persons, epsilon in CELLS:
            draw = lambda n, rng, law=law: law.rvs(n, random_state=rng)  # noqa: E731
            rows.append(cell(name, draw, truth, law.cdf, persons, epsilon, options.runs))
    if (panel := options.data / "nlswork.parquet").exists():
        people = pm.read(panel, person="person_id", values=["ln_wage"])
        pool = np.sort(people.matrix()[:, 0])
        pool = pool[np.isfinite(pool)]
        truth = np.quantile(pool, QUARTILES)
        below = lambda at: np.searchsorted(pool, at) / len(pool)  # noqa: E731
        for persons, epsilon in CELLS[1:4]:
            draw = lambda n, rng: rng.choice(pool, n)  # noqa: E731
            rows.append(cell("log wages", draw, truth, below, persons, epsilon, options.runs))
    head = [
        "law", "persons, epsilon", "shown", "error of the quartiles / without privacy",
        "the peer's", "ratio", "coverage", "band",
    ]  # fmt: skip
    text = table(head, rows)
    again = [
        repeating(name, draw, persons, 1.0, options.runs // 2)
        for name, draw in REPEATING.items()
        for persons in (1000, 4700, 20_000)
    ]
    text += "\n\nValues that repeat:\n\n"
    columns = ["shown", "coverage", "to within one step", "median length"]
    text += table(["law", "persons, epsilon", *columns], again)
    text += f"\n\nQuantiles {', '.join(map(str, OUTER))} of laws that begin or end:\n\n"
    outer = [
        far(name, law, persons, 1.0, options.runs)
        for name, law in ENDING.items()
        for persons in (1000, 10_000)
    ]
    text += table(["law", "persons, epsilon", "shown", "coverage", "median length"], outer)
    budgets = [Budget(epsilon=e) for e in (0.5, 1.0, 2.0)]
    budgets += [Budget(epsilon=1.0, neighbors="add-remove"), Budget(rho=1 / 8)]
    groups = populations(options.data)
    on_all = [
        [
            "quantiles" if points else "variance", name, budget.describe(), budget.neighbors,
            *on_columns(points, group, budget, max(2, options.runs // 40)),
        ]
        for points in ((0.1, 0.25, 0.5, 0.75, 0.9), ())
        for name, group in groups.items()
        if group
        for budget in budgets
    ]  # fmt: skip
    text += "\n\nColumns of real tables, and laws:\n\n"
    head = ["what", "of", "budget", "neighbors", "error over sampling", "shown", "ok", "coverage"]
    text += table([*head, "ok, and missed"], on_all)
    publish(
        "quantiles",
        "Quantiles and variances",
        f"{text}\n\n{options.runs} runs a cell, half as many in the second table, "
        f"a fortieth in the last. "
        f"{time.process_time() - start:.0f} s of processor time.",
        command="python benchmarks/quantiles.py"
        + (f" --runs {options.runs}" if options.runs != 400 else ""),
    )


if __name__ == "__main__":
    main()
