"""Fitting buffers to windows and decayed means. No data are read."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from privmean.streams.averaging_targets import AveragingTarget
from privmean.streams.buffered_toeplitz import Buffered, fit_modes, powers
from privmean.streams.participation_sensitivity import Participation
from privmean.streams.power_series import Floats
from privmean.streams.strategy_error import ErrorGoal

DESIGN = 4096  # a longer reach is fitted by that of its beginning
ROUNDS = 60
REACHES = 3


@lru_cache(maxsize=64)
def fit_target(
    participation: Participation,
    steps: int,
    goal: ErrorGoal,
    target: AveragingTarget,
    *,
    buffers: int = 2,
) -> Buffered:
    """The `Buffered` strategy found best for a window or a decayed mean over `steps` steps.

    Minimizes the logarithm of the mean squared error (clamped, if that is the goal) by L-BFGS. The
    first steps, up to a few times the reach of the target, stand for a longer run: later variances
    have come to rest.
    """
    length = min(steps, DESIGN, max(REACHES * target.reach, 64))
    capped = Participation(participation.within(steps), participation.separation)
    share = goal.weights(steps)
    share = np.append(share[: length - 1], share[length - 1 :].sum())
    sizes = target.sizes(length)
    lags = np.arange(length - 1, dtype=np.float64)

    def loss(sens: float, theta: Floats, weights: Floats) -> float:
        with np.errstate(under="ignore"):
            inverse = np.concatenate([[1.0], -powers(theta, lags) @ weights])
        norms = np.sqrt(target.variances(inverse)) / sizes * sens
        losses = norms**2 if goal.shown is None else goal.shown.losses(norms)
        return math.log(float(share @ losses))

    return fit_modes(capped, loss, buffers=buffers, slowest=12.0, maxiter=ROUNDS, ftol=1e-7)
