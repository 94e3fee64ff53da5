"""One released step of a stream, and how it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmean import validate
from privmean.continual import bands
from privmean.continual.series import Floats
from privmean.continual.state import StoredRelease
from privmean.people.reductions import Ball


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


@dataclass(frozen=True)
class View:
    """How stored noisy sums are shown. Post-processing only: choices here cost no privacy."""

    clamp: bool = True
    first_release: int = 1
    level: float = 0.95

    def __post_init__(self) -> None:
        validate.whole("first_release", self.first_release, least=1)
        validate.level("level", self.level)

    def shows(self, item: StoredRelease) -> bool:
        """Whether there is a mean to show: before the first record there is none."""
        return item.records > 0 and item.step >= self.first_release

    def releases(
        self, items: Sequence[StoredRelease], ball: Ball, noise_step: float, *, secure: bool
    ) -> list[StreamRelease]:
        """The shown ones of `items`. noise_step: noise deviation of one row, in row steps."""
        shown = [item for item in items if self.shows(item)]
        if not shown:
            return []
        units = ball.step / np.array([item.records for item in shown], dtype=np.float64)
        offsets = np.array([item.sums for item in shown]) * units[:, None]
        if self.clamp:
            offsets = bands.clamp(offsets, ball.radius)
        estimates = np.asarray(ball.center) + offsets
        squares = np.array([item.square for item in shown])
        deviations = (noise_step * np.sqrt(squares) * units).tolist()
        factor = bands.pointwise(self.level, len(ball.center))
        return [
            StreamRelease(
                step=item.step,
                arrivals=item.arrivals,
                records=item.records,
                waiting=item.waiting,
                estimate=estimate,
                noise_sd=sd,
                half_width=sd * factor,
                level=self.level,
                secure=secure,
            )
            for item, estimate, sd in zip(shown, estimates, deviations, strict=True)
        ]
