"""From a tally to an estimate: one function for every mechanism."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from privmean import validate
from privmean.errors import ArgumentError
from privmean.local.aggregators import ball, items, scalar
from privmean.local.aggregators.batch import UNIT_STEPS, Batch
from privmean.local.aggregators.estimate import Estimate, Level
from privmean.local.aggregators.gate import HONEST_LOSS
from privmean.local.aggregators.oracles import ItemOracle, ReportOracle
from privmean.local.aggregators.relation import cochran, worst
from privmean.local.aggregators.tally import Tally
from privmean.local.aggregators.weights import (
    CHOICES,
    FEW,
    MINIMAX,
    TESTED,
    UNIFORM,
    capped_levels,
    distance,
    freedom,
    level_weights,
    unevenness,
)
from privmean.local.distribution import project_to_simplex
from privmean.local.mechanisms import BALLS, LARGEST_ITEMS, SCALARS

Floats = npt.NDArray[np.float64]


def estimate(
    tally: Tally,
    *,
    beta: float | None = None,
    weights: str = TESTED,
    epsilon_cap: object | None = None,
    project: bool = True,
) -> Estimate:
    """The estimate from all reports of a tally.

    beta: the radius fails with at most this probability (the round's by default). weights, where
    more than one level reported: "tested" (default: by what each level's reports tell, unless
    Cochran's test at level 0.05 finds that the levels disagree, then equal; radius and intervals
    pay for both), "uniform" (equal: the only choice that holds however epsilon and value are
    related), or "minimax" (by what each level's reports tell, untested). epsilon_cap: weights are
    computed as if no epsilon were larger, which limits poisoning by claimed levels. project:
    return distributions projected to the simplex (`raw` keeps the unbiased numbers).

    Guarantees. Post-processing of private reports: it cannot weaken anybody's privacy. The radius
    holds with probability 1 - beta if persons are independent, all clients are honest (what others
    can do is `poisoning`), and epsilon is not related to the value. Equal weights do not need the
    last; tested ones fail besides with the probability that the test misses a relation, and
    `unseen` says how large one it may well miss.
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
        return _scalar(tally, beta, weights, cap)
    if tally.round.mechanism in BALLS:
        return _ball(tally, beta, weights, cap)
    return _items(tally, beta, weights, cap, project)


def _tested(tally: Tally, beta: float, cap: object | None, project: bool) -> Estimate:
    """One of two candidates, each with a radius for beta/2: so the chosen one's holds for beta."""
    found = _estimate(tally, beta / 2, MINIMAX, cap, project)
    if found.heterogeneity.related:
        test = found.heterogeneity
        found = replace(_estimate(tally, beta / 2, UNIFORM, cap, project), heterogeneity=test)
    return replace(found, beta=beta, weights=TESTED, candidates=2)


def _common(tally: Tally, beta: float, weights: str) -> dict[str, Any]:
    return {
        "beta": beta,
        "mechanism": tally.round.mechanism,
        "reports": tally.reports,
        "rejected": dict(tally.rejected),
        "weights": weights,
        "used": weights,
        "secure": tally.secure,
        "messages": tally.round.messages,
    }


def _levels(tally: Tally, weights: Floats, estimates: list[Floats]) -> tuple[Level, ...]:
    counts = tally.by_level()
    return tuple(
        Level(float(epsilon), int(counts[k]), float(weights[k]), estimates[k])
        for k, epsilon in enumerate(tally.round.menu)
    )


def _scalar(tally: Tally, beta: float, weights: str, cap: object | None) -> Estimate:
    round_ = tally.round
    number, size = len(round_.menu), round_.sites
    laws = [scalar.scalar_law(round_, k) for k in range(number)]
    capped = [
        scalar.scalar_law(round_, k, e).variance for k, e in enumerate(capped_levels(round_, cap))
    ]
    counts, sums, squares = scalar.level_sums(tally, laws)
    share = beta / size
    theta, radii = np.zeros(size), np.full(size, math.inf)
    spread, noise = np.full(size, math.inf), np.full(size, math.inf)
    apart = np.zeros(size)
    effective, influence, all_weights = math.inf, 0.0, np.zeros((number, size))
    degrees = math.inf
    with np.errstate(invalid="ignore", divide="ignore"):
        alone = sums / counts
    variances = scalar.report_variances(round_, laws, counts, sums, squares)
    known = np.array([law.variance for law in laws])
    known_noise = np.array([law.noise for law in laws])
    for j in range(size):
        w, _ = level_weights(counts[:, j].astype(np.int64), np.array(capped), weights=weights)
        q = float((counts[:, j] * w**2 * known).sum())
        effective = min(effective, 1 / q if q > 0 else 0.0)
        influence = max(influence, scalar.influence(laws, counts[:, j], w))
        all_weights[:, j] = w
        if q > 0:
            theta[j] = float((w * sums[:, j]).sum())
            radii[j] = scalar.radius(round_, counts[:, j], w, share)
            parts = counts[:, j] * w**2 * variances[:, j]
            spread[j] = math.sqrt(float(parts.sum()))
            degrees = min(degrees, freedom(counts[:, j], parts))
            private = float((counts[:, j] * w**2 * known_noise).sum())
            noise[j] = math.sqrt(private + unevenness(counts[:, j], w))
            apart[j] = distance(counts[:, j], w, variances[:, j])
    trivial = radii >= 1
    lower, upper = np.array(round_.lower), np.array(round_.upper)
    middle, half = lower / 2 + upper / 2, upper / 2 - lower / 2
    cut = np.where(trivial, 0.0, np.clip(theta, -1.0, 1.0))
    final = np.where(trivial, 1.0, radii)
    with np.errstate(invalid="ignore", divide="ignore"):
        per_level = variances / counts
        test = cochran(alone, per_level, each=True)
    limit = (half * final).max()
    return Estimate(
        value=middle + half * cut,
        radius=float(limit),
        norm="absolute",
        target="mean of the values clipped to their bounds"
        + (" at each design point" if round_.points else ""),
        raw=middle + half * theta,
        raw_radius=float((half * radii).max()),
        radii=half * final,
        spread=half * spread,
        noise=half * noise,
        effective=effective,
        levels=_levels(tally, all_weights.mean(axis=1), list(middle + half * alone)),
        largest_influence=float(influence * half.max()),
        heterogeneity=test,
        unseen=float((half * apart).max()) * test.reach,
        freedom=degrees if degrees < math.inf else FEW,
        trivial=bool(trivial.all()),
        **_common(tally, beta, weights),
    )


def _ball(tally: Tally, beta: float, weights: str, cap: object | None) -> Estimate:
    round_ = tally.round
    assert round_.dimension is not None
    assert round_.radius is not None
    number, d = len(round_.menu), round_.dimension
    laws = [ball.ball_law(round_, k) for k in range(number)]
    capped = [
        ball.ball_law(round_, k, e).scale ** 2 for k, e in enumerate(capped_levels(round_, cap))
    ]
    counts = tally.by_level()
    n = counts.astype(float)
    scale = np.array([law.scale for law in laws])
    w, _ = level_weights(counts, np.array(capped), weights=weights)
    sums = tally.sums / UNIT_STEPS * scale[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        alone = sums / n[:, None]
        noise = np.where(n > 0, scale**2 / d / n, np.nan)
    raw = (w[:, None] * sums).sum(axis=0)
    limit = ball.radius(round_, n, w, beta) if tally.reports else math.inf
    norm = float(np.sqrt((raw * raw).sum()))
    trivial = limit >= 1
    value = np.zeros(d) if trivial else raw / max(1.0, norm)
    q = float((n * w**2 * np.array([law.signal for law in laws]) ** 2).sum())
    test = cochran(alone, np.repeat(noise[:, None], d, axis=1))
    final = 1.0 if trivial else limit
    used = n > 0
    along = np.array([law.along for law in laws])
    spread = np.sqrt(float((n * w**2 * along).sum())) if tally.reports else math.inf
    return Estimate(
        value=round_.radius * value,
        radius=round_.radius * final,
        norm="l2",
        target="mean of the vectors clipped to the ball",
        raw=round_.radius * raw,
        raw_radius=round_.radius * limit,
        radii=np.full(d, round_.radius * final),
        spread=np.full(d, round_.radius * spread),
        noise=np.full(d, round_.radius * spread),
        effective=1 / q if q > 0 else 0.0,
        levels=_levels(tally, w, list(round_.radius * alone)),
        largest_influence=round_.radius * float(max(2 * w[used] * scale[used], default=math.inf)),
        heterogeneity=test,
        unseen=round_.radius * float(distance(n, w, along)) * test.reach if used.any() else 0.0,
        freedom=freedom(n, n * w**2 * along),
        trivial=trivial,
        notes=("PrivUnit is idealised: its caps use floating-point numbers",)
        if round_.caps
        else (),
        **_common(tally, beta, weights),
    )


def _items(tally: Tally, beta: float, weights: str, cap: object | None, project: bool) -> Estimate:
    round_ = tally.round
    assert round_.items is not None
    if round_.items > LARGEST_ITEMS:
        raise ArgumentError(
            "tally", round_.items, "items are too many to list", "ask `item_oracle` for single ones"
        )
    number, size = len(round_.menu), round_.coordinates
    variances = items.weight_variances(round_, capped_levels(round_, cap))
    honest = items.weight_variances(round_, [float(item) for item in round_.menu])
    apart = 0.0
    share = beta / size - (0.0 if items.is_row(round_) else HONEST_LOSS / size)
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
        w, _ = level_weights(counts, variances, weights=weights)
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
        levels=_levels(tally, all_weights.mean(axis=1), [np.array(item)[flat] for item in levels]),
        largest_influence=influence,
        heterogeneity=test,
        unseen=apart * test.reach,
        freedom=degrees if degrees < math.inf else FEW,
        trivial=radius >= 1,
        **_common(tally, beta, weights),
    )


def item_oracle(
    reports: Tally | Batch, *, weights: str = TESTED, coordinate: int = 0
) -> ItemOracle | ReportOracle:
    """Single items' shares on demand, from a Hadamard or sketch round of any size.

    reports: a tally (an item then costs a pass over the rows), or the reports themselves (a pass
    over the reports: for more rows than reports, where a sketch has next to no bias). weights: as
    in `estimate`; "tested" tests each item that is asked for.
    """
    validate.choice("weights", weights, list(CHOICES))
    round_ = reports.round
    if not items.is_row(round_):
        raise ArgumentError(
            "reports", round_.mechanism, "keeps every item", "read them from the estimate"
        )
    if isinstance(reports, Batch):
        if round_.coordinates > 1:
            raise ArgumentError(
                "reports", round_.coordinates, "coordinates are kept apart", "give their tally"
            )
        return ReportOracle(reports, weights)
    return ItemOracle(reports, weights, coordinate)
