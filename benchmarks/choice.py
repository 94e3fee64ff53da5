"""Means of several columns with nothing given: the method chosen against the others in hindsight.

Every method that the public numbers allow runs on the same samples; the choice is made from the
predictions alone, before any data.

    python benchmarks/choice.py [--quick]
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import report
from plans import planned
from privmean.central.choose_vector_method import Cheapest
from privmean.data.array_table import ArrayPersonTable
from privmean.data.public_shape import PublicShape
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import Budget

BUDGETS = (Budget(epsilon=1.0, delta=1e-6), Budget(epsilon=1.0))
SIZES = ((4000, 2), (4000, 5), (4000, 10), (20_000, 5), (20_000, 20), (100_000, 10), (100_000, 50))
LAWS = ("Gaussian", "Gaussian + 100", "lognormal 1")


def rows_of(law: str, persons: int, dimension: int, run: int) -> tuple[np.ndarray, float, float]:
    """A sample, its mean and deviation a column."""
    g = np.random.default_rng([run, persons, dimension])
    x = g.normal(size=(persons, dimension))
    if law == "lognormal 1":
        return np.exp(x), math.exp(0.5), math.sqrt((math.e - 1) * math.e)
    offset = 100.0 if "100" in law else 0.0
    return x + offset, offset, 1.0


def measured(plans: dict, law: str, persons: int, dimension: int, runs: int) -> dict[str, float]:
    """Root mean square l2 error of every plan over that of the plain mean; a column without an
    answer counts with its distance from zero."""
    names = tuple(f"c{j}" for j in range(dimension))
    errors: dict[str, list[float]] = {name: [] for name in plans}
    for run in range(runs):
        x, mean, sd = rows_of(law, persons, dimension, run)
        people = ArrayPersonTable(x, names)
        for name, plan in plans.items():
            answer = np.nan_to_num(plan.release(people, SimulatedNoise(run)).estimate)
            errors[name].append(float(((answer - mean) ** 2).sum()) / sd**2)
    plain = dimension / persons
    return {name: math.sqrt(float(np.mean(item)) / plain) for name, item in errors.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="1 run a cell")
    arguments = parser.parse_args()
    rows: list[list[object]] = []
    losses = []
    for budget in BUDGETS:
        for persons, dimension in SIZES:
            plans = Cheapest().candidates(budget, PublicShape.of(dimension, persons))
            if not plans:
                rows.append([f"{budget.describe()}", persons, dimension, "refused"] + ["-"] * 4)
                continue
            chosen = planned(Cheapest(), budget, persons=persons, dimension=dimension)
            row: list[object] = [budget.describe(), persons, dimension, chosen.name]
            row.append(", ".join(f"{k} {v:.2f}" for k, v in chosen.predicted.items()))
            for law in LAWS:
                runs = 1 if arguments.quick else 8 if persons * dimension < 10**5 else 3
                found = measured(plans, law, persons, dimension, runs)
                best = min(found, key=found.__getitem__)
                lost = found[chosen.name] / found[best]
                losses.append(lost)
                row.append(
                    f"{found[chosen.name]:.2f}"
                    + (f" (best {best} {found[best]:.2f})" if best != chosen.name else "")
                )
            rows.append(row)
    header = ["budget", "n", "d", "chosen", "predicted", *LAWS]
    text = (
        "l2 error over that of the plain mean, nothing given but the budget. Predicted: for "
        "columns of equal spread, from public numbers. Measured: of the chosen method; in brackets "
        "the best of the feasible methods in hindsight where that is another one.\n\n"
        + report.table(header, rows)
        + f"\n\n- chosen over best in hindsight: geometric mean "
        f"{math.exp(float(np.mean(np.log(losses)))):.3f}, largest {max(losses):.2f}"
    )
    command = "python benchmarks/choice.py" + (" --quick" if arguments.quick else "")
    report.publish("choice", "Several columns: the method chosen", text, command=command)


if __name__ == "__main__":
    main()
