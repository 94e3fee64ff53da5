"""The panels of Figures 1 and 5 of Roth and Avella-Medina (2025) beside mean squared errors.

Figure 1: median, quartiles, bias and variance of the published Winsorized mean, beside the mean
without privacy and the mean with the same noise and nothing clipped. Figure 5: a mean at an unknown
scale where people are dependent, with covariance 3/4 I + 1/4 11' or a Toeplitz matrix of 0.95.

    python benchmarks/dependent_figures.py [--quick]
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

import variance
from plans import planned
from privmean.data.array_table import ArrayPersonTable
from privmean.estimators.concentration import SubGaussian
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget
from privmean.published import WinsorizedAsPublished
from report import few, publish, table
from winsorized import Draw, equal_covariance, iid, published, tau, toeplitz

EPSILONS = (0.1, 0.5, 1.0)
SIZES = (1000, 2000, 5000, 10000)
COVARIANCES: dict[str, Draw] = {
    "3/4 I + 1/4 11'": equal_covariance(lambda n: 0.25),
    "Toeplitz 0.95": toeplitz,
}
SCALES = ("known", *variance.METHODS)
# of 400 releases; the other cells of the figure have no reference
REFERENCE = {
    ("Toeplitz 0.95", "known"): (4.6e-2, 2.1e-2, 6.9e-3, 4.4e-3),
    ("Toeplitz 0.95", "coinpress as printed"): (4.7e-2, 2.1e-2, 7.0e-3, 4.4e-3),
}


def errors(n: int, epsilon: float, releases: int, rng: np.random.Generator) -> np.ndarray:
    """Errors of releases, of means without privacy, and of these with noise; NaN: none."""
    plan, noise = published(n, epsilon), SimulatedNoise(rng)
    scale = 12 * tau(n) / (n * epsilon)
    found = np.full((releases, 3), math.nan)
    for k in range(releases):
        center = 100 + rng.uniform(-plan.half[0], plan.half[0])
        x = center + iid(n, rng)
        release = plan.release(ArrayPersonTable(x[:, None], ("x",)), noise)
        if not release.failed:
            found[k, 0] = release.estimate[0] - center
        found[k, 1] = x.mean() - center
        found[k, 2] = found[k, 1] + rng.laplace(0, scale)
    return found


def figure_1(releases: int, rng: np.random.Generator) -> str:
    rows: list[list[object]] = []
    for n in SIZES:
        for epsilon in (*EPSILONS, 1 / math.sqrt(n)):
            found = errors(n, epsilon, releases, rng)
            e = found[~np.isnan(found[:, 0]), 0]
            failed = 1 - len(e) / releases
            name = f"{epsilon:g}" if epsilon in EPSILONS else "1/√n"
            if len(e) < releases / 10:
                rows.append([name, n, f"{failed:.3f}", *[""] * 7])
                continue
            low, middle, high = np.quantile(e, [0.25, 0.5, 0.75])
            rows.append(
                [
                    name, n, f"{failed:.3f}", f"{(e**2).mean():.3g}", f"{e.mean() ** 2:.2g}",
                    f"{e.var():.3g}", f"{middle:.2g}", f"{high - low:.3g}",
                    f"{(found[:, 1] ** 2).mean():.2g}", f"{(found[:, 2] ** 2).mean():.3g}",
                ]
            )  # fmt: skip
    head = ["ε", "n", "failed", "mean squared error", "bias²", "variance", "median error"]
    head += ["interquartile range", "MSE of the mean", "MSE of mean and noise"]
    return (
        "**Figure 1**, independent people; over the releases with a location (at least a tenth "
        "of all). Mean and noise: nothing is clipped, the noise is that of the release.\n\n"
    ) + table(head, rows)


def figure_5_cell(name: str, draw: Draw, n: int, releases: int, rng: np.random.Generator) -> str:
    """Mean squared error of the mean after a variance, with its standard error."""
    noise, budget = SimulatedNoise(rng), Budget(epsilon=1.0, delta=1 / n**2)
    method = variance.METHODS.get(name)
    step = None if method is None else planned(method, budget, persons=n)
    squares = []
    for _ in range(releases):
        people = ArrayPersonTable((variance.CENTER + draw(n, rng))[:, None], ("x",))
        sd = 1.0
        if step is not None:
            found = step.release(people, noise)
            if found.failed:
                continue
            sd = math.sqrt(float(found.estimate[0]))
        mean = planned(WinsorizedAsPublished(SubGaussian(sd)), budget, persons=n)
        release = mean.release(people, noise)
        if not release.failed:
            squares.append((release.estimate[0] - variance.CENTER) ** 2)
    x = np.array(squares)
    if len(x) < 2:
        return "none"
    return f"{x.mean():.2g} ± {x.std(ddof=1) / math.sqrt(len(x)):.1g}"


def figure_5(releases: int, rng: np.random.Generator) -> str:
    rows: list[list[object]] = []
    for covariance, draw in COVARIANCES.items():
        for name in SCALES:
            cells = [figure_5_cell(name, draw, n, releases, rng) for n in variance.SIZES]
            known = REFERENCE.get((covariance, name))
            rows.append([covariance, name, *cells, " / ".join(f"{v:g}" for v in known or ())])
    head = ["covariance", "scale", *(f"n = {n}" for n in variance.SIZES), "reference"]
    return (
        "**Figure 5**, dependent people; marginal variance 1, otherwise as in the results of "
        "`variance.py`. The limit under equal covariance is 1/4: the common part is no error of a "
        "sample.\n\n"
    ) + table(head, rows)


def main(quick: bool) -> None:
    start = time.time()
    rng = np.random.default_rng(20251118)
    many, some = (few(40), few(8)) if quick else (few(2000), few(400))
    parts = [
        figure_1(many, rng),
        figure_5(some, rng),
        f"{many} and {some} releases a cell. {time.time() - start:.0f} s.",
    ]
    publish(
        "dependent-figures",
        "Winsorized mean: all panels of published Figures 1 and 5",
        "\n\n".join(parts),
        command="python benchmarks/dependent_figures.py",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the releases")
    main(parser.parse_args().quick)
