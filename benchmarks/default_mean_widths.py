"""Widths of the default's intervals over an oracle's, and what shortens them or was tried to.

The ten tuning columns, persons drawn again. The oracle's interval has the true centre, the best
symmetric limits and all of epsilon, and adds its bias: the shortest that holds the mean. Covers:
where the printed assumption is true of the column; silent: as in `default_mean_laws`. Beside
today's: persons beyond always counted at the limits; half as much more for their count; the
assumption said side by side (persons beyond the nearer limit exceed it by no more than the nearer
arm), for which refunds (3 % of -5x) tell the price; and an allowance that may be negative, with a
least length that keeps its coverage.

    python benchmarks/default_mean_widths.py [--runs 20]
"""

from __future__ import annotations

import argparse
import math
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from unittest import mock

import numpy as np

from default_mean_laws import EPSILON, MORE, Law, columns_of
from intervals import Population
from plans import planned
from privmean.central import default_bounds as default_limits
from privmean.central import default_column
from privmean.central.default_mean import DefaultMean
from privmean.data.array_table import ArrayPersonTable
from privmean.inference import clipped_intervals as default_intervals
from privmean.inference.laplace_normal import (
    _LAPLACE,
    _WEIGHTS,
    allowance_half_lengths,
    find_root,
    quantile,
    survival,
)
from privmean.inference.mean_interval import sampling_variance
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import Budget
from report import publish, table
from study_laws import COLUMNS, DATA

SIZES, REFUNDS = (1000, 2500), "refunds of -5x, 3 %"
WAYS = ("today", "counted at the limits", "count .3", "side by side", "not floored")
FOUND, ENDS = default_column._found, default_intervals.ends_of
LEAST = np.concatenate([[0.0], np.geomspace(0.03, 12.0, 30)])  # allowances, in their noise scales


def oracle_half(x: np.ndarray, epsilon: float, n: int) -> float:
    mean, best = x.mean(), math.inf
    size = np.sort(np.abs(x - mean))
    parts = np.concatenate([np.linspace(0.3, 0.99, 60), 1 - np.geomspace(1e-2, 1e-5, 40), [1.0]])
    for radius in np.unique(np.quantile(size, parts)):
        if radius > 0:
            clipped = np.clip(x, mean - radius, mean + radius)
            noise = quantile(0.025, (2 * radius / (n * epsilon),), clipped.std() / math.sqrt(n))
            best = min(best, abs(clipped.mean() - mean) + noise)
    return best


def allowed_half(tau: float, rho: float, alpha: float) -> float:
    """The half length to add to one floored noisy allowance, beside one Laplace noise."""
    one = np.array([tau]), np.array([rho]), alpha, np.ones((1, 1))
    return float(allowance_half_lengths(*one)[0])


@lru_cache(maxsize=4096)
def least_half(step_tau: int, step_rho: int, alpha: float) -> float:
    """The least length beside `h + allowance` that keeps the coverage where the noisy allowance is
    not floored: in noise scales of the value."""
    tau, rho = 2.0 ** (step_tau / 16), 2.0 ** (step_rho / 16)
    half = allowed_half(tau, rho, alpha)
    w = (LEAST * max(rho, 1.0))[:, None]
    noisy = w + rho * _LAPLACE[None, :]

    def excess(least: float) -> float:
        reach = np.maximum(least, half + noisy)
        missed = survival([reach - w, reach + w], (1.0,), tau).sum(axis=0) @ _WEIGHTS
        return float(missed.max()) - alpha - 1e-6

    return find_root(excess, 0.0, half, 1e-3) if excess(half) < 0 else half


def not_floored(sums, level, design_effect, allowance=None):
    if allowance is None or sums.ratio:
        return ENDS(sums, level, design_effect, allowance)
    unit, alpha = sums.value_scale, 1 - level
    tau = math.sqrt(sampling_variance(sums, level, design_effect, allowance)) / unit
    steps = (math.ceil(16 * math.log2(x)) for x in (tau, allowance.scale / unit))
    least = least_half(*steps, alpha)
    usual = allowed_half(tau, allowance.scale / unit, alpha)
    half = max(least, usual + allowance.total / unit) * unit / sums.n
    below, above = sums.farther
    return sums.mean - half - below, sums.mean + half + above


