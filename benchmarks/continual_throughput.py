"""Throughput of a private running mean against a plain one and against its noise alone.

Plain: the same running mean in NumPy without privacy, one record at a time and in batches. Noise:
the exact integer draws that the stream needs, and nothing else.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from privmean.continual import MeanStream
from privmean.continual.buffered import Buffered
from privmean.continual.strategies import Banded, MeanToeplitz
from privmean.noise.exact import ExactNoise
from report import publish, table

STRATEGIES = {
    "2 buffers scaled in time": None,
    "3 buffers": Buffered((0.25, 0.07, 0.0087), (0.587, 0.958, 0.998)),
    "mean Toeplitz, band 64": Banded(MeanToeplitz(), 64),
}


def best(action, steps: int) -> float:
    """Steps a second, the best of three runs (in process time: the machine may be shared)."""
    found = 0.0
    for _ in range(3):
        start = time.process_time()
        action()
        found = max(found, steps / (time.process_time() - start))
    return found


def plain_single(rows: np.ndarray) -> None:
    total = np.zeros(rows.shape[1])
    for count, row in enumerate(rows, start=1):
        total += row
        _ = total / count


def plain_batch(rows: np.ndarray) -> None:
    _ = np.cumsum(rows, axis=0) / np.arange(1, len(rows) + 1)[:, None]


def stream_of(d: int, strategy, state=None) -> MeanStream:
    return MeanStream(
        epsilon=1.0,
        delta=1e-6,
        max_participations=16,
        min_separation=512,
        dimension=d,
        clip_radius=1.0,
        strategy=strategy,
        design_steps=1000,
        history=False,
        state=state,
    )


def rate(number: float) -> str:
    return f"{number:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    rng = np.random.default_rng(0)
    rows: list[list[object]] = []
    for d, many, single in ((1, 20_000, 2000), (100, 1000, 500), (10_000, 20, 10)):
        steps = max(many // 4, 5) if quick else many
        values = rng.normal(size=(steps, d)) / np.sqrt(d)
        ids = np.arange(steps)
        noise = ExactNoise()
        noise.gaussian(1, 2.0**40)
        draws = best(lambda n=noise, k=steps * d: n.gaussian(k, 2.0**40), steps)
        slow = best(lambda v=values[:single]: plain_single(v), min(single, steps))
        fast = best(lambda v=values: plain_batch(v), steps)
        rows.append([f"{d:,}", "plain NumPy", rate(slow), rate(fast), "", ""])
        rows.append([f"{d:,}", "noise alone", "", rate(draws), "", ""])
        for name, strategy in STRATEGIES.items():
            running = stream_of(d, strategy)
            running.extend(ids[:2] - 9, values[:2])
            few = min(single, steps)
            counter = iter(range(10**9))

            def one_by_one(running=running, few=few, values=values, counter=counter) -> None:
                for i in range(few):
                    running.update(next(counter), values[i])

            def at_once(running=running, values=values, counter=counter, steps=steps) -> None:
                running.extend([next(counter) for _ in range(steps)], values)

            one = best(one_by_one, few)
            batch = best(at_once, steps)
            rows.append(
                [
                    f"{d:,}",
                    name,
                    rate(one),
                    rate(batch),
                    f"{batch / fast:.4f}",
                    f"{batch / draws:.2f}",
                ]
            )
        with tempfile.TemporaryDirectory() as folder:
            running = stream_of(d, None, Path(folder) / "state")
            start = time.perf_counter()
            running.extend(ids.tolist(), values)
            seconds = time.perf_counter() - start
            few = min(50, steps)
            start = time.perf_counter()
            for i in range(few):
                running.update(f"x{i}", values[i])
            one = few / (time.perf_counter() - start)
            running.close()
            rows.append(
                [
                    f"{d:,}",
                    "scaled, state file (wall clock)",
                    rate(one),
                    rate(steps / seconds),
                    "",
                    "",
                ]
            )
    head = [
        "d",
        "stream",
        "steps/s, one by one",
        "steps/s, in batches",
        "to plain",
        "to noise alone",
    ]
    publish(
        "continual-throughput",
        "Running means: throughput",
        "Exact noise from the operating system's entropy; no history kept. Batches of "
        "20,000, 1,000 and 20 steps.\n\n" + table(head, rows),
        command="python benchmarks/continual_throughput.py",
    )


if __name__ == "__main__":
    main()
