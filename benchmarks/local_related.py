"""Epsilon related to the value: what the default sees, what it covers, and what looking costs.

Usage: python benchmarks/local_related.py [--quick]
Bits are drawn from the law of their counts, two binomial numbers a run; the rest from reports.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np

from privmean.local.aggregators.estimate_result import Estimate
from privmean.local.aggregators.estimate_round import estimate
from privmean.local.aggregators.tally import Tally
from privmean.local.exact_coins import signal
from privmean.local.round_builders import ball_round, items_round, mean_round
from privmean.local.vectorized import tally_many
from privmean.noise.noise_source import SimulatedNoise
from report import publish, table

WAYS = ("minimax", "tested", "uniform")
Draw = Callable[[np.random.Generator, int], Tally]


def bits(levels: list[float], counts: list[int], means: list[float]) -> tuple[Draw, np.ndarray]:
    """One-bit reports of values on [-1, 1] with these means a level, and the mean of all."""
    round_ = mean_round(-1, 1, epsilon=levels, persons=sum(counts))
    chances = [(1 + m * signal(e)) / 2 for m, e in zip(means, round_.menu, strict=True)]

    def draw(dice: np.random.Generator, _: int) -> Tally:
        result = Tally.empty(round_)
        result.counts[:] = counts
        result.sums[:, 0] = 2 * dice.binomial(counts, chances) - np.array(counts)
        return result

    return draw, np.array([np.average(means, weights=counts)])


def others(kind: str, counts: list[int], related: bool) -> tuple[Draw, np.ndarray]:
    """Vectors of five columns, or twenty items, at epsilon 1 and 4."""
    own = np.repeat([1.0, 4.0], counts)
    gap = 0.3 if related else 0.0
    if kind == "ball-bit, d=5":
        values = np.zeros((len(own), 5))
        values[:, 0] = np.where(own == 4.0, 0.1 + gap, 0.1 - gap)
        truth = values.mean(axis=0)
    else:
        truth = np.full(20, 0.05)
        first = truth + np.r_[gap, np.full(19, -gap / 19)]
        truth = (truth * counts[0] + first * counts[1]) / sum(counts)

    def draw(dice: np.random.Generator, run: int) -> Tally:
        noise = SimulatedNoise(run)
        if kind == "ball-bit, d=5":
            round_ = ball_round(1, 5, epsilon=[1, 4], persons=len(own))
            return tally_many(round_, values, epsilon=own, noise=noise)
        round_ = items_round(20, epsilon=[1, 4], persons=len(own), mechanism=kind.partition(",")[0])
        plain = np.full(20, 0.05)
        items = np.r_[dice.choice(20, counts[0], p=plain), dice.choice(20, counts[1], p=first)]
        return tally_many(round_, items, epsilon=own, noise=noise)

    return draw, truth


def cells(part: int) -> Iterator[tuple[str, str, int, Draw, np.ndarray]]:
    """(reports, related?, runs, draw, truth)."""
    text = "one-bit, .1 (18,000), 1 (2,000)"
    for gap in (0.6, 0.3, 0.15, 0.0):  # the levels' means differ by this
        means = [-0.04 - 0.1 * gap, -0.04 + 0.9 * gap]
        yield text, f"means differ by {gap:g}", 4000 // part, *bits([0.1, 1], [18000, 2000], means)
    for gap in (0.3, 0.0):
        means = [0.2 - gap / 2, 0.2 + gap / 2]
        text = "one-bit, 1 (1,000), 8 (1,000)"
        yield text, f"means differ by {gap:g}", 4000 // part, *bits([1, 8], [1000, 1000], means)
    for kind in ("ball-bit, d=5", "hadamard, 20 items", "subset, 20 items"):
        for related in (True, False):
            said = "yes" if related else "no"
            yield (
                f"{kind}, 1 (3,000), 4 (1,000)",
                said,
                200 // part,
                *others(kind, [3000, 1000], related),
            )


def size(answer: Estimate, error: np.ndarray) -> float:
    return float(np.sqrt((error**2).sum()) if answer.norm == "l2" else abs(error).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs")
    part = 10 if parser.parse_args().quick else 1
    rows: list[list[object]] = []
    for place, (text, related, runs, draw, truth) in enumerate(cells(part)):
        dice = np.random.default_rng(place)
        held = {way: np.zeros(4) for way in WAYS}
        alarms, unseen = 0, 0.0
        for run in range(runs):
            counted = draw(dice, 10_000 * place + run)
            for way in WAYS:
                answer = estimate(counted, weights=way)
                band = answer.interval()
                inside = (np.array(band.lower) <= truth) & (truth <= np.array(band.upper))
                off = size(answer, answer.value.reshape(-1) - truth)
                raw = answer.raw.reshape(-1) - truth
                held[way] += [off <= answer.radius, inside.mean(), answer.radius, (raw**2).mean()]
                if way == "tested":
                    alarms += answer.used == "uniform"
                if way == "minimax":
                    unseen += answer.unseen
        for way in WAYS:
            radius, interval, length, square = held[way] / runs
            rows.append(
                [
                    text if way == WAYS[0] else "",
                    related if way == WAYS[0] else "",
                    way,
                    f"{alarms / runs:.3f}" if way == "tested" else "",
                    f"{radius:.3f}",
                    f"{interval:.3f}",
                    f"{length:.3g}",
                    f"{np.sqrt(square):.3g}",
                    f"{unseen / runs:.2g}" if way == "tested" else "",
                ]
            )
    text = (
        "Coverage of the radius (beta 0.05) and of the 95 % interval (of vectors and items: a "
        "number, on average) by way of weighting; *tested* is the default. Alarm: how often the "
        "test finds the levels to disagree, so that every report counts the same; where nothing "
        "is related that is its false-alarm rate, 0.05 by design. Unseen: the relation that the "
        "answer itself names as found nine times in ten, in the unit of the answer. 4,000 runs of "
        "bits, 200 of the others.\n\n"
        + table(
            ["reports", "related", "weights", "alarm", "radius covers", "interval covers",
             "mean radius", "rmse", "unseen"],
            rows,
        )
    )  # fmt: skip
    command = "python benchmarks/local_related.py" + (" --quick" if part > 1 else "")
    publish("local-related", "Epsilon related to the value", text, command=command)


if __name__ == "__main__":
    main()
