"""Noisy cells to means, spreads and their noise; the spread between groups. No data are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privmean.data.person_table import ClipInterval, Floats

Flags = npt.NDArray[np.bool_]
TINY, EVEN = 1e-300, 1e-12
ROUNDS = 200
SQUARE = 4 * 2**0.5 / 6**0.5  # so that the noise of a square is sqrt(6) scales here too


@dataclass(frozen=True)
class DecodedCells:
    """What noisy cells say of every group; all of shape (groups,).

    weight: noisy; divisor: at least three noise scales. share: of the mean between the middle (0)
    and a limit (1 or -1). mean: middle + radius share. noise: deviation of the mean's noise, with
    Laplace scales `scales` of shape (groups, 3). within: noisy variance of values on the box.
    """

    weight: Floats
    divisor: Floats
    share: Floats
    mean: Floats
    noise: Floats
    scales: Floats
    within: Floats
    radius: Floats
    middle: Floats
    scale: float

    @classmethod
    def of(cls, cells: Floats, boxes: Sequence[ClipInterval], scale: float) -> DecodedCells:
        """scale: the Laplace scale of a cell, in people."""
        a, b, c = cells.T
        weight = a + b + c
        divisor = np.maximum(weight, 3 * scale)
        share = np.clip((a - c) / divisor, -1.0, 1.0)
        parts = [1 - share, np.abs(share), 1 + share]
        return cls._of(weight, divisor, share, a + c - b, boxes, scale, parts, scale)

    @classmethod
    def of_sums(
        cls, sums: Floats, boxes: Sequence[ClipInterval], scale: float, weight: Floats
    ) -> DecodedCells:
        """From sums of z, z^2 and people with a value (noise of 2, 4 and 4 times `scale`) in
        groups of public weight. Nulls stand at the middle unless clearly some are missing."""
        y, square, there = sums.T
        missing = weight - there > 3 * 2**0.5 * 4 * scale
        used = np.where(missing, np.clip(there, 0.0, weight), weight)
        divisor = np.maximum(used, 3 * scale)
        share = np.clip(y / divisor, -1.0, 1.0)
        parts = [np.full(len(y), 2.0), np.where(missing, 4 * np.abs(share), 0.0), np.zeros(len(y))]
        return cls._of(weight, divisor, share, square, boxes, scale, parts, SQUARE * scale)

    @classmethod
    def _of(
        cls,
        weight: Floats,
        divisor: Floats,
        share: Floats,
        square: Floats,
        boxes: Sequence[ClipInterval],
        unit: float,
        parts: list[Floats],
        scale: float,
    ) -> DecodedCells:
        """square: noisy sums of z^2. parts: the Laplace noises in the sum of z, in units."""
        radius = np.array([box.radius for box in boxes])
        middle = np.array([box.middle for box in boxes])
        scales = (radius * unit / divisor)[:, None] * np.stack(parts, axis=1)
        return cls(
            weight,
            divisor,
            share,
            middle + radius * share,
            np.sqrt(2 * (scales**2).sum(axis=1)),
            scales,
            radius**2 * np.clip(square / divisor - share**2, 0.0, 1.0),
            radius,
            middle,
            scale,
        )

    def seen(self, least: float) -> Flags:
        """Groups whose weight is more than so many noise scales."""
        found: Flags = self.weight > least * self.scale
        return found


@dataclass(frozen=True)
class BetweenGroups:
    """within: pooled variance of people inside groups. between: variance of groups' means.
    grand: their mean, to which they are drawn; middle: the mean of their people, about which
    values of all lie."""

    within: float
    between: float
    grand: float
    middle: float

    @property
    def ratio(self) -> float:
        """Spread inside groups over the whole spread: 1 where groups do not differ."""
        return float(np.sqrt(self.within / max(self.within + self.between, TINY)))

    def variance(self, noise: Floats, weight: Floats) -> Floats:
        """Of the error of every group's mean."""
        found: Floats = noise**2 + self.within / np.maximum(weight, 1.0)
        return found

    def shrunk(self, mean: Floats, variance: Floats) -> Floats:
        """Means drawn to the grand mean as far as their errors ask."""
        kept = self.between / np.maximum(self.between + variance, TINY)
        found: Floats = self.grand + kept * (mean - self.grand)
        return found


def between_groups(
    reading: DecodedCells, mean: Floats, weight: Floats, seen: Flags, pooled: float
) -> BetweenGroups:
    """The spread inside groups and between them (Paule and Mandel), over the groups seen.

    pooled: the variance of all values together, where no group is seen.
    """
    least = EVEN * float(np.median(reading.radius)) ** 2  # where values are all alike
    if not seen.any():
        middle = _average(mean, np.maximum(weight, 0.0))
        return BetweenGroups(max(pooled, least, TINY), 0.0, middle, middle)
    size = np.where(seen, np.maximum(weight, 0.0), 0.0)
    within = max(_average(reading.within, size), least, TINY)
    variance = reading.noise**2 + within / np.maximum(weight, 1.0)
    y, v = mean[seen], np.maximum(variance[seen], TINY)
    between = paule_mandel(y, v)
    return BetweenGroups(within, between, _average(y, 1 / (v + between)), _average(mean, size))


def paule_mandel(y: Floats, v: Floats) -> float:
    """The variance t with sum (y - mean)^2/(v + t) = groups - 1; 0 where that is above the sum."""

    def excess(t: float) -> float:
        w = 1 / (v + t)
        return float((w * (y - _average(y, w)) ** 2).sum()) - (len(y) - 1)

    if len(y) < 2 or excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, float(np.ptp(y)) ** 2 + TINY
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return (low + high) / 2


def _average(y: Floats, w: Floats) -> float:
    total = float(w.sum())
    return float((w * y).sum()) / total if total > 0 else float(y.mean())


def pooled_weight(*estimates: tuple[Floats, float]) -> Floats:
    """Estimates of the same weights by precision. Each comes with the deviation of its noise."""
    parts = np.array([1 / sd**2 for _, sd in estimates])
    found: Floats = parts @ np.stack([one for one, _ in estimates]) / parts.sum()
    return found
