"""The default mean below 1,600 people*epsilon: what other divisions of the budget would give.

Real columns, people drawn from them so that epsilon is .5 where the column has enough people.
Error and intervals as in `default_mean.py`; every division runs with the same seeds. Each row
compares one division with that of the library over all columns that both answer.

    python benchmarks/default_mean_small.py [--runs 12] [--only base,...] [--sizes 200 300 ...]
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import numpy as np

import default_mean
import privmean.estimators.means.default_mean_plan as steps
from default_mean import clipped_mean, geometric
from plans import planned
from privmean.central.default_mean import DefaultMean
from privmean.data.array_table import ArrayPersonTable
from privmean.errors import InfeasibleError
from privmean.estimators.locate import LocationPrices, Place
from privmean.estimators.pure_budget import floor_epsilon
from privmean.inference import missing_count
from privmean.mechanisms.private_limits import edges, side_counts, side_scores
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from report import few, publish, table
from study_laws import COLUMNS, OTHER_COLUMNS, oracle, person_means

EPSILON = 0.5
SIZES = (200.0, 300.0, 600.0, 1000.0, 1600.0, 5000.0)
RELATIONS = (REPLACE_ONE, ADD_REMOVE)
Cell = dict[str, float]


# --- divisions -----------------------------------------------------------------------------------
def divided(
    center_people: float = 100,
    most_center: float = 0.3,
    limits_share: float = 0.3,
    limits_people: float = 150,
    most_limits: float = 0.4,
    count: Callable[[float], float] = lambda size: 0.22,
) -> Callable[..., steps.Prices]:
    """A rule of the prices of center, limits and count; count: its share of what is left, by
    people*epsilon."""

    def of(people: int, epsilon: Fraction, target: str | None, squares: bool) -> steps.Prices:
        e, n = float(epsilon), max(people, 1)
        center = min(max(center_people / n, 0.03 * e), most_center * e)
        left = e - center
        limits = min(max(limits_share * left, limits_people / n), most_limits * left)
        price = count(n * e) * (left - limits)
        center, limits, price = (floor_epsilon(Fraction(v)) for v in (center, limits, price))
        found = LocationPrices(center, limits)
        return steps.Prices(found, price, epsilon - found.pure - price)

    return of


def from_zero(curator, column: int, prices: LocationPrices, relation: str, **_: object) -> Place:
    """Limits from a public 0 to a choice for the price of both steps (drawn in floating point)."""
    price = float(prices.center + prices.limits)
    counts = curator.people.column_counts(column)
    _, above = side_counts(counts.half_octaves(0.0))
    scores = side_scores(above, 0.0, Fraction(2 / price)).astype(float)
    octaves = np.abs(np.concatenate([[0.0], np.log2(edges()[1:])]))
    logs = -np.log1p(octaves) - scores * price / 2
    logs[0] -= 1e9
    chances = np.exp(logs - logs.max())
    drawn = np.random.default_rng(int(np.abs(scores).sum()) % 2**31 + int(1e6 * price))
    choice = int(drawn.choice(len(logs), p=chances / chances.sum()))
    return Place(0.0, 0.0, float(edges()[choice]))


def by_size(low: float, high: float, turn: float = 1600.0) -> Callable[[float], float]:
    return lambda size: low if size < turn else high


@contextmanager
def division(name: str) -> Iterator[None]:
    rules = {
        "count .05": divided(count=by_size(0.05, 0.22)),
        "count .12": divided(count=by_size(0.12, 0.22)),
        "count .35": divided(count=by_size(0.35, 0.22)),
        "center 60/n": divided(center_people=60),
        "center at most .2": divided(most_center=0.2),
        "limits 100/n": divided(limits_people=100),
        "limits 220/n to .5": divided(limits_people=220, most_limits=0.5),
        "limits at most .3": divided(most_limits=0.3),
    }
    if name in rules:
        with patch.object(steps.Prices, "of", staticmethod(rules[name])):
            yield
    elif name == "no count of values":
        with patch.object(steps, "PRESENT_SHARE", Fraction(1, 10**6)):
            yield
    elif name.startswith("values from"):
        with patch.object(missing_count, "FIRM", float(name.rsplit(maxsplit=1)[-1])):
            yield
    elif name == "public lower bound 0":
        with patch.object(steps, "find_place", from_zero):
            yield
    else:
        yield


DIVISIONS = (
    "base", "count .05", "count .12", "count .35", "center 60/n", "center at most .2",
    "limits 100/n", "limits 220/n to .5", "limits at most .3", "no count of values",
    "values from 2", "values from 8", "public lower bound 0",
)  # fmt: skip


# --- one column ----------------------------------------------------------------------------------
def cell(job: tuple[str, np.ndarray, float, str, int, int]) -> Cell | None:
    name, values, size, relation, runs, seed = job
    g = np.random.default_rng([seed, int(size)])
    n = min(len(values), round(size / EPSILON))
    epsilon = round(size / n, 6)
    x = np.sort(g.choice(values, n, replace=False))
    if x.std() == 0 or (name == "public lower bound 0" and x[0] < 0):
        return None
    sums, mean, sd = np.concatenate([[0.0], np.cumsum(x)]), float(x.mean()), float(x.std(ddof=1))
    se, noise, squares = sd / math.sqrt(n), SimulatedNoise(seed), []
    told = dict.fromkeys(("failed", "ok", "silent", "covered"), 0.0)
    lengths = []
    # at its smallest feasible size rounding must not refuse
    epsilon = epsilon if n * epsilon >= size else epsilon + 1e-6
    with division(name):
        try:
            plan = planned(DefaultMean(), Budget(epsilon=epsilon), count=n, relation=relation)
        except InfeasibleError:
            return None
        for _ in range(runs):
            release = plan.release(ArrayPersonTable(x[:, None], ("value",)), noise)
            told["failed"] += release.failed
            if not release.failed:
                squares.append(_error(release, x, sums))
            again = ArrayPersonTable(g.choice(x, n)[:, None], ("value",))
            release = plan.release(again, noise)
            interval = release.interval()
            covers = interval.lower[0] <= mean <= interval.upper[0]
            told["ok"] += release.status == "ok"
            told["silent"] += release.status == "ok" and not covers
            told["covered"] += covers
            lengths.append((interval.upper[0] - interval.lower[0]) / (2 * 1.96 * se))
    best = math.hypot(se, oracle(x, epsilon))
    told = {key: value / runs for key, value in told.items()}
    ratio = math.sqrt(se**2 + float(np.mean(squares))) / best if squares else math.nan
    return {"ratio": ratio, "length": float(np.median(lengths)), **told}


def _error(release, x: np.ndarray, sums: np.ndarray) -> float:
    if release.intervals.sums is None:
        return float((float(release) - x.mean()) ** 2)
    bias = clipped_mean(x, sums, release.diagnostics) - float(x.mean())
    return bias**2 + release.intervals.errors()[0] ** 2


def compared(name: str, cells: list[Cell | None], base: list[Cell | None]) -> list[object]:
    pairs = [(c, b) for c, b in zip(cells, base, strict=True) if c is not None and b is not None]
    both = [(c, b) for c, b in pairs if c["ratio"] > 0 and b["ratio"] > 0]
    ratios = [c["ratio"] / b["ratio"] for c, b in both]
    said = [geometric([c["ratio"] for c, _ in both]), geometric(ratios)]

    def part(key: str) -> str:
        return f"{np.mean([c[key] for c, _ in pairs]):.3f}"

    lengths = [math.log(c["length"] / b["length"]) for c, b in pairs
               if math.isfinite(c["length"]) and math.isfinite(b["length"])]  # fmt: skip
    return [
        f"{said[0]:.3f}", f"{said[1]:.3f}", f"{max(ratios):.2f}", part("ok"), part("silent"),
        part("covered"), part("failed"), f"{math.exp(float(np.mean(lengths))):.3f}",
    ]  # fmt: skip


def main() -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--only", default=",".join(DIVISIONS))
    parser.add_argument("--sizes", type=float, nargs="*", default=SIZES)
    parser.add_argument("--relations", nargs="*", default=RELATIONS)
    parser.add_argument("--store", type=Path, help="rows as JSON lines, to be joined")
    parser.add_argument("--every", type=int, default=2, help="of the columns that chose nothing")
    parser.add_argument("--data", type=Path, default=default_mean.DATA)
    parser.add_argument("--label", default="", help="print only")
    a = parser.parse_args()
    runs, default_mean.DATA = few(a.runs), a.data
    columns = {
        "development": person_means(a.data, COLUMNS | OTHER_COLUMNS),
        "held out": dict(list(default_mean.held_out().items())[:: a.every]),
    }
    names, rows = a.only.split(","), []
    with ProcessPoolExecutor(2) as pool:
        for kind, found in columns.items():
            kept = [x for x in found.values() if len(x) >= 800]
            for relation in a.relations:
                for size in a.sizes:
                    done = {}
                    for name in names:
                        jobs = [(name, x, size, relation, runs, k) for k, x in enumerate(kept)]
                        done[name] = list(pool.map(cell, jobs, chunksize=4))
                        said = compared(name, done[name], done[names[0]])
                        rows.append([name, kind, relation, f"{size:g}", *said])
                        print(*rows[-1], sep=" | ", flush=True)
                        if a.store:
                            with a.store.open("a") as lines:
                                lines.write(json.dumps(rows[-1]) + "\n")
    if a.store:
        rows = [json.loads(line) for line in a.store.read_text().splitlines()]
    rows.sort(key=lambda row: (names.index(row[0]), row[1], row[2], float(row[3])))
    head = ["division", "columns", "relation", "n*epsilon", "total/oracle", "over base", "worst",
            "ok", "silent", "covers", "failed", "length over base"]  # fmt: skip
    text = table(head, rows)
    if a.label:
        print(text)
        return
    publish("default-mean-small", f"Default mean of few people, {runs} releases a cell", text,
            command=f"python benchmarks/default_mean_small.py --runs {a.runs}")  # fmt: skip


if __name__ == "__main__":
    main()
