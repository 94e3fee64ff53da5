"""Where persons without a value count in the default mean: what it saves to put them elsewhere.

The ten tuning columns and two laws, persons drawn again, a share of them without a value. Error:
around the mean of those with a value, with sampling, in standard errors. Away: from the mean to
where the others count, in standard deviations (root of the mean square).

    python benchmarks/default_mean_absent.py [--runs 60]
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from unittest import mock

import numpy as np

from default_mean_laws import EPSILON, NINE, Law, columns_of
from plans import planned
from privmean.central import default_column
from privmean.central.default_mean import DefaultMean
from privmean.data.array_table import ArrayPersonTable
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import Budget
from report import publish, table
from study_laws import COLUMNS, DATA

LAWS, SHARES, SIZES = ("lognormal 1", "N(1.67, .38)"), (0.0, 0.01, 0.05), (300, 600, 1500, 5000)
WAYS = ("middle of the limits", "mean of what was seen")
STEP = default_column.missing_step


def cell(law: Law, n: int, share: float, way: str, runs: int) -> tuple[float, ...]:
    """Error, coverage, median length (in standard errors), how far away the others count, bias."""
    plan = planned(DefaultMean(), Budget(epsilon=EPSILON), persons=n)
    errors, away, lengths, covered = [], [], [], 0
    unit = law.sd / math.sqrt(n)

    def step(place, box, relation):  # type: ignore[no-untyped-def]
        at = 0 if way == WAYS[0] else STEP(place, box, relation)
        away.append((box.middle + box.radius * at / box.steps - law.mean) / law.sd)
        return at

    with mock.patch.object(default_column, "missing_step", step):
        for run in range(runs):
            g = np.random.default_rng([run, n])
            x = law.draw(g, n)
            x[g.random(n) < share] = np.nan
            release = plan.release(ArrayPersonTable(x[:, None], ("v",)), SimulatedNoise(g))
            interval = release.interval()
            covered += interval.lower[0] <= law.mean <= interval.upper[0]
            lengths.append((interval.upper[0] - interval.lower[0]) / unit)
            if math.isfinite(release.estimate[0]):
                errors.append((release.estimate[0] - np.nanmean(x)) / unit)
    error = math.sqrt(1 + float(np.mean(np.square(errors)))) if errors else math.nan
    root = math.sqrt(float(np.mean(np.square(away)))) if away else math.nan
    bias = float(np.mean(errors)) if errors else math.nan
    return error, covered / runs, float(np.median(lengths)), root, bias


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--data", type=Path, default=DATA)
    a = parser.parse_args()
    laws = {name: Law.of(*NINE[name]) for name in LAWS}
    columns = columns_of(a.data, tuple(COLUMNS)) if a.data.exists() else {}
    laws |= {name: Law.among(x) for name, x in columns.items()}
    rows: list[list[object]] = []
    for size in SIZES:
        for share in SHARES:
            for way in WAYS:
                n = round(size / EPSILON)
                found = np.array([cell(law, n, share, way, a.runs) for law in laws.values()]).T
                answered = found[:, np.isfinite(found[2])]
                means = [float(np.exp(np.log(answered[k]).mean())) for k in (0, 2)]
                rows.append([
                    size, f"{share:.0%}", way, f"{means[0]:.3f}", f"{found[1].mean():.3f}",
                    f"{means[1]:.2f}", f"{np.nanmin(found[3]):.2f} to {np.nanmax(found[3]):.2f}",
                    f"{found[4][0]:+.2f}",
                    "; ".join(f"{name} {v:.2f}" for name, v in zip(laws, found[0], strict=True)),
                ])  # fmt: skip
                print(*rows[-1], sep=" | ", flush=True)
    head = ["persons x epsilon", "missing", "the others count at", "error (se)", "covers",
            "length (se)", "away (sd)", "bias, lognormal", "each"]  # fmt: skip
    pairs = zip(rows[::2], rows[1::2], strict=True)
    ratios = ", ".join(
        f"{one[0]} and {one[1]}: {float(str(two[3])) / float(str(one[3])):.2f}"
        for one, two in pairs
    )
    publish(
        "default-mean-absent", "Default mean: where persons without a value count",
        f"epsilon {EPSILON:g}, {a.runs} releases a cell. Geometric means over those that are "
        f"answered; error, the second way over the first: {ratios}.\n\n{table(head, rows)}",
        command=f"python benchmarks/default_mean_absent.py --runs {a.runs}",
    )  # fmt: skip


if __name__ == "__main__":
    main()