@contextmanager
def as_said(way: str):
    arms = [1.0, 1.0]

    def found(course, wide, box, center, *rest):
        both = max(center - box.lower, 0.0), max(box.upper - center, 0.0)
        arms[:] = [max(arm / max(both), 1e-3) for arm in both]
        return FOUND(course, wide, box, center, *rest)

    def ends(sums, level, design_effect, allowance=None):
        if allowance is None:
            return ENDS(sums, level, design_effect, allowance)
        low, high = (
            ENDS(sums, level, design_effect, replace(
                allowance, total=allowance.total * arm, scale=allowance.scale * arm,
                largest_excess=allowance.largest_excess * arm,
            ))
            for arm in arms
        )  # fmt: skip
        return low[0], high[1]

    changes = {
        "today": [],
        "counted at the limits": [
            (default_limits, "counted_from", lambda place: (place.lower, place.upper))
        ],
        "not floored": [(default_intervals, "ends_of", not_floored)],
        "count .3": [(default_column, "CHECK", 0.3)],
        "side by side": [(default_column, "_found", found), (default_intervals, "ends_of", ends)],
    }[way]
    patches = [mock.patch.object(*change) for change in changes]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def cell(x: np.ndarray, n: int, way: str, runs: int) -> tuple[float, float, float, float]:
    """Median half width over the oracle's, coverage where the assumption holds, error in standard
    errors, silent misses."""
    population, owed = Population(x), oracle_half(x, EPSILON, n)
    plan = planned(DefaultMean(), Budget(epsilon=EPSILON), persons=n)
    widths, covers, errors, silent = [], [], [], 0
    with as_said(way):
        for run in range(runs):
            g = np.random.default_rng([run, n])
            drawn = g.choice(x, n)
            release = plan.release(ArrayPersonTable(drawn[:, None], ("v",)), SimulatedNoise(g))
            interval = release.interval()
            widths.append((interval.upper[0] - interval.lower[0]) / 2 / owed)
            holds = interval.lower[0] <= population.mean <= interval.upper[0]
            silent += release.status == "ok" and not holds
            if release.status in ("failed", "point_mass"):
                continue
            errors.append((release.estimate[0] - drawn.mean()) / x.std() * math.sqrt(n))
            if interval.target == "mean" and population.holds(release):
                covers.append(holds)
    return (
        float(np.median(widths)), float(np.mean(covers)) if covers else math.nan,
        math.sqrt(1 + float(np.mean(np.square(errors)))) if errors else math.nan,
        silent / runs,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--data", type=Path, default=DATA)
    a = parser.parse_args()
    data = columns_of(a.data, tuple(COLUMNS))
    refunds = Law.of(*MORE[REFUNDS]).draw(np.random.default_rng(3), 200_000)
    rows: list[list[object]] = []
    for size in SIZES:
        n = round(size / EPSILON)
        for way in WAYS:
            found = np.array([cell(x, n, way, a.runs) for x in data.values()]).T
            with as_said(way):
                plan = planned(DefaultMean(), Budget(epsilon=EPSILON), persons=n)
                held = 0
                for run in range(3 * a.runs):
                    g = np.random.default_rng([run, n, 1])
                    x = g.choice(refunds, n)
                    interval = plan.release(
                        ArrayPersonTable(x[:, None], ("v",)), SimulatedNoise(g)
                    ).interval()
                    held += interval.lower[0] <= refunds.mean() <= interval.upper[0]
            rows.append([
                size, way, f"{np.median(found[0]):.2f}", f"{np.nanmean(found[1]):.3f}",
                f"{np.exp(np.nanmean(np.log(found[2]))):.2f}", f"{found[3].mean():.3f}",
                f"{held / (3 * a.runs):.2f}",
                "; ".join(f"{name} {v:.2f}" for name, v in zip(data, found[0], strict=True)),
            ])  # fmt: skip
            print(*rows[-1], sep=" | ", flush=True)
    head = ["persons x epsilon", "way", "median width over the oracle's", "covers where it holds",
            "error (se)", "silent", "refunds: covers", "each column"]  # fmt: skip
    words = f"epsilon .5, {a.runs} releases a column; refunds: {3 * a.runs} releases."
    publish(
        "default-mean-widths", "Default mean: widths over the oracle's",
        f"{words}\n\n{table(head, rows)}",
        command=f"python benchmarks/default_mean_widths.py --runs {a.runs}",
    )  # fmt: skip


if __name__ == "__main__":
    main()
