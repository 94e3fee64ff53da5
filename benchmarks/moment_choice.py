"""Moments of several columns: without and with a private radius, and nothing given.

    python benchmarks/moment_choice.py [--runs 20]

Errors and predictions are l2, root mean square, over the error of the plain mean; half widths are
those of the 95 % box in standard errors of the plain mean of a column.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np

from plans import planned
from privmean.central.choose_vector_method import Cheapest
from privmean.central.heavy_tailed import BoundedMoment, HeavyTailedMean
from privmean.data.array_table import ArrayPersonTable
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import Budget
from report import publish, table

PERSONS, BUDGET, ORDER = 2000, Budget(epsilon=1.0, delta=1e-6), 2.5
Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
LAWS: dict[str, Draw] = {
    "Pareto, index 3": lambda g, size: g.pareto(3.0, size),
    "lognormal(1)": lambda g, size: np.exp(g.standard_normal(size)),
    "t, 3 degrees": lambda g, size: g.standard_t(3, size),
    "normal": lambda g, size: g.standard_normal(size),
}


def facts(draw: Draw) -> tuple[float, float, float]:
    """Mean, deviation and centred moment root of a law, from a long sample (2 % above)."""
    x = draw(np.random.default_rng(0), (4_000_000,))
    mean = float(x.mean())
    return mean, float(x.std()), 1.02 * float(np.mean(np.abs(x - mean) ** ORDER)) ** (1 / ORDER)


def measured(plan, draw: Draw, mean: float, m: int, d: int, runs: int) -> tuple[float, float, int]:
    """Error, half width of a column's interval (median), and boxes that hold the mean."""
    errors, widths, held = [], [], 0
    names = tuple(f"c{j}" for j in range(d))
    for run in range(runs):
        rows = draw(np.random.default_rng(run), (PERSONS, m, d)).mean(axis=1)
        release = plan.release(ArrayPersonTable(rows, names), SimulatedNoise(run))
        ends = release.interval()
        low, high = np.array(ends.lower), np.array(ends.upper)
        errors.append(float(((np.nan_to_num(release.estimate) - mean) ** 2).sum()))
        widths.append(float(np.median(high - low)) / 2)
        held += bool(((low <= mean) & (mean <= high)).all())
    return math.sqrt(np.mean(errors)), float(np.median(widths)), held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    rows: list[list[object]] = []
    for name, draw in LAWS.items():
        mean, deviation, root = facts(draw)
        for m, d in ((1, 10), (10, 10), (1, 50)):
            moment = BoundedMoment(ORDER, root, records=m)
            one = deviation / math.sqrt(PERSONS * m)
            plain = one * math.sqrt(d)
            row: list[object] = [name, m, d]
            for radius in (False, True):
                estimator = HeavyTailedMean(moment, private_radius=radius)
                plan = planned(estimator, BUDGET, persons=PERSONS, dimension=d)
                error, width, held = measured(plan, draw, mean, m, d, runs)
                row += [
                    f"{error / plain:.2f} ({plan.usual / plain:.2f})",
                    f"{width / one:.0f} ({held}/{runs})",
                ]
            plan = planned(HeavyTailedMean(moment), BUDGET, persons=PERSONS, dimension=d)
            nothing = planned(Cheapest(), BUDGET, persons=PERSONS, dimension=d)
            error, width, held = measured(nothing, draw, mean, m, d, runs)
            row += [
                f"{error / plain:.2f} ({plan.nothing / plain:.2f})",
                f"{width / one:.0f} ({held}/{runs})",
                "yes" if "would do better" in plan.rationale else "no",
            ]
            rows.append(row)
    head = ["law", "records", "columns", "no private radius", "half width", "private radius"]
    head += ["half width", "nothing given", "half width", "plan says so"]
    publish(
        "moment-choice",
        "Moments of several columns: what a private radius brings",
        f"n = {PERSONS}, epsilon = 1, delta = 1e-06, the law's own moment of order {ORDER:g} (2 % "
        "above), no range. Errors over the plain mean's (predicted for values without large "
        "outliers whose spread fills the bound, which is above the law's own); half widths of the "
        "95 % box in standard errors, and boxes that hold the mean in all columns. The box of "
        "nothing given is for the clipped mean.\n\n" + table(head, rows),
        command=f"python benchmarks/moment_choice.py --runs {runs}",
    )


if __name__ == "__main__":
    main()
