"""Vector means at n = 2000: l2 error over the non-private one, d = 10, 100, 1000.

One row a method. A method is a function from a `Setting` to its l2 errors over the setting's
samples (or None where it refuses), entered in METHODS: that is all it takes to join the table.

Settings: Gaussian and t3 records, one a person; isotropic covariance, or five columns of deviation
1 and the others of deviation 1/d ("5 spikes"). The mean is 3 in every column; public: the range
+-10 of every column (so a ball of radius 10 sqrt(d)), and each method's own assumption.

    python benchmarks/high_dimension.py [--quick] [--epsilon 1]
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

import report
from heavy_data import LAWS, Law
from plans import planned
from privmean.data.array_table import ArrayPersonTable
from privmean.errors import InfeasibleError
from privmean.estimators.anisotropic.anisotropic_mean import AnisotropicMean
from privmean.estimators.heavy_tailed import BoundedMoment, HeavyTailedMean
from privmean.estimators.means.choose_vector_method import Cheapest
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget
from privmean.privacy.gdp import gaussian_mu

PERSONS = 2000
MEAN = 3.0
REACH = 10.0
DELTA = 1e-6


@dataclass(frozen=True)
class Setting:
    """One column of the table: a law, a covariance, a dimension, and its samples."""

    law: Law
    shape: str
    dimension: int
    epsilon: float
    runs: int

    @property
    def title(self) -> str:
        return f"{self.law.name}, {self.shape}, {self.dimension}"

    @cached_property
    def deviations(self) -> np.ndarray:
        """Standard deviations of the columns, all public to methods that ask for them."""
        if self.shape == "isotropic":
            return np.ones(self.dimension)
        return np.where(np.arange(self.dimension) < 5, 1.0, 1.0 / self.dimension)

    def sample(self, run: int) -> np.ndarray:
        """Rows of one run, shape (PERSONS, dimension)."""
        rng = np.random.default_rng([run, self.dimension])
        return MEAN + self.law.draw(rng, (PERSONS, self.dimension)) * self.deviations

    @property
    def budget(self) -> Budget:
        return Budget(self.epsilon, DELTA)

    def error(self, estimate: np.ndarray) -> float:
        return float(np.linalg.norm(estimate - MEAN))

    @property
    def non_private(self) -> float:
        """Root mean square l2 error of the plain mean."""
        return math.sqrt(float(np.sum(self.deviations**2)) / PERSONS)


def released(setting: Setting, estimator: object) -> list[float] | None:
    """Errors of an estimator with plan and release, or None where its plan refuses."""
    names = tuple(f"c{j}" for j in range(setting.dimension))
    try:
        plan = planned(estimator, setting.budget, persons=PERSONS, dimension=setting.dimension)
    except InfeasibleError:
        return None
    return [
        setting.error(
            np.nan_to_num(
                plan.release(
                    ArrayPersonTable(setting.sample(run), names), SimulatedNoise(run)
                ).estimate
            )
        )
        for run in range(setting.runs)
    ]


def non_private(setting: Setting) -> list[float]:
    return [setting.error(setting.sample(run).mean(axis=0)) for run in range(setting.runs)]


def clipped(setting: Setting, rows: np.ndarray, center: np.ndarray, radius: float, run: int):
    """Plain clipping to a ball and Gaussian noise at the whole budget."""
    rng = np.random.default_rng([run, 77])
    norm = np.linalg.norm(rows - center, axis=1, keepdims=True)
    moved = ((rows - center) * np.minimum(1, radius / norm)).mean(axis=0)
    noise = 2 * radius / (PERSONS * gaussian_mu(setting.epsilon, DELTA))
    return center + moved + noise * rng.standard_normal(setting.dimension)


def public_ball(setting: Setting) -> list[float]:
    """Clipping to the public ball around zero."""
    radius = REACH * math.sqrt(setting.dimension)
    zero = np.zeros(setting.dimension)
    return [
        setting.error(clipped(setting, setting.sample(run), zero, radius, run))
        for run in range(setting.runs)
    ]


def oracle_ball(setting: Setting) -> list[float]:
    """Clipping around the true mean at the best radius of a grid (from the typical norm upwards,
    since a smaller ball at the truth would win by shrinking to it): not achievable."""
    size = math.sqrt(float(np.sum(setting.deviations**2)))
    true = np.full(setting.dimension, MEAN)
    errors = [
        [
            setting.error(clipped(setting, setting.sample(run), true, factor * size, run))
            for run in range(min(setting.runs, 5))
        ]
        for factor in np.geomspace(1.0, 3, 6)
    ]
    return min(errors, key=lambda item: float(np.mean(np.square(item))))


def heavy_tailed(setting: Setting) -> list[float] | None:
    """A bound on a directional moment, the same for every direction."""
    moment = BoundedMoment(setting.law.order, setting.law.bound, 1, range=(-REACH, REACH))
    return released(setting, HeavyTailedMean(moment, private_radius=False))


def heavy_tailed_norm(setting: Setting) -> list[float] | None:
    """The same with a bound on the norm as well (the trace of the covariance is known)."""
    size = setting.law.bound * math.sqrt(float(np.sum(setting.deviations**2)))
    moment = BoundedMoment(
        setting.law.order, setting.law.bound, 1, range=(-REACH, REACH), norm_bound=size
    )
    return released(setting, HeavyTailedMean(moment, private_radius=False))


def heavy_tailed_two(setting: Setting) -> list[float] | None:
    """Directional and norm bounds of order 2 (largest variance, trace) and of order k."""
    size = math.sqrt(float(np.sum(setting.deviations**2)))
    order, bound = setting.law.order, setting.law.bound
    moment = BoundedMoment(
        (2, order), (1.0, bound), range=(-REACH, REACH), norm_bound=(size, bound * size)
    )
    return released(setting, HeavyTailedMean(moment, private_radius=False))


def heavy_tailed_private_radius(setting: Setting) -> list[float] | None:
    """Directional bound, and 15 % of epsilon for a private radius."""
    moment = BoundedMoment(setting.law.order, setting.law.bound, 1, range=(-REACH, REACH))
    return released(setting, HeavyTailedMean(moment, private_radius=True))


def nothing_given(setting: Setting) -> list[float] | None:
    """No assumption and no range: the default of several columns."""
    return released(setting, Cheapest())


def anisotropic_known(setting: Setting) -> list[float] | None:
    """The covariance (a diagonal) is known, the mean and the range are not."""
    return released(setting, AnisotropicMean(setting.deviations**2))


def anisotropic_unknown(setting: Setting) -> list[float] | None:
    """Nothing is known of the covariance."""
    return released(setting, AnisotropicMean(None))


Method = Callable[[Setting], list[float] | None]
METHODS: list[tuple[str, Method]] = [
    ("non-private mean", non_private),
    ("public ball", public_ball),
    ("heavy-tailed: moment bound", heavy_tailed),
    ("heavy-tailed: moment and norm bounds", heavy_tailed_norm),
    ("heavy-tailed: also largest variance and trace", heavy_tailed_two),
    ("heavy-tailed: private radius", heavy_tailed_private_radius),
    ("default, nothing given", nothing_given),
    ("anisotropic: covariance known", anisotropic_known),
    ("anisotropic: covariance unknown", anisotropic_unknown),
    ("oracle centre and radius, one ball", oracle_ball),
]


def cell(setting: Setting, name: str, method: Method, store: Path | None) -> str:
    """The cell's text; with a store, from there if it is there."""
    key = f"{setting.title}, {setting.epsilon:g}, {setting.runs} runs, {name}"
    file = None if store is None else store / (re.sub(r"[^a-z0-9.]+", "_", key.lower()) + ".txt")
    if file is not None and file.exists():
        return file.read_text()
    errors = method(setting)
    text = "refused"
    if errors is not None:
        text = f"{math.sqrt(float(np.mean(np.square(errors)))) / setting.non_private:.2f}"
    if file is not None:
        file.write_text(text)
    return text


