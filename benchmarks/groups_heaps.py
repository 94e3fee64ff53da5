"""Means by group where many persons share a value: rates, counts with many zeros, ratings.

    python benchmarks/groups_heaps.py [--runs 40]

Five groups of 40, 30, 15, 10 and 5 % of the persons, public keys, persons drawn anew in every
release; "R" in front of epsilon: replace-one. Of the smallest group, which differs where values say
so, and of the others: ok, part of the rows that say so; of these held, part whose interval holds
the mean of the law; length, median over that of the interval without privacy; error, root mean
square over the sampling error.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np

from privmean.data.group_pairs import ArrayPairTable, GroupWeights
from privmean.data.schema import PublicShape
from privmean.estimators.groups.group_means import GroupMeans
from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from report import publish, table

PARTS = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
LAST = len(PARTS) - 1
STARS = np.arange(1.0, 6.0)
Draw = Callable[[np.random.Generator, int], np.ndarray]  # values of so many persons


def rate(p: float) -> tuple[Draw, float, float]:
    return lambda rng, n: (rng.random(n) < p).astype(float), p, math.sqrt(p * (1 - p))


def counts(zeros: float) -> tuple[Draw, float, float]:
    """Nothing, or one and more: a Poisson law of mean 2."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return np.where(rng.random(n) < zeros, 0.0, 1.0 + rng.poisson(2.0, n))

    mean = 3 * (1 - zeros)
    return draw, mean, math.sqrt(11 * (1 - zeros) - mean**2)


def stars(*p: float) -> tuple[Draw, float, float]:
    mean = float(STARS @ p)
    return lambda rng, n: rng.choice(STARS, n, p=p), mean, math.sqrt(STARS**2 @ p - mean**2)


def normal(mean: float) -> tuple[Draw, float, float]:
    return lambda rng, n: rng.normal(mean, 1.0, n), mean, 1.0


LOGNORMAL = (
    lambda rng, n: np.exp(rng.standard_normal(n)),
    math.exp(0.5),
    math.sqrt((math.e - 1) * math.e),
)
EXPONENTIAL = (lambda rng, n: rng.exponential(1.0, n), 1.0, 1.0)
GOOD, BAD = stars(0.05, 0.05, 0.1, 0.3, 0.5), stars(0.3, 0.2, 0.2, 0.2, 0.1)
# of the four large groups, and of the small one
LAWS = {
    "rates .01 and .3": (rate(0.01), rate(0.3)),
    "rates .3 and .01": (rate(0.3), rate(0.01)),
    "rates .05": (rate(0.05), rate(0.05)),
    "rates .3 and .7": (rate(0.3), rate(0.7)),
    "rates .99 and .7": (rate(0.99), rate(0.7)),
    "counts, 70 and 40 % zeros": (counts(0.7), counts(0.4)),
    "counts, 90 and 60 % zeros": (counts(0.9), counts(0.6)),
    "one to five stars": (GOOD, BAD),
    "normal about 0": (normal(0.0), normal(0.0)),
    "normal about 100": (normal(100.0), normal(100.0)),
    "exponential": (EXPONENTIAL, EXPONENTIAL),
    "lognormal": (LOGNORMAL, LOGNORMAL),
}
SIZES = ((3_000, 1.0), (10_000, 0.5), (600, 2.0))
TWICE = ("rates .01 and .3", "rates .05")  # measured under replace-one too


def released(values, place, epsilon, relation, seed):
    """The table of one release."""
    keys = [chr(97 + g) for g in range(len(PARTS))]
    pairs = ArrayPairTable.of(np.arange(len(place)), place, values, keys, GroupWeights())
    shape = PublicShape(pairs.columns, len(place) if relation == REPLACE_ONE else None)
    budget = Budget(epsilon=epsilon, neighbors=relation)
    plan = GroupMeans(pairs.keys, pairs.weights).plan(budget, shape)
    return plan.run(TrustedCurator(pairs, SimulatedNoise(seed))).intervals


def cell(laws, persons, epsilon, relation, runs) -> list[object]:
    usual, other = laws
    found: dict[bool, list[tuple[float, float, float]]] = {True: [], False: []}
    for seed in range(runs):
        rng = np.random.default_rng([seed, persons])
        place = rng.choice(len(PARTS), persons, p=PARTS)
        values = np.where(place == LAST, other[0](rng, persons), usual[0](rng, persons))
        made = released(values, place, epsilon, relation, seed)
        rows = made.rows(0.95)
        for g, status in enumerate(made.status):
            if status == "ok":
                _, mean, sd = other if g == LAST else usual
                row, error = rows[g], sd / math.sqrt((place == g).sum())
                found[g == LAST].append(
                    (
                        float(row.lower <= mean <= row.upper),
                        (row.upper - row.lower) / (2 * 1.96 * error),
                        (row.estimate - mean) / error,
                    )
                )
    told: list[object] = []
    for small, rows in ((True, runs), (False, runs * LAST)):
        held, length, error = np.array(found[small]).reshape(-1, 3).T
        told.append(f"{len(held) / rows:.0%}")
        if len(held) < max(rows / 10, 5):  # too few to say anything
            told += ["", "", ""]
            continue
        told += [
            f"{held.mean():.2f}",
            f"{np.median(length):.2f}",
            f"{np.sqrt((error**2).mean()):.2f}",
        ]
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    runs = parser.parse_args().runs
    rows = []
    for name, laws in LAWS.items():
        for persons, epsilon in SIZES:
            told = cell(laws, persons, epsilon, ADD_REMOVE, runs)
            rows.append([name, f"{persons:,}", f"{epsilon:g}", *told])
        if name in TWICE:
            told = cell(laws, SIZES[0][0], 2.0, REPLACE_ONE, runs)
            rows.append([name, f"{SIZES[0][0]:,}", "R 2", *told])
    publish(
        "groups-heaps",
        "Means by group: many persons at one value",
        table(
            ["values", "persons", "epsilon", "small ok", "held", "length", "error",
             "others ok", "held", "length", "error"],
            rows,
        ),
        command=f"python benchmarks/groups_heaps.py --runs {runs}",
    )  # fmt: skip


if __name__ == "__main__":
    main()
