"""One released step of a stream."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privmean.continual.series import Floats


@dataclass(frozen=True, eq=False)
class StreamRelease:
    """The released running mean after one step.

    step: number of the step, from 1. arrivals: records that had arrived (public). records: records
    in the mean (public). waiting: accepted records that wait for their turn. estimate: shape (d,).
    noise_sd: standard deviation of the noise of one coordinate before clamping. half_width: with
    probability `level` the estimate is at most this far (l2) from the mean of the same clipped
    records; says nothing about the population or about clipping.
    """

    step: int
    arrivals: int
    records: int
    waiting: int
    estimate: Floats
    noise_sd: float
    half_width: float
    level: float
    secure: bool

    def __float__(self) -> float:
        if len(self.estimate) != 1:
            raise TypeError("only a release of one column converts to a float")
        return float(self.estimate[0])

    def to_dict(self) -> dict[str, Any]:
        """Plain data for one line of JSON."""
        values = [float(item) for item in self.estimate]
        result: dict[str, Any] = {
            "step": self.step,
            "arrivals": self.arrivals,
            "records": self.records,
            "waiting": self.waiting,
            "estimate": values,
            "noise_sd": self.noise_sd,
        }
        if len(values) == 1:
            result["noise_interval"] = {
                "level": self.level,
                "lower": [values[0] - self.half_width],
                "upper": [values[0] + self.half_width],
            }
        else:
            result["noise_radius"] = {"level": self.level, "radius": self.half_width}
        if not self.secure:
            result["secure"] = False
        return result


def finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None
