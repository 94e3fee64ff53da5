"""The default mean on hard laws: real answers, coverage, and misses that nobody sees.

Every release answers for a fresh table of its law, so that the truth is known and every division by
a noisy number is in the error. Ratio: the error around the truth over that of an oracle with the
true center, the best symmetric limits and all of epsilon; failed releases have none. In brackets:
the same of a middling error, which one rare release does not hide. Covers: the 95 % interval
holds the mean. S: it says "ok" and its interval misses; F: failed; P: one value.

    python benchmarks/default_mean_laws.py [--runs 100] [--only TEXT] [--store F] [--against F]
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plans import planned
from privmean.data.array_table import ArrayPersonTable
from privmean.estimators.means.default_mean import DefaultMean
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from report import few, publish, table
from study_laws import oracle

Draw = Callable[[np.random.Generator, int], np.ndarray]
EPSILON = 0.5
TABLES = 12  # over which the oracle's error is averaged
SIZES = (200.0, 300.0, 600.0, 1000.0, 1600.0, 5000.0)
KNOWN = 2_000_000  # draws that tell the mean and deviation of a law


@dataclass(frozen=True)
class Law:
    """People's values (NaN: none); mean and deviation of those there are."""

    draw: Draw
    mean: float
    sd: float
    share: float = 1.0  # of people with a value

    @classmethod
    def of(cls, draw: Draw, share: float = 1.0) -> Law:
        g = np.random.default_rng(12345)
        x = draw(g, KNOWN)
        x = x[~np.isnan(x)]
        return cls(draw, float(x.mean()), float(x.std()), share)


def normal(center: float, sd: float) -> Draw:
    return lambda g, n: g.normal(center, sd, n)


def lognormal(s: float) -> Draw:
    return lambda g, n: np.exp(s * g.normal(size=n))


def mixed(share: float, rare: Draw, rest: Draw) -> Draw:
    return lambda g, n: np.where(g.random(n) < share, rare(g, n), rest(g, n))


def coded(values: tuple[float, ...], shares: tuple[float, ...]) -> Draw:
    return lambda g, n: np.asarray(values, float)[
        np.searchsorted(np.cumsum(shares)[:-1], g.random(n), side="right")
    ]


def missing(share: float, draw: Draw) -> Draw:
    return mixed(share, lambda g, n: np.full(n, np.nan), draw)


def year(center: float, sd: float) -> Draw:
    return lambda g, n: np.rint(g.normal(center, sd, n))


