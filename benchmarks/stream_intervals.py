"""Coverage of the population intervals of streams, by how many records people give.

    python benchmarks/stream_intervals.py [--runs 400]

A running mean at its end, through `MeanStream` with simulated noise, people in a random order each
time. Values are normal, 3 in the mean, with a deviation between people and one within. `records`
counts rows as if they were independent; `people` is the default; `icc` is told the correlation;
`range` is told nothing.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import numpy as np

from privmean.noise.noise_source import SimulatedNoise
from privmean.streams import MeanStream, plan
from privmean.streams import stream_release as bands
from report import publish, table

HEAVY = np.minimum(np.ceil(np.random.default_rng(5).pareto(1.2, 300) + 1).astype(int), 64)
CASES = {
    "2000 x 1": (np.ones(2000, dtype=int), 0.8, 0.3),
    "2000 x 10": (np.full(2000, 10), 0.8, 0.3),
    "300 x 10": (np.full(300, 10), 0.8, 0.3),
    "300 x 10, people alike": (np.full(300, 10), 0.0, 0.85),
    "300 x 2 to 64 (heavy tail)": (HEAVY, 0.8, 0.3),
}
EPSILON, DELTA, BOUNDS = 100.0, 1e-6, (-2.0, 8.0)
KINDS = ("records", "people", "icc", "range")


def measured(numbers: np.ndarray, between: float, within: float, runs: int) -> dict[str, Any]:
    """Coverage and mean half width of each kind of interval."""
    rng = np.random.default_rng(6)
    sd = math.hypot(between, within)
    icc = between**2 / sd**2
    chosen = plan(
        epsilon=EPSILON, delta=DELTA, bounds=BOUNDS, max_participations=int(numbers.max()),
        min_separation=1, steps=int(numbers.sum()), goal="final",
    )  # fmt: skip
    held, half = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0.0)
    ways: dict[str, dict[str, float]] = {"people": {"sd": sd}, "icc": {"sd": sd, "icc": icc}}
    ways["range"] = {}
    noise_sd = 0.0
    for seed in range(runs):
        ids = rng.permutation(np.repeat(np.arange(len(numbers)), numbers))
        values = 3 + rng.normal(0, between, len(numbers))[ids] + rng.normal(0, within, len(ids))
        for name, how in ways.items():
            stream = MeanStream.from_plan(
                chosen, noise=SimulatedNoise(seed), history=False, clamp=False, **how
            )
            last = stream.extend(ids.tolist(), values)[-1]
            noise_sd = last.noise_sd
            wide = {name: last.population}
            if name == "people":  # the interval of independent rows
                by_records = math.hypot(noise_sd, sd / math.sqrt(len(ids)))
                wide["records"] = bands.pointwise(0.95) * by_records
            for kind, width in wide.items():
                held[kind] += abs(float(last) - 3) <= width
                half[kind] += width / runs
    return {
        "runs": runs,
        "noise_sd": noise_sd,
        "coverage": {kind: held[kind] / runs for kind in KINDS},
        "half_width": half,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=400)
    runs, start = parser.parse_args().runs, time.process_time()
    found = {name: measured(*case, runs) for name, case in CASES.items()}
    rows: list[list[object]] = []
    for name, item in found.items():
        cells = [f"{item['coverage'][kind]:.3f} ({item['half_width'][kind]:.3f})" for kind in KINDS]
        longer = item["half_width"]["people"] / item["half_width"]["records"]
        rows.append([name, f"{item['noise_sd']:.4f}", *cells, f"{longer:.2f}"])
    head = ["people x records", "noise sd", *KINDS, "people over records"]
    facts = {
        "epsilon": EPSILON,
        "delta": DELTA,
        "bounds": BOUNDS,
        "processor_seconds": round(time.process_time() - start, 1),
        "cases": found,
    }
    publish(
        "stream-intervals",
        f"Coverage of 95% intervals of streams (mean half width), {runs} runs",
        table(head, rows),
        command=f"python benchmarks/stream_intervals.py --runs {runs}",
        data=facts,
    )


if __name__ == "__main__":
    main()
