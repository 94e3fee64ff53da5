"""Means of people's own coefficients: columns placed by their own choices, or by center and spread.

Own choices: a grid median and a half octave that between half and three quarters of the people stay
below. Center and spread: the choices of the default mean and of quantiles, at the same prices; the
spread, a power of two, takes the place of the half octave. Error: root mean square around the mean
of the fitted coefficients, over that of the own choices. Slopes and intercepts together.

    python benchmarks/coefficient_scale.py [--runs 20]
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import polars as pl

import privmean as pm
from heavy_data import geometric
from privmean.estimators.locate import center_step, find_spread, spread_step
from privmean.estimators.regression.private_scale import ZERO, PrivateScalePlan
from report import few, publish, table
from study_laws import DATA

CASES = [
    ("nlswork", "person_id", "ln_wage ~ ttl_exp"),
    ("nlswork", "person_id", "ln_wage ~ hours"),
    ("nlswork", "person_id", "hours ~ age"),
    ("randhie", "person_id", "mdvis ~ year"),
    ("randhie", "person_id", "lnmeddol ~ year"),
]
EPSILONS = (1.0, 2.0, 4.0)
SMALLEST = 2.0**-40
OWN = PrivateScalePlan.centre, PrivateScalePlan.magnitude, PrivateScalePlan.events


def centre(plan, curator, column):
    if plan.settings.center == ZERO:
        return 0.0, 0.0
    counts = curator.people.column_counts(column)
    found, _ = curator.ask(center_step(plan.each, plan.relation), counts)
    return found, 0.0


def magnitude(plan, curator, column, center=0.0):
    return max(find_spread(curator, column, center, plan.each, plan.relation), SMALLEST)


def events(plan):
    middle = () if plan.settings.center == ZERO else center_step(plan.each, plan.relation).events
    own = OWN[2].fget(plan)
    found = (*middle, *spread_step(plan.each, plan.relation).events) * plan.columns
    return found + own[len(found) :]


def use(shared: bool) -> None:
    made = (centre, magnitude, property(events)) if shared else OWN
    PrivateScalePlan.centre, PrivateScalePlan.magnitude, PrivateScalePlan.events = made


def released(source: pm.Table, formula: str, epsilon: float, seed: int):
    return pm.regress(
        source, formula, effect="per_person", epsilon=epsilon, noise=pm.SimulatedNoise(seed)
    )


def fitted_mean(source: pm.Table, formula: str) -> np.ndarray:
    """The mean over people of the coefficients that are fitted, in units of the formula."""
    kept, run = [], PrivateScalePlan.run

    def spying(plan, curator):
        outcome, people = run(plan, curator), curator.people
        columns = range(plan.columns)
        values = [people.weighted_values(j)[0] for j in columns]
        kept.append((np.array([np.nanmean(x) for x in values]), outcome.estimate))
        return outcome

    PrivateScalePlan.run = spying
    try:
        release = released(source, formula, 100.0, 1)
    finally:
        PrivateScalePlan.run = run
    ((mean, inner),) = kept
    return mean * np.asarray(release.estimate) / inner


def cell(source: pm.Table, formula: str, epsilon: float, truth: np.ndarray, runs: int):
    """Errors and lengths by coefficient; parts of coefficients that hold, "ok" and fail."""
    errors, lengths, held, ok, failed = [], [], 0, 0, 0
    for seed in range(runs):
        rows = released(source, formula, epsilon, seed).rows()
        errors.append([row.estimate - known for row, known in zip(rows, truth, strict=True)])
        lengths.append([row.upper - row.lower for row in rows])
        held += sum(row.lower <= x <= row.upper for row, x in zip(rows, truth, strict=True))
        ok += sum(row.status == "ok" for row in rows)
        failed += sum(not math.isfinite(row.estimate) for row in rows)
    every = runs * len(truth)
    square = np.sqrt(np.nanmean(np.square(errors), axis=0))
    return square, np.median(lengths, axis=0), held / every, ok / every, failed / every


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    runs = few(parser.parse_args().runs)
    rows, all_ratios, all_lengths = [], [], []
    for name, person, formula in CASES:
        source = pm.Table(pl.read_parquet(DATA / f"{name}.parquet"), person=person)
        use(False)
        truth = fitted_mean(source, formula)
        for epsilon in EPSILONS:
            found = []
            for shared in (False, True):
                use(shared)
                found.append(cell(source, formula, epsilon, truth, runs))
            (error, length, *own), (other, longer, *new) = found
            ratio, stretch = geometric(other / error), geometric(longer / length)
            all_ratios.append(ratio)
            all_lengths.append(stretch)
            rows.append(
                [f"{name}: {formula}", f"{epsilon:g}", f"{ratio:.2f}", f"{stretch:.2f}",
                 *(f"{a:.2f} -> {b:.2f}" for a, b in zip(own, new, strict=True))]
            )  # fmt: skip
            print(rows[-1], flush=True)
    use(False)
    rows.append(
        ["geometric mean", "", f"{geometric(all_ratios):.2f}", f"{geometric(all_lengths):.2f}",
         "", "", ""]
    )  # fmt: skip
    publish(
        "coefficient-scale",
        f"People's own coefficients: center and spread over own choices, {runs} releases a cell",
        table(["regression", "epsilon", "error", "length", "covers", "ok", "failed"], rows),
        command=f"python benchmarks/coefficient_scale.py --runs {runs}",
    )


if __name__ == "__main__":
    main()
