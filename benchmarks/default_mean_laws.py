"""The default mean on hard laws: real answers, coverage, and misses that nobody sees.

Every release answers for a fresh table of its law (columns: persons drawn again from the column),
so that the truth is known and every division by a noisy number is in the error. Ratio: the error
around the truth over that of an oracle with the true centre, the best symmetric limits and all of
epsilon; failed releases have none. Covers: the printed 95 % interval, whatever it says it is for,
holds the truth of the mean; what it names: the truth of what it says it is for (a release whose
counts speak against the mean says "clipped mean" and of which limits). Silent: the release says
"ok" and its interval misses.

    python benchmarks/default_mean_laws.py [--runs 200] [--only TEXT] [--store F] [--against F]
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from plans import planned
from privmean.central.default_mean import DefaultMean
from privmean.data.array_table import ArrayPersonTable
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.release.release import Release
from report import publish, table
from study_laws import COLUMNS, DATA, OTHER_COLUMNS, oracle, person_means

Draw = Callable[[np.random.Generator, int], np.ndarray]
EPSILON = 0.5
TABLES = 12  # over which the oracle's error is averaged
TWICE = 2.0  # times the oracle's: an error from which a release should not say "ok"
KNOWN = 2_000_000  # draws that tell the mean and deviation of a law


@dataclass(frozen=True)
class Law:
    """Persons' values (NaN: none); mean and deviation of those there are."""

    draw: Draw
    mean: float
    sd: float
    share: float = 1.0  # of people with a value

    @classmethod
    def of(cls, draw: Draw, share: float = 1.0) -> Law:
        g = np.random.default_rng(12345)
        x = draw(g, KNOWN)
        x = x[~np.isnan(x)]
        return cls(draw, float(x.mean()), float(x.std()), share)

    def named(self, release: Release) -> float:
        """The truth of what the interval of a release says it is for."""
        interval = release.interval()
        if interval.target == "mean" or not interval.clip_bounds:
            return self.mean
        (limits,) = interval.clip_bounds
        known = values_of(self)
        inside = np.clip(known, *limits)
        far = release.diagnostics.get("far limits")
        if far is not None:  # those beyond count at the middle
            inside[(known < far[0]) | (known > far[1])] = sum(limits) / 2
        return float(inside.mean())

    @classmethod
    def among(cls, values: np.ndarray) -> Law:
        def draw(g: np.random.Generator, n: int) -> np.ndarray:
            return values[g.integers(0, len(values), n)]

        return cls(draw, float(values.mean()), float(values.std()))


@lru_cache(maxsize=1)
def values_of(law: Law) -> np.ndarray:
    """Many values of a law."""
    x = law.draw(np.random.default_rng(12345), KNOWN)
    return x[~np.isnan(x)]


def normal(center: float, sd: float) -> Draw:
    return lambda g, n: g.normal(center, sd, n)


def lognormal(s: float) -> Draw:
    return lambda g, n: np.exp(s * g.normal(size=n))


def mixed(share: float, rare: Draw, rest: Draw) -> Draw:
    return lambda g, n: np.where(g.random(n) < share, rare(g, n), rest(g, n))


def coded(values: tuple[float, ...], shares: tuple[float, ...]) -> Draw:
    return lambda g, n: np.asarray(values, float)[
        np.searchsorted(np.cumsum(shares)[:-1], g.random(n), side="right")
    ]


def missing(share: float, draw: Draw) -> Draw:
    return mixed(share, lambda g, n: np.full(n, np.nan), draw)


def year(center: float, sd: float) -> Draw:
    return lambda g, n: np.rint(g.normal(center, sd, n))


