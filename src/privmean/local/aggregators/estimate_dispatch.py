"""From a tally to an estimate: one function for every mechanism."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError
from privmean.local.aggregators.batch import Batch
from privmean.local.aggregators.estimate_result import Estimate
from privmean.local.aggregators.item_law import is_row
from privmean.local.aggregators.item_oracles import ItemOracle, ReportOracle
from privmean.local.aggregators.item_shares import items_estimate
from privmean.local.aggregators.level_weights import CHOICES, MINIMAX, TESTED, UNIFORM
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
