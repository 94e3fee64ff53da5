"""Columns in which nearly all persons share a value, beside values that are only far from 0.

    python benchmarks/default_mean_one_value.py [--runs 40]

The default mean, and means by five groups of equal size. Silent: part of all releases (rows of
groups) that say "ok" and miss the mean of the law. The first way calls limits one value where they
differ in the eighth digit only (means), or never (groups).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from unittest import mock

import numpy as np

from plans import planned
from privmean.central import default_bounds as default_limits
from privmean.central.default_mean import DefaultMean
from privmean.central.groups import pooled_tail as tails
from privmean.central.groups.group_means import GroupMeans
from privmean.central.point_mass import DIGITS, is_narrow
from privmean.data.array_pairs import ArrayPairTable
from privmean.data.array_table import ArrayPersonTable
from privmean.data.group_pairs import GroupWeights
from privmean.data.public_shape import PublicShape
from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, Budget
from report import publish, table

SIZES = ((600, 1.0), (1000, 1.0), (2400, 0.5), (3000, 1.0))
KEYS, WAYS = list("abcde"), ("by digits alone", "as released")


def rate(p: float) -> tuple[Callable[..., np.ndarray], float]:
    return lambda rng, n: (rng.random(n) < p).astype(float), p


def normal(mean: float, sd: float) -> tuple[Callable[..., np.ndarray], float]:
    return lambda rng, n: rng.normal(mean, sd, n), mean


LAWS = {
    "rate .99": rate(0.99),
    "rate .95": rate(0.95),
    "96 % at 40": (
        lambda rng, n: np.where(rng.random(n) < 0.96, 40.0, rng.uniform(0, 100, n)),
        40.4,
    ),
    "always 7.25": (lambda rng, n: np.full(n, 7.25), 7.25),
    "N(1990, 10)": normal(1990, 10),
    "N(10^6, 1)": normal(1e6, 1),
    "N(10^9, 1)": normal(1e9, 1),
    "N(25.0034, .001)": normal(25.0034, 0.001),
}


def patched(way: str) -> mock._patch:  # type: ignore[type-arg]
    """What the first way takes for one value."""

    def digits(self: default_limits.WidenedBounds) -> bool:
        return is_narrow(*self.limits, DIGITS)

    one = default_limits.WidenedBounds.one_value if way == WAYS[1] else property(digits)
    return mock.patch.object(default_limits.WidenedBounds, "one_value", one)


def means(law: str, n: int, epsilon: float, way: str, runs: int) -> tuple[float, ...]:
    draw, mean = LAWS[law]
    plan = planned(DefaultMean(), Budget(epsilon=epsilon), persons=n)
    said = np.zeros(3)
    with patched(way):
        for run in range(runs):
            g = np.random.default_rng([run, n])
            release = plan.release(ArrayPersonTable(draw(g, n)[:, None], ("v",)), SimulatedNoise(g))
            row, ok = release.interval(), release.status == "ok"
            held = row.lower[0] <= mean <= row.upper[0]
            said += ok, ok and not held, release.status == "point_mass"
    return tuple(said / runs)


def groups(law: str, n: int, epsilon: float, way: str, runs: int) -> tuple[float, ...]:
    draw, mean = LAWS[law]
    said = np.zeros(3)
    never = mock.patch.object(tails, "narrow", is_narrow if way == WAYS[1] else lambda *_: False)
    with never:
        for run in range(runs):
            g = np.random.default_rng([run, n])
            pairs = ArrayPairTable.of(
                np.arange(n), g.integers(0, 5, n), draw(g, n), KEYS, GroupWeights()
            )
            plan = GroupMeans(pairs.keys, pairs.weights).plan(
                Budget(epsilon=epsilon, neighbors=ADD_REMOVE), PublicShape(pairs.columns)
            )
            release = plan.run(TrustedCurator(pairs, SimulatedNoise(g)))
            if release.status == "point_mass":
                said[2] += len(KEYS)
                continue
            found = release.intervals
            for i in range(len(KEYS)):
                row, ok = found.row(i, 0.95), found.status[i] == "ok"
                said += ok, ok and not row.lower <= mean <= row.upper, 0
    return tuple(said / (runs * len(KEYS)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=40)
    a = parser.parse_args()
    rows: list[list[object]] = []
    silent: dict[tuple[str, str], float] = dict.fromkeys(
        [(kind, way) for kind in ("means", "groups") for way in WAYS], 0.0
    )
    for n, epsilon in SIZES:
        for law in LAWS:
            row: list[object] = [n, f"{epsilon:g}", law]
            for kind, ask in (("means", means), ("groups", groups)):
                for way in WAYS:
                    ok, missed, atom = ask(law, n, epsilon, way, a.runs)
                    silent[kind, way] += missed / (len(LAWS) * len(SIZES))
                    row.append(f"{ok:.2f} / {missed:.2f} / {atom:.2f}")
            rows.append(row)
            print(*row, sep=" | ", flush=True)
    head = ["persons", "epsilon", "law"]
    head += [f"{kind}, {way}" for kind in ("means", "groups") for way in WAYS]
    told = "; ".join(
        f"{kind} {silent[kind, WAYS[1]]:.3f} (before {silent[kind, WAYS[0]]:.3f}, "
        f"ratio {silent[kind, WAYS[1]] / silent[kind, WAYS[0]]:.2f})"
        for kind in ("means", "groups")
    )
    publish(
        "default-mean-one-value", "Columns of nearly one value, and values far from 0",
        f"{a.runs} releases a cell: ok / silent / atom, parts of all. Silent in the mean: {told}."
        f"\n\n{table(head, rows)}",
        command=f"python benchmarks/default_mean_one_value.py --runs {a.runs}",
    )  # fmt: skip


if __name__ == "__main__":
    main()
