"""Columns that are mostly one value: does the default mean ever say "ok" beside a wrong number?

A part of the people has the value 0, the others lie far away; and years, N(1990, 10). Wrong: "ok",
and off by more than ten half widths of the interval. Silent: "ok" and a miss.

The second table looks at the one way to get there, which is rare: limits that hold nobody but the
people at the shared value. Such limits are drawn by their own law, and the steps after them are run
as they are. Chance: of such limits with "ok", in a release.

    python benchmarks/default_mean_zeros.py [--runs 7200] [--seed 0] [--cells 0 14]
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from plans import planned
from privmean.data.array_table import ArrayPersonTable
from privmean.estimators.locate import Place, limits_step
from privmean.estimators.means.default_mean import ColumnRun, DefaultMean
from privmean.mechanisms.curator import TrustedCurator
from privmean.mechanisms.private_location import (
    CANDIDATES,
    PrivateLimits,
    _pairs,
    _weights,
    edges,
    side_counts,
)
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from report import few, publish, table

Draw = Callable[[np.random.Generator], np.ndarray]

SIZES = (1000, 2000, 5000, 10_000)  # people, at epsilon 1
ZEROS = (0.95, 0.98, 0.99)
MEAN, SD = 7.0, 0.8  # of the logarithm of the others
YEARS = (600, 2000)
# shared value, its last binary digit, its share, both sides, people
FORCED = {
    "95% zeros, n = 1000": (0.0, 0.0, 0.95, False, 1000),
    "97% zeros, n = 1000": (0.0, 0.0, 0.97, False, 1000),
    "97.5% zeros, n = 2000": (0.0, 0.0, 0.975, False, 2000),
    "95% ones, n = 1000": (1.0, 1.0, 0.95, False, 1000),
    "97% ones, n = 1000": (1.0, 1.0, 0.97, False, 1000),
    "95% at 40, others on both sides, n = 1000": (40.0, 8.0, 0.95, True, 1000),
}
TABLES = 40  # of each, for the forced limits


def zeros(share: float, n: int, g: np.random.Generator) -> np.ndarray:
    return np.where(g.random(n) < share, 0.0, np.exp(g.normal(MEAN, SD, n)))


def years(n: int, g: np.random.Generator) -> np.ndarray:
    return g.normal(1990, 10, n)


def cell(draw: Draw, truth: float, n: int, runs: int, seed: int) -> Counter[str]:
    """Statuses of releases about tables drawn anew."""
    g, noise, found = np.random.default_rng(seed), SimulatedNoise(seed), Counter()
    plan = planned(DefaultMean(), Budget(epsilon=1.0), persons=n)
    for _ in range(runs):
        release = plan.release(ArrayPersonTable(draw(g)[:, None], ("value",)), noise)
        found[release.status] += 1
        if release.status != "ok":
            continue
        interval = release.interval()
        lower, upper = interval.lower[0], interval.upper[0]
        found["silent"] += not lower <= truth <= upper
        found["wrong"] += abs(float(release) - truth) > 5 * (upper - lower)
    return found


def chances_of(step: PrivateLimits, sides: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The probability of every pair of limits."""
    weight = _weights(step.digit).astype(float)
    scores = _pairs(*step.scores(sides)).astype(float)
    chances = np.exp((scores.min() - scores) * float(step.unit))
    chances *= np.multiply.outer(weight, weight)
    return chances / chances.sum()


def forced(
    center: float, digit: float, share: float, both: bool, n: int, relation: str, runs: int
) -> tuple[float, Counter[str], float]:
    """The chance of limits that hold only the center, statuses with them, and the chance of "ok"
    and such limits."""
    g, noise, found = np.random.default_rng(n), SimulatedNoise(n), Counter()
    plan = planned(DefaultMean(), Budget(epsilon=1.0), count=n, relation=relation)
    prices, distances, chance, ok = plan.prices(n), edges(), 0.0, 0.0
    step = limits_step(prices.location.limits, relation, digit)
    missing = [(0.0, float(1 / plan._present))] if relation == REPLACE_ONE else []
    for _ in range(TABLES):
        sign = g.choice([-1.0, 1.0], n) if both else 1.0
        x = center + np.where(g.random(n) < share, 0.0, sign * np.exp(g.normal(MEAN, SD, n)))
        people = ArrayPersonTable(x[:, None], ("value",))
        sides = side_counts(people.column_counts(0).half_octaves(center))
        chances = chances_of(step, sides)
        empty = np.logical_and.outer(*[side == side[0] for side in sides])
        empty[0, 0] = False
        chances *= empty
        total = float(chances.sum())
        chance += total / TABLES
        for pair in g.choice(chances.size, runs, p=(chances / total).ravel()):
            below, above = divmod(int(pair), CANDIDATES)
            place = Place(
                center, float(distances[below]), float(distances[above]),
                max(step.most_demanded(below), step.most_demanded(above)), float(step.scale),
            )  # fmt: skip
            run = ColumnRun(plan, TrustedCurator(people, noise), 0, n)
            status = run.located(place, missing, prices.count, prices.sums).intervals.standing()[0]
            found[status] += 1
            ok += total * (status == "ok") / (TABLES * runs)
    return chance, found, ok


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=7200, help="releases a cell")
    parser.add_argument("--forced", type=int, default=250, help="limits of each of 40 tables")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cells", type=int, nargs=2, help="some of the cells, printed only")
    arguments = parser.parse_args()
    runs = few(arguments.runs)
    mean = float(np.exp(MEAN + SD**2 / 2))
    cases = {
        f"{share:.0%} zeros, n = {n}": (partial(zeros, share, n), (1 - share) * mean, n)
        for share in ZEROS
        for n in SIZES
    }
    cases |= {f"N(1990, 10), n = {n}": (partial(years, n), 1990.0, n) for n in YEARS}
    seeds = {name: arguments.seed + k for k, name in enumerate(cases)}
    if arguments.cells:
        cases = dict(list(cases.items())[slice(*arguments.cells)])
    names = ("ok", "outliers_clipped", "outliers_unchecked", "point_mass", "modified_target",
             "failed", "silent", "wrong")  # fmt: skip
    with ProcessPoolExecutor(2) as pool:
        made = [pool.submit(cell, *case, runs, seeds[name]) for name, case in cases.items()]
        found = [item.result() for item in made]
        rows = [
            [name, *(str(counts[key]) for key in names)]
            for name, counts in zip(cases, found, strict=True)
        ]
        total = sum(counts["wrong"] for counts in found)
        text = table(["column", *names], rows)
        text += f"\n\n{total} of {runs * len(cases)} releases say ok beside a wrong number."
        if arguments.cells:
            print(text)
            return
        asked = [
            (name, relation, pool.submit(forced, *case, relation, few(arguments.forced)))
            for name, case in FORCED.items()
            for relation in (REPLACE_ONE, ADD_REMOVE)
        ]
        rows = []
        for name, relation, item in asked:
            chance, counts, ok = item.result()
            rows.append(
                [name, relation, f"{chance:.1e}", *(str(counts[key]) for key in names[:6]),
                 f"{ok:.1e}"]
            )  # fmt: skip
    text += "\n\n" + table(
        ["limits that hold only the shared value", "neighbors", "chance of them", *names[:6],
         "chance with ok"], rows,
    )  # fmt: skip
    print(text)
    publish(
        "default-mean-zeros",
        f"Columns that are mostly one value, {runs} releases a cell, epsilon 1",
        text,
        command="python benchmarks/default_mean_zeros.py",
    )


if __name__ == "__main__":
    main()
