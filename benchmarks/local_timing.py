"""Does the time of a private draw tell how large it was? One client, one processor.

Usage: python benchmarks/local_timing.py
"""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
from scipy import stats

from privmean.local.clients.laplace_draw import noise_law, noisy
from privmean.local.entropy import SystemEntropy, below
from report import publish, table

DRAWS = 20_000
SCALE = Fraction(2**13)


def _coin(entropy: SystemEntropy, numerator: int, denominator: int) -> bool:
    """True with probability exp(-numerator/denominator), numerator at most denominator."""
    k = 1
    while below(entropy, denominator * k) < numerator:
        k += 1
    return k % 2 == 1


def rational(entropy: SystemEntropy, scale: Fraction) -> int:
    """Canonne, Kamath and Steinke (2020), Algorithm 2: what the client used before."""
    t, s = scale.numerator, scale.denominator
    while True:
        u = below(entropy, t)
        if not _coin(entropy, u, t):
            continue
        v = 0
        while _coin(entropy, 1, 1):
            v += 1
        size = (u + t * v) // s
        negative = entropy.word() >> 63 == 0
        if negative and size == 0:
            continue
        return -size if negative else size


def main() -> None:
    entropy = SystemEntropy()
    law = noise_law(SCALE, 2**12)
    rows: list[list[object]] = []
    for name, draw in (
        ("rational coins (before)", lambda: rational(entropy, SCALE)),
        ("constant work (now)", lambda: noisy(law, 0, entropy)),
    ):
        sizes, times = np.zeros(DRAWS), np.zeros(DRAWS)
        for k in range(DRAWS):
            start = time.perf_counter_ns()
            y = draw()
            times[k] = time.perf_counter_ns() - start
            sizes[k] = abs(y) / float(SCALE)
        rank = stats.spearmanr(times, sizes).statistic
        near, far = np.median(times[sizes < 1]) / 1e3, np.median(times[sizes > 3]) / 1e3
        rows.append([name, f"{rank:.3f}", f"{near:.2f}", f"{far:.2f}"])
    text = (
        f"Discrete Laplace noise at epsilon 1, {DRAWS} draws each: rank correlation of time and "
        f"|noise| (of independent ones +-{2 / DRAWS**0.5:.3f}), and the median microseconds of "
        "draws below one scale and above three.\n\n"
        + table(["draw", "Spearman", "|noise| < 1 scale", "> 3 scales"], rows)
    )
    publish(
        "local-timing", "Time of a private draw", text, command="python benchmarks/local_timing.py"
    )


if __name__ == "__main__":
    main()
