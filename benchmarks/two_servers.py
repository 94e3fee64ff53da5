"""Sums by two servers that do not collude: error beside one trusted server, and what proofs cost.

    python benchmarks/two_servers.py [--runs R] [--proofs FOLDER] [--persons N ...]

A local round over a tenth of the clients gives the limits. The other clients write their clipped
value as a whole number and split it into two shares modulo 2^64; each server adds up its shares and
a discrete Laplace noise of its own that suffices alone, and the sums of both are added. Beside it,
with the same limits and persons: one trusted server (one noise), and reports that the clients
randomize themselves. --proofs: a folder where the npm package @divviup/prio3 is installed; times
its range proofs (`range_proof.mjs`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np

from privmean.local.aggregators.estimate_round import estimate
from privmean.local.two_round_mean import WinsorizedRounds
from privmean.local.vectorized import tally_many
from privmean.noise.noise_source import SimulatedNoise
from report import publish, table

RANGE = (0.0, 1000.0)
TAU = 5.0  # public: within so much of a common point nearly all values lie
BITS = 20  # of a clipped value as a whole number
STEPS = 2**BITS - 1
VOTERS = (10, 90)

LAWS = {
    "normal, sd 1": lambda rng, n: rng.normal(412.3, 1.0, n),
    "Laplace, sd 1": lambda rng, n: rng.laplace(412.3, 0.5**0.5, n),
    "gamma 4, sd 1": lambda rng, n: 410 + rng.gamma(4.0, 0.5, n),
    "uniform, width 6": lambda rng, n: rng.uniform(409, 415, n),
}
TRUTH = dict(zip(LAWS, (412.3, 412.3, 412.0, 412.0), strict=True))


def split(whole: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two shares of whole numbers modulo 2^64: each alone is uniform."""
    one = rng.integers(0, 2**64, len(whole), dtype=np.uint64)
    return one, whole.astype(np.uint64) - one


def noisy_share(shares: np.ndarray, epsilon: Fraction, noise: SimulatedNoise) -> int:
    """What a server shows: its shares and its own noise, modulo 2^64."""
    (drawn,) = noise.laplace(1, STEPS / epsilon).tolist()
    return (int(shares.sum(dtype=np.uint64)) + drawn) % 2**64


def centred(total: int) -> int:
    return total - 2**64 if total >= 2**63 else total


def one_run(law: str, persons: int, epsilon: float, seed: int) -> list[float]:
    """Errors of two servers, of one, and of randomized reports; and whether the vote was clear."""
    rng, noise = np.random.default_rng(seed), SimulatedNoise(seed)
    values = LAWS[law](rng, persons)
    rounds = WinsorizedRounds.of(
        *RANGE, tau=TAU, epsilon=epsilon, persons=persons, shares=VOTERS, seed=bytes(32)
    )
    voters = persons * VOTERS[0] // sum(VOTERS)
    location = rounds.locate(
        tally_many(rounds.vote(), values[:voters], epsilon=epsilon, noise=noise)
    )
    window, rest = rounds.mean(location), values[voters:]
    low, high = window.lower[0], window.upper[0]
    whole = np.rint((np.clip(rest, low, high) - low) / (high - low) * STEPS).astype(np.int64)
    exact = Fraction(epsilon)
    total = centred(sum(noisy_share(item, exact, noise) for item in split(whole, rng)) % 2**64)
    (alone,) = noise.laplace(1, STEPS / exact).tolist()
    sums = [total, int(whole.sum()) + alone]
    means = [low + item / STEPS / len(rest) * (high - low) for item in sums]
    means.append(float(estimate(tally_many(window, rest, epsilon=epsilon, noise=noise)).value[0]))
    return [item - TRUTH[law] for item in means] + [float(location.clear[0])]


def errors(runs: int, sizes: list[int]) -> str:
    rows: list[list[object]] = []
    for law in LAWS:
        for persons in sizes:
            for epsilon in (0.5, 1.0, 2.0):
                found = np.array([one_run(law, persons, epsilon, seed) for seed in range(runs)])
                two, one, local = np.sqrt((found[:, :3] ** 2).mean(axis=0))
                row = [law, persons, epsilon, f"{two:.4f}", f"{one:.4f}", f"{local:.4f}"]
                rows.append([*row, f"{two / one:.3f}", f"{found[:, 3].mean():.2f}"])
    head = ["law", "persons", "epsilon", "two servers", "one server", "randomized by clients"]
    worst = max(float(str(row[6])) for row in rows)
    return (
        table([*head, "two / one", "clear votes"], rows)
        + f"\n\nRoot mean square errors for the mean of the law, {runs} runs. Largest two / one: "
        f"{worst:.3f}."
    )


def proofs(folder: Path) -> str:
    """Range proofs by an existing library, on Node."""
    script = shutil.copy(Path(__file__).with_name("range_proof.mjs"), folder)
    done = subprocess.run(
        ["node", Path(script).name], cwd=folder, capture_output=True, text=True, check=True
    )
    rows = [
        [
            item["name"],
            item["bytes"],
            f"{item['client']:.1f}",
            f"{item['server']:.1f}",
            f"{item['refused']} of {item['lies']}",
        ]
        for item in json.loads(done.stdout)
    ]
    return table(["report", "bytes", "ms, client", "ms, each server", "lies refused"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--persons", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--proofs", type=Path)
    said = parser.parse_args()
    text = errors(said.runs, said.persons)
    if said.proofs is not None:
        text += "\n\n" + proofs(said.proofs)
    publish(
        "two-servers",
        "Two servers that do not collude",
        text,
        command=f"python benchmarks/two_servers.py --runs {said.runs} --proofs FOLDER",
    )
