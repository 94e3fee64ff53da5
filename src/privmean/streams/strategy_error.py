"""The error of a strategy, step by step, and what of it matters to the caller.

With unit noise per unit sensitivity the estimate of step t has the standard deviation
sens * ||B_t||, where B = A C^{-1} and A_ts = 1[s<=t]/t; t ||B_t|| is the standard deviation of the
prefix sum. For a Toeplitz C, t^2 ||B_t||^2 = sum_{s<=t} g_s^2 with g = cumsum(inverse column of C),
and the plain goal is ||B||_F/sqrt(n). For real units multiply by clip radius, sigma and
sqrt(dimension). What is shown is clamped to the region: `shown` has the error of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError
from privmean.streams.clamped_error import ClampedError
from privmean.streams.power_series import LONGEST, Floats

GOALS = ("shown", "rmse", "final", "times")


@dataclass(frozen=True)
class ErrorGoal:
    """The steps whose error matters.

    Parameters
    ----------
    first : int, default 1
        Root mean square over all steps from this one on.
    times : tuple of int, optional
        Only these steps.
    shown : ClampedError, optional
        Use the error after clamping instead of that of the noise.
    """

    first: int = 1
    times: tuple[int, ...] = ()
    shown: ClampedError | None = None

    @classmethod
    def of(
        cls,
        goal: str,
        *,
        from_step: int = 1,
        times: Sequence[int] = (),
        shown: ClampedError | None = None,
    ) -> ErrorGoal:
        """The goal named "shown" or "rmse" (both: steps from `from_step` on), "final" or "times".

        shown: what "shown" needs to know.
        """
        validate.choice("goal", goal, GOALS)
        times = validate.listed("times", times)
        first = validate.whole("from_step", from_step, least=1, most=LONGEST // 10)
        if goal == "times":
            chosen = {validate.whole("times", item, least=1, most=LONGEST) for item in times}
            if not chosen:
                raise ArgumentError("times", times, "is empty", "name the steps that matter")
            return cls(times=tuple(sorted(chosen)))
        if times:
            raise ArgumentError("times", times, "requires goal='times'", "remove it")
        if goal == "shown" and shown is None:
            raise ArgumentError(
                "goal", goal, "requires a budget", "give one, or choose rmse, final or times"
            )
        if goal == "final":
            return cls(first=0)
        return cls(first=first, shown=shown if goal == "shown" else None)

    def weights(self, steps: int) -> Floats:
        """Non-negative weights of the squared errors of steps 1..n; they sum to 1."""
        v = np.zeros(steps)
        if self.times:
            inside = [item for item in self.times if item <= steps]
            if not inside:
                raise ArgumentError(
                    "times", self.times, f"must lie within the {steps} steps", "name earlier steps"
                )
            v[np.array(inside) - 1] = 1.0 / len(inside)
        elif self.first == 0:
            v[-1] = 1.0
        elif self.first > steps:
            raise ArgumentError(
                "from_step",
                self.first,
                f"must lie within the {steps} steps",
                "give an earlier step",
            )
        else:
            v[self.first - 1 :] = 1.0 / (steps - self.first + 1)
        return v

    def of_norms(self, norms: Floats) -> float:
        """Root mean squared error over the steps that matter; norms: sens * ||B_t||, shape (n,).

        In clip radii if the goal is what is shown, else for noise 1 a unit of sensitivity.
        """
        losses = norms**2 if self.shown is None else self.shown.losses(norms)
        return float(np.sqrt(np.dot(self.weights(len(norms)), losses)))

    def error(self, variances: Floats) -> float:
        """Root of the weighted mean squared error of means with these prefix-sum variances."""
        t = np.arange(1, len(variances) + 1, dtype=np.float64)
        return float(np.sqrt(np.dot(self.weights(len(t)) / t**2, variances)))

    def tail_weights(self, steps: int) -> Floats:
        """w_s = sum over t >= s of v_t/t^2: the weight of g_s^2 in the mean squared error."""
        t = np.arange(1, steps + 1, dtype=np.float64)
        return np.cumsum((self.weights(steps) / t**2)[::-1])[::-1].copy()

    def describe(self) -> str:
        if self.times:
            return "steps " + ", ".join(str(item) for item in self.times[:8])
        if self.first == 0:
            return "the last step"
        if self.shown is not None:
            since = "" if self.first == 1 else f" from {self.first} on"
            return f"what is shown at all steps{since}"
        return "all steps" if self.first == 1 else f"all steps from {self.first} on"


RMSE = ErrorGoal()
FINAL = ErrorGoal(first=0)


def row_norms(variances: Floats) -> Floats:
    """||B_t|| for t = 1..n from the variances of the prefix sums, shape (n,)."""
    norms: Floats = np.sqrt(variances) / np.arange(1, len(variances) + 1)
    return norms
