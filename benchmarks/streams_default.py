"""The default of a stream, before and after: what is shown of a run, and its last step.

Before: the goal "rmse" (the error of the noise over all steps, unclamped). After: the goal "shown".
The table is exact (variances of the noise, the closed form of clamping); the runs end to end draw
simulated noise with the same seeds for both.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import subprocess
import sys
import time

import numpy as np

from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.gdp import gaussian_mu
from privmean.streams.compare_strategies import norms_of
from privmean.streams.fit_strategies import fit, fit_loaded
from privmean.streams.mean_stream import MeanStream
from privmean.streams.strategies import Strategy
from privmean.streams.strategy_error import (
    FINAL,
    ErrorGoal,
    clamped_square,
    first_usable,
)
from privmean.streams.stream_plan import plan
from privmean.streams.toeplitz_matrices import Participation
from report import publish, table

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "bounds": (0.0, 1.0)}
# (n, k, b) with the best goal that could be chosen before
ROWS = (
    (8192, 4, 2048, 10, "loaded"),
    (8192, 16, 512, 100, "loaded"),
    (8192, 64, 128, 100, "loaded"),
    (8192, 64, 1, 819, "buffered"),
    (1000, 10, 30, 100, "buffered"),
)


def columns(sds: np.ndarray) -> tuple[float, float]:
    """(noise at the last step, root mean squared clamped error) for the region [0, 1]."""
    return float(sds[-1]), 0.5 * math.sqrt(float(np.mean(clamped_square(2 * sds))))


def of_strategy(strategy: Strategy, n: int, k: int, b: int) -> np.ndarray:
    unit = strategy.sensitivity(Participation(k, b), n) / gaussian_mu(1.0, 1e-6)
    return unit * norms_of(strategy, n)


def choices() -> str:
    rows: list[list[object]] = []
    for n, k, b, first, family in ROWS:
        p = Participation(k, b)
        pattern = {"max_participations": k, "min_separation": b, "steps": n}
        before = plan(**BUDGET, **pattern, goal="rmse").noise_sd(n)
        make = fit_loaded if family == "loaded" else fit
        better = of_strategy(make(p, n, ErrorGoal(first)), n, k, b)
        start = time.process_time()
        after = plan(**BUDGET, **pattern)
        took = time.process_time() - start
        least = of_strategy(fit(p, n, FINAL, buffers=3), n, k, b)[-1]
        sds = after.noise_sd(n)
        cells = [columns(item) for item in (before, better, sds)]
        good = all(a <= c + 5e-5 for a, c in zip(cells[2], cells[1], strict=True))
        small = [first_usable(item, 0.5) or "never" for item in (before, sds)]
        rows.append(
            [
                f"{n}, {k}, {b}",
                *(f"{last:.4f} / {shown:.4f}" for last, shown in cells),
                f"{least:.4f}",
                "yes" if good else "no",
                f"{small[0]} -> {small[1]}",
                after.strategy.name,
                f"{took:.1f}",
            ]
        )
    head = ["n, k, b", "before", "better goal before", "default now", "best last step"]
    head += ["as good as it", "below 10 % from", "strategy", "planning (CPU s)"]
    return (
        "Noise at the last step / root mean squared clamped error over the run; range 1, "
        "epsilon 1, delta 1e-6.\n\n" + table(head, rows)
    )


def end_to_end(runs: int) -> str:
    n, k = 8192, 16
    persons = n // k
    rows = []
    for goal in ("rmse", "shown"):
        squared, ends = np.zeros(n), []
        chosen = plan(**BUDGET, max_participations=k, min_separation=persons, steps=n, goal=goal)
        for seed in range(runs):
            made = np.random.default_rng(1000 + seed)
            middle = made.beta(4, 4, persons)
            values = np.clip(made.normal(np.tile(middle, k), 0.1), 0, 1)
            truth = np.cumsum(values) / np.arange(1, n + 1)
            stream = MeanStream.from_plan(chosen, noise=SimulatedNoise(seed))
            released = stream.extend([f"u{i % persons}" for i in range(n)], values)
            errors = np.array([float(item) for item in released]) - truth
            squared += errors**2 / runs
            ends.append(errors[-1])
        late = [math.sqrt(float(squared[start:].mean())) for start in (0, 100, n // 2)]
        last = math.sqrt(float(np.mean(np.square(ends))))
        rows.append([goal, *(f"{item:.4f}" for item in late), f"{last:.4f}"])
    head = ["goal", "shown RMSE", "from step 100", "second half", "last step"]
    return (
        f"`MeanStream` end to end, n={n}, k={k}, {runs} runs with the same data and seeds: "
        "distance of the released estimate from the mean of the records so far.\n\n"
        + table(head, rows)
    )


def targets() -> str:
    """Windows, decay, days and groups: what is chosen, and what it gives."""
    far = {"max_participations": 16, "min_separation": 512, "steps": 8192}
    days = {"max_participations": 30, "min_separation": 1, "steps": 365, "period": "day"}
    cases = {
        "running mean": far,
        "last 2000 steps": {**far, "window": 2000},
        "last 500 steps": {**far, "window": 500},
        "half-life 1000 steps": {**far, "half_life": 1000.0},
        "each day, 2000 persons": {**days, "window": 1, "n_per_period": 2000},
        "last 7 days, 2000 persons": {**days, "window": 7, "n_per_period": 2000},
        "4 groups, each of 2048 steps": {**far, "groups": 4},
    }
    rows = []
    for name, settings in cases.items():
        chosen = plan(**BUDGET, **settings)
        seen = chosen.outlook
        numbers = (f"{seen.shown_rmse:.4f}", f"{seen.last_sd:.4f}", seen.small_from or "never")
        rows.append([name, chosen.strategy.name, *numbers])
    head = ["target", "strategy", "error shown", "noise at the last step", "below 10 % from"]
    return (
        "Other targets, with 16 participations 512 steps apart (30 days for days); range 1, "
        "epsilon 1, delta 1e-6.\n\n" + table(head, rows)
    )


def starting(times: int = 5) -> str:
    """CPU seconds of a whole process that plans 5000 steps and finds no event."""
    command = ["stream", "--person", "p", "--value", "v", "--epsilon", "1", "--delta", "1e-6"]
    command += ["--bounds", "0", "1", "--steps", "5000", "--quiet"]
    command += ["--max-participations", "16", "--min-separation", "300"]
    spent = []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "privmean", *command], stdin=subprocess.DEVNULL, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    load = os.getloadavg()[0]
    return (
        f"`privmean stream --steps 5000` on an empty input, the whole process: {min(spent):.1f} to "
        f"{max(spent):.1f} CPU seconds ({times} runs, load {load:.0f})."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=48)
    runs = parser.parse_args().runs
    publish(
        "streams-default",
        "Streams: the default goal",
        "\n\n".join([choices(), end_to_end(runs), targets(), starting()]),
        command="python benchmarks/streams_default.py",
    )


if __name__ == "__main__":
    main()
