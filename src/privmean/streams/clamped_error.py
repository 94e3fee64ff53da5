"""What a release looks like when it is shown: clamped to the region, so its error has a limit.

The first releases of a stream carry noise of many times the region; projected on the region, they
are off by its size and no more. So the error of a whole run is judged here after clamping, in the
unit of the region's radius.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError
from privmean.streams.power_series import Floats

USABLE = 0.1  # noise below this share of the region's width is called small
LAST_WITHIN = 1.75
STIFF = 5.0


def clamped_square(sd: Floats, dimension: int = 1) -> Floats:
    """E min(||N||, 1)^2 for N with `dimension` independent coordinates of deviation sd.

    The mean squared error of a clamped release in squared radii, exact where the truth is the
    center of the region; wherever it lies, at most four times this.
    With c = 1/sd^2: d sd^2 P(chi2_{d+2} < c) + P(chi2_d > c).
    """
    from scipy.special import erf, gammainc, gammaincc

    s = np.maximum(np.asarray(sd, dtype=np.float64), 1e-150)
    if dimension == 1:
        a = 1 / (s * math.sqrt(2))
        inside = erf(a)
        with np.errstate(under="ignore"):
            tail = s * math.sqrt(2 / math.pi) * np.exp(-a * a)
        one: Floats = s * s * inside - tail + (1 - inside)
        small: Floats = np.where(s < 1e-3, s * s, one)  # there the last terms vanish
        return small
    half = 0.5 / (s * s)
    result: Floats = dimension * s * s * gammainc(dimension / 2 + 1, half)
    result = result + gammaincc(dimension / 2, half)
    return result


@dataclass(frozen=True)
class ClampedError:
    """The mean clamped squared error of a run, with a limit on the noise at its last step.

    unit: deviation of a coordinate, in clip radii, of a release whose sens * ||B_t|| is 1.
    last_within: the last step's noise may be at most so many times the least one possible. cap:
    that limit as a value of sens * ||B_n||, once it is known. price: what a fit has found the limit
    to cost, in logarithms of the loss a logarithm of the noise.
    """

    unit: float
    dimension: int = 1
    last_within: float = LAST_WITHIN
    cap: float = math.inf
    price: float = 0.0

    def __post_init__(self) -> None:
        validate.positive("unit", self.unit)
        if not validate.number("last_within", self.last_within) >= 1:
            raise ArgumentError(
                "last_within", self.last_within, "must be at least 1", "give a factor such as 2"
            )

    def losses(self, norms: Floats) -> Floats:
        """Mean squared error after clamping, in squared radii, at steps with sens * ||B_t||."""
        return clamped_square(self.unit * norms, self.dimension)

    def excess(self, last: float) -> float:
        """An augmented Lagrangian term, in units of a logarithm, for the cap on the last step."""
        if math.isinf(self.cap):
            return 0.0
        pushed = max(0.0, self.price + STIFF * math.log(last / self.cap))
        return (pushed**2 - self.price**2) / (2 * STIFF)

    def priced(self, last: float, cap: float) -> ClampedError:
        """The next problem of a fit that ended with this last step; its first cap is free."""
        if math.isinf(self.cap):
            return replace(self, cap=cap)
        pushed = max(0.0, self.price + STIFF * math.log(last / self.cap))
        return replace(self, cap=cap, price=pushed)


def first_usable(sds: Floats, radius: float, dimension: int = 1) -> int | None:
    """The first step from which on the noise stays below a tenth of the region's width.

    sds: deviation of a coordinate at steps 1..n, in the unit of `radius`. None: not by step n.
    """
    large = np.flatnonzero(sds * math.sqrt(dimension) >= USABLE * 2 * radius)
    step = 1 if not len(large) else int(large[-1]) + 2
    return step if step <= len(sds) else None
