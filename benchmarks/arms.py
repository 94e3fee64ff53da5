"""Power of the comparison of two arms: private arms, public arms, and the t test on the values.

Normal values whose effect the t test sees in 80 % of samples; a test is an interval for the
difference of limited values that leaves 0 out (without the allowance for tails), or with it.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from scipy import stats

from privmean.data.group_pairs import ArrayPairTable, GroupWeights
from privmean.data.schema import PublicShape
from privmean.estimators.groups.group_means import GroupMeans
from privmean.inference.group_table import MeanSum
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from report import publish, table

SIZES = ((500, 500), (2000, 2000), (200, 2000))
KEYS = (("c",), ("t",))
SIGNS = np.array([-1.0, 1.0])


def effect_of(sizes: tuple[int, int]) -> float:
    """The effect, in deviations, that a t test at 5 % sees in 80 % of samples."""
    error = np.sqrt(1 / sizes[0] + 1 / sizes[1])
    return float(error * (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)))


def ends(way: str, pairs: ArrayPairTable, epsilon: float, seed: int) -> list[tuple[float, float]]:
    """The interval without the allowance, and with it; everything where nothing is found."""
    public = way == "public arms"
    relation = REPLACE_ONE if public else ADD_REMOVE
    budget = Budget(epsilon=epsilon, neighbors=relation)
    shape = PublicShape(pairs.columns, pairs.size() if relation == REPLACE_ONE else None)
    made = GroupMeans(KEYS, public_groups=public, common=True).plan(budget, shape)
    groups = made.release(pairs, SimulatedNoise(seed)).intervals
    used = np.flatnonzero(SIGNS)
    signs = [MeanSum(used, np.asarray(SIGNS)[used])]
    lines = [*groups.lines(signs, 0.95, clipped=True), *groups.lines(signs, 0.95)]
    return [(item.lower, item.upper) for item in lines]


def seen(way: str, sizes: tuple[int, int], epsilon: float, effect: float, runs: int) -> list[float]:
    rng = np.random.default_rng(1)
    count = np.zeros(2)
    place = np.repeat([1, 0], sizes)
    for i in range(runs):
        value = rng.standard_normal(len(place)) + effect * place
        pairs = ArrayPairTable.of(np.arange(len(place)), place, value, ["c", "t"], GroupWeights())
        count += [low > 0 or high < 0 for low, high in ends(way, pairs, epsilon, i)]
    return [float(item) for item in count / runs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--print", action="store_true", help="keep the stored results")
    said = parser.parse_args()
    rows: list[list[object]] = []
    for sizes in SIZES:
        for epsilon in (0.5, 1.0, 2.0):
            for way in ("private arms", "public arms"):
                power = seen(way, sizes, epsilon, effect_of(sizes), said.runs)
                size = seen(way, sizes, epsilon, 0.0, said.runs)
                shown = [f"{item:.2f}" for item in (*power, *size)]
                rows.append([f"{sizes[0]}, {sizes[1]}", epsilon, way, *shown])
    head = ["persons", "epsilon", "arms", "power", "with the allowance", "size", "with it"]
    words = (
        f"{said.runs} tables and releases a cell; the t test on the values has power 0.80. Power "
        "and size of the interval for limited values, and of the one that allows for tails. "
        "Private arms: add-remove; public arms: replace-one."
    )
    body = f"{words}\n\n{table(head, rows)}"
    if said.print:
        print(body)
        return
    command = " ".join(["python benchmarks/arms.py", *sys.argv[1:]])
    publish("arms", "Two arms: power", body, command=command)


if __name__ == "__main__":
    main()
