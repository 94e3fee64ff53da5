"""Means over records: coverage and length of the interval beside a t interval of persons' sums.

Every release answers for a fresh table of its law; numbers of records are geometric, and the values
of persons go with them or do not. The t interval is that of a ratio of sums over persons, with the
same cap, on the values themselves.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import time
from collections.abc import Callable

import numpy as np

import privmean as pm
from privmean.data.array_table import ArrayPersonTable
from privmean.noise.noise_source import SimulatedNoise
from report import publish, table

CAP, KNOWN = 20, 1_000_000
LAWS: dict[str, Callable[[np.random.Generator, int, np.ndarray], np.ndarray]] = {
    "normal(10, 1)": lambda g, n, m: 10 + g.standard_normal(n),
    "normal, more records larger": lambda g, n, m: 10 + g.standard_normal(n) + 0.1 * m,
    "lognormal 1": lambda g, n, m: np.exp(g.standard_normal(n)),
    "lognormal, more records larger": lambda g, n, m: np.exp(g.standard_normal(n) / 2) + m / 10,
    "t5": lambda g, n, m: g.standard_t(5, n),
    "exponential": lambda g, n, m: g.exponential(size=n),
}  # fmt: skip


def drawn(law: str, g: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Persons' own means and their numbers of records."""
    records = np.minimum(1 + g.geometric(0.12, n), 60)
    return LAWS[law](g, n, records), records


def measured(law: str, n: int, epsilon: float, runs: int) -> tuple[float, float, float, float]:
    """Coverage, that of the t interval, the median length over its, and seconds of an interval."""
    x, m = drawn(law, np.random.default_rng(7), KNOWN)
    truth = float(np.average(x, weights=np.minimum(m, CAP)))
    held = usual = 0
    lengths, seconds = [], 0.0
    for run in range(runs):
        g = np.random.default_rng([run, n])
        x, m = drawn(law, g, n)
        people = ArrayPersonTable(x[:, None], ("x",), m[:, None], CAP)
        release = pm.mean(people, epsilon=epsilon, noise=SimulatedNoise(g))
        start = time.process_time()
        interval = release.interval()
        seconds += time.process_time() - start
        held += interval.lower[0] <= truth <= interval.upper[0]
        u = np.minimum(m, CAP)
        own = float(np.average(x, weights=u))
        half = 1.96 * math.sqrt(float(((u * (x - own)) ** 2).sum())) / float(u.sum())
        usual += abs(own - truth) <= half
        lengths.append((interval.upper[0] - interval.lower[0]) / (2 * half))
    return held / runs, usual / runs, float(np.median(lengths)), seconds / runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1500, 4000])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 2.0])
    parser.add_argument("--print", action="store_true", help="keep the stored results")
    said = parser.parse_args()
    rows: list[list[object]] = []
    for law in LAWS:
        for n in said.sizes:
            for epsilon in said.epsilons:
                covers, usual, length, seconds = measured(law, n, epsilon, said.runs)
                rows.append([law, n, f"{epsilon:g}", f"{covers:.3f}", f"{usual:.3f}",
                             f"{length:.2f}", f"{1000 * seconds:.0f} ms"])  # fmt: skip
                print(*rows[-1], sep=" | ", flush=True)
    head = ["law", "persons", "epsilon", "covers", "t interval covers", "length over t",
            "processor time of an interval"]  # fmt: skip
    words = f"{said.runs} tables and releases a cell, at most {CAP} records a person, 95 %."
    if said.print:
        return
    command = " ".join(["python benchmarks/records_coverage.py", *map(shlex.quote, sys.argv[1:])])
    publish(
        "records-coverage", "Means over records: coverage", f"{words}\n\n{table(head, rows)}",
        command=command,
    )  # fmt: skip


if __name__ == "__main__":
    main()
