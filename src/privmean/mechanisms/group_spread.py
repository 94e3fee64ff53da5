"""The spread between public groups: one noisy sum of squares (docs/proofs/intervals.md, 6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from privmean.errors import ArgumentError
from privmean.mechanisms.laplace_sums import JointLaplace
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.privacy_events import Laplace

FEWEST_GROUPS = 20


@dataclass(frozen=True)
class GroupSpread:
    """Released spread between public groups: sum over groups of S_g^2/n_g, S_g = sum of z.

    total: noisy sum in units of z^2; scale: its Laplace scale; people, groups and the largest
    group's size are public.
    """

    total: float
    scale: float
    n: int
    groups: int
    largest: int
    loss: Laplace

    def variance(self, mean: float) -> float:
        """n times the variance of the mean of z (conservative for unequal groups), at least 0."""
        excess = self.total / self.n - mean**2
        return max(0.0, self.largest * excess * self.groups / (self.groups - 1))


def group_sensitivity(steps: int, largest: int) -> int:
    """Sensitivity of the sum of floor(S_g^2/n_g), in squared grid steps, under replace-one.

    max(1, 4 - 4/n_g) K^2 for the largest group, and one step for the rounding of one term.
    """
    return math.ceil(steps * steps * max(Fraction(1), 4 - Fraction(4, largest))) + 1


def group_spread(
    group_sums: Sequence[int],
    sizes: Sequence[int],
    *,
    steps: int,
    epsilon: Fraction,
    noise: Noise,
) -> GroupSpread:
    """Release the spread between groups with pure epsilon (its own share, not free).

    group_sums: exact integer sums of z, |z| <= steps, of each group. sizes: public group sizes,
    kept when a person is replaced.
    """
    if len(group_sums) != len(sizes) or len(sizes) < FEWEST_GROUPS:
        raise ArgumentError(
            "sizes",
            len(sizes),
            f"must be at least {FEWEST_GROUPS} groups with one sum each",
            "give more groups",
        )
    sensitivity = group_sensitivity(steps, max(sizes))
    scale = sensitivity / epsilon
    exact = sum(s * s // n for s, n in zip(group_sums, sizes, strict=True))
    (total,) = JointLaplace((1,), (sensitivity,), epsilon, REPLACE_ONE).draw([exact], noise)
    return GroupSpread(
        total / steps**2,
        float(scale) / steps**2,
        sum(sizes),
        len(sizes),
        max(sizes),
        Laplace(
            "spread between groups", Fraction(sensitivity), scale, joint=True, neighbors=REPLACE_ONE
        ),
    )
