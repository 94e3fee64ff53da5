"""Lines that few persons far out decide: what a release saw of them, where it says "ok" and misses.

    python benchmarks/line_tails.py [--runs 60] [--data FOLDER]

One regression for all, default settings, pure epsilon. Shown: releases that show all coefficients.
Ok, held: those that say "ok", and those of them whose intervals hold all coefficients. Of these
releases (medians): persons whose influence (of the exact fit, in the units that were released) is
beyond the released limit; the deviation of the noise in their count; by how much they exceed the
limit on average, over it (an interval allows for 1/2); what their shortening moves the coefficient
that it moves most, in influences' deviations, and what the interval allows for.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl

import privmean as pm
from panels import PANEL
from privmean.models import pooled_intervals
from privmean.models import row_clipping as radius
from privmean.models.pooled_intervals import SEEN, Coefficients
from privmean.noise.simulated import SimulatedNoise
from report import publish, table

Columns = dict[str, np.ndarray]


def line(n: int, seed: int) -> Columns:
    g = np.random.default_rng([seed, n])
    x = g.standard_normal(n)
    return {"who": np.arange(n), "x": x, "y": x + g.standard_normal(n)}


def skewed(n: int, seed: int) -> Columns:
    g = np.random.default_rng([seed, n])
    x = g.lognormal(0, 1, n)
    return {"who": np.arange(n), "x": x, "y": x + g.standard_normal(n)}


def levels(n: int, seed: int) -> Columns:
    """Twenty records a person, about a level of their own."""
    g = np.random.default_rng([seed, n])
    who = np.repeat(np.arange(n), 20)
    x = g.standard_normal(len(who))
    return {"who": who, "x": x, "y": g.standard_normal(n)[who] + x + g.standard_normal(len(who))}


def rate(share: float) -> Callable[[int, int], Columns]:
    """Three records a person, 0 or 1, of which x says nothing."""

    def drawn(n: int, seed: int) -> Columns:
        g = np.random.default_rng([seed, n])
        x, y = (g.random((2, 3 * n)) < [[0.5], [share]]).astype(float)
        return {"who": np.repeat(np.arange(n), 3), "x": x, "y": y}

    return drawn


def square(spread: float) -> Callable[[int, int], Columns]:
    def drawn(n: int, seed: int) -> Columns:
        g = np.random.default_rng([seed, n])
        x = g.lognormal(0, spread, n)
        return {"who": np.arange(n), "x": x, "y": 0.3 * x * x + 0.5 * g.standard_normal(n)}

    return drawn


def bent(spread: float) -> np.ndarray:
    """The line of least squares of everybody through that square."""
    m1, m2, m3 = (math.exp(k * k * spread**2 / 2) for k in (1, 2, 3))
    slope = 0.3 * (m3 - m1 * m2) / (m2 - m1**2)
    return np.array([0.3 * m2 - slope * m1, slope])


def influences(columns: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The fit without privacy, one vote a person, and what each person adds to it."""
    who, place = np.unique(columns["who"], return_inverse=True)
    x, y = columns["x"], columns["y"]
    design = np.stack([np.ones(len(x)), x], axis=1)
    share = 1 / np.bincount(place)[place]
    matrix = (design * share[:, None]).T @ design / len(who)
    fit = np.linalg.solve(matrix, (design * share[:, None]).T @ y / len(who))
    rows = (design @ np.linalg.inv(matrix)) * ((y - design @ fit) * share)[:, None]
    found = np.stack([np.bincount(place, row, len(who)) for row in rows.T], axis=1)
    return fit, found


def cell(name: str, draw: Callable[[int, int], Columns], n: int, epsilon: float,
         truth: np.ndarray | None, runs: int) -> list[object]:  # fmt: skip
    shown = fine = held = 0
    seen = []
    for seed in range(runs):
        columns = draw(n, seed)
        fit, own = influences(columns)
        noise = SimulatedNoise(np.random.default_rng([seed, 2]))
        release = pm.regress(pm.Table(columns, person="who"), "y ~ x", epsilon=epsilon, noise=noise)
        shown += all(math.isfinite(row.estimate) for row in release.rows())
        if {row.status for row in release.rows()} != {"ok"}:
            continue
        made, target = release.intervals, fit if truth is None else truth
        assert isinstance(made, Coefficients)
        fine += 1
        held += all(r.lower <= t <= r.upper for r, t in zip(release.rows(), target, strict=True))
        units, limit = np.array(made.diagnostics["units"]), made.diagnostics["limit"]
        sizes = np.abs(own / units).sum(axis=1)
        far = sizes > limit
        excess = (sizes[far] / limit - 1).mean() if far.any() else 0.0
        moved = np.abs((own / units * (1 - np.minimum(1, limit / sizes))[:, None]).mean(axis=0))
        allowed = float((made.shift / units).max())
        seen.append((far.sum(), made.hidden / SEEN, excess, moved.max(), allowed))
    middle = np.median(np.array(seen), axis=0) if seen else np.full(5, math.nan)
    return [name, len(np.unique(columns["who"])), epsilon, shown, fine, held,
            *(f"{a:.{d}f}" for a, d in zip(middle, (0, 0, 2, 3, 3), strict=True))]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--data", type=Path, default=PANEL.parent, help="folder of nycflights")
    said = parser.parse_args()
    read = pl.read_parquet(said.data / "nycflights.parquet").drop_nulls(["air_time", "distance"])
    flights = {
        "who": read["person_id"].to_numpy(), "x": read["distance"].to_numpy(),
        "y": read["air_time"].to_numpy(),
    }  # fmt: skip
    rows = [
        cell("`air_time ~ distance`", lambda n, seed: flights, 0, epsilon, None, said.runs)
        for epsilon in (1.0, 2.0)
    ]
    for spread, n, epsilon in ((0.8, 2000, 1.0), (0.5, 2000, 1.0), (0.5, 10_000, 1.0)):
        name = f"square of lognormal {spread}"
        rows.append(cell(name, square(spread), n, epsilon, bent(spread), said.runs))
    for n in (2000, 4000):
        for share in (0.99, 0.9):
            truth = np.array([share, 0.0])
            name = f"1 in {share:.0%} of records"
            with mock.patch.object(pooled_intervals, "MISLED", math.inf):
                blind = cell(f"{name}, step not asked", rate(share), n, 1.0, truth, said.runs)
            rows += [blind, cell(name, rate(share), n, 1.0, truth, said.runs)]
    one = np.array([0.0, 1.0])
    for n in (1400, 2800, 4000, 5600):
        rows.append(cell("a true line, normal", line, n, 1.0, one, said.runs))
    rows.append(cell("the same, 20 records and a level each", levels, 4000, 60.0, one, said.runs))
    name = "a true line, x lognormal 1"
    for n, epsilon in ((20_000, 10.0), (20_000, 100.0)):
        with mock.patch.object(radius, "SHARE", 0.0):
            blind = cell(f"{name}, noise not asked", skewed, n, epsilon, one, said.runs)
        rows += [blind, cell(name, skewed, n, epsilon, one, said.runs)]
    head = [
        "line", "persons", "epsilon", "shown", "ok", "held", "persons beyond",
        "deviation of their count", "excess over the limit", "moved by", "allowed for",
    ]  # fmt: skip
    publish(
        "line-tails",
        "One line for all that few persons decide",
        f"{said.runs} releases a row, those that say ok.\n\n{table(head, rows)}",
        command=f"python benchmarks/line_tails.py --runs {said.runs}",
    )


if __name__ == "__main__":
    main()
