"""A mean at an unknown scale: the fifth figure of Roth and Avella-Medina (2025).

First a variance with epsilon = 1, then the published Winsorized mean with epsilon = 1 at that
scale (the totals add): the variance as published, where cells are compared with reference values of
400 releases.

    python benchmarks/variance.py [--quick]
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from plans import planned
from privmean.data.array_table import ArrayPersonTable
from privmean.errors import InfeasibleError
from privmean.estimators.concentration import SubGaussian, UnknownScale
from privmean.estimators.winsorized import WinsorizedMean
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget
from privmean.published import VarianceAsPublished, WinsorizedAsPublished
from report import publish, table

SIZES = (1000, 2000, 6000, 10000)
SMALL, LARGE, START, CENTER = math.sqrt(0.1), 100.0, 300.0, 100.0
METHODS = {
    "bisection as printed": VarianceAsPublished(SMALL, LARGE, START, "bisection", gamma=0.1),
    "bisection as printed, refined first": VarianceAsPublished(
        SMALL, LARGE, START, "bisection", gamma=0.1, refine_first=True
    ),
    "coinpress as printed": VarianceAsPublished(SMALL, LARGE, START),
}
REFERENCE = {
    "known": (7.4e-3, 2.2e-3, 3.4e-4, 1.6e-4),
    "bisection as printed": (64, 16.6, 2.0, 0.71),
    "bisection as printed, refined first": (22.5, 2.8, 6.3e-2, 1.7e-4),
    "coinpress as printed": (1.0e-2, 2.2e-3, 3.4e-4, 1.7e-4),
}


def run(name: str, n: int, releases: int, rng: np.random.Generator) -> tuple[str, str]:
    """Mean squared error of the mean, and the quantiles of the variance (truth 1)."""
    noise = SimulatedNoise(rng)
    budget = Budget(epsilon=1.0, delta=1 / n**2)
    squares, found = [], []
    step = planned(METHODS[name], budget, persons=n) if name in METHODS else None
    for _ in range(releases):
        people = ArrayPersonTable((CENTER + rng.standard_normal(n))[:, None], ("x",))
        sd = 1.0
        if step is not None:
            variance = float(step.release(people, noise).estimate[0])
            found.append(variance)
            sd = math.sqrt(variance)
        plan = planned(WinsorizedAsPublished(SubGaussian(sd)), budget, persons=n)
        release = plan.release(people, noise)
        if not release.failed:
            squares.append((release.estimate[0] - CENTER) ** 2)
    x = np.array(squares)
    spread = " / ".join(f"{q:.2f}" for q in np.quantile(found, [0.05, 0.5, 0.95])) if found else ""
    return f"{x.mean():.2g} ± {x.std(ddof=1) / math.sqrt(len(x)):.1g}", spread


def one_plan(n: int, releases: int, rng: np.random.Generator) -> str:
    """The improved mean with the scale inside its own plan, epsilon = 2 in all."""
    noise = SimulatedNoise(rng)
    try:
        plan = planned(
            WinsorizedMean(UnknownScale(SMALL, LARGE)),
            Budget(epsilon=2.0, delta=1 / n**2),
            persons=n,
        )
    except InfeasibleError:
        return "refused"
    squares = []
    for _ in range(releases):
        people = ArrayPersonTable((CENTER + rng.standard_normal(n))[:, None], ("x",))
        release = plan.release(people, noise)
        if not release.failed:
            squares.append((release.estimate[0] - CENTER) ** 2)
    x = np.array(squares)
    return f"{x.mean():.2g} ± {x.std(ddof=1) / math.sqrt(len(x)):.1g}"


def main(quick: bool) -> None:
    start, releases = time.time(), 40 if quick else 400
    rng = np.random.default_rng(5)
    rows: list[list[object]] = []
    for name in ("known", *METHODS):
        for column, n in enumerate(SIZES):
            error, spread = run(name, n, releases, rng)
            known = REFERENCE.get(name)
            rows.append([name, n, error, f"{known[column]:.2g}" if known else "", spread])
    for n in SIZES:
        rows.append(["WinsorizedMean, UnknownScale", n, one_plan(n, releases, rng), "", ""])
    header = ["scale", "n", "mean squared error", "reference", "variance: 5 / 50 / 95 %"]
    text = (
        f"True variance 1, centre 100, public range of the deviation {SMALL:.3g} to {LARGE:g}, "
        "rough centre 300. The mean is the published algorithm (ε = 1, δ = 1/n²) after a variance "
        "with ε = 1 (as printed: δ = 1/n²), but for the last rows, where one plan spends ε = 2.\n\n"
        + table(header, rows)
        + f"\n\n{releases} releases a cell. {time.time() - start:.0f} s."
    )
    if quick:
        print(text)
    else:
        title = "Mean at an unknown scale: published Figure 5"
        publish("variance", title, text, command="python benchmarks/variance.py")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the releases, no page")
    main(parser.parse_args().quick)
