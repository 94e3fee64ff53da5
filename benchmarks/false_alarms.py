"""How often a status is given without a cause: every question, on normal values.

    python benchmarks/false_alarms.py [--runs 40]

Normal values have no outliers, no point mass and no bounds, so that each status about these is a
false alarm. "outliers_unchecked" and "low_precision" say how little the budget shows, and are none.
Coverage: of all rows with an interval.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from ok_stands import LAWS, QUESTIONS
from privmean.errors import InfeasibleError
from report import few, publish, table

LAW = LAWS["normal(3, 1)"]
PEOPLE, EPSILONS = (2000, 10_000), (0.5, 1.0, 2.0)
CLAIMS = ("outliers_clipped", "extreme_outliers", "modified_target", "at_bound", "point_mass",
          "assumption_violated")  # fmt: skip
LIMITS = (
    "outliers_unchecked",
    "low_precision",
    "suppressed",
    "not_identified",
    "failed",
    "refused",
)


def cell(question: str, epsilon: float, runs: int) -> list[object]:
    """Rows, rates of every status, and coverage."""
    found: list[tuple[str, bool | None]] = []
    for n in PEOPLE:
        for run in range(runs):
            g = np.random.default_rng([run, n, int(10 * epsilon)])
            try:
                rows = QUESTIONS[question](LAW, g, n, epsilon)
            except InfeasibleError:
                found.append(("refused", None))
                continue
            for status, lower, upper, truth in rows:
                held = None if math.isnan(lower + upper) else lower <= truth <= upper
                found.append((status, held))
    codes = [status for status, _ in found]
    rates = {name: codes.count(name) / len(codes) for name in (*CLAIMS, *LIMITS)}
    held = [item for _, item in found if item is not None]
    shown = [f"{rate:.3f}" if rate else "0" for rate in rates.values()]
    alarms = sum(rates[name] for name in CLAIMS)
    coverage = f"{sum(held) / len(held):.3f}" if held else ""
    return [question, f"{epsilon:g}", len(codes), f"{alarms:.3f}", *shown, coverage]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=40)
    runs = few(parser.parse_args().runs)
    rows = [cell(question, epsilon, runs) for question in QUESTIONS for epsilon in EPSILONS]
    head = ["question", "epsilon", "rows", "false alarms", *CLAIMS, *LIMITS, "coverage"]
    words = (
        f"Normal values with mean 3 and deviation 1, {' and '.join(map(str, PEOPLE))} people, pure "
        f"epsilon, {runs} releases each. False alarms: the sum of {', '.join(CLAIMS)}. "
        "One line through a square has a cause: the line is wrong. In comparisons and contrasts, "
        "the values of one arm are half as large again."
    )
    publish(
        "false-alarms",
        "Statuses without a cause",
        f"{words}\n\n{table(head, rows)}",
        command=f"python benchmarks/false_alarms.py --runs {runs}",
    )


if __name__ == "__main__":
    main()
