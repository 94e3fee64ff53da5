"""How the error of running means grows: Tables 1 and 3 of Kalinin, Najar, Roth and Lampert (2026).

The tables state rates. Here the root mean squared error for noise of one unit is computed exactly,
and divided by sqrt(k/n): a column that settles has that rate, one that grows like the square root
of ln n has a factor ln n more. Beside it is the lower bound for every factorization.

    python benchmarks/continual_rates.py [--quick]
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from privmean.published.continual import BandedInverse, best_decaying
from privmean.streams.fit_strategies import fit_loaded
from privmean.streams.strategies import Banded, Identity, MeanToeplitz, PrefixRoot
from privmean.streams.toeplitz_matrices import Participation
from report import TRIAL, publish, table


def lower_bound(p: Participation, n: int) -> float:
    """No factorization has less: the answers to one person of steps 1, 1 + b, ... alone."""
    t = np.arange(1, n + 1)
    count = np.minimum(np.ceil(t / p.separation), p.most)
    return float(np.linalg.norm(count / t)) / math.sqrt(n)


def table_1(sizes: list[int]) -> str:
    once = Participation(1, 1)
    rows: list[list[object]] = []
    for n in sizes:
        values = [
            strategy.rmse(once, n) * math.sqrt(n)
            for strategy in (Identity(), PrefixRoot(), best_decaying(once, n), MeanToeplitz())
        ]
        logarithm = math.sqrt(math.log(n))
        rows.append(
            [n, *(f"{v:.4f}" for v in values), *(f"{v / logarithm:.4f}" for v in values[:2]),
             f"{lower_bound(once, n) * math.sqrt(n):.4f}"]
        )  # fmt: skip
    head = ["n", "I", "E½", "ν*", "D_toep", "I / √ln n", "E½ / √ln n", "lower bound"]
    return (
        "**Table 1**, one step per person: error times √n. I and E½ grow like √(ln n): their "
        "columns over √(ln n) settle slowly. D_toep settles without a logarithm, and the limit of "
        f"the lower bound is π/√6 = {math.pi / math.sqrt(6):.4f}.\n\n" + table(head, rows)
    )


def table_3(sizes: list[int]) -> str:
    rows: list[list[object]] = []
    for k in (4, 16, 64):
        for n in sizes:
            if n // k < 64:
                continue
            p = Participation(k, n // k)
            inverse = BandedInverse(MeanToeplitz(), p.separation)
            strategies = (
                Identity(), PrefixRoot(), MeanToeplitz(), Banded(MeanToeplitz(), p.separation),
                inverse, fit_loaded(p, n),
            )  # fmt: skip
            unit = math.sqrt(k / n)
            values = [strategy.rmse(p, n) / unit for strategy in strategies]
            bound = lower_bound(p, n) / unit
            rows.append([k, n, *(f"{v:.4f}" for v in values), f"{bound:.4f}"])
    head = ["k", "n", "I", "E½", "D_toep", "D_toep banded, p=b", "D_toep inverse, p=b"]
    return (
        "**Table 3**, k steps per person, b = n/k apart: error over √(k/n). The banded forms of "
        "D_toep settle near 1.9, E½ grows with n and k. Front-loaded buffers, which are not in the "
        "paper, fall with k, as the lower bound does.\n\n"
        + table([*head, "front-loaded", "lower bound"], rows)
    )


def main(quick: bool) -> None:
    start = time.perf_counter()
    small = quick or TRIAL
    sizes = [2**j for j in ((8, 10) if small else (8, 10, 12, 14, 16, 18))]
    parts = [table_1(sizes), table_3(sizes[:5])]
    parts.append(f"All of it took {time.perf_counter() - start:.1f} s.")
    publish(
        "continual-rates",
        "Running means: growth rates of published Tables 1 and 3",
        "\n\n".join(parts),
        command="python benchmarks/continual_rates.py",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two lengths")
    main(parser.parse_args().quick)
