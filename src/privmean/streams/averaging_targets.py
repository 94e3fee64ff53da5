"""Which past records an estimate counts: all of them, the last few, or all with a fading weight.

The noisy rows of a stream are drawn once; running means, windows and decayed means are different
sums of the same noisy rows, so the target changes the error and never the guarantee
(docs/proofs/continual.md, section 9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError
from privmean.streams import power_series as series
from privmean.streams.power_series import LONGEST, Floats
from privmean.streams.toeplitz_filters import Filter


@dataclass(frozen=True)
class AveragingTarget:
    """The estimate of step t weighs the rows of step t-j by factor^j, for j < window.

    window: None for no end. factor: in (0, 1], 1 for equal weights; not both.
    """

    window: int | None = None
    factor: float = 1.0

    def __post_init__(self) -> None:
        if self.window is not None:
            window = validate.whole("window", self.window, least=1, most=LONGEST)
            object.__setattr__(self, "window", window)
        if not 0 < validate.number("factor", self.factor) <= 1:
            raise ArgumentError("factor", self.factor, "must lie in (0, 1]", "give a half-life")
        if self.window is not None and self.factor < 1:
            raise ArgumentError("window", self.window, "requires a half-life", "use one of them")

    @classmethod
    def of(cls, window: int | None = None, half_life: float | None = None) -> AveragingTarget:
        """The last `window` steps, weights halved every `half_life` steps, or all steps."""
        if half_life is None:
            return cls(window)
        if window is not None:
            raise ArgumentError(
                "half_life", half_life, "cannot be combined with window", "use one of them"
            )
        factor = 2.0 ** (-1.0 / validate.positive("half_life", half_life))
        if not factor:
            raise ArgumentError(
                "half_life", half_life, "must be at least about one step", "give 1 or more"
            )
        return cls(factor=factor)

    @property
    def running(self) -> bool:
        """Whether all records count alike."""
        return self.window is None and self.factor == 1

    @property
    def reach(self) -> int:
        """Steps after which the past hardly counts; 0 if it always does."""
        if self.window is not None:
            return self.window
        return 0 if self.running else math.ceil(-1 / math.log(self.factor))

    def describe(self) -> str:
        """In words, such as "mean of the last 7 steps"."""
        if self.window is not None:
            return "mean of the last " + ("step" if self.window == 1 else f"{self.window} steps")
        if self.running:
            return "running mean"
        return f"decayed mean (half-life {-1 / math.log2(self.factor):.4g} steps)"

    def weights(self, n: int) -> Floats:
        """Weights of lags 0..n-1."""
        a: Floats = np.exp(np.arange(n) * math.log(self.factor))
        if self.window is not None:
            a[self.window :] = 0.0
        return a

    def sizes(self, n: int) -> Floats:
        """The sum of weights at steps 1..n, with one record a step."""
        return np.cumsum(self.weights(n))

    def response(self, inverse: Floats) -> Floats:
        """g, the noise coefficients of the weighted sum, from the inverse column of a strategy."""
        if self.factor < 1:
            return series.multiply(self.weights(len(inverse)), inverse, len(inverse))
        sums: Floats = np.cumsum(inverse)
        if self.window is not None and self.window < len(sums):
            sums[self.window :] -= sums[: -self.window].copy()
        return sums

    def variances(self, inverse: Floats) -> Floats:
        """Variances of the weighted sums at steps 1..n with unit noise."""
        g = self.response(inverse)
        return np.cumsum(g * g)

    def to_dict(self) -> dict[str, Any]:
        return {"window": self.window, "factor": self.factor}


RUNNING = AveragingTarget()


class TargetTracker:
    """Variances of the weighted sums of a Toeplitz strategy, step by step.

    Public numbers: a stream that goes on computes them again from the first step.
    """

    def __init__(self, inverse: Filter, target: AveragingTarget) -> None:
        self._inverse, self._target = inverse, target
        self._rest = inverse.state.copy()
        self._start()

    def _start(self) -> None:
        self._inverse.state = self._rest.copy()
        self._g, self._square, self._steps = 0.0, 0.0, 0
        self._past = np.zeros(self._target.window or 0)  # cumulated responses, oldest first

    def advance(self, scales: Floats) -> Floats:
        """Variances after the next steps."""
        impulse = np.zeros((1, len(scales)))
        if self._steps == 0:
            impulse[0, 0] = 1.0
        response = self._inverse.run(impulse)[0]
        factor = self._target.factor
        g = np.empty(len(response))
        for index, item in enumerate(response.tolist()):
            self._g = factor * self._g + item
            g[index] = self._g
        if self._target.window is not None:
            whole = np.concatenate([self._past, g])
            g = g - whole[: len(g)]
            self._past = whole[-self._target.window :].copy()
        squares = np.cumsum(np.concatenate([[self._square], g * g]))[1:]
        self._square = float(squares[-1])
        self._steps += len(scales)
        return squares

    def numbers(self) -> Floats:
        """How far it came: all else follows."""
        return np.array([float(self._steps)])

    def restore(self, numbers: Floats) -> None:
        """Continue exactly from `numbers()`."""
        self._start()
        left = int(numbers[0])
        while left:
            part = min(left, 256)
            self.advance(np.ones(part))
            left -= part


class AverageState:
    """The weighted sums of rows, step by step, the same for any split into blocks.

    For a window these are the sums of all rows so far: the difference over a window is taken when
    a release is shown.
    """

    def __init__(self, target: AveragingTarget, columns: int) -> None:
        self._factor = target.factor
        self.sums = np.zeros(columns)

    def advance(self, rows: Floats) -> Floats:
        """Sums after each of the next rows, shapes (m, columns)."""
        if self._factor == 1:
            if len(rows) == 1:
                self.sums = self.sums + rows[0]
                return self.sums[None, :].copy()
            running = np.cumsum(np.concatenate([self.sums[None, :], rows]), axis=0)
            self.sums = running[-1].copy()
            return running[1:]
        result = np.empty_like(rows)
        for index, row in enumerate(rows):
            self.sums = self._factor * self.sums + row
            result[index] = self.sums
        return result

    def one(self, row: float) -> float:
        """`advance` by one row of one column."""
        before = self.sums.item()
        total = before + row if self._factor == 1 else self._factor * before + row
        self.sums[0] = total
        return total