NINE: dict[str, tuple[Draw, float]] = {
    "N(0, 1)": (normal(0, 1), 1.0),
    "N(1.67, .38)": (normal(1.67, 0.38), 1.0),
    "lognormal 1": (lognormal(1.0), 1.0),
    "stars 80/12/4/2/2": (coded((5, 4, 3, 2, 1), (0.8, 0.12, 0.04, 0.02, 0.02)), 1.0),
    "two groups 1e6 apart": (mixed(0.5, normal(1e6, 1), normal(0, 1)), 1.0),
    "2 % of lognormal missing": (missing(0.02, lognormal(1.0)), 0.98),
    "N(1990, 10)": (normal(1990, 10), 1.0),
}
MORE: dict[str, tuple[Draw, float]] = {
    "minority .2 % at 50": (mixed(0.002, normal(50, 1), normal(0, 1)), 1.0),
    "minority 1 % at 10": (mixed(0.01, normal(10, 1), normal(0, 1)), 1.0),
    "minority 1 % at 50": (mixed(0.01, normal(50, 1), normal(0, 1)), 1.0),
    "minority 5 % at 50": (mixed(0.05, normal(50, 1), normal(0, 1)), 1.0),
    "minority 5 % at 1000": (mixed(0.05, normal(1000, 1), normal(0, 1)), 1.0),
    "93 % ones": (coded((1, 0), (0.93, 0.07)), 1.0),
    "1 and 2, 75/25": (coded((1, 2), (0.75, 0.25)), 1.0),
    "12 and 24 months": (coded((12, 24), (0.7, 0.3)), 1.0),
    "36/60 months": (coded((36, 60), (0.7, 0.3)), 1.0),
    "1990 and 2010, 70/30": (coded((1990, 2010), (0.7, 0.3)), 1.0),
    "household 72/20/5/2/1": (coded((1, 2, 3, 4, 5), (0.72, 0.2, 0.05, 0.02, 0.01)), 1.0),
    "80 % at 40 hours": (mixed(0.2, year(35, 10), coded((40,), (1.0,))), 1.0),
    "halves, 60 % at .5": (coded((0.5, 1, 1.5), (0.6, 0.3, 0.1)), 1.0),
    "year, 3 % coded 9999": (mixed(0.03, coded((9999,), (1.0,)), year(1960, 15)), 1.0),
    "ones .5 %": (coded((1, 0), (0.005, 0.995)), 1.0),
    "ones 2 %": (coded((1, 0), (0.02, 0.98)), 1.0),
    "ones 10 %": (coded((1, 0), (0.1, 0.9)), 1.0),
    "counts, 70 % zeros": (mixed(0.7, normal(0, 0), lambda g, n: 1.0 + g.poisson(2, n)), 1.0),
    "counts, 90 % zeros": (mixed(0.9, normal(0, 0), lambda g, n: 1.0 + g.poisson(2, n)), 1.0),
    "offset 1e3": (normal(1e3, 1), 1.0),
    "offset 1e6": (normal(1e6, 1), 1.0),
    "offset 1e9": (normal(1e9, 1), 1.0),
    "refunds of -5x, 3 %": (
        lambda g, n: np.exp(3 + 0.8 * g.normal(size=n)) * np.where(g.random(n) < 0.03, -5, 1),
        1.0,
    ),
    "two-sided skew": (
        lambda g, n: np.exp(1.3 * g.normal(size=n)) * np.where(g.random(n) < 0.4, -1, 1),
        1.0,
    ),
    "100 - 20 Gamma(.5)": (lambda g, n: 100 - 20 * g.gamma(0.5, size=n), 1.0),
    ".3 % of lognormal missing": (missing(0.003, lognormal(1.0)), 0.997),
    "half of N(50, 5) missing": (missing(0.5, normal(50, 5)), 0.5),
    "90 % of N(50, 5) missing": (missing(0.9, normal(50, 5)), 0.1),
    "98 % of N(50, 5) missing": (missing(0.98, normal(50, 5)), 0.02),
    "all missing": (lambda g, n: np.full(n, np.nan), 0.0),
}