LAWS: dict[str, tuple[Draw, float]] = {
    "N(0, 1)": (normal(0, 1), 1.0),
    "N(1.67, .38)": (normal(1.67, 0.38), 1.0),
    "lognormal 1": (lognormal(1.0), 1.0),
    "stars 80/12/4/2/2": (coded((5, 4, 3, 2, 1), (0.8, 0.12, 0.04, 0.02, 0.02)), 1.0),
    "two groups 1e6 apart": (mixed(0.5, normal(1e6, 1), normal(0, 1)), 1.0),
    "2 % of lognormal missing": (missing(0.02, lognormal(1.0)), 0.98),
    "N(1990, 10)": (normal(1990, 10), 1.0),
    "minority .2 % at 50": (mixed(0.002, normal(50, 1), normal(0, 1)), 1.0),
    "minority 1 % at 10": (mixed(0.01, normal(10, 1), normal(0, 1)), 1.0),
    "minority 1 % at 50": (mixed(0.01, normal(50, 1), normal(0, 1)), 1.0),
    "minority 5 % at 50": (mixed(0.05, normal(50, 1), normal(0, 1)), 1.0),
    "minority 5 % at 1000": (mixed(0.05, normal(1000, 1), normal(0, 1)), 1.0),
    "93 % ones": (coded((1, 0), (0.93, 0.07)), 1.0),
    "1 and 2, 75/25": (coded((1, 2), (0.75, 0.25)), 1.0),
    "12 and 24 months": (coded((12, 24), (0.7, 0.3)), 1.0),
    "36/60 months": (coded((36, 60), (0.7, 0.3)), 1.0),
    "1990 and 2010, 70/30": (coded((1990, 2010), (0.7, 0.3)), 1.0),
    "household 72/20/5/2/1": (coded((1, 2, 3, 4, 5), (0.72, 0.2, 0.05, 0.02, 0.01)), 1.0),
    "80 % at 40 hours": (mixed(0.2, year(35, 10), coded((40,), (1.0,))), 1.0),
    "halves, 60 % at .5": (coded((0.5, 1, 1.5), (0.6, 0.3, 0.1)), 1.0),
    "year, 3 % coded 9999": (mixed(0.03, coded((9999,), (1.0,)), year(1960, 15)), 1.0),
    "ones .5 %": (coded((1, 0), (0.005, 0.995)), 1.0),
    "ones 2 %": (coded((1, 0), (0.02, 0.98)), 1.0),
    "ones 10 %": (coded((1, 0), (0.1, 0.9)), 1.0),
    "counts, 70 % zeros": (mixed(0.7, normal(0, 0), lambda g, n: 1.0 + g.poisson(2, n)), 1.0),
    "counts, 90 % zeros": (mixed(0.9, normal(0, 0), lambda g, n: 1.0 + g.poisson(2, n)), 1.0),
    "offset 1e3": (normal(1e3, 1), 1.0),
    "offset 1e6": (normal(1e6, 1), 1.0),
    "offset 1e9": (normal(1e9, 1), 1.0),
    "refunds of -5x, 3 %": (
        lambda g, n: np.exp(3 + 0.8 * g.normal(size=n)) * np.where(g.random(n) < 0.03, -5, 1),
        1.0,
    ),
    "two-sided skew": (
        lambda g, n: np.exp(1.3 * g.normal(size=n)) * np.where(g.random(n) < 0.4, -1, 1),
        1.0,
    ),
    "100 - 20 Gamma(.5)": (lambda g, n: 100 - 20 * g.gamma(0.5, size=n), 1.0),
    ".3 % of lognormal missing": (missing(0.003, lognormal(1.0)), 0.997),
    "half of N(50, 5) missing": (missing(0.5, normal(50, 5)), 0.5),
    "90 % of N(50, 5) missing": (missing(0.9, normal(50, 5)), 0.1),
    "98 % of N(50, 5) missing": (missing(0.98, normal(50, 5)), 0.02),
    "all missing": (lambda g, n: np.full(n, np.nan), 0.0),
}


def best_of(law: Law, n: int, epsilon: float) -> float:
    """The oracle's error on tables of the law, in standard errors."""
    errors = []
    for seed in range(TABLES):
        x = law.draw(np.random.default_rng([seed, n]), n)
        x = x[~np.isnan(x)]
        if len(x):
            errors.append(oracle(x, epsilon) ** 2)
    return math.sqrt(float(np.mean(errors))) * math.sqrt(n * law.share) / law.sd


def cell(law: Law, n: int, runs: int, seed: int, relation: str, budget: Budget) -> dict[str, float]:
    """What `runs` releases of one law say."""
    known = n if relation == REPLACE_ONE else None
    plan = planned(DefaultMean(), budget, persons=known, relation=relation)
    errors, statuses, covered, silent = [], Counter(), 0, 0
    best = best_of(law, n, EPSILON) if law.share else 0.0
    for run in range(runs):
        g = np.random.default_rng([seed, n, run])
        x = law.draw(g, n)
        release = plan.release(ArrayPersonTable(x[:, None], ("v",)), SimulatedNoise(g))
        interval = release.interval()
        holds = interval.lower[0] <= law.mean <= interval.upper[0]
        covered += holds
        silent += release.status == "ok" and not holds
        statuses[release.status] += 1
        if math.isfinite(release.estimate[0]):
            there = x[~np.isnan(x)]
            se = law.sd / math.sqrt(n * law.share) if law.share else 1.0
            own = float(there.mean()) if len(there) else 0.0
            errors.append((release.estimate[0] - own) / se)

    def ratio(square: float) -> float:
        return math.sqrt(1 + square) / math.sqrt(1 + best**2)

    return {
        "ratio": ratio(float(np.mean(np.square(errors)))) if errors else math.nan,
        "median": ratio((float(np.median(np.abs(errors))) / 0.6745) ** 2) if errors else math.nan,
        "failed": statuses["failed"] / runs,
        "point_mass": statuses["point_mass"] / runs,
        "covers": covered / runs,
        "silent": silent / runs,
    }


