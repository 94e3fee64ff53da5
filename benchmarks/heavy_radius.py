"""The private radius of a heavy-tailed mean: by the sparse vector technique, or by one choice.

Total error over the standard error, with a moment bound that the law fills ("tight") and one four
times as large. None: the planned radius. Choice: the upper of two limits about the center, with the
same part of epsilon, at most the planned radius.

    python benchmarks/heavy_radius.py [--runs 12]
"""

from __future__ import annotations

import argparse
import math
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from heavy_data import LAWS, geometric
from plans import planned
from privmean.data.array_table import ArrayPersonTable
from privmean.estimators.heavy_tailed import BoundedMoment, HeavyTailedMean
from privmean.estimators.heavy_tailed.coarse_center import RadiusSearch
from privmean.mechanisms.private_location import PrivateLimits, edges
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import REPLACE_ONE, Budget
from report import few, publish, table

WAYS = ("none", "sparse vector", "choice")
CASES = [(n, columns) for n in (1000, 5000) for columns in (1, 5)]
PESSIMISM = {"tight": 1.0, "4 times": 4.0}
RANGE = 50.0


class Choice(RadiusSearch):
    """The same question, answered by one choice."""

    def find(self, curator, center):
        people, first = curator.people, self.candidates[0]
        one = self.candidates[1] > 1.3 * first  # of one column: from 2^-16 of the spread upwards
        unit = 2.0 ** round(math.log2(first * (2.0**16 if one else 2.0**6)))
        radii = edges() * unit
        least = np.searchsorted(radii, unit / 256)
        beyond = np.full(len(radii), people.size())
        last = np.searchsorted(radii, 1e4 * RANGE)
        beyond[last:] = 0
        for j in range(least, last):
            beyond[j] = people.size() - people.count_in_ball(center, float(radii[j]))
        step = PrivateLimits("private radius", self.epsilon, REPLACE_ONE, 1.0)
        _, above = curator.ask(step, (np.zeros_like(beyond), beyond))
        radius = float(radii[above])
        return None if above == 0 or radius > self.candidates[-1] else radius


def errors(job: tuple[str, str, int, int, int]) -> list[float]:
    """The total error of each way over the standard error."""
    name, pessimism, n, columns, runs = job
    law, budget = LAWS[name], Budget(epsilon=1.0, delta=0.0 if columns == 1 else 1e-6)
    bound = law.bound * PESSIMISM[pessimism]
    moment = BoundedMoment(law.order, bound, 1, range=(-RANGE, RANGE))
    plans = [
        planned(HeavyTailedMean(moment, private_radius=radius), budget, persons=n,
                dimension=columns)
        for radius in (False, True)
    ]  # fmt: skip
    found = np.zeros((runs, 3))
    for run in range(runs):
        g = np.random.default_rng(run)
        people = ArrayPersonTable(
            3.0 + law.draw(g, (n, columns)), tuple(f"c{j}" for j in range(columns))
        )
        for k in range(3):
            find = RadiusSearch.find
            if k == 2:
                RadiusSearch.find = Choice.find
            try:
                release = plans[min(k, 1)].release(people, SimulatedNoise(1000 + run))
            finally:
                RadiusSearch.find = find
            value = np.asarray(release.estimate, dtype=float)
            found[run, k] = np.sum((value - 3.0) ** 2)
    return np.sqrt(np.nanmean(found, axis=0) / (columns / n)).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--sizes", type=int, nargs="*", help="some numbers of people, printed only")
    arguments = parser.parse_args()
    runs = few(arguments.runs)
    cases = [case for case in CASES if not arguments.sizes or case[0] in arguments.sizes]
    jobs = [
        (name, pessimism, n, columns, runs)
        for n, columns in cases
        for pessimism in PESSIMISM
        for name in LAWS
    ]
    with ProcessPoolExecutor(2) as pool:
        found = dict(zip(jobs, pool.map(errors, jobs), strict=True))
    rows = []
    for n, columns in cases:
        for pessimism in PESSIMISM:
            cells = [found[name, pessimism, n, columns, runs] for name in LAWS]
            worst = max(range(len(cells)), key=lambda k: cells[k][2] / cells[k][1])
            means = [geometric([cell[k] for cell in cells]) for k in range(3)]
            rows.append(
                [f"{n}", f"{columns}", pessimism, *(f"{mean:.2f}" for mean in means),
                 f"{cells[worst][2] / cells[worst][1]:.2f} {list(LAWS)[worst]}"]
            )  # fmt: skip
    text = table(["people", "columns", "bound", *WAYS, "largest choice/sparse vector"], rows)
    if arguments.sizes:
        print(text)
        return
    publish(
        "heavy-radius",
        f"Radius of a heavy-tailed mean, error over the standard error, six laws, {runs} releases",
        text,
        command=f"python benchmarks/heavy_radius.py --runs {runs}",
    )


if __name__ == "__main__":
    main()
