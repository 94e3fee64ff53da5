"""The radius that a stream without bounds finds, against the best one for each law.

Error: bias by clipping, noise in proportion to the radius, and sampling, over that of the best
radius of a grid. The first records of 1,000 people, epsilon .1 for the search.

    python benchmarks/stream_radius.py [--runs 40] [--store F] [--against F]
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np

from privmean.mechanisms.private_location import RadiusSearch
from privmean.noise.noise_source import SimulatedNoise
from report import few, publish, table

PEOPLE, EPSILON, KNOWN = 1000, Fraction(1, 10), 400_000
NOISE, SAMPLING = (0.002, 0.01, 0.05), 0.01  # of a radius; of a deviation
Draw = Callable[[np.random.Generator, int], np.ndarray]


def zeros(share: float, of: float) -> Draw:
    return lambda g, n: np.where(g.random(n) < share, 0.0, of or np.exp(g.normal(size=n)))


LAWS: dict[str, Draw] = {
    "normal": lambda g, n: g.normal(size=n),
    "N(50, 10)": lambda g, n: g.normal(50, 10, n),
    "lognormal 1": lambda g, n: np.exp(g.normal(size=n)),
    "lognormal 1.5": lambda g, n: np.exp(1.5 * g.normal(size=n)),
    "t, 3 degrees": lambda g, n: g.standard_t(3, n),
    "exponential": lambda g, n: g.exponential(size=n),
    "80 % zeros": zeros(0.8, 0),
    "97 % zeros": zeros(0.97, 0),
    "10 % ones": zeros(0.9, 1),
    "normal in 5 columns": lambda g, n: g.normal(size=(n, 5)),
}


def errors(draw: Draw, runs: int, seed: int) -> list[float]:
    """The error over the best one, at each noise."""
    g = np.random.default_rng(seed)
    known = draw(g, KNOWN).reshape(KNOWN, -1)
    size, mean = np.linalg.norm(known, axis=1), known.mean(axis=0)
    sampling = SAMPLING * math.sqrt(known.var(axis=0).sum())

    def bias(radius: float) -> float:
        kept = np.minimum(1, radius / np.maximum(size, 1e-300))
        return float(np.linalg.norm((known * kept[:, None]).mean(axis=0) - mean))

    def total(radius: float, pair: float, noise: float) -> float:
        return pair**2 + (noise * radius) ** 2 + sampling**2

    levels = (0.5, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999, 0.9999, 1.0)
    grid = [(r, bias(r)) for r in np.quantile(size, levels).tolist() if r > 0]
    search, found = RadiusSearch(PEOPLE, EPSILON), []
    for run in range(runs):
        first = draw(g, PEOPLE).reshape(PEOPLE, -1)
        radius = search.choose(first, SimulatedNoise(run))
        found.append((radius, bias(radius)))
    return [
        math.sqrt(np.mean([total(*item, noise) for item in found]))
        / math.sqrt(min(total(*item, noise) for item in grid))
        for noise in NOISE
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=40, help="searches a law")
    parser.add_argument("--store", type=Path, help="file that keeps the cells, for another tree")
    parser.add_argument("--against", type=Path, help="a file of cells to show before these")
    a = parser.parse_args()
    runs = few(a.runs)
    cells = {name: errors(draw, runs, k) for k, (name, draw) in enumerate(LAWS.items())}
    cells["**geometric mean**"] = np.exp(np.mean(np.log(list(cells.values())), axis=0)).tolist()
    if a.store:
        a.store.write_text(json.dumps(cells))
        return
    earlier = json.loads(a.against.read_text()) if a.against else {}
    rows = [
        [name, *(f"{b:.2f} -> {x:.2f}" for b, x in zip(earlier[name], found, strict=True))]
        if earlier
        else [name, *(f"{x:.2f}" for x in found)]
        for name, found in cells.items()
    ]
    publish(
        "stream-radius",
        f"Radius of a stream without bounds, error over that of the best radius, {runs} searches",
        table(["law", *(f"noise {noise:g} of a radius" for noise in NOISE)], rows),
        command=f"python benchmarks/stream_radius.py --runs {a.runs}",
    )


if __name__ == "__main__":
    main()
