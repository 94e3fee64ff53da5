"""From a tally to an estimate: one function for every mechanism."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError
from privmean.local.aggregators.batch import Batch
from privmean.local.aggregators.estimate import Estimate
from privmean.local.aggregators.item_law import is_row
from privmean.local.aggregators.item_oracles import ItemOracle, ReportOracle
from privmean.local.aggregators.item_shares import items_estimate
from privmean.local.aggregators.level_weights import CHOICES, MINIMAX, PUBLISHED, TESTED, UNIFORM
from privmean.local.aggregators.scalar_estimate import scalar_estimate
from privmean.local.aggregators.tally import Tally
from privmean.local.aggregators.vector_estimate import ball_estimate
from privmean.local.mechanisms import BALLS, SCALARS


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
    related), "minimax" (by what each level's reports tell, untested), or "published" (as the
    source prints them, `published_weights`). epsilon_cap: weights are
    computed as if no epsilon were larger, which limits poisoning by claimed levels. project:
    return distributions projected to the simplex (`raw` keeps the unbiased numbers).

    Guarantees. Post-processing of private reports: it cannot weaken anybody's privacy. The radius
    holds with probability 1 - beta if people are independent, all clients are honest (what others
    can do is `poisoning`), and epsilon is not related to the value. Equal weights do not need the
    last; tested ones fail besides with the probability that the test misses a relation, and
    `unseen` says how large one it may well miss.
    """
    failure = tally.round.beta if beta is None else validate.fraction("beta", beta)
    validate.choice("weights", weights, [*CHOICES, PUBLISHED])
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
    """Single items' shares on demand, from a Hadamard or sketch round of any size.

    reports: a tally (an item then costs a pass over the rows), or the reports themselves (a pass
    over the reports: for more rows than reports, where a sketch has next to no bias). weights: as
    in `estimate`; "tested" tests each item that is asked for.
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
