"""Two constants of pooled regressions on laws that they were not chosen on.

    python benchmarks/pooled_laws.py [--runs 24]

y = 1 + arm + x/2 + person effect + error, 1 to 6 records a person, x lognormal (deviation .4 of its
log, half of it the person's), errors and effects of the law named, at deviation 1 if it has one.
kappa: at how many typical sizes second moments are shortened, times 1/1.4, 1 and 1.4 of what the
plan takes; heavier: what persons seen beyond the limit are taken to exceed it by, times 1, 2.25
(privmean's) and 4 of what is assumed of those who are not. Same seeds in all columns. Error: median
of |release - fit without privacy| over all coefficients, in standard errors of that fit. Coverage:
least of a coefficient, of 95 % intervals that are printed, for the coefficients of all persons of
the law's bank; length: median, in standard errors of the fit without privacy over 3.92.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from unittest.mock import patch

import numpy as np

from panels import Bank, reference
from privmean.data.public_shape import PublicShape
from privmean.models import pooled_intervals
from privmean.models.moment_rows import Weighting
from privmean.models.panel import PanelSums
from privmean.models.pooled_regression import Pooled, PooledPlan
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import Budget
from report import publish, table

Draw = Callable[[np.random.Generator, int], np.ndarray]
LAWS: dict[str, Draw] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "Laplace": lambda rng, n: rng.laplace(size=n) / math.sqrt(2),
    "t3": lambda rng, n: rng.standard_t(3, n) / math.sqrt(3),
    "lognormal 1": lambda rng, n: (rng.lognormal(size=n) - math.exp(0.5)) / 2.16,
    "Pareto 2.5": lambda rng, n: (rng.pareto(2.5, n) - 1 / 1.5) / 1.49,
}
CELLS = [
    (persons, budget)
    for persons in (2000, 9000)
    for budget in (Budget(epsilon=1.0, delta=1e-6), Budget(epsilon=3.0))
]
FACTORS, HEAVIER = (1 / 1.4, 1.0, 1.4), (1.0, pooled_intervals.HEAVIER, 4.0)
BANK = 40_000
HOW, ASKED = Weighting(), PanelSums("y ~ arm + x", False)


def bank_of(draw: Draw, rng: np.random.Generator) -> Bank:
    size = rng.integers(1, 7, BANK)
    who = np.repeat(np.arange(BANK), size)
    n = len(who)
    arm = (rng.random(BANK) < 0.5)[who] * 1.0
    x = np.exp(0.28 * rng.normal(size=BANK)[who] + 0.28 * rng.normal(size=n))
    y = 1 + arm + 0.5 * x + draw(rng, BANK)[who] + draw(rng, n)
    return Bank.of(who, {"y": y, "arm": arm, "x": x})


def released(plan: PooledPlan, people, seed: int, factor: float, heavier: float):
    kappa = PooledPlan.kappa.fget
    with (
        patch.object(pooled_intervals, "HEAVIER", heavier),
        patch.object(PooledPlan, "kappa", property(lambda self: factor * kappa(self))),
    ):
        return plan.release(people, SimulatedNoise(seed))


def row(name: str, bank: Bank, persons: int, budget: Budget, runs: int) -> list[str]:
    plan = Pooled(ASKED.design, HOW).plan(budget, PublicShape(ASKED.names, persons, None))
    truth, _ = reference(bank.people(ASKED, np.arange(bank.n)), ASKED.design, HOW)
    variants = [(factor, pooled_intervals.HEAVIER) for factor in FACTORS]
    variants += [(1.0, heavier) for heavier in HEAVIER if heavier != pooled_intervals.HEAVIER]
    errors: dict = {at: [] for at in variants}
    inside, lengths = {at: [] for at in variants}, {at: [] for at in variants}
    said = 0
    for seed in range(runs):
        drawn = np.random.default_rng(seed).integers(0, bank.n, persons)
        people = bank.some(drawn).people(ASKED, np.arange(persons))
        plain, spread = reference(people, ASKED.design, HOW)
        for at in variants:
            release = released(plan, people, seed, *at)
            low, high = release.conf_int().T
            shown = np.isfinite(low)
            errors[at].append(np.abs(release.estimate - plain) / spread)
            hit = ((low <= truth) & (truth <= high)).astype(float)
            inside[at].append(np.where(shown, hit, math.nan))
            lengths[at].append((high - low) / 3.92 / spread)
            said += at == (1.0, pooled_intervals.HEAVIER) and release.status == "ok"
    by_factor = [(factor, pooled_intervals.HEAVIER) for factor in FACTORS]
    by_heavier = [(1.0, heavier) for heavier in HEAVIER]

    def cover(places) -> str:
        return ", ".join(f"{np.nanmean(inside[at], axis=0).min():.2f}" for at in places)

    kappa = plan.kappa
    return [
        name, f"{persons}, {budget.describe()}", f"{kappa:g}", f"{said / runs:.0%}",
        ", ".join(f"{np.nanmedian(errors[at]):.2f}" for at in by_factor), cover(by_factor),
        cover(by_heavier), ", ".join(f"{np.nanmedian(lengths[at]):.2f}" for at in by_heavier),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=24, help="of a cell")
    options = parser.parse_args()
    start = time.process_time()
    rows = []
    for name, draw in LAWS.items():
        bank = bank_of(draw, np.random.default_rng(7))
        rows += [row(name, bank, persons, budget, options.runs) for persons, budget in CELLS]
    head = [
        "errors", "persons, budget", "kappa", "ok", "error: kappa / 1.4, kappa, 1.4 kappa",
        "coverage of these", "coverage: heavier 1, 2.25, 4", "length of these",
    ]  # fmt: skip
    publish(
        "pooled-laws",
        "One regression for all persons: two constants on other laws",
        f"{table(head, rows)}\n\n{options.runs} runs a cell. "
        f"{time.process_time() - start:.0f} s of processor time.",
        command=f"python benchmarks/pooled_laws.py --runs {options.runs}",
    )


if __name__ == "__main__":
    main()
