"""The default mean with nothing given but epsilon: error against an all-knowing oracle.

The integer implementation runs on fixed columns; the mean square of a cell is the squared bias of
the clipped mean at the limits of every release plus the variance of its last Laplace release (less
Monte Carlo error than drawing it). Total: the error around the population mean, so sampling is
included, over that of the oracle (true centre, best symmetric radius, all of epsilon on the noise).
Failures and atoms are counted; a failed release has no error, an atom has that of its answer.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from plans import planned
from privmean.central.default_mean import DefaultMean
from privmean.data.array_table import ArrayPersonTable
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import Budget
from report import few, publish, table
from study_laws import COLUMNS, DATA, OTHER_COLUMNS, oracle, person_means, synthetic

EPSILONS = (0.1, 0.5, 1.0, 2.0)
# total over oracle measured for an earlier rule (a float prototype) on the same columns
EARLIER = {
    "insteval rating": (5.11, 1.27, 1.15, 1.04),
    "flights arr_delay": (1.32, 1.17, 1.11, 1.07),
    "nlswork ln_wage": (2.24, 1.38, 1.10, 1.03),
    "nlswork hours": (2.31, 1.41, 1.13, 1.04),
    "retail amount": (1.88, 1.05, 0.99, 1.08),
    "spam capital average": (1.45, 2.06, 2.44, 2.26),
    "spam capital total": (1.72, 1.04, 0.97, 1.00),
    "spam george": (5.85, 2.33, 1.13, 1.04),
    "spam you": (1.24, 1.18, 1.05, 1.01),
    "spam exclamation": (1.78, 1.17, 1.07, 1.01),
}


def clipped_mean(x: np.ndarray, sums: np.ndarray, path: dict[str, list[float]]) -> float:
    """Mean at the limits of a release: far values count at their middle."""
    n, (lower, upper) = len(x), path["limits"]
    i, j = int(np.searchsorted(x, lower)), int(np.searchsorted(x, upper, side="right"))
    a, b = path["far limits"]
    far_below, far_above = int(np.searchsorted(x, a)), n - int(np.searchsorted(x, b, side="right"))
    total = (i - far_below) * lower + (n - j - far_above) * upper + sums[j] - sums[i]
    return (total + (far_below + far_above) * (lower + upper) / 2) / n


def cell(values: np.ndarray, epsilon: float, runs: int, seed: int) -> dict[str, float]:
    """Error measures of one column at one epsilon."""
    x = np.sort(values)
    n, mean = len(x), float(x.mean())
    se = float(x.std(ddof=1)) / math.sqrt(n)
    sums = np.concatenate([[0.0], np.cumsum(x)])
    people = ArrayPersonTable(x[:, None], ("value",))
    plan = planned(DefaultMean(), Budget(epsilon=epsilon), persons=n)
    noise = SimulatedNoise(seed)
    bias, variance, errors, statuses = [], [], [], []
    for _ in range(runs):
        release = plan.release(people, noise)
        statuses.append(release.status)
        if release.failed:
            continue
        errors.append(float(release) - mean)
        if release.status == "point_mass":
            bias.append(errors[-1])
            variance.append(0.0)
            continue
        bias.append(clipped_mean(x, sums, release.diagnostics) - mean)
        scale = release.guarantee.mechanisms[-1].scale  # of the sum, in grid steps
        maker = release.intervals
        steps = float(maker.sums.value_scale) * maker.units.radius / n
        assert scale > 0
        variance.append(2 * steps**2)
    rates = {
        "failed": statuses.count("failed") / runs,
        "point_mass": statuses.count("point_mass") / runs,
    }
    if not errors:
        return rates | {"ratio": math.nan, "total": math.nan, "bias": math.nan, "worst": math.nan,
                        "far": 0}  # fmt: skip
    square = float(np.mean(np.square(bias) + np.array(variance)))
    best = oracle(x, epsilon)
    far = np.abs(errors) / se
    return rates | {
        "ratio": math.sqrt(1 + square / se**2) / math.sqrt(1 + (best / se) ** 2),
        "total": math.sqrt(1 + square / se**2),
        "bias": float(np.mean(bias)) / se,
        "worst": float(far.max()),
        "far": int((far > 20).sum()),
    }


def show(c: dict[str, float]) -> str:
    text = f"{c['ratio']:.2f}, {c['bias']:+.2f}, {c['worst']:.1f}"
    if c["failed"]:
        text += f" F{c['failed']:.3f}"
    if c["point_mass"]:
        text += f" A{c['point_mass']:.3f}"
    return text


def stored(store: Path | None, key: str, make: Callable[[], dict[str, float]]) -> dict[str, float]:
    """A finished cell from its file, or made now and kept there."""
    if store is None:
        return make()
    store.mkdir(parents=True, exist_ok=True)
    file = store / (re.sub(r"[^a-z0-9.]+", "_", key.lower()) + ".json")
    if not file.exists():
        file.write_text(json.dumps(make()))
    found: dict[str, float] = json.loads(file.read_text())
    return found


def group(
    columns: dict[str, np.ndarray], runs: int, prefix: str, store: Path | None
) -> tuple[list[list[object]], dict[tuple[str, float], dict[str, float]]]:
    rows: list[list[object]] = []
    cells = {}
    for k, (name, values) in enumerate(columns.items()):
        for epsilon in EPSILONS:
            cells[name, epsilon] = stored(
                store,
                f"{prefix}{name} {epsilon:g} {runs}",
                partial(cell, values, epsilon, runs, 1000 * k + 7),
            )
        rows.append([prefix + name, *(show(cells[name, e]) for e in EPSILONS)])
    means = [
        math.exp(float(np.nanmean([math.log(cells[name, e]["ratio"]) for name in columns])))
        for e in EPSILONS
    ]
    rows.append([f"**geometric mean {prefix}**", *(f"**{m:.3f}**" for m in means)])
    return rows, cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="60 releases a cell")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the Parquet tables")
    parser.add_argument("--store", type=Path, help="folder that keeps finished cells")
    arguments = parser.parse_args()
    runs = few(60 if arguments.quick else 600)
    rows: list[list[object]] = []
    notes: list[str] = []
    if arguments.data.exists():
        main_rows, cells = group(person_means(arguments.data, COLUMNS), runs, "D ", arguments.store)
        rows += main_rows
        rows.append(
            ["the same, earlier rule (floats)"]
            + [
                f"{math.exp(np.mean([math.log(v[i]) for v in EARLIER.values()])):.3f}"
                for i in range(len(EPSILONS))
            ]
        )
        others, more = group(
            person_means(arguments.data, OTHER_COLUMNS), runs, "other ", arguments.store
        )
        rows += others
        for limit, epsilon in ((1.2, 1.0), (1.5, 0.5)):
            seen = {
                name: cells[name, epsilon]["total"]
                for name in ("insteval rating", "nlswork ln_wage", "nlswork hours")
            }
            words = ", ".join(f"{name} {value:.2f}" for name, value in seen.items())
            notes.append(
                f"total over the standard error at epsilon={epsilon:g} (limit {limit}): {words}"
            )
        large = [c for (_, e), c in {**cells, **more}.items() if e >= 0.5]
        notes.append(
            f"answers more than 20 standard errors off at epsilon >= 0.5: "
            f"{sum(c['far'] for c in large)} of {len(large) * runs}; failed: "
            f"{sum(round(c['failed'] * runs) for c in large)}"
        )
        above = [
            f"{name} {c['ratio']:.2f}"
            for (name, e), c in cells.items()
            if e == 1.0 and c["ratio"] > 1.6
        ]
        notes.append(f"columns D above 1.6 at epsilon=1: {', '.join(above) or 'none'}")
    laws = {k: v for k, v in synthetic(4000, 2).items()}
    rows += group(laws, runs, "law ", arguments.store)[0]
    text = table(["column", *(f"epsilon {e:g}" for e in EPSILONS)], rows)
    text = (
        "Cell: total error over the oracle's, bias in standard errors, worst answer of all runs in "
        "standard errors; F failed and A atom rates.\n\n"
        + text
        + "\n\n"
        + "\n".join(f"- {note}" for note in notes)
    )
    command = "python benchmarks/default_mean.py" + (" --quick" if arguments.quick else "")
    publish("default-mean", f"Default mean, {runs} releases a cell", text, command=command)


if __name__ == "__main__":
    main()
