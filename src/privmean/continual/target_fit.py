"""Fitting buffers to windows and decayed means. No data are read."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from privmean.continual.buffered import STARTS, Buffered, limit_sensitivity
from privmean.continual.error import Goal
from privmean.continual.sensitivity import Participation
from privmean.continual.series import Floats
from privmean.continual.targets import Target

DESIGN = 4096  # a longer reach is fitted by that of its beginning
ROUNDS = 60
REACHES = 3


@lru_cache(maxsize=64)
def fit_target(
    participation: Participation, steps: int, goal: Goal, target: Target, *, buffers: int = 2
) -> Buffered:
    """The `Buffered` strategy found best for a window or a decayed mean over `steps` steps.

    Minimises the logarithm of the mean squared error (clamped, if that is the goal) by L-BFGS. The
    first steps, up to a few times the reach of the target, stand for a longer run: later variances
    have come to rest.
    """
    from scipy.optimize import minimize

    length = min(steps, DESIGN, max(REACHES * target.reach, 64))
    capped = Participation(participation.within(steps), participation.separation)
    share = goal.weights(steps)
    share = np.append(share[: length - 1], share[length - 1 :].sum())
    sizes = target.sizes(length)
    lags = np.arange(length - 1, dtype=np.float64)

    def unpack(x: Floats) -> tuple[Floats, Floats]:
        decays = 1 / (1 + np.exp(-x[:buffers]))
        omega = np.exp(x[buffers:])
        total = omega.sum()
        return (omega if total <= 1 else omega / (total * (1 + 1e-12))), decays

    def objective(x: Floats) -> float:
        omega, decays = unpack(x)
        if np.min(np.diff(np.sort(decays)), initial=1.0) < 1e-9 or decays.max() > 1 - 1e-9:
            return 1e3
        u = np.sqrt(omega)
        theta, vectors = np.linalg.eigh(np.diag(decays) - np.outer(u, u))
        weights = (vectors.T @ u) ** 2
        with np.errstate(under="ignore"):
            size = np.exp(np.outer(lags, np.log(np.maximum(np.abs(theta), 1e-300))))
        signs = np.where((theta < 0)[None, :] & (lags % 2 == 1)[:, None], -1.0, 1.0)
        inverse = np.concatenate([[1.0], -(size * signs) @ weights])
        norms = np.sqrt(target.variances(inverse)) / sizes
        norms = norms * limit_sensitivity(omega, decays, capped)
        losses = norms**2 if goal.shown is None else goal.shown.losses(norms)
        return math.log(float(share @ losses))

    best: tuple[float, Floats] | None = None
    for first_decays, first_weights in STARTS[buffers]:
        odds = np.array(first_decays) / (1 - np.array(first_decays))
        start = np.concatenate([np.log(odds), np.log(np.array(first_weights))])
        limits = [(-6.0, 12.0)] * buffers + [(-16.0, 0.0)] * buffers
        settings = {"maxiter": ROUNDS, "ftol": 1e-7}
        found = minimize(objective, start, method="L-BFGS-B", bounds=limits, options=settings)
        if best is None or found.fun < best[0]:
            best = (float(found.fun), found.x)
    assert best is not None
    omega, theta = unpack(best[1])
    order = np.argsort(theta)
    return Buffered(tuple(omega[order].tolist()), tuple(theta[order].tolist()))