def show(c: dict[str, float]) -> str:
    text = f"{c['ratio']:.3g} ({c['median']:.3g}); {c['covers']:.2f}"
    for name, letter in (("silent", "S"), ("failed", "F"), ("point_mass", "P")):
        if c[name]:
            text += f" {letter}{c[name]:.2f}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=100, help="releases a cell")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="laws whose name holds this")
    parser.add_argument("--sizes", type=float, nargs="+", default=SIZES, help="n times epsilon")
    parser.add_argument("--add-remove", action="store_true")
    parser.add_argument("--rho", action="store_true", help="zCDP of epsilon^2/2, not epsilon")
    parser.add_argument("--store", type=Path, help="file that keeps the cells, for another tree")
    parser.add_argument("--against", type=Path, help="a file of cells to show before these")
    a = parser.parse_args()
    laws = {
        name: Law.of(*law) if law[1] else Law(law[0], 0, 1, 0)
        for name, law in LAWS.items()
        if a.only in name
    }
    earlier = json.loads(a.against.read_text()) if a.against else {}
    relation = ADD_REMOVE if a.add_remove else REPLACE_ONE
    budget = Budget(rho=EPSILON**2 / 2) if a.rho else Budget(epsilon=EPSILON)
    runs = few(a.runs)
    keys = {f"{name} {size:g}": (law, size) for name, law in laws.items() for size in a.sizes}
    cells = {}
    for key, (law, size) in keys.items():
        cells[key] = cell(law, round(size / EPSILON), runs, a.seed, relation, budget)
        print(f"{key:34s} {show(cells[key])}", flush=True)
    if a.store:
        a.store.write_text(json.dumps(cells))
        return

    def shown(name: str, size: float) -> str:
        key = f"{name} {size:g}"
        before = f"{show(earlier[key])} -> " if key in earlier else ""
        return before + show(cells[key])

    rows = [[name, *(shown(name, size) for size in a.sizes)] for name in laws]
    if earlier:
        rows.append(["**geometric mean where both are below 100**", *(
            together(earlier, cells, [f"{name} {size:g}" for name in laws]) for size in a.sizes
        )])  # fmt: skip
    text = table(["law", *(f"n epsilon = {size:g}" for size in a.sizes)], rows)
    words = (
        "Cell: ratio (that of a middling error); coverage of the mean by the printed interval, S "
        "silent, F failed, P one value."
    )
    publish(
        "default-mean-laws" + ("-rho" if a.rho else ""),
        f"Default mean on hard laws, {runs} releases a cell, {budget.describe()}",
        f"{words}\n\n{text}",
        command=f"python benchmarks/default_mean_laws.py --runs {a.runs}{' --rho' * a.rho}",
    )


def together(
    earlier: dict[str, dict[str, float]], cells: dict[str, dict[str, float]], keys: list[str]
) -> str:
    pairs = [(earlier[key]["ratio"], cells[key]["ratio"]) for key in keys if key in earlier]
    both = [pair for pair in pairs if pair[0] < 100 and pair[1] < 100]
    means = np.exp(np.mean(np.log(both), axis=0))
    return f"{means[0]:.2f} -> {means[1]:.2f} ({len(both)})"


if __name__ == "__main__":
    main()