def columns_of(data: Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    every = {**COLUMNS, **OTHER_COLUMNS}
    return person_means(data, {name: every[name] for name in names})


def best_of(law: Law, n: int, epsilon: float) -> float:
    """The oracle's error on tables of the law, in standard errors."""
    errors = []
    for seed in range(TABLES):
        x = law.draw(np.random.default_rng([seed, n]), n)
        x = x[~np.isnan(x)]
        if len(x):
            errors.append(oracle(x, epsilon) ** 2)
    return math.sqrt(float(np.mean(errors))) * math.sqrt(n * law.share) / law.sd


def cell(
    law: Law, n: int, epsilon: float, runs: int, seed: int, target: str | None, relation: str
) -> dict[str, float | str]:
    """What `runs` releases of one law say."""
    known = n if relation == REPLACE_ONE else None
    budget = Budget(epsilon=epsilon)
    plan = planned(DefaultMean(target=target), budget, persons=known, relation=relation)
    errors, statuses, large = [], [], []
    best = best_of(law, n, epsilon) if law.share else 0.0
    covered = named = silent = 0
    for run in range(runs):
        g = np.random.default_rng([seed, n, run])
        x = law.draw(g, n)
        release = plan.release(ArrayPersonTable(x[:, None], ("v",)), SimulatedNoise(g))
        interval = release.interval()
        holds = interval.lower[0] <= law.mean <= interval.upper[0]
        covered += holds
        named += interval.lower[0] <= law.named(release) <= interval.upper[0]
        silent += release.status == "ok" and not holds
        statuses.append(f"{release.status}, {interval.status}")
        if math.isfinite(release.estimate[0]):
            there = x[~np.isnan(x)]
            se = law.sd / math.sqrt(n * law.share) if law.share else 1.0
            own = float(there.mean()) if len(there) else 0.0
            errors.append((release.estimate[0] - own) / se)
            if math.sqrt(1 + errors[-1] ** 2) > TWICE * math.sqrt(1 + best**2):
                large.append((release.status == "ok", holds))
    common = Counter(statuses).most_common(1)[0]
    kinds = Counter(item.split(",")[0] for item in statuses)
    square = float(np.mean(np.square(errors))) if errors else math.nan
    return {
        "ratio": math.sqrt(1 + square) / math.sqrt(1 + best**2),
        "median": math.sqrt(1 + (float(np.median(np.abs(errors))) / 0.6745) ** 2)
        / math.sqrt(1 + best**2) if errors else math.nan,
        "failed": kinds["failed"] / runs,
        "point_mass": kinds["point_mass"] / runs,
        "ok": kinds["ok"] / runs,
        "covers": covered / runs,
        "named": named / runs,
        "silent": silent / runs,
        "large": len(large) / runs,
        "told": sum(not ok for ok, _ in large) / max(len(large), 1),
        "quiet": sum(ok and not held for ok, held in large) / runs,
        "status": f"{common[0]} {common[1] / runs:.2f}",
    }  # fmt: skip


ASKED = ("N(1990, 10)", "stars 80/12/4/2/2", "93 % ones", "1 and 2, 75/25", "36/60 months",
         "80 % at 40 hours")  # fmt: skip
FEW = (*ASKED, "1990 and 2010, 70/30", "offset 1e3", "offset 1e6", "100 - 20 Gamma(.5)",
       "half of N(50, 5) missing", "year, 3 % coded 9999")  # fmt: skip


def tell(c: dict[str, float | str]) -> str:
    """The same of large errors: how often, how many of these do not say "ok", and of all releases
    those that have one, say "ok" and whose interval misses."""
    return f"{c['ratio']:.2f}; {c['large']:.2f}, {c['told']:.2f}, {c['quiet']:.2f}; {c['status']}"


def middle(c: dict[str, float | str]) -> str:
    """With the ratio of a middling error: what a rare release is off by hides it elsewhere."""
    return f"{c['ratio']:.3g} ({c['median']:.3g}); {c['covers']:.2f} S{c['silent']:.2f}"


def show(c: dict[str, float | str]) -> str:
    text = f"{c['ratio']:.2f}; {c['covers']:.2f}"
    if c.get("named", c["covers"]) != c["covers"]:
        text += f" ({c['named']:.2f})"
    for name, letter in (("silent", "S"), ("failed", "F"), ("point_mass", "A")):
        if c[name]:
            text += f" {letter}{c[name]:.2f}"
    return text


def jobs(laws: dict[str, Law], sizes: list[float], data: dict[str, np.ndarray], by: str):
    """Name, law, persons, epsilon and size of every cell; sizes are n*epsilon, or epsilons
    (`by`) of columns."""
    for name, law in laws.items():
        for size in sizes:
            yield name, law, round(size / EPSILON), EPSILON, size
    for name, x in data.items():
        for size in sizes:
            epsilon = size if by == "epsilon" else size / len(x)
            yield name, Law.among(x), len(x), epsilon, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=600, help="releases a cell")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--set", choices=["nine", "more", "columns", "asked", "few"], default="nine"
    )
    parser.add_argument("--only", default="", help="laws whose name holds this")
    parser.add_argument("--sizes", type=float, nargs="+", help="N, or epsilons of the columns")
    parser.add_argument("--target", choices=["mean", "clipped"])
    parser.add_argument("--add-remove", action="store_true")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the Parquet tables")
    parser.add_argument("--store", type=Path, help="file that keeps the cells")
    parser.add_argument("--against", type=Path, help="a file of cells to show before these")
    parser.add_argument("--publish", action="store_true", help="store the results")
    a = parser.parse_args()
    named = {"asked": ASKED, "few": FEW}.get(a.set, ())
    chosen = {"nine": NINE, "more": MORE}.get(a.set, {k: {**NINE, **MORE}[k] for k in named})
    laws = {k: Law.of(*v) if v[1] else Law(v[0], 0, 1, 0) for k, v in chosen.items() if a.only in k}
    wanted = {
        "nine": ("nlswork ln_wage", "insteval rating"), "more": (), "asked": ("insteval rating",),
        "few": ("insteval rating", "nlswork age", "nlswork hours"),
        "columns": tuple(COLUMNS) + tuple(OTHER_COLUMNS),
    }[a.set]  # fmt: skip
    wanted = tuple(name for name in wanted if a.only in name)
    data = columns_of(a.data, wanted) if wanted and a.data.exists() else {}
    by = "epsilon" if a.set == "columns" else "N"
    usual = {"columns": [0.5, 1.0, 2.0], "few": [156.0, 300.0, 590.0, 1000.0]}
    sizes = a.sizes or usual.get(a.set, [300.0, 1500.0, 5000.0])
    earlier = json.loads(a.against.read_text()) if a.against else {}
    relation = ADD_REMOVE if a.add_remove else REPLACE_ONE
    cells: dict[str, dict[str, float | str]] = {}
    rows: dict[str, list[object]] = {}
    for name, law, n, epsilon, size in jobs(laws, sizes, data, by):
        if n * epsilon < 150:
            continue
        key = f"{name} {size:g}"
        cells[key] = cell(law, n, epsilon, a.runs, a.seed, a.target, relation)
        text = {"asked": tell, "few": middle}.get(a.set, show)(cells[key])
        if key in earlier:
            text = f"{show(earlier[key])} -> {text}"
        rows.setdefault(name, []).append(text)
        print(f"{key:34s} {text}   [{cells[key]['status']}]", flush=True)
    if a.store:
        a.store.write_text(json.dumps(cells))
    for which, names in (("tuning", COLUMNS), ("other", OTHER_COLUMNS)):
        if a.set == "columns" and set(names) <= set(rows):
            found = [[cells[f"{name} {size:g}"]["ratio"] for name in names] for size in sizes]
            rows[f"geometric mean, {which}"] = [f"{np.exp(np.log(x).mean()):.3f}" for x in found]
            print(which, *rows[f"geometric mean, {which}"])
    head = ["law", *(f"{by} = {size:g}" for size in sizes)]
    text = table(head, [[name, *row] for name, row in rows.items()])
    words = (
        "Cell: ratio; coverage of the mean by the printed interval (in brackets: of what it says "
        "it is for, where that is not the mean), S silent, F failed, A atom."
    )
    if a.set == "asked":
        words = (
            "Cell: ratio; part of the releases whose own error (with sampling) is above twice the "
            "oracle's, part of these whose status is not 'ok' (0 if there are none), and part of "
            "all that have such an error, say 'ok' and whose interval misses; commonest status of "
            "release and interval."
        )
    if a.set == "few":
        words = (
            "Cell: ratio (that of a middling error: median over .6745); coverage of the mean by "
            "the printed interval, S silent."
        )
    text = f"{words}\n\n{text}"
    if a.publish:
        command = f"python benchmarks/default_mean_laws.py --runs {a.runs} --set {a.set}"
        title = f"Default mean on hard laws ({a.set}), {a.runs} releases a cell"
        publish(f"default-mean-laws-{a.set}", title, text, command=command)


if __name__ == "__main__":
    main()
