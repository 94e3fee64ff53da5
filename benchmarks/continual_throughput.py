"""Throughput of a private running mean against a plain one and against its noise alone.

Plain: the same running mean in NumPy without privacy, one record at a time and in batches. Noise:
the exact integer draws that the stream needs, and nothing else. jax_privacy: its streaming noise,
compiled, drawn in doubles by a seeded generator and added to the rows of the same running mean,
where its environment is (python benchmarks/peers.py --setup --only jax).

    python benchmarks/continual_throughput.py
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from peers.environments import JAX
from report import publish, table

WEIGHTS, DECAYS = (0.25, 0.07, 0.0087), (0.587, 0.958, 0.998)
SIZES = ((1, 20_000, 2000), (100, 1000, 500), (10_000, 20, 10))


def best(action, steps: int) -> float:
    """Steps a second, the best of three runs (in process time: the machine may be shared)."""
    found = 0.0
    for _ in range(3):
        start = time.process_time()
        action()
        found = max(found, steps / max(time.process_time() - start, 1e-9))
    return found


def plain_single(rows: np.ndarray) -> None:
    total = np.zeros(rows.shape[1])
    for count, row in enumerate(rows, start=1):
        total += row
        _ = total / count


def plain_batch(rows: np.ndarray) -> None:
    _ = np.cumsum(rows, axis=0) / np.arange(1, len(rows) + 1)[:, None]


def inside() -> None:
    """In the peer's environment: steps a second for each width, as JSON."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from jax_privacy.matrix_factorization import toeplitz
    from jax_privacy.matrix_factorization.buffered_toeplitz import BufferedToeplitz
    from jax_privacy.noise_addition import matrix_factorization_privatizer

    matrices = {
        "3 buffers": BufferedToeplitz.build(DECAYS, WEIGHTS).inverse_as_streaming_matrix(),
        "band 64": toeplitz.inverse_as_streaming_matrix(1 / jnp.arange(1.0, 65)),
    }
    found: dict[str, list[float]] = {}
    for d, many, single in SIZES:
        values = np.random.default_rng(0).normal(size=(many, d)) / np.sqrt(d)
        for name, matrix in matrices.items():
            privatizer = matrix_factorization_privatizer(matrix, stddev=1.0, prng_key=0)

            def step(carry, row, privatizer=privatizer):
                total, count, state = carry
                noisy, state = privatizer.update(row, state)
                total, count = total + noisy, count + 1
                return (total, count, state), total / count

            start = (jnp.zeros(d), 0.0, privatizer.init(jnp.zeros(d)))
            one = jax.jit(step)
            scan = jax.jit(lambda carry, rows, step=step: jax.lax.scan(step, carry, rows))

            def one_by_one(one=one, start=start, values=values, single=single) -> None:
                carry = start
                for row in values[:single]:
                    carry, mean = one(carry, row)
                    np.asarray(mean)

            def at_once(scan=scan, start=start, values=values) -> None:
                np.asarray(scan(start, values)[1])

            one_by_one()
            at_once()
            few = min(single, many)
            found[f"{d} {name}"] = [best(one_by_one, few), best(at_once, many)]
    print(json.dumps(found))


def commits() -> float:
    """Bare synchronised appends a second: what a state file can reach at most, one by one."""
    with tempfile.TemporaryFile() as file:
        start = time.perf_counter()
        for _ in range(100):
            file.write(b"x" * 1000)
            file.flush()
            os.fsync(file.fileno())
        seconds = time.perf_counter() - start
    return 100 / seconds


def stream_of(d: int, strategy, state=None):
    from privmean.streams import MeanStream

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
    parser.add_argument("--python", default=JAX.found, help="of an environment with jax_privacy")
    parser.add_argument("--inside", action="store_true")
    arguments = parser.parse_args()
    if arguments.inside:
        inside()
        return

    from privmean.noise.noise_source import ExactNoise
    from privmean.streams.strategies import Banded, Buffered, MeanToeplitz

    strategies = {
        "2 buffers scaled in time": None,
        "3 buffers": Buffered(WEIGHTS, DECAYS),
        "mean Toeplitz, band 64": Banded(MeanToeplitz(), 64),
    }
    peer: dict[str, list[float]] = {}
    if arguments.python:
        command = [arguments.python, __file__, "--inside"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peer = json.loads(done.stdout.splitlines()[-1])
    quick = arguments.quick
    rng = np.random.default_rng(0)
    rows: list[list[object]] = []
    for d, many, single in SIZES:
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
        for name in ("3 buffers", "band 64"):
            if f"{d} {name}" in peer:
                one, batch = peer[f"{d} {name}"]
                ratios = [f"{batch / fast:.4f}", f"{batch / draws:.2f}"]
                rows.append([f"{d:,}", f"jax_privacy: {name}", rate(one), rate(batch), *ratios])
        for name, strategy in strategies.items():
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
        "20,000, 1,000 and 20 steps. Processor seconds, but for the state file, which waits for "
        f"the disk: bare synchronised appends reach {commits():,.0f}/s here. jax_privacy adds "
        "doubles from a seeded generator, without queue, clipping or integers.\n\n"
        + table(head, rows),
        command="python benchmarks/continual_throughput.py",
    )


if __name__ == "__main__":
    main()
