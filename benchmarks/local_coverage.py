"""Do the radii and intervals of local estimates cover? On a grid of mechanisms, mixes and data.

Usage: python benchmarks/local_coverage.py [--quick] [--store FILE [--seconds S]]
FILE keeps finished rows: after a stop, or after S seconds, the same command goes on from there.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from privmean.local.aggregators.estimate_round import estimate
from privmean.local.aggregators.tally import tally
from privmean.local.round import Round
from privmean.local.round_builders import ball_round, items_round, mean_round
from privmean.local.vectorized import randomize_many
from privmean.noise.noise_source import SimulatedNoise
from report import publish, table

BETA, LEVEL = 0.1, 0.95
NEAR = 0.955  # an interval that covers less often on the first look is looked at again
MIXES = {
    ".1 (90 %), 1": ((0.1, 1.0), (0.9, 0.1)),
    ".1 (99 %), 6": ((0.1, 6.0), (0.99, 0.01)),
    "1, 8 (50 %)": ((1.0, 8.0), (0.5, 0.5)),
    "8": ((8.0,), (1.0,)),
}
Draw = Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]


def numbers(n: int) -> dict[str, Draw]:
    """Values on [-1, 1] with their mean."""
    return {
        "two points": lambda g: (np.where(g.uniform(size=n) < 0.65, 1.0, -1.0), np.array([0.3])),
        "uniform": lambda g: (g.uniform(-1, 1, n), np.array([0.0])),
        "skewed": lambda g: (2 * g.beta(0.3, 3, n) - 1, np.array([2 * 0.3 / 3.3 - 1])),
        "constant": lambda g: (np.full(n, 0.4), np.array([0.4])),
        "all at the end": lambda g: (np.full(n, 1.0), np.array([1.0])),
    }


def vectors(n: int, d: int) -> dict[str, Draw]:
    """Vectors of the unit ball: all zero, all half an axis, two opposite points."""

    def along(values: np.ndarray, mean: float) -> tuple[np.ndarray, np.ndarray]:
        x, truth = np.zeros((n, d)), np.zeros(d)
        x[:, 0], truth[0] = values, mean
        return x, truth

    return {
        "zero": lambda g: along(np.zeros(n), 0.0),
        "half an axis": lambda g: along(np.full(n, 0.5), 0.5),
        "two opposite": lambda g: along(g.choice([-1.0, 1.0], n, p=[0.2, 0.8]), 0.6),
    }


def shares(n: int, d: int) -> dict[str, Draw]:
    """Items with their shares."""
    zipf = 1 / np.arange(1, d + 1)
    laws = {
        "zipf": zipf / zipf.sum(),
        "one item .9": np.eye(d)[0] * 0.9 + 0.1 / d,
        "flat": np.full(d, 1 / d),
    }
    return {name: lambda g, p=p: (g.choice(d, n, p=p), p) for name, p in laws.items()}


def cells() -> Iterator[tuple[str, str, Callable[[], Round], dict[str, Draw], int]]:
    """(mechanism, mix, round, data, clients)."""
    for mix, (levels, _) in MIXES.items():
        for name in ("one-bit", "piecewise", "hybrid"):
            options = {"epsilon": list(levels), "mechanism": name, "beta": BETA}
            yield (
                name,
                mix,
                lambda o=options: mean_round(-1, 1, persons=500, **o),
                numbers(500),
                500,
            )
        for name, d in (("ball-bit", 20), ("closest", 20), ("closest", 3)):
            options = {"epsilon": list(levels), "mechanism": name, "beta": BETA}
            make = lambda o=options, d=d: ball_round(1, d, persons=400, **o)  # noqa: E731
            yield f"{name}, d={d}", mix, make, vectors(400, d), 400
        for name in ("hadamard", "subset"):
            options = {"epsilon": list(levels), "mechanism": name, "beta": BETA}
            make = lambda o=options: items_round(30, persons=800, **o)  # noqa: E731
            yield f"{name}, 30 items", mix, make, shares(800, 30), 800


def covered(
    make: Callable[[], Round], mix: str, draw: Draw, n: int, runs: int, seed: int
) -> list[Any]:
    """Sums over runs: radius holds; the two intervals a coordinate; the population interval's half
    length and the squared error a coordinate; and how often it passed the proved radius."""
    dice, noise = np.random.default_rng(seed), SimulatedNoise(seed)
    levels, parts = MIXES[mix]
    radius, hits, own_hits, half, square, longer = 0, 0.0, 0.0, 0.0, 0.0, 0
    round_ = make()
    drawn = [draw(dice) for _ in range(runs)]
    epsilon = dice.choice(levels, runs * n, p=parts)
    together = np.concatenate([values for values, _ in drawn])
    reports = randomize_many(round_, together, epsilon=epsilon, noise=noise)
    for run, (values, truth) in enumerate(drawn):
        answer = estimate(tally(reports.take(slice(run * n, (run + 1) * n))))
        off = answer.value.reshape(-1) - truth
        size = math.sqrt((off**2).sum()) if answer.norm == "l2" else abs(off).max()
        radius += size <= answer.radius
        band = answer.interval(LEVEL)
        length = (np.array(band.upper) - np.array(band.lower)) / 2
        half = half + length
        square = square + (answer.raw.reshape(-1) - truth) ** 2
        proved = estimate(tally(reports.take(slice(run * n, (run + 1) * n))), beta=1 - LEVEL)
        longer += bool((length > proved.raw_radius * (1 + 1e-9)).any())
        hits = hits + ((np.array(band.lower) <= truth) & (truth <= np.array(band.upper)))
        if round_.items is None:
            own = np.asarray(values, dtype=float).reshape(n, -1).mean(axis=0)
        else:
            own = np.bincount(values, minlength=round_.items) / n
        band = answer.noise_interval(LEVEL)
        own_hits = own_hits + ((np.array(band.lower) <= own) & (own <= np.array(band.upper)))
    return [radius, hits, own_hits, half, square, longer]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--partial", action="store_true", help="publish the rows of FILE alone")
    given = parser.parse_args()
    part = 10 if given.quick else 1
    first, again = 60 // part, 400 // part
    kept = json.loads(given.store.read_text()) if given.store and given.store.exists() else {}
    until = time.monotonic() + given.seconds

    def looked_at(key: str, runs: int, cell: Any, draw: Draw, seed: int) -> np.ndarray:
        """The coverage in `runs` runs, made a few at a time and kept."""
        _, mix, make, _, n = cell
        done, held = kept.get(key, [0, [0.0] * 6])
        while done < runs:
            if time.monotonic() > until:
                sys.exit("not finished: the same command goes on from here")
            some = min(100, runs - done)
            new = covered(make, mix, draw, n, some, seed + done)
            held = [(np.array(a) + b).tolist() for a, b in zip(held, new, strict=True)]
            done += some
            kept[key] = [done, held]
            if given.store:
                given.store.write_text(json.dumps(kept))
        radius, *pairs = [np.array(item) / done for item in held[:3]]
        needed = 1.96 * np.sqrt(np.array(held[4]) / done)
        ratio = np.max(np.array(held[3]) / done / needed)
        return np.array(
            [radius, *(np.min(x) for x in pairs), np.mean(pairs[0]), ratio, held[5] / done]
        )

    rows: list[list[object]] = []
    for place, cell in enumerate(cells()):
        name, mix, _, data, _ = cell
        if given.partial and any(f"{name} {mix} {shape}" not in kept for shape in data):
            continue
        looked = {
            shape: looked_at(f"{name} {mix} {shape}", first, cell, draw, 10_000 * (10 * place + k))
            for k, (shape, draw) in enumerate(data.items())
        }
        least = min(looked, key=lambda shape: min(looked[shape][1:3]))
        every = np.array(list(looked.values()))
        found, runs = np.concatenate([every.min(axis=0)[:4], every.max(axis=0)[4:]]), first
        lengths = found[4:]
        if found[1:3].min() < NEAR:
            seed = 10_000 * (10 * place + 9)
            key = f"{name} {mix} again"
            if given.partial and kept.get(key, [0])[0] < again:
                continue
            found = looked_at(key, again, cell, data[least], seed)
            runs = again
        rows.append(
            [
                name,
                mix,
                least,
                runs,
                *(f"{value:.4f}" for value in found[:4]),
                f"{lengths[0]:.2f}",
                f"{lengths[1]:.0%}",
            ]
        )
    slack = 2 * math.sqrt(LEVEL * (1 - LEVEL) / again)
    places = sum(1 for _ in cells())
    finished = "" if len(rows) == places else f"{len(rows)} of {places} rows were finished. "
    text = finished + (
        f"500 numbers, 400 vectors or 800 items a run; beta {BETA} for the radius, level {LEVEL} "
        "for the approximate intervals: for the population, and for the persons who reported. "
        f"Each row is the data on which an interval covered least in {first} runs, drawn again "
        f"{again} times where that was below {NEAR} (two standard errors are then {slack:.4f}). Of "
        "coordinates or items the one that is covered least counts: the least of 30 is low by "
        "luck alone; the mean over all is beside it. Then the longest average half length of the "
        "population's interval over 1.96 root mean squared errors, on any of the data, and how "
        "often it was longer than the radius proved at the same level.\n\n"
        + table(
            [
                "mechanism",
                "epsilon",
                "data",
                "runs",
                "radius",
                "population",
                "these persons",
                "population, mean",
                "length/needed",
                "longer than proved",
            ],
            rows,
        )
    )
    command = "python benchmarks/local_coverage.py" + (" --quick" if part > 1 else "")
    publish("local-coverage", "Coverage of local estimates", text, command=command)


if __name__ == "__main__":
    main()
