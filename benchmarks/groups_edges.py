"""Means by group where one group outweighs the others, of rates, and trials of rates.

    python benchmarks/groups_edges.py [--runs 60]

epsilon 1, public keys, persons drawn anew in every release. Covered: part of the rows of the small
group (of all rows for rates) whose interval holds the mean of the law; one end: part of the rows
that say "at_bound"; ok: that say "ok"; missed: that say it and do not hold the mean; length:
median over that of the interval without privacy. Of persons' rates each is a share of up to six
records. Five per cent at 2 to 4 are of one group of rates of .1, the only one that is counted here.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import privmean as pm
from report import publish, table

RATES = (0.02, 0.05, 0.1, 0.2, 0.3)


def people(groups, values) -> pm.Table:
    columns = {"p": np.arange(len(values)), "g": np.asarray(groups, dtype=str), "y": values}
    return pm.Table(columns, person="p")


def dominant(rng, apart):
    """60 persons beside 2,800, `apart` deviations from them."""
    groups = np.repeat(["small", "large"], [60, 2800])
    values = rng.normal(0, 1, 2860) + apart * (groups == "small")
    return groups, values, {"small": (apart, 1 / math.sqrt(60))}


def rates(rng, persons):
    groups = np.arange(persons) % len(RATES)
    values = (rng.random(persons) < np.array(RATES)[groups]).astype(float)
    each = persons / len(RATES)
    return groups, values, {str(j): (p, math.sqrt(p * (1 - p) / each)) for j, p in enumerate(RATES)}


def own_rates(rng, persons):
    """Persons' rates from up to six records, many of them exactly 0 or 1."""
    groups = np.arange(persons) % len(RATES)
    rate, records = np.array(RATES)[groups], rng.integers(1, 7, persons)
    values = rng.binomial(records, rng.beta(2 * rate, 2 - 2 * rate)) / records
    return groups, values, {str(j): (p, _error(values[groups == j])) for j, p in enumerate(RATES)}


def one_tail(rng, persons):
    groups = np.arange(persons) % len(RATES)
    values = (rng.random(persons) < 0.1).astype(float)
    far = (groups == 4) & (rng.random(persons) < 0.05)
    values[far] = rng.uniform(2, 4, far.sum())
    return groups, values, {"4": (0.095 + 0.15, _error(values[groups == 4]))}


def _error(values):
    return values.std() / math.sqrt(len(values))


def cell(name, draw, runs) -> list[object]:
    covered, ends, fine, missed, rows, lengths = 0, 0, 0, 0, 0, []
    for seed in range(runs):
        rng = np.random.default_rng([seed, 1])
        groups, values, truth = draw(rng)
        release = pm.mean(
            people(groups, values), "y", by="g", keys=sorted(set(map(str, groups))), epsilon=1.0,
            noise=pm.SimulatedNoise(np.random.default_rng([seed, 2])),
        )  # fmt: skip
        for row in release.rows():
            if row.group in truth:
                mean, error = truth[row.group]
                rows += 1
                holds = row.lower <= mean <= row.upper
                covered += holds
                ends += row.status == "at_bound"
                fine += row.status == "ok"
                missed += row.status == "ok" and not holds
                lengths.append((row.upper - row.lower) / (2 * 1.96 * error))
    parts = [f"{item / rows:.0%}" for item in (ends, fine, missed)]
    return [name, f"{covered / rows:.2f}", *parts, f"{np.nanmedian(lengths):.2f}"]


def trial(runs) -> list[object]:
    """Rates of .10 and .08 in two public arms of 10,000 persons."""
    covered, ends, fine, missed, lengths = 0, 0, 0, 0, []
    error = math.sqrt((0.1 * 0.9 + 0.08 * 0.92) / 10_000)
    for seed in range(runs):
        rng = np.random.default_rng([seed, 3])
        arms = np.repeat(["new", "old"], 10_000)
        values = (rng.random(20_000) < np.repeat([0.1, 0.08], 10_000)).astype(float)
        release = pm.compare(
            people(arms, values), "y", arms="g", levels=["new", "old"], membership="public",
            epsilon=1.0, noise=pm.SimulatedNoise(np.random.default_rng([seed, 4])),
        )  # fmt: skip
        row = release.rows()[-1]
        lower, upper = row.lower, row.upper
        holds = lower <= 0.02 <= upper
        covered += holds
        ends += row.status == "at_bound"
        fine += row.status == "ok"
        missed += row.status == "ok" and not holds
        lengths.append((upper - lower) / (2 * 1.96 * error))
    parts = [f"{item / runs:.0%}" for item in (ends, fine, missed)]
    name = "a trial, 10 % and 8 %, 20,000 persons"
    return [name, f"{covered / runs:.2f}", *parts, f"{np.nanmedian(lengths):.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=60)
    runs = parser.parse_args().runs
    rows = [
        cell(
            f"60 beside 2,800, {apart} deviations apart",
            lambda rng, a=apart: dominant(rng, a),
            runs,
        )
        for apart in (1, 3)
    ]
    rows += [
        cell(f"rates .02 to .3, {persons:,} persons", lambda rng, n=persons: rates(rng, n), runs)
        for persons in (1_500, 3_000, 10_000)
    ]
    rows.append(cell("persons' rates, 3,000 persons", lambda rng: own_rates(rng, 3_000), runs))
    rows.append(cell("rates, 5 % of a group at 2 to 4", lambda rng: one_tail(rng, 3_000), runs))
    rows.append(trial(runs))
    publish(
        "groups-edges",
        "Means by group: one that outweighs the others, rates, trials of rates",
        table(["groups", "covered", "one end", "ok", "ok, missed", "length"], rows),
        command=f"python benchmarks/groups_edges.py --runs {runs}",
    )


if __name__ == "__main__":
    main()
