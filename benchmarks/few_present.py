"""Where few of the persons have a value: how often a number is shown, and how often it is noise.

    python benchmarks/few_present.py [--runs 40]

3,000 persons, of whom a part has a value (normal, mean 1, deviation 1); epsilon 1, pure. Shown:
part of the releases with a number; wild: those shown that are more than ten deviations off; the
same without the rules by which nothing is shown where noise chose the limits. Own slopes: a
regressor that varies for that part of the persons, epsilon 2. The second table: part of private
medians more than four deviations off, by persons times epsilon of the choice, in a wide grid and in
that of own coefficients. The third: own slopes where the response of all but a part of the persons
never changes, of 2,000: releases that show a number, and those whose interval misses (whatever they
say: "point_mass" is for the clipped mean).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import privmean as pm
from privmean.data.array_table import ArrayPersonTable
from privmean.data.public_shape import PublicShape
from privmean.models import mean_coefficients as own_means
from privmean.models import private_scale as magnitudes
from privmean.models import quantiles
from privmean.models import tail_intervals as tail_means
from privmean.models.center_scale import MedianChoice, grid_around
from privmean.models.private_scale import PrivateScale
from privmean.models.quantiles import Quantiles
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget, Relation
from report import publish, table

PERSONS, PARTS, WILD = 3000, (0.03, 0.06, 0.1, 0.2), 10.0
Answer = Callable[[float, int], np.ndarray[Any, Any]]


def column(estimator: Any, relation: Relation = REPLACE_ONE) -> Answer:
    known = PERSONS if relation == REPLACE_ONE else None
    plan = estimator.plan(
        Budget(epsilon=1.0, neighbors=relation), PublicShape.of(1, known, PERSONS)
    )

    def answer(part: float, seed: int) -> np.ndarray[Any, Any]:
        values = np.full(PERSONS, math.nan)
        k = int(part * PERSONS)
        values[:k] = np.random.default_rng([seed, 1]).normal(1, 1, k)
        noise = SimulatedNoise(np.random.default_rng([seed, 2]))
        return plan.release(ArrayPersonTable(values[:, None], ("a",)), noise).estimate

    return answer


def slopes(part: float, seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng([seed, 1])
    who = np.repeat(np.arange(PERSONS), 6)
    x = np.where((rng.random(PERSONS) < part)[who], rng.random(len(who)) < 0.5, 0.0)
    columns = {"who": who, "x": x, "y": 1 + x + rng.normal(0, 1, len(who))}
    noise = SimulatedNoise(np.random.default_rng([seed, 2]))
    people = pm.Table(columns, person="who")
    return pm.regress(people, "y ~ x", effect="per_person", epsilon=2.0, noise=noise).estimate


ANSWERS: dict[str, Answer] = {
    "quartiles": column(Quantiles((0.25, 0.5, 0.75))),
    "quartiles, add-remove": column(Quantiles((0.25, 0.5, 0.75)), ADD_REMOVE),
    "magnitudes": column(PrivateScale()),
    "magnitudes about medians, tails counted": column(PrivateScale(target="mean", center="median")),
    "own slopes": slopes,
}


def rates(answer: Answer, part: float, runs: int) -> str:
    found = [answer(part, seed) for seed in range(runs)]
    shown = [item for item in found if not np.isnan(item).all()]
    wild = sum(bool(np.nanmax(np.abs(item - 1)) > WILD) for item in shown)
    return f"{len(shown)}, {wild}"


def without_rules() -> None:
    PrivateScale.min_people = lambda self, relation: 0.0  # type: ignore[method-assign]
    tail_means.MISSED = magnitudes.MOST = quantiles.SIDE = math.inf
    quantiles.FOUND = dict.fromkeys(quantiles.FOUND, 0.0)


def unchanged(part: float, epsilon: float, runs: int) -> str:
    shown = missed = 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, 4])
        who = np.repeat(np.arange(2000), 6)
        x = rng.normal(0, 1, len(who))
        slope = np.where(rng.random(2000) < part, rng.normal(1, 0.3, 2000), 0.0)
        people = pm.Table({"who": who, "x": x, "y": slope[who] * x}, person="who")
        noise = SimulatedNoise(np.random.default_rng([seed, 2]))
        release = pm.regress(people, "y ~ 0 + x", effect="per_person", epsilon=epsilon, noise=noise)
        (row,) = release.rows()
        shown += not math.isnan(row.estimate)
        missed += not math.isnan(row.estimate) and not row.lower <= part <= row.upper
    return f"{shown}, {missed}"


def median(number: int, limit: float, runs: int) -> str:
    far, persons = 0, 400
    choice = MedianChoice("median", Fraction(number, persons), REPLACE_ONE)
    bins = grid_around(-limit, limit)
    for seed in range(runs):
        values = np.random.default_rng([seed, 3]).normal(1, 1, persons)
        people = ArrayPersonTable(values[:, None], ("a",))
        counts = bins.all_counts(people.uniform_counts(0, bins.half, bins.origin))
        noise = SimulatedNoise(np.random.default_rng([seed, number]))
        found = bins.center(choice.choice.draw(choice.scores(counts), noise))
        far += abs(found - 1) > max(4.0, 2 * bins.half)
    return f"{far / runs:.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    runs = parser.parse_args().runs
    cells = [(name, part) for name in ANSWERS for part in PARTS]
    today = [rates(ANSWERS[name], part, runs) for name, part in cells]
    medians = [
        [number, *(median(number, limit, 10 * runs) for limit in (2.0**10, 2.0**39))]
        for number in (32, 40, 50, 60, 80)
    ]
    still = [(part, epsilon) for epsilon in (1.0, 4.0) for part in (0.01, 0.05, 0.1, 0.3)]
    counted = [unchanged(part, epsilon, runs) for part, epsilon in still]
    usual, own_means.CLEAR = own_means.CLEAR, -math.inf  # the count alone, all else as it is
    uncounted = [unchanged(part, epsilon, runs) for part, epsilon in still]
    own_means.CLEAR = usual
    without_rules()
    before = [rates(ANSWERS[name], part, runs) for name, part in cells]
    rows: list[list[object]] = [
        [name, f"{part:.0%}", one, other]
        for (name, part), one, other in zip(cells, today, before, strict=True)
    ]
    first = table(["answer", "have a value", "shown, wild", "without the rules"], rows)
    second = table(["persons times epsilon", "within 2^10", "within 2^39"], medians)
    lines: list[list[object]] = [
        [f"{part:.0%}", epsilon, one, other]
        for (part, epsilon), one, other in zip(still, counted, uncounted, strict=True)
    ]
    third = table(["response changes", "epsilon", "shown, missed", "without the count"], lines)
    publish(
        "few-present",
        "Where few persons have a value",
        f"{first}\n\nOf {runs} releases a cell. Private medians that are noise:\n\n{second}\n\n"
        f"Own slopes where the response of most never changes:\n\n{third}",
        command=f"python benchmarks/few_present.py --runs {runs}",
    )


if __name__ == "__main__":
    main()
