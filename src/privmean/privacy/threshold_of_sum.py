"""The delta of a threshold on a sum of noisy answers: a kind of its own in an accounting.

A version of privmean that does not know the kind refuses the accounting, where a field that it
dropped would have let it check the smaller tail of one noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from privmean.bisection import bisect
from privmean.privacy.event_numbers import refused
from privmean.privacy.privacy_events import DeltaEvent

LEAST, MOST = 5.0, 700.0  # noise scales between which the form of the tail is used


def three_laplace_tail(t: float) -> float:
    """P(sum of three Laplace noises of scale 1 > t), t >= 0 (docs/proofs/groups.md, section 8)."""
    return math.exp(-t) * (t * t + 5 * t + 8) / 16


def scales_needed(tail: float) -> float:
    """The least t from 5 on with `three_laplace_tail(t)` at most `tail`, rounded up."""
    low, high = LEAST, MOST
    if three_laplace_tail(low) <= tail:
        return low
    high = bisect(lambda t: three_laplace_tail(t) > tail, low, high)[1]
    return math.nextafter(high, math.inf)


@dataclass(frozen=True)
class ThresholdOfSum(DeltaEvent, kind="threshold of a sum"):
    """The chance that a key which only one neighbor has is shown: its three noisy answers, each
    with Laplace noise of `scale`, add up to `threshold` (both in people) or more.

    cells: keys of its own that a person can have, each of a weight of at most one person. `delta`
    is checked: it must be at least cells times P(1 + sum of three noises >= threshold).
    """

    delta: float
    threshold: float
    scale: Fraction
    cells: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        t = (self.threshold - 1) / float(self.scale)
        if not t >= LEAST:
            raise refused("threshold", self.threshold, "is below five scales of the noise")
        if self.cells * three_laplace_tail(min(t, MOST)) * (1 - 1e-9) > self.delta:
            raise refused("delta", self.delta, "is below the tail of the noise at the threshold")

    def counted(self) -> str:
        return f"{self.cells} of the keys, from nobody to one person each"
