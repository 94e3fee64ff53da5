"""Scores of candidate points: how many people must change until a candidate loses.

Exact integers, in which one person moves a score by at most one (docs/proofs/heavy-tails-cover.md).
"""

from __future__ import annotations

import math

import numpy as np

from privmean.data.person_table import Floats
from privmean.noise.noise_source import Integers

RADIUS_BITS = 20  # lattice steps of the clipping radius
CHUNK = 1 << 22  # projections held at once


def directions(dimension: int) -> Floats:
    """Unit vectors, shape (count, d), such that every direction is within cosine 7/8 of one."""
    if dimension == 1:
        return np.array([[1.0], [-1.0]])
    if dimension == 2:
        angle = 2 * math.pi * np.arange(12) / 12
        return np.column_stack([np.cos(angle), np.sin(angle)])
    index = np.arange(42) + 0.5
    height = 1 - 2 * index / 42
    around = math.pi * (1 + math.sqrt(5)) * index
    flat = np.sqrt(1 - height**2)
    return np.column_stack([flat * np.cos(around), flat * np.sin(around), height])


def projections(rows: Floats, points: Floats, direction: Floats, radius: float) -> Integers:
    """<row - point, direction> clipped to +-radius, in steps of radius/2^20: (people, points).

    Elementwise arithmetic, so that a person's number depends on that person's row alone.
    """
    total = np.zeros((len(rows), len(points)))
    with np.errstate(all="ignore"):
        for j, v in enumerate(direction):
            total = total + v * (rows[:, j, None] - points[None, :, j])
        steps = np.floor(total * (2.0**RADIUS_BITS / radius) + 0.5)
    limit = float(1 << RADIUS_BITS)
    return np.where(np.isnan(steps), 0.0, np.clip(steps, -limit, limit)).astype(np.int64)


def costs(z: Integers, threshold: int) -> Integers:
    """Fewest people to change until the sum of z reaches n * threshold; one cost a column of z.

    z holds integers of at most 2^20 in size, threshold is at most 2^20.
    """
    need = len(z) * threshold - z.sum(axis=0)
    result = np.zeros(z.shape[1], dtype=np.int64)
    open_ = need > 0
    if open_.any():
        gains = (1 << RADIUS_BITS) - np.sort(z[:, open_], axis=0)
        reached = np.cumsum(gains, axis=0) >= need[open_]
        result[open_] = np.argmax(reached, axis=0) + 1
    return result


def scores(rows: Floats, points: Floats, radius: float, threshold: int) -> Integers:
    """Score of every candidate point: its least cost over the directions."""
    result = np.full(len(points), len(rows), dtype=np.int64)
    at_once = max(1, CHUNK // max(1, len(rows)))
    for start in range(0, len(points), at_once):
        block = slice(start, start + at_once)
        best = result[block]
        alive = np.arange(len(best))
        for direction in directions(rows.shape[1]):
            if not len(alive):
                break
            z = projections(rows, points[block][alive], direction, radius)
            best[alive] = np.minimum(best[alive], costs(z, threshold))
            alive = alive[best[alive] > 0]
        result[block] = best
    return result
