"""What the defaults of local rounds were, what they are, and how far that is from any protocol.

Usage: python benchmarks/local_choices.py
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privmean.local import WinsorizedRounds, ball_round, items_round, lower_bound, mean_round
from privmean.local.aggregators.ball_law import endless_shrinkage
from privmean.local.aggregators.scalar_law import scalar_law
from privmean.local.choose_mechanism import variance_of
from privmean.local.reports import report_size
from privmean.noise.noise_source import SimulatedNoise
from report import publish, table

PERSONS = 10_000
EPSILONS = (0.1, 0.5, 1, 2, 4, 8)


def items() -> str:
    rows: list[list[object]] = []
    for number in (2, 16, 100, 1000, 2**20):
        for epsilon in EPSILONS:
            given = {"epsilon": epsilon, "persons": PERSONS}
            old = items_round(number, mechanism="hadamard", **given)
            new = items_round(number, **given)
            ratio = variance_of(old) / variance_of(new)
            sizes = f"{report_size(old)} / {report_size(new)}"
            rows.append([number, epsilon, new.mechanism, f"{ratio:.3g}", sizes])
    return table(["items", "epsilon", "default", "hadamard's variance / its", "bytes"], rows)


def vectors() -> str:
    rows: list[list[object]] = []
    for dimension in (2, 10, 100, 1000):
        for epsilon in EPSILONS:
            given = {"epsilon": epsilon, "persons": PERSONS}
            old = ball_round(1, dimension, mechanism="ball-bit", **given)
            new = ball_round(1, dimension, **given)
            # a cap around the vector (PrivUnit), whose places only real numbers draw exactly
            ideal = endless_shrinkage(epsilon, dimension) ** -2
            best = lower_bound(new, [(epsilon, PERSONS)]).rmse ** 2 * PERSONS
            sizes = " / ".join(str(report_size(item)) for item in (old, new))
            rows.append(
                [
                    dimension,
                    epsilon,
                    new.mechanism + (f", {new.candidates}" if new.candidates else ""),
                    f"{variance_of(old) / variance_of(new):.3g}",
                    f"{variance_of(new) / ideal:.3f}",
                    sizes,
                    f"{math.sqrt(variance_of(new) / best):.2f}",
                ]
            )
    return table(
        [
            "d",
            "epsilon",
            "default",
            "ball-bit's variance / its",
            "its / an ideal cap's",
            "bytes: ball-bit, default",
            "error / limit",
        ],
        rows,
    )


def spreads() -> str:
    """Variance of weights for a spread of the whole half range, over those for the public one."""
    rows: list[list[object]] = []
    sigma = 1 / 8
    mixes = {
        ".1, .5, 1, 6 (each 25 %)": ([0.1, 0.5, 1, 6], [0.25] * 4),
        "1 (90 %), 8": ([1, 8], [0.9, 0.1]),
        "1 (99 %), 8": ([1, 8], [0.99, 0.01]),
    }
    for mix, (levels, parts) in mixes.items():
        given = {"epsilon": levels, "persons": PERSONS}
        chosen = mean_round(-1, 1, sigma=sigma, **given)
        least = variance_of(chosen, parts)
        for name in ("one-bit", "piecewise", "hybrid"):
            round_ = mean_round(-1, 1, mechanism=name, **given)
            laws = [scalar_law(round_, k) for k in range(len(levels))]
            f = np.array(parts)
            own = np.array([law.at(sigma) for law in laws])
            before = np.array([1 / law.variance for law in laws])
            variance = float((f * before**2 * own).sum() / (f * before).sum() ** 2)
            best = 1 / float((f / own).sum())
            rows.append([mix, name, f"{variance / best:.2f}", f"{variance / least:.2f}"])
    return table(
        [
            "epsilon",
            "mechanism",
            "variance without / with sigma",
            "without sigma / the default with it",
        ],
        rows,
    )


def two_rounds(runs: int = 200) -> str:
    rows: list[list[object]] = []
    n, levels = 5000, [0.1, 0.5, 1, 6]
    for name in ("one-bit", "hybrid", "auto"):
        dice = np.random.default_rng(1)
        own = dice.choice(levels, n)
        off = []
        for run in range(runs):
            centre = dice.uniform(-15, 15)
            values = centre + dice.normal(0, 0.3, n)
            protocol = WinsorizedRounds.of(
                -20, 20, tau=1.5, epsilon=levels, persons=n, mean_mechanism=name
            )
            answer = protocol.run(values, epsilon=own, noise=SimulatedNoise(run))
            off.append(float(answer.value[0]) - centre)
        used = protocol.mean(_anywhere()).mechanism
        resampled = np.median(dice.choice(np.abs(off), (400, runs)), axis=1)
        rows.append([name, used, f"{np.median(np.abs(off)):.4f} +- {resampled.std():.4f}"])
    return table(["mean_mechanism", "used", "median absolute error"], rows)


def _anywhere() -> Any:
    from privmean.local.two_round_mean import Location

    one = np.ones(1)
    return Location(np.zeros(1), one, 0 * one, np.ones(1, dtype=bool), 1, levels=(1, 0, 0, 0))


def limits() -> str:
    rows: list[list[object]] = []
    for epsilon in EPSILONS:
        round_ = mean_round(-1, 1, epsilon=epsilon, persons=PERSONS)
        found = lower_bound(round_, [(epsilon, PERSONS)])
        error = math.sqrt(variance_of(round_) / PERSONS)
        radius = math.sqrt(2 * math.log(2 / round_.beta) * variance_of(round_) / PERSONS)
        rows.append(
            [
                epsilon,
                f"{error:.4f}",
                f"{found.rmse:.4f}",
                f"{error / found.rmse:.3f}",
                f"{radius / found.radius:.2f}",
            ]
        )
    return table(
        ["epsilon", "error of one bit", "nothing below", "ratio", "radius / its limit"], rows
    )


def main() -> None:
    text = "\n\n".join(
        [
            "Before: hadamard for items, ball-bit for vectors, one bit and weights for a spread of "
            "the whole half range for numbers. Now the exact variance decides, then (within 5 %) "
            "the shorter report. Items: one share where all are equal.",
            items(),
            f"Vectors of the unit ball, at worst; the limit is that of any protocol with {PERSONS} "
            "persons.",
            vectors(),
            "Numbers in [-1, 1] whose standard deviation is at most 1/8, which is public: exact "
            "variances.",
            spreads(),
            "Two rounds, 5000 persons, epsilon .1, .5, 1 or 6, values within 1.5 of a common point "
            "in [-20, 20], 200 runs. (With tested weights one "
            "false alarm in twenty makes the law long, so the median is compared.)",
            two_rounds(),
            "Numbers in [-1, 1] of any spread: the default against what is proved of any protocol.",
            limits(),
        ]
    )
    command = "python benchmarks/local_choices.py"
    publish("local-choices", "Choices of local rounds", text, command=command)


if __name__ == "__main__":
    main()
