"""How far dishonest clients move an estimate, and what choosing their nonces adds to it.

Without tickets a client draws its own nonce, and the nonce decides which coordinate, row or
direction its report is about: whoever tries nonces until one suits pushes harder. With tickets the
nonce is the issuer's.

Usage: python benchmarks/local_poisoning.py
"""

from __future__ import annotations

import numpy as np

from privmean.local import ball_round, items_round, mean_round
from privmean.local.aggregators.estimate_round import estimate
from privmean.local.aggregators.tally import (
    Batch,
    bit_count,
    coordinates_of,
    public_normals,
    rows_of,
    tally,
    units,
)
from privmean.local.round import Round
from privmean.local.vectorized import randomize_many
from privmean.noise.noise_source import SimulatedNoise
from report import publish, table

HONEST, ATTACKERS, RUNS, TRIES = 10_000, 100, 12, 64


def coherent(round_: Round, nonces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the best report with each nonce does to the target, and its payload.

    Target: the first coordinate, the first axis, or the first ten items together.
    """
    number = len(nonces)
    payload = np.zeros((number, 1), dtype=np.uint8)
    if round_.mechanism == "one-bit":
        payload[:] = 1
        return (coordinates_of(round_, nonces) == 0).astype(float), payload
    if round_.mechanism == "ball-bit":
        along = units(public_normals(round_, nonces))[:, 0]
        return abs(along), (along > 0).astype(np.uint8).reshape(-1, 1)
    if round_.mechanism == "closest":
        assert round_.candidates is not None
        half = round_.candidates // 2
        every = np.tile(np.arange(half), number)
        drawn = public_normals(round_, np.repeat(nonces, half, axis=0), every)
        along = units(drawn)[:, 0].reshape(number, half)
        best = abs(along).argmax(axis=1)
        height = along[np.arange(number), best]
        index = 2 * best + (height < 0)
        return abs(height), index.astype("<u2").view(np.uint8).reshape(-1, 2)
    rows = rows_of(Batch(round_, nonces, np.zeros(number, dtype=np.uint16), payload))
    signs = np.zeros(number)
    for item in range(1, 11):
        signs += 1.0 - 2.0 * (bit_count(rows & item) & 1)
    return abs(signs), (signs > 0).astype(np.uint8).reshape(-1, 1)


def shift(round_: Round, values: np.ndarray, grind: bool, seed: int) -> float:
    """How far the target moves when 100 of 10,100 reports are the attackers'."""
    noise, dice = SimulatedNoise(seed), np.random.default_rng(seed)
    honest = randomize_many(round_, values, epsilon=1.0, noise=noise)
    tries = TRIES if grind else 1
    nonces = dice.integers(0, 2**64, (ATTACKERS * tries, 2), dtype=np.uint64)
    push, payload = coherent(round_, nonces)
    best = push.reshape(ATTACKERS, tries).argmax(axis=1) + tries * np.arange(ATTACKERS)
    mine = Batch(round_, nonces[best], np.zeros(ATTACKERS, dtype=np.uint16), payload[best])
    without = estimate(tally(honest), project=False)
    counted = tally(honest).merge(tally(mine))
    after = estimate(counted, project=False)
    part = slice(1, 11) if round_.items is not None else slice(0, 1)
    moved = float((after.raw.reshape(-1)[part] - without.raw.reshape(-1)[part]).sum())
    bound = after.poisoning(ATTACKERS) * (10 if round_.items is not None else 1)
    if moved > bound:
        raise SystemExit("the published bound was exceeded")
    return moved


def main() -> None:
    given = {"epsilon": 1, "persons": HONEST}
    cases = {
        "one bit, 10 coordinates": (
            mean_round([-1] * 10, [1] * 10, **given),
            np.zeros((HONEST, 10)),
        ),
        **{
            f"ball-bit, d={d}": (
                ball_round(1, d, mechanism="ball-bit", **given),
                np.zeros((HONEST, d)),
            )
            for d in (2, 20, 500)
        },
        "closest, d=20": (
            ball_round(1, 20, mechanism="closest", **given),
            np.zeros((HONEST, 20)),
        ),
        "hadamard, 10 targets of 1000": (
            items_round(1000, mechanism="hadamard", **given),
            np.full(HONEST, 500),
        ),
    }
    rows: list[list[object]] = []
    for name, (round_, values) in cases.items():
        runs = 3 if "500" in name or name.startswith("closest") else RUNS
        plain = np.array([shift(round_, values, False, k) for k in range(runs)])
        ground = np.array([shift(round_, values, True, 100 + k) for k in range(runs)])
        factor = ground.mean() / plain.mean()
        error = (
            factor
            * np.hypot(ground.std() / ground.mean(), plain.std() / plain.mean())
            / np.sqrt(runs)
        )
        rows.append(
            [name, f"{plain.mean():.4f}", f"{ground.mean():.4f}", f"{factor:.1f} +- {error:.1f}"]
        )
    text = (
        f"{ATTACKERS} dishonest reports among {HONEST} honest ones, epsilon 1; every dishonest "
        "client pushes the first coordinate or axis (or the sum of ten items) upwards as its "
        f"nonce allows. With tickets the nonce is given; without, it tries {TRIES} nonces and "
        "keeps the best. `poisoning(100)` was never exceeded.\n\n"
        + table(["mechanism", "moved, with tickets", "moved, nonces tried", "factor"], rows)
    )
    publish(
        "local-poisoning",
        "Nonces that clients choose",
        text,
        command="python benchmarks/local_poisoning.py",
    )


if __name__ == "__main__":
    main()
