"""The default mean where it is weakest, beside the numbers of the rule it was developed from.

Total error around the population mean in standard errors (root mean square; 1 is the plain mean),
for offsets, columns that are mostly zero, and tails of a few dozen persons.

    python benchmarks/weak_cases.py [--quick]
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np

import report
from default_mean import cell
from plans import planned
from privmean.central.default_mean import DefaultMean
from privmean.data.array_table import ArrayPersonTable
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import Budget
from study_laws import COLUMNS, DATA, person_means

# (persons, offset in deviations, total of the earlier rule at epsilon = 1; None: not stated)
OFFSETS = (
    (4000, 1e2, "1.11"),
    (4000, 1e4, "1.11"),
    (4000, 1e6, "median 1.12"),
    (2000, 1e2, "1.45"),
    (2000, 1e4, "1.54"),
    (2000, 1e6, "1.57"),
    (1000, 1e2, "2.0"),
    (1000, 1e4, "2.2"),
    (1000, 1e6, "7.7"),
    (500, 1e2, "10.2"),
)


def offset_row(persons: int, offset: float, earlier: str, runs: int) -> list[object]:
    """Total error over the standard error for normal values far from zero."""
    plan = planned(DefaultMean(), Budget(epsilon=1.0), persons=persons)
    errors, failed = [], 0
    for run in range(runs):
        g = np.random.default_rng([run, persons, int(offset)])
        people = ArrayPersonTable((offset + g.normal(size=persons))[:, None], ("value",))
        release = plan.release(people, SimulatedNoise(g))
        failed += release.failed
        if not release.failed:
            errors.append((float(release) - offset) * math.sqrt(persons))
    found = np.abs(errors)
    rms, median = math.sqrt(float(np.mean(np.square(found)))), np.median(found) / 0.6745
    far = int((found > 20).sum())
    return [
        f"normal, {offset:g} deviations from zero, n = {persons}",
        1,
        f"{rms:.2f} (median {median:.2f}, beyond 20: {far} of {runs}, failed {failed})",
        earlier,
    ]


def ratio_row(name: str, x: np.ndarray, epsilon: float, earlier: str, runs: int) -> list[object]:
    """Total error over the oracle's, as in the table of the default mean."""
    c = cell(x, epsilon, runs, 5)
    text = f"{c['ratio']:.2f} x oracle"
    if c["point_mass"]:
        text += f", atom {c['point_mass']:.2f}"
    return [name, epsilon, text, earlier]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="50 releases a cell")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the Parquet tables")
    arguments = parser.parse_args()
    runs = 50 if arguments.quick else 1000
    rows = [offset_row(*item, runs) for item in OFFSETS]
    ratios = min(runs, 300)
    ones = (np.arange(4000) < 80) * 1.0
    rows.append(ratio_row("2 % ones among 4000", ones, 1.0, "8.6 (answer 0)", ratios))
    far = 100 + np.random.default_rng(2).normal(size=4000)
    rows.append(ratio_row("Gaussian(100, 1), n = 4000", far, 0.1, "36.97", ratios))
    if arguments.data.exists():
        data = person_means(arguments.data, COLUMNS)
        for name, epsilon, earlier in (
            ("spam george", 0.1, "5.85 (atom)"),
            ("spam george", 0.5, "2.33"),
            ("spam capital average", 0.5, "2.06"),
            ("spam capital average", 1.0, "2.44"),
            ("spam capital average", 2.0, "2.26"),
            ("nlswork hours", 0.5, "1.41"),
            ("insteval rating", 0.5, "1.27"),
        ):
            rows.append(ratio_row(name, data[name], epsilon, earlier, ratios))
    text = (
        "Total error around the population mean, in standard errors for normal values (median: of "
        "the absolute error, in units where a normal error gives 1), and over the oracle's for the "
        "others. *Earlier*: a float prototype of the same idea with other constants.\n\n"
        + report.table(["case", "epsilon", "now", "earlier"], rows)
    )
    command = "python benchmarks/weak_cases.py" + (" --quick" if arguments.quick else "")
    report.publish("weak-cases", "Default mean: weak cases", text, command=command)


if __name__ == "__main__":
    main()
