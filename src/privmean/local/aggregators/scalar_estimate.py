"""The estimate of means of numbers, from the tally of a scalar mechanism.

Proofs: docs/proofs/local-scalar.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from privmean.array_types import Floats, Integers
from privmean.local.aggregators import scalar_law as scalar
from privmean.local.aggregators.estimate_fields import common_fields
from privmean.local.aggregators.estimate_result import Estimate, Level
from privmean.local.aggregators.heterogeneity_test import cochran
from privmean.local.aggregators.level_weights import (
    FEW,
    Weighing,
    banded,
    bands,
    distance,
    freedom,
    unevenness,
)
from privmean.local.aggregators.tally import Tally
from privmean.local.mechanisms import ONE_BIT
from privmean.local.round import Round


def scalar_estimate(tally: Tally, beta: float, weights: str, cap: object | None) -> Estimate:
    round_ = tally.round
    size = round_.sites
    used: Sequence[int] = range(len(round_.menu))
    if round_.step is not None:  # a ladder has very many levels
        used = np.flatnonzero(tally.by_level()).tolist() or [0]
    laws = [scalar.scalar_law(round_, k) for k in used]
    # of a curve all points have the same bounds
    lower, upper = (np.broadcast_to(x, (size,)) for x in (round_.lower, round_.upper))
    middle, half = lower / 2 + upper / 2, upper / 2 - lower / 2
    sigma = np.minimum(np.array(round_.sigma or (math.inf,)) / half, 1.0)
    weighing = Weighing.of(round_, weights, cap, used)
    capped = [scalar.scalar_law(round_, k, e) for k, e in zip(used, weighing.epsilons, strict=True)]
    counts, sums, squares = scalar.level_sums(tally, laws, list(used))
    theta, radii = np.zeros(size), np.full(size, math.inf)
    spread, noise = np.full(size, math.inf), np.full(size, math.inf)
    effective, influence, jump = math.inf, 0.0, 0.0
    all_weights = np.zeros((len(laws), size))
    degrees = math.inf
    groups, number = np.arange(len(laws)), len(laws)
    if round_.step is not None:
        groups = bands(counts.sum(axis=1), np.array([law.variance for law in laws]))
        number = int(groups.max()) + 1
    variances = scalar.report_variances(round_, laws, counts, sums, squares, groups)
    known = np.array([[law.at(s) for s in sigma] for law in laws])
    known_noise = np.array([law.noise for law in laws])
    alone, per_level = np.full((number, size), math.nan), np.full((number, size), math.nan)
    apart = np.zeros(size)
    for j in range(size):
        n = counts[:, j]
        wanted = np.array([law.at(sigma[j]) for law in capped])
        w = weighing.weights(n.astype(np.int64), wanted)
        q = float((n * w**2 * known[:, j]).sum())
        effective = min(effective, 1 / q if q > 0 else 0.0)
        influence = max(influence, half[j] * scalar.influence(laws, n, w))
        jump = max(jump, half[j] * scalar.largest_jump(laws, n, w))
        all_weights[:, j] = w
        if q > 0:
            theta[j] = float((w * sums[:, j]).sum())
            radii[j] = scalar.radius(round_, laws, n, w, beta / size, sigma[j])
            parts = n * w**2 * variances[:, j]
            spread[j] = math.sqrt(float(parts.sum()))
            degrees = min(degrees, freedom(n, parts))
            private = float((n * w**2 * known_noise).sum())
            noise[j] = math.sqrt(private + unevenness(n, w) * sigma[j] ** 2)
            apart[j] = distance(n, w, variances[:, j])
            alone[:, j], per_level[:, j] = banded(groups, n, sums[:, j], variances[:, j])
    trivial = radii >= 1
    cut = np.where(trivial, 0.0, np.clip(theta, -1.0, 1.0))
    final = np.where(trivial, 1.0, radii)
    test = cochran(alone, per_level, each=True)
    notes: tuple[str, ...] = ()
    if round_.sigma and round_.mechanism != ONE_BIT:
        notes = (f"weights and radius take a standard deviation of at most {list(round_.sigma)}",)
    return Estimate(
        value=middle + half * cut,
        radius=float((half * final).max()),
        norm="absolute",
        target="mean of the values clipped to their bounds"
        + (" at each design point" if round_.points else ""),
        raw=middle + half * theta,
        raw_radius=float((half * radii).max()),
        radii=half * final,
        spread=half * spread,
        noise=half * noise,
        effective=effective,
        levels=_banded_levels(tally, used, groups, all_weights.mean(axis=1), middle + half * alone),
        largest_influence=float(influence),
        heterogeneity=test,
        unseen=float((half * apart).max()) * test.reach,
        freedom=degrees if degrees < math.inf else FEW,
        trivial=bool(trivial.all()),
        notes=notes,
        jump=float(jump),
        proved=partial(_proved_scalar, round_, laws, counts, all_weights, sigma, half),
        **common_fields(tally, beta, weights),
    )


def _proved_scalar(
    round_: Round,
    laws: list[scalar.ScalarLaw],
    counts: Floats,
    weights: Floats,
    sigma: Floats,
    half: Floats,
    beta: float,
) -> Floats:
    """The radius of each coordinate alone."""
    return np.array(
        [
            half[j] * scalar.radius(round_, laws, counts[:, j], weights[:, j], beta, sigma[j])
            if counts[:, j].any()
            else math.inf
            for j in range(len(half))
        ]
    )


def _banded_levels(
    tally: Tally, used: Sequence[int], groups: Integers, weights: Floats, estimates: Floats
) -> tuple[Level, ...]:
    """What each level says, or each band of a ladder, named by its largest epsilon."""
    counts, result = tally.by_level(), []
    for k in range(int(groups.max()) + 1):
        mine = np.flatnonzero(groups == k).tolist()
        n = np.array([counts[used[i]] for i in mine])
        weight = float((n * weights[mine]).sum() / n.sum()) if n.sum() else float(weights[mine[0]])
        epsilon = float(tally.round.menu[used[mine[-1]]])
        result.append(Level(epsilon, int(n.sum()), weight, estimates[k]))
    return tuple(result)
