"""The estimate of a mean of vectors, from the tally of a ball mechanism.

Proofs: docs/proofs/local-ball.md.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from privmean.array_types import Floats
from privmean.local.aggregators import ball_law as ball
from privmean.local.aggregators.batch import UNIT_STEPS
from privmean.local.aggregators.estimate_fields import common_fields, levels_alone
from privmean.local.aggregators.estimate_result import Estimate
from privmean.local.aggregators.heterogeneity_test import cochran
from privmean.local.aggregators.level_weights import Weighing, distance, freedom
from privmean.local.aggregators.tally import Tally
from privmean.local.round import Round


def ball_estimate(tally: Tally, beta: float, weights: str, cap: object | None) -> Estimate:
    round_ = tally.round
    assert round_.dimension is not None
    assert round_.radius is not None
    number, d = len(round_.menu), round_.dimension
    laws = [ball.ball_law(round_, k) for k in range(number)]
    weighing = Weighing.of(round_, weights, cap, range(number))
    capped = [ball.ball_law(round_, k, e).scale ** 2 for k, e in enumerate(weighing.epsilons)]
    counts = tally.by_level()
    n = counts.astype(float)
    scale = np.array([law.scale for law in laws])
    w = weighing.weights(counts, np.array(capped))
    sums = tally.sums / UNIT_STEPS * scale[:, None]
    variances = ball.report_variances(tally, laws)
    with np.errstate(invalid="ignore", divide="ignore"):
        alone = sums / n[:, None]
        per_level = np.where(n[:, None] > 0, variances / n[:, None], np.nan)
    raw = (w[:, None] * sums).sum(axis=0)
    limit = ball.radius(round_, n, w, beta) if tally.reports else math.inf
    norm = float(np.sqrt((raw * raw).sum()))
    trivial = limit >= 1
    value = np.zeros(d) if trivial else raw / max(1.0, norm)
    q = float((n * w**2 * np.array([law.signal for law in laws]) ** 2).sum())
    test = cochran(alone, per_level)
    final = 1.0 if trivial else limit
    used = n > 0
    parts = (n * w**2)[:, None] * variances
    spread = np.sqrt(parts.sum(axis=0)) if tally.reports else np.full(d, math.inf)
    apart = float(distance(n, w, variances).max()) if used.any() else 0.0
    return Estimate(
        value=round_.radius * value,
        radius=round_.radius * final,
        norm="l2",
        target="mean of the vectors clipped to the ball",
        raw=round_.radius * raw,
        raw_radius=round_.radius * limit,
        radii=np.full(d, round_.radius * final),
        spread=round_.radius * spread,
        noise=round_.radius * spread,
        effective=1 / q if q > 0 else 0.0,
        levels=levels_alone(tally, w, list(round_.radius * alone)),
        largest_influence=round_.radius * float(max(2 * w[used] * scale[used], default=math.inf)),
        heterogeneity=test,
        unseen=round_.radius * apart * test.reach,
        freedom=freedom(n, parts.max(axis=1)),
        trivial=trivial,
        proved=partial(_proved_ball, round_, laws, n, w),
        **common_fields(tally, beta, weights),
    )


def _proved_ball(
    round_: Round, laws: list[ball.BallLaw], counts: Floats, weights: Floats, beta: float
) -> Floats:
    assert round_.dimension is not None
    assert round_.radius is not None
    limit = round_.radius * ball.axis_radius(round_, laws, counts, weights, beta)
    return np.full(round_.dimension, limit)
