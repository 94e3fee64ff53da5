"""From counts of reports to a result.

The estimate of the shares of items, from the tally of an item mechanism.

Proofs: docs/proofs/local-items.md.

The estimate of means of numbers, from the tally of a scalar mechanism.

Proofs: docs/proofs/local-scalar.md.

The estimate of a mean of vectors, from the tally of a ball mechanism.

Proofs: docs/proofs/local-ball.md.

From a tally to an estimate: one function for every mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from privmean import validate
from privmean.array_types import Floats, Integers
from privmean.errors import ArgumentError
from privmean.local.aggregators import ball_law as ball
from privmean.local.aggregators import item_law as items
from privmean.local.aggregators import scalar_law as scalar
from privmean.local.aggregators.estimate_result import (
    Estimate,
    Level,
    cochran,
    common_fields,
    levels_alone,
    worst,
)
from privmean.local.aggregators.item_law import ItemOracle, ReportOracle, is_row, project_to_simplex
from privmean.local.aggregators.scalar_law import (
    CHOICES,
    FEW,
    MINIMAX,
    TESTED,
    UNIFORM,
    Weighing,
    banded,
    bands,
    distance,
    freedom,
    unevenness,
)
from privmean.local.aggregators.tally import UNIT_STEPS, Batch, Tally
from privmean.local.mechanisms import BALLS, LARGEST_ITEMS, ONE_BIT, SCALARS
from privmean.local.round import Round

SLACK = 2.0**-30  # of beta: for the rounding of the search for a radius, as in 0.2


def items_estimate(
    tally: Tally, beta: float, weights: str, cap: object | None, project: bool
) -> Estimate:
    round_ = tally.round
    assert round_.items is not None
    if round_.items > LARGEST_ITEMS:
        raise ArgumentError(
            "tally", round_.items, "has too many items to list", "ask `item_oracle` for single ones"
        )
    number, size = len(round_.menu), round_.coordinates
    weighing = Weighing.of(round_, weights, cap, range(number))
    variances = items.weight_variances(round_, weighing.epsilons)
    honest = items.weight_variances(round_, [float(item) for item in round_.menu])
    apart = 0.0
    share = beta / size - (0.0 if items.is_row(round_) else SLACK / size)
    shape = (size, round_.items)
    raw, value = np.zeros(shape), np.full(shape, 1 / round_.items)
    raw_radii, radii = np.full(shape, math.inf), np.ones(shape)
    spread, noise = np.full(shape, math.inf), np.full(shape, math.inf)
    laws = [items.item_law(round_, k) for k in range(number)]
    effective, influence, degrees = math.inf, 0.0, math.inf
    levels: list[list[Floats]] = [[] for _ in range(number)]
    tests = []
    all_weights = np.zeros((number, size))
    for j in range(size):
        counts = tally.counts.reshape(number, size)[:, j]
        n = counts.astype(float)
        w = weighing.weights(counts, variances)
        all_weights[:, j] = w
        v = float((n * w**2 * honest).sum())
        effective = min(effective, 1 / v if v > 0 else 0.0)
        alone = np.array([items.level_values(tally, k, j) for k in range(number)])
        for k in range(number):
            levels[k].append(alone[k])
        if v <= 0:
            influence = math.inf
            continue
        influence = max(influence, items.influence(round_, n, w))
        raw[j] = ((n * w)[n > 0, None] * alone[n > 0]).sum(axis=0)
        p = np.clip(raw[j], 0.0, 1.0)
        seen = np.array([laws[k].seen(p, n[k]) for k in range(number)])
        parts = (n * w**2)[:, None] * seen
        spread[j] = np.sqrt(parts.sum(axis=0))
        degrees = min(degrees, freedom(n, parts.max(axis=1)))
        apart = max(apart, float(distance(n, w, seen).max()))
        private = sum(n[k] * w[k] ** 2 * laws[k].noise(p) for k in range(number))
        noise[j] = np.sqrt(private + unevenness(n, w) * p * (1 - p))
        if items.is_row(round_):
            raw_radii[j] = items.row_radius(round_, n, w, share)
        else:
            raw_radii[j] = items.bit_radii(round_, n, w, raw[j], share)
        with np.errstate(divide="ignore"):
            tests.append(cochran(alone, seen / n[:, None], each=True))
        value[j], tau = project_to_simplex(raw[j]) if project else (raw[j], 0.0)
        radii[j] = np.minimum(raw_radii[j] + abs(tau), 1.0 if project else math.inf)
    radius, raw_radius = float(radii.max()), float(raw_radii.max())
    test = worst(tests)
    flat = slice(None) if round_.bins is not None and size > 1 else 0
    return Estimate(
        value=value[flat],
        radius=radius,
        norm="sup",
        target="shares of the items" if round_.bins is None else "shares of the bins",
        raw=raw[flat],
        raw_radius=raw_radius,
        radii=radii[flat],
        spread=spread[flat],
        noise=noise[flat],
        effective=effective,
        levels=levels_alone(
            tally, all_weights.mean(axis=1), [np.array(item)[flat] for item in levels]
        ),
        largest_influence=influence,
        heterogeneity=test,
        unseen=apart * test.reach,
        freedom=degrees if degrees < math.inf else FEW,
        trivial=radius >= 1,
        proved=partial(_proved_items, round_, tally.counts.reshape(number, size), all_weights, raw),
        **common_fields(tally, beta, weights),
    )


def _proved_items(
    round_: Round, counts: Integers, weights: Floats, raw: Floats, beta: float
) -> Floats:
    """The radius of each item alone."""
    result = np.full(raw.shape, math.inf)
    for j in range(len(raw)):
        n, w = counts[:, j].astype(float), weights[:, j]
        if not n.any():
            continue
        if items.is_row(round_):
            result[j] = items.row_radius(round_, n, w, beta, items=1)
        else:
            result[j] = items.bit_radii(round_, n, w, raw[j], beta - SLACK, items=1)
    return result if round_.bins is not None and len(raw) > 1 else result[0]


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


def estimate(
    tally: Tally,
    *,
    beta: float | None = None,
    weights: str = TESTED,
    epsilon_cap: object | None = None,
    project: bool = True,
) -> Estimate:
    """Return the estimate from all reports of a tally.

    Parameters
    ----------
    tally : Tally
        The reports.
    beta : float, optional
        Failure probability of the radius. Default: that of the round.
    weights : {"tested", "uniform", "minimax"}, default "tested"
        Weights of several levels: minimax unless Cochran's test (level 0.05) finds that levels
        disagree, equal, or minimax without a test.
    epsilon_cap : float, optional
        Compute weights as if no epsilon were larger, against poisoning by claimed levels.
    project : bool, default True
        Project distributions to the simplex; `raw` keeps the unbiased numbers.

    Returns
    -------
    Estimate
        Value, radius and standard error.

    Privacy
    -------
    Post-processing of private reports, at no further charge.

    Notes
    -----
    The radius assumes that people are independent, clients are honest, and epsilon is independent
    to the value. Equal weights need no independent epsilon. With tested weights the test may miss a
    relation; `unseen` says how large.

    Examples
    --------
    import numpy as np
    from privmean.local import estimate, mean_round, tally_many

    round_ = mean_round(0, 1, epsilon=2, persons=2000)
    tally = tally_many(round_, np.full(2000, 0.5), epsilon=2)
    found = estimate(tally)
    found.value, found.radius
    """
    failure = tally.round.beta if beta is None else validate.fraction("beta", beta)
    validate.choice("weights", weights, list(CHOICES))
    if weights != TESTED:
        return _estimate(tally, failure, weights, epsilon_cap, project)
    if np.count_nonzero(tally.by_level()) < 2:  # then all weights are the same
        found = _estimate(tally, failure, MINIMAX, epsilon_cap, project)
        return replace(found, weights=TESTED)
    return _tested(tally, failure, epsilon_cap, project)


def _estimate(
    tally: Tally, beta: float, weights: str, cap: object | None, project: bool
) -> Estimate:
    if tally.round.mechanism in SCALARS:
        return scalar_estimate(tally, beta, weights, cap)
    if tally.round.mechanism in BALLS:
        return ball_estimate(tally, beta, weights, cap)
    return items_estimate(tally, beta, weights, cap, project)


def _tested(tally: Tally, beta: float, cap: object | None, project: bool) -> Estimate:
    """One of two candidates, each with a radius for beta/2: so the chosen one's holds for beta."""
    found = _estimate(tally, beta / 2, MINIMAX, cap, project)
    if found.heterogeneity.related:
        test = found.heterogeneity
        found = replace(_estimate(tally, beta / 2, UNIFORM, cap, project), heterogeneity=test)
    return replace(found, beta=beta, weights=TESTED, candidates=2)


def item_oracle(
    reports: Tally | Batch, *, weights: str = TESTED, coordinate: int = 0
) -> ItemOracle | ReportOracle:
    """Return an oracle for the shares of single items, from a Hadamard or sketch round.

    Parameters
    ----------
    reports : Tally or Batch
        A tally (an item costs a pass over the rows), or the reports (a pass over the reports). The
        reports suit sketches with more rows than reports.
    weights : {"tested", "uniform", "minimax"}, default "tested"
        As for `estimate`; "tested" tests each item.
    coordinate : int, default 0
        The coordinate.

    Returns
    -------
    ItemOracle or ReportOracle
        Gives the share of an item.
    """
    validate.choice("weights", weights, list(CHOICES))
    round_ = reports.round
    if not is_row(round_):
        raise ArgumentError(
            "reports", round_.mechanism, "keeps every item", "read them from the estimate"
        )
    if isinstance(reports, Batch):
        if round_.coordinates > 1:
            raise ArgumentError(
                "reports",
                round_.coordinates,
                "requires one round for all coordinates",
                "give their tally",
            )
        return ReportOracle(reports, weights)
    return ItemOracle(reports, weights, coordinate)
