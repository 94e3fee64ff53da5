"""From a tally to an estimate: one function for every mechanism.

Proofs: docs/proofs/local-scalar.md, local-ball.md and local-items.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.errors import ArgumentError
from privmean.local.aggregators.ball_law import BallRound
from privmean.local.aggregators.estimate_result import Estimate, Level, cochran
from privmean.local.aggregators.item_law import ItemOracle, ItemRound
from privmean.local.aggregators.round_law import (
    CHOICES,
    FEW,
    MINIMAX,
    TESTED,
    UNIFORM,
    RoundLaw,
    Weighed,
    banded,
    freedom,
    level_weights,
    unevenness,
)
from privmean.local.aggregators.scalar_law import ScalarRound
from privmean.local.aggregators.tally import Tally
from privmean.local.round import LARGEST_ITEMS, Round


def law_of(round_: Round, used: Sequence[int] | None = None) -> RoundLaw:
    """The law of a round's reports. used: the levels that are looked at, by their numbers."""
    used = range(len(round_.menu)) if used is None else used
    if round_.dimension is not None:
        return BallRound(round_, used)
    return ScalarRound(round_, used) if round_.items is None else ItemRound(round_, used)


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
    # one of two candidates, each with a radius for half: so the chosen one's holds for the whole
    found = _estimate(tally, failure / 2, MINIMAX, epsilon_cap, project)
    if (test := found.heterogeneity).related:
        found = _estimate(tally, failure / 2, UNIFORM, epsilon_cap, project)
    return replace(found, heterogeneity=test, beta=failure, weights=TESTED, candidates=2)


def _estimate(
    tally: Tally, beta: float, weights: str, cap: object | None, project: bool
) -> Estimate:
    round_, used = tally.round, None
    if (round_.items or 0) > LARGEST_ITEMS:
        raise ArgumentError(
            "tally", round_.items, "has too many items to list", "ask `item_oracle` for single ones"
        )
    if round_.step is not None:  # a ladder has very many levels
        used = np.flatnonzero(tally.by_level()).tolist() or [0]
    law = law_of(round_, used)
    law.read(tally)
    counts, trusted, effective = law.counts, law.capped(cap), law.effective()
    sites, shape = law.sites, (law.sites, law.width)
    raw, radii = np.zeros(shape), np.full(shape, math.inf)
    spread, noise = np.full(shape, math.inf), np.full(shape, math.inf)
    alone = np.full((int(law.groups.max()) + 1, *shape), math.nan)
    variances, all_weights = alone.copy(), np.zeros(counts.shape)
    told, influence, degrees, apart = math.inf, 0.0, math.inf, 0.0
    for j in range(sites):
        n = counts[:, j]
        w = level_weights(n, trusted[:, j], weights=weights)
        all_weights[:, j] = w
        if not n.any():
            told, influence = 0.0, math.inf
            continue
        raw[j] = w @ law.sums[:, j]
        at = Weighed(j, n, w, raw[j])
        told = min(told, 1 / float((n * w**2 * effective[:, j]).sum()))
        influence = max(influence, float(law.scale[j]) * at.largest(law.reach))
        seen = law.seen(j, raw[j])
        parts = (n * w**2)[:, None] * seen
        spread[j] = np.sqrt(parts.sum(axis=0))
        degrees = min(degrees, freedom(n, parts.max(axis=1)))
        uneven = unevenness(n, w)
        apart = max(apart, float(law.scale[j] * np.sqrt((uneven @ seen).max())))
        private, between = law.noise(j, raw[j])
        noise[j] = np.sqrt((n * w**2) @ private + uneven.sum() * between)
        radii[j] = law.radius(at, beta / sites)
        alone[:, j], variances[:, j] = banded(law.groups, n, law.sums[:, j], seen)
    value, final, trivial = law.shown(raw, radii, project)
    columns = len(alone), -1
    test = cochran(alone.reshape(columns), variances.reshape(columns), each=law.each)
    return Estimate(
        value=law.in_units(value, around=True),
        radius=float((law.scale[:, None] * final).max()),
        norm=law.norm,
        beta=beta,
        mechanism=round_.mechanism,
        target=law.target,
        raw=law.in_units(raw, around=True),
        raw_radius=float((law.scale[:, None] * radii).max()),
        radii=law.in_units(final),
        spread=law.in_units(spread),
        noise=law.in_units(noise),
        effective=told,
        reports=tally.reports,
        rejected=dict(tally.rejected),
        levels=_levels(tally, law, all_weights.mean(axis=1), alone),
        largest_influence=influence,
        heterogeneity=test,
        weights=weights,
        used=weights,
        unseen=apart * test.reach,
        freedom=degrees if degrees < math.inf else FEW,
        trivial=trivial,
        secure=tally.secure,
        notes=law.notes,
        messages=round_.messages,
        proved=partial(_proved, law, all_weights, raw),
    )


def _proved(law: RoundLaw, weights: Floats, raw: Floats, beta: float) -> Floats:
    """The radius of each number alone."""
    result = np.full(raw.shape, math.inf)
    for j in range(law.sites):
        at = Weighed(j, law.counts[:, j], weights[:, j], raw[j])
        if at.counts.any():
            result[j] = law.radius(at, beta, alone=True)
    return law.in_units(result)


def _levels(tally: Tally, law: RoundLaw, weights: Floats, alone: Floats) -> tuple[Level, ...]:
    """What each level says, or each band of a ladder, named by its largest epsilon."""
    counts, result = tally.by_level()[law.used], []
    for k, numbers in enumerate(alone):
        mine = np.flatnonzero(law.groups == k)
        n = counts[mine]
        weight = float((n * weights[mine]).sum() / n.sum()) if n.sum() else float(weights[mine[0]])
        epsilon = float(tally.round.menu[law.used[int(mine[-1])]])
        result.append(Level(epsilon, int(n.sum()), weight, law.in_units(numbers, around=True)))
    return tuple(result)


def item_oracle(tally: Tally, *, weights: str = TESTED, coordinate: int = 0) -> ItemOracle:
    """Return an oracle for the shares of single items, from a Hadamard or sketch round.

    Parameters
    ----------
    tally : Tally
        The reports. An item costs a pass over the rows.
    weights : {"tested", "uniform", "minimax"}, default "tested"
        As for `estimate`; "tested" tests each item.
    coordinate : int, default 0
        The coordinate.

    Returns
    -------
    ItemOracle
        Gives the share of an item.
    """
    validate.choice("weights", weights, list(CHOICES))
    if tally.round.rows is None:
        raise ArgumentError(
            "tally", tally.round.mechanism, "keeps every item", "read them from the estimate"
        )
    return ItemOracle(tally, weights, coordinate)