def tables(epsilon: float, quick: bool, store: Path | None) -> str:
    dimensions = (10, 100) if quick else (10, 100, 1000)
    runs = {10: 30, 100: 10, 1000: 3}
    text = (
        f"n = {PERSONS}, epsilon = {epsilon:g}, delta = {DELTA:g}: root mean square l2 error over "
        "the non-private one. Public: for the ball and the heavy-tailed rows the range +-10 and "
        "the moment bounds named, for the anisotropic rows nothing but the covariance where it is "
        "known, for the default nothing. A run that fails privately, or a column that is not seen, "
        "counts as an answer of 0. Runs a cell: 30, 10 and 3.\n"
    )
    for shape in ("isotropic", "5 spikes"):
        settings = [
            Setting(LAWS[name], shape, d, epsilon, 5 if quick else runs[d])
            for name in ("Gaussian", "t3")
            for d in dimensions
        ]
        header = [shape, *(f"{item.law.name}, d={item.dimension}" for item in settings)]
        rows: list[list[object]] = [
            [name, *(cell(item, name, method, store) for item in settings)]
            for name, method in METHODS
        ]
        text += "\n" + report.table(header, rows) + "\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--store", type=Path, help="folder that keeps finished cells")
    arguments = parser.parse_args()
    if arguments.store is not None:
        arguments.store.mkdir(parents=True, exist_ok=True)
    quick = " --quick" if arguments.quick else ""
    command = f"python benchmarks/high_dimension.py --epsilon {arguments.epsilon:g}{quick}"
    report.publish(
        "high-dimension",
        "Vector means in 10, 100 and 1000 columns",
        tables(arguments.epsilon, arguments.quick, arguments.store),
        command=command,
    )


if __name__ == "__main__":
    main()
