"""Exact noise: nanoseconds a draw, and what streams and vectors make of it, before and after.

"Before" is the same code in the same process, told to draw every number by OpenDP's samplers, as
the versions before the bulk sampler did; everything is interleaved and each figure is a median. The
float ring buffer is a running mean with the noise of a band of 64 rows in NumPy's seeded doubles:
without queue, clipping, integers or security.

    python benchmarks/noise.py
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from unittest import mock

import numpy as np
from scipy.special import chdtrc, ndtr, ndtri

from continual_throughput import stream_of
from privmean.data import array_kernels as balls
from privmean.data.array_kernels import clip_rows_to_ball
from privmean.data.person_table import L2Ball
from privmean.mechanisms import noisy_vector, row_sums
from privmean.mechanisms.noisy_vector import GaussianVector, LaplaceVector
from privmean.noise import bulk_draws as bulk
from privmean.noise import noise_source
from privmean.privacy.budget import REPLACE_ONE
from report import publish, table

BAND = 64


@contextmanager
def before() -> Iterator[None]:
    """All draws by OpenDP, one block of 256 ahead, answers one by one, columns in a loop."""

    def squares(w: np.ndarray) -> np.ndarray:
        total = np.zeros(len(w))
        for j in range(w.shape[1]):
            total = total + w[:, j] * w[:, j]
        return total

    with (
        mock.patch.object(bulk, "fits", return_value=False),
        mock.patch.object(row_sums, "BLOCK", 256),
        mock.patch.object(noisy_vector, "TOGETHER", 10**9),
        mock.patch.object(balls, "_squares", squares),
    ):
        yield


def seconds(actions: list[Callable[[], object]], rounds: int) -> list[float]:
    """Median processor seconds of each, in turns."""
    found: list[list[float]] = [[] for _ in actions]
    for _ in range(rounds):
        for action, times in zip(actions, found, strict=True):
            start = time.process_time()
            action()
            times.append(time.process_time() - start)
    return [statistics.median(times) for times in found]


def draws(rounds: int) -> str:
    floats = np.random.default_rng(0)
    noise = noise_source.ExactNoise()
    rows = []
    for law, scale in itertools.product(("Gaussian", "Laplace"), (2.0**43, 2.0**20, 3.3)):
        power = 2 if law == "Gaussian" else 1
        single = (noise_source._gaussian if power == 2 else noise_source._laplace)(scale)
        start = time.process_time()
        made = bulk.Table(scale, power)
        making = time.process_time() - start
        for size in (1000, 10_000, 1_000_000):
            few = min(size, 3000)  # its time a draw does not depend on how many
            one, many, normal = seconds(
                [
                    lambda few=few, single=single: single([0] * few),
                    lambda size=size, made=made: made.draw(size, noise.bits64),
                    lambda size=size: floats.normal(0.0, 1.0, size),
                ],
                rounds,
            )
            one, many, normal = (
                1e9 * t / n for t, n in zip((one, many, normal), (few, size, size), strict=True)
            )
            cells = [f"{one:,.0f}", f"{many:.1f}", f"{normal:.1f}"]
            ratios = [f"{one / many:,.0f}", f"{many / normal:.1f}"]
            rows.append([law, f"{scale:,.4g}", f"{size:,}", *cells, *ratios, f"{1e3 * making:.1f}"])
    head = [
        "law", "scale", "draws", "OpenDP, ns", "bulk, ns", "float normal, ns", "OpenDP / bulk",
        "bulk / float", "table, ms, once",
    ]  # fmt: skip
    return table(head, rows)


def mass_below(k: np.ndarray, law: str, scale: float) -> np.ndarray:
    """P(X <= k) of the discrete law. Of a Gaussian of a large scale by the normal law half a step
    on, which differs by less than 1e-12 there."""
    if law == "Laplace":
        q = math.exp(-1 / scale)
        tail = np.exp(-np.abs(k + (k >= 0)) / scale) / (1 + q)
        return np.where(k >= 0, 1 - tail, tail)
    if scale > 1000:
        return np.asarray(ndtr((k + 0.5) / scale))
    support = np.arange(-40 * math.ceil(scale), 40 * math.ceil(scale) + 1)
    mass = np.cumsum(np.exp(-(support**2) / (2 * scale**2)))
    return np.asarray((mass / mass[-1])[np.clip(k - support[0], 0, len(support) - 1)])


def p_value(drawn: np.ndarray, law: str, scale: float) -> float:
    """Chi-square of the draws in 64 cells of about the same mass, by the exact law."""
    at = np.arange(1, 64) / 64
    far = np.where(at < 0.5, np.log(2 * at), -np.log(2 - 2 * at)) if law == "Laplace" else ndtri(at)
    ends = np.unique(np.floor(scale * far).astype(np.int64))
    below = mass_below(ends, law, scale)
    expected = len(drawn) * np.diff(np.r_[0.0, below, 1.0])
    counts = np.bincount(np.searchsorted(ends, drawn, side="left"), minlength=len(expected))
    return float(chdtrc(len(expected) - 1, ((counts - expected) ** 2 / expected).sum()))


def laws() -> str:
    """Fresh draws of both samplers against the exact laws."""
    noise, rows = noise_source.ExactNoise(), []
    for law, scale in itertools.product(("Gaussian", "Laplace"), (2.0**43, 2.0**20, 3.3)):
        power = 2 if law == "Gaussian" else 1
        many = bulk.Table(scale, power).draw(1_000_000, noise.bits64)
        single = (noise_source._gaussian if power == 2 else noise_source._laplace)(scale)
        few = np.asarray(single([0] * 100_000), dtype=np.int64)
        deviation = scale * (math.sqrt(2) if power == 1 else 1.0)
        rows.append([
            law, f"{scale:,.4g}", f"{p_value(many, law, scale):.3f}",
            f"{np.mean((many / deviation) ** 2):.4f}", f"{p_value(few, law, scale):.3f}",
        ])  # fmt: skip
    head = ["law", "scale", "bulk, 1e6 draws: p", "their variance over the continuous law's",
            "OpenDP, 1e5 draws: p"]  # fmt: skip
    return table(head, rows)


class Floats:
    """A running mean with noise of a band, in doubles."""

    def __init__(self, d: int) -> None:
        self.rng = np.random.default_rng(0)
        self.band = 1 / np.arange(1.0, BAND + 1)
        self.ring, self.at, self.total = np.zeros((BAND, d)), 0, np.zeros(d)

    def update(self, row: np.ndarray) -> np.ndarray:
        self.ring[self.at % BAND] = self.rng.normal(size=len(row))
        self.at += 1
        self.total += row + np.roll(self.band[::-1], self.at % BAND) @ self.ring
        return self.total / self.at

    def extend(self, rows: np.ndarray) -> np.ndarray:
        noise = self.rng.normal(size=(BAND - 1 + len(rows), rows.shape[1]))
        mixed = rows.copy()
        for lag, weight in enumerate(self.band):
            mixed += weight * noise[BAND - 1 - lag : BAND - 1 - lag + len(rows)]
        return np.cumsum(mixed, axis=0) / np.arange(1, len(rows) + 1)[:, None]


def streams(rounds: int) -> str:
    from privmean.streams.strategies import Banded, MeanToeplitz

    rows = []
    for d, steps, single in ((1, 10_000, 1000), (100, 1000, 300), (10_000, 20, 5)):
        values = np.random.default_rng(0).normal(size=(steps, d)) / np.sqrt(d)
        for name, strategy in (("default", None), ("band 64", Banded(MeanToeplitz(), BAND))):
            ids = itertools.count()
            with before():
                old = stream_of(d, strategy)
            new, plain = stream_of(d, strategy), Floats(d)

            def one(stream, values=values, single=single, ids=ids):
                for i in range(single):
                    stream.update(next(ids), values[i])

            def many(stream, values=values, steps=steps, ids=ids):
                stream.extend([next(ids) for _ in range(steps)], values)

            def old_ones(one=one, old=old):
                with before():
                    one(old)

            def old_many(many=many, old=old):
                with before():
                    many(old)

            def float_ones(plain=plain, values=values, single=single):
                for i in range(single):
                    plain.update(values[i])

            new.extend([next(ids), next(ids)], values[:2])
            old_ones()
            for way, count, actions in (
                ("one by one", single, [old_ones, lambda one=one, new=new: one(new), float_ones]),
                (
                    f"batches of {steps:,}",
                    steps,
                    [
                        old_many,
                        lambda many=many, new=new: many(new),
                        lambda plain=plain, values=values: plain.extend(values),
                    ],
                ),
            ):
                slow, fast, ring = (count / t for t in seconds(actions, rounds))
                rows.append(
                    [f"{d:,}", name, way, f"{slow:,.0f}", f"{fast:,.0f}", f"{ring:,.0f}",
                     f"{fast / slow:.1f}", f"{ring / fast:.1f}"]
                )  # fmt: skip
    head = [
        "d", "strategy", "steps", "before, steps/s", "now, steps/s", "float ring buffer, steps/s",
        "now / before", "float / now",
    ]  # fmt: skip
    return table(head, rows)


def vectors(rounds: int) -> str:
    noise = noise_source.ExactNoise()
    rows = []
    for d in (20, 1000, 10_000):
        sums = GaussianVector("sums", (1,) * 3 * d, (700.0, 90.0, 1500.0) * d, 1.0)
        joint = LaplaceVector((1 << 20, 1 << 40, 1) * d, (2, 4, 4) * d, Fraction(1, 2), REPLACE_ONE)
        for name, mechanism in (("Gaussian", sums), ("Laplace", joint)):
            _ = mechanism.events
            mechanism.draw([5] * (3 * d), noise)  # scales are known from here on
            now = lambda m=mechanism, d=d: m.draw([5] * (3 * d), noise)  # noqa: E731

            def old(now=now):
                with before():
                    now()

            slow, fast = seconds([old, now], rounds)
            rows.append(
                [f"{d:,}", f"three sums a column, {name}", f"{1e3 * slow:.2f}", f"{1e3 * fast:.2f}",
                 f"{slow / fast:.1f}"]
            )  # fmt: skip
    for n, d in ((1, 100), (1, 10_000), (20, 10_000), (20_000, 20)):
        values = np.random.default_rng(1).normal(size=(n, d))
        ball = L2Ball((0.0,) * d, 1.0, 2.0**-20)
        now = lambda v=values, b=ball: clip_rows_to_ball(v, b)  # noqa: E731

        def old(now=now):
            with before():
                now()

        slow, fast = seconds([old, now], 5 * rounds)
        rows.append(
            [f"{d:,}", f"{n:,} rows clipped to a ball", f"{1e3 * slow:.2f}", f"{1e3 * fast:.2f}",
             f"{slow / fast:.1f}"]
        )  # fmt: skip
    return table(["d", "work", "before, ms", "now, ms", "before / now"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    publish(
        "noise",
        "Exact noise in bulk",
        "Exact integers from the operating system's entropy. Medians of processor time, "
        "interleaved. Before: every draw by OpenDP. The float ring buffer draws seeded doubles and "
        "neither clips nor keeps persons apart.\n\n"
        "Law: chi-square of fresh draws in 64 cells against the exact law (p is uniform where the "
        "law holds); that of every cell and word is in docs/proofs/bulk-noise.md and its tests.\n\n"
        f"{laws()}\n\n{draws(rounds)}\n\n{streams(rounds)}\n\n{vectors(rounds)}\n\n"
        f"Load of the machine at the end: {os.getloadavg()[0]:.1f}.",
        command="python benchmarks/noise.py",
    )


if __name__ == "__main__":
    main()
