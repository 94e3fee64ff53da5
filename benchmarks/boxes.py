"""Simultaneous intervals for several means: the Sidak box against the ellipsoid.

Rows have t6 margins (scaled to deviation 1) with correlation 0.5 between all columns and mean 0.
Box: every column clipped to +-4.5 deviations, sums and squares in one release, Laplace noise at
epsilon/d a column or Gaussian noise at the whole budget. Ellipsoid: rows clipped to a ball of
radius 2 sqrt(d), the sum and the matrix of second moments in one Gaussian release.

    python benchmarks/boxes.py [--quick]
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from scipy.special import gammainccinv, gammaln, ndtri

import report
from privmean.inference.mean_interval import NoisySums
from privmean.inference.simultaneous_boxes import ellipsoid, sidak_box, sidak_level
from privmean.mechanisms.ratio_sums import LAMBDA
from privmean.privacy.gdp import gaussian_mu

DELTA, LEVEL, CLIP = 1e-6, 0.95, 4.5
CELLS = ((2, 1000, 1.0), (2, 5000, 1.0), (10, 5000, 1.0), (10, 20_000, 1.0), (50, 20_000, 1.0),
         (50, 100_000, 1.0))  # fmt: skip


def rows(g: np.random.Generator, n: int, d: int) -> np.ndarray:
    common = g.normal(size=(n, 1))
    x = math.sqrt(0.5) * (common + g.normal(size=(n, d)))
    return x / np.sqrt(g.chisquare(6, (n, 1)) / 6) / math.sqrt(6 / 4)


def box(g: np.random.Generator, x: np.ndarray, epsilon: float, law: str):
    n, d = x.shape
    z = np.clip(x / CLIP, -1, 1)
    if law == "laplace":
        scale, square = 2 * d / epsilon, 4 * d / epsilon
        draw = g.laplace
    else:
        scale = 2 * math.sqrt(d) / gaussian_mu(epsilon, DELTA)
        square, draw = scale / LAMBDA, g.normal
    values = z.sum(axis=0) + draw(0, scale, d)
    squares = (z**2).sum(axis=0) + draw(0, square, d)
    sums = [
        NoisySums(v, s, n, scale, square, law=law) for v, s in zip(values, squares, strict=True)
    ]
    return sidak_box(sums, middles=[0.0] * d, radii=[CLIP] * d, regions=[(-CLIP, CLIP)] * d,
                     level=LEVEL)  # fmt: skip


def ball(g: np.random.Generator, x: np.ndarray, epsilon: float):
    n, d = x.shape
    radius = 2 * math.sqrt(d)
    y = x / radius
    y *= np.minimum(1, 1 / np.linalg.norm(y, axis=1, keepdims=True))
    sd = 2 / gaussian_mu(epsilon, DELTA)
    upper = np.triu(g.normal(0, sd, (d, d)), 1)
    noise = upper + upper.T + np.diag(g.normal(0, math.sqrt(2) * sd, d))
    return ellipsoid(
        y.sum(axis=0) + g.normal(0, sd, d),
        y.T @ y + noise,
        persons=n,
        center=np.zeros(d),
        radius=radius,
        value_sd=sd,
        moments_sd=math.sqrt(2) * sd,
        level=LEVEL,
    )


def measured(d: int, n: int, epsilon: float, runs: int) -> list[object]:
    """Coverage of all columns together; width and volume against the plain ones."""
    chi = 2 * float(gammainccinv(d / 2, 1 - LEVEL))
    ball_volume = d / 2 * math.log(math.pi) - float(gammaln(d / 2 + 1))
    plain_half = -float(ndtri((1 - sidak_level(LEVEL, d)) / 2)) / math.sqrt(n)
    correlation = np.full((d, d), 0.5) + 0.5 * np.eye(d)
    plain_volume = ball_volume + 0.5 * (d * math.log(chi / n) + np.linalg.slogdet(correlation)[1])
    found: dict[str, list[tuple[bool, float, float]]] = {}
    for run in range(runs):
        g = np.random.default_rng([run, d, n])
        x = rows(g, n, d)
        for law in ("laplace", "gaussian"):
            shown = box(g, x, epsilon, law)
            half = (np.array(shown.upper) - np.array(shown.lower)) / 2
            holds = bool(np.all(np.abs(np.array(shown.upper) - half) <= half))
            volume = float(np.log(2 * half).sum())
            item = (holds, float(half.mean()) / plain_half, math.exp((volume - plain_volume) / d))
            found.setdefault(law, []).append(item)
        shape = ball(g, x, epsilon)
        shadow = np.sqrt(shape.threshold * np.diag(shape.shape)).mean()
        volume = ball_volume + 0.5 * (
            d * math.log(shape.threshold) + float(np.linalg.slogdet(shape.shape)[1])
        )
        holds = shape.contains(np.zeros(d))
        found.setdefault("ellipsoid", []).append(
            (holds, float(shadow) / plain_half, math.exp((volume - plain_volume) / d))
        )
    cells: list[object] = [d, f"{n}/{epsilon:g}"]
    for items in found.values():
        cover, width, volume = (float(np.mean(item)) for item in zip(*items, strict=True))
        cells.append(f"{cover:.3f}, {width:.2f}, {volume:.2f}")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="20 runs a cell")
    arguments = parser.parse_args()
    runs = report.few(20 if arguments.quick else 200)
    text = (
        "Rate at which the 95 % region holds all means together; mean half length a column over "
        "that of the plain Sidak box (for the ellipsoid: of its shadow); volume^(1/d) over that of "
        "the plain ellipsoid.\n\n"
    )
    table = [measured(d, n, e, runs if n * d <= 10**6 else max(runs // 5, 5)) for d, n, e in CELLS]
    header = ["d", "n/epsilon", "box, Laplace", "box, Gaussian", "ellipsoid"]
    text += report.table(header, table)
    text += f"\n\n{runs} runs a cell, a fifth of that at n d > 10^6."
    command = "python benchmarks/boxes.py" + (" --quick" if arguments.quick else "")
    report.publish("boxes", "Several means together: box and ellipsoid", text, command=command)


if __name__ == "__main__":
    main()
