"""What a round will tell before anybody answers: its mechanism and why, error, radius, limit.

The limit is what no locally private protocol can do better: lower bounds with their constants. For
any epsilon-locally private reports of these people, whatever the mechanism, and any estimate
made of them, some distribution of the values is estimated no better than this. Proofs:
docs/proofs/local-limits.md. Sources: Aliakbarpour, Fallah, Roy and Stevens (2025), Theorems 2.3
and 3.2, here with other constants and at every epsilon; Kairouz, Oh and Viswanath (2014); Barnes,
Chen and Ozgur (2020).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.bisection import bisect
from privmean.errors import ArgumentError
from privmean.local.aggregators.estimate_round import law_of
from privmean.local.aggregators.item_law import ItemRound
from privmean.local.aggregators.round_law import Weighed, level_weights
from privmean.local.choose_mechanism import Choice, choose, expected, level_shares, variance_of
from privmean.local.exact_coins import exact_epsilon
from privmean.local.reports import report_size
from privmean.local.round import BALL_BIT, BALLS, KINDS, SCALARS, SKETCH, Round
from privmean.local.round_builders import remade
from privmean.output import HasOutput, Output, TableRow, percent


@dataclass(frozen=True)
class Limit:
    """No protocol has a smaller worst root mean square error, nor a smaller radius.

    rmse: of one mean, of a vector (l2), or of one share. radius: with probability 1 - beta no
    protocol's error stays below it for every distribution. Both in units of the values; 0 where
    nothing is proved.
    """

    rmse: float
    radius: float


def lower_bound(round_: Round, epsilons: Sequence[object]) -> Limit:
    """Return the smallest error of any local protocol for the question of a round.

    Parameters
    ----------
    round_ : Round
        The round.
    epsilons : list of float or list of (float, int)
        One epsilon per person, or pairs (epsilon, n).

    Returns
    -------
    Limit
        Root mean square error and radius, in the unit of the value; 0 if nothing is proved.

    Notes
    -----
    Source: docs/proofs/local-limits.md.

    Examples
    --------
    from privmean.local import lower_bound, mean_round

    question = mean_round(-1, 1, epsilon=1, persons=10_000)
    assert round(lower_bound(question, [(1, 10_000)]).rmse, 4) == 0.0214
    """
    pairs = [item if isinstance(item, tuple) else (item, 1) for item in epsilons]
    if not pairs:
        raise ArgumentError(
            "epsilons", 0, "must hold an epsilon above 0", "give one epsilon per person"
        )
    values = np.array([float(exact_epsilon("epsilons", item)) for item, _ in pairs])
    counts = np.array([float(validate.nonnegative("persons", number)) for _, number in pairs])
    beta = round_.beta
    if round_.mechanism in SCALARS:
        low, high = np.array(round_.lower), np.array(round_.upper)
        half = (high - low) / 2
        sigma = np.minimum(np.array(round_.sigma or half) / half, 1.0)
        found = [
            (h * mean_rmse(values, counts, s), h * s * mean_radius(values, counts, beta))
            for h, s in zip(half, sigma, strict=True)
        ]
        worst = np.array(found).max(axis=0)
        return Limit(float(worst[0]), float(worst[1]))
    if round_.radius is not None and round_.dimension is not None:
        return Limit(
            round_.radius * vector_rmse(values, counts, round_.dimension),
            round_.radius * mean_radius(values, counts, beta),
        )
    assert round_.items is not None
    return Limit(
        mean_rmse(values, counts) / 2,
        max(
            mean_radius(values, counts, beta) / 2, share_radius(values, counts, round_.items, beta)
        ),
    )


def mean_rmse(epsilons: Floats, counts: Floats, sigma: float = 1.0) -> float:
    """For values in [-1, 1] of standard deviation at most sigma.

    Van Trees' inequality over means with a cosine prior, for values -1 and 1: there every private
    report is a blurred randomized response, of information t^2/(1 - t^2 mean^2).
    """
    t = np.tanh(epsilons / 2)
    # all means whose +-1 law has a standard deviation of at most sigma, and values +-sigma
    edge = math.sqrt(max(0.0, 1 - sigma**2))
    return max(
        _van_trees(t, counts, edge if sigma < 1 else -1.0),
        sigma * _van_trees(t, counts, -1.0),
    )


def _van_trees(t: Floats, counts: Floats, low: float) -> float:
    nodes, weights = np.polynomial.legendre.leggauss(64)
    prior = weights * np.cos(math.pi * nodes / 2) ** 2
    best = 0.0
    for part in np.geomspace(1e-3, 1.0, 40):
        for middle in {(low + 1) / 2, low + part * (1 - low) / 2}:
            reach = part * (1 - low) / 2
            mean = middle + reach * nodes
            told = counts[:, None] * t[:, None] ** 2 / (1 - (t[:, None] * mean) ** 2)
            total = float((prior * told.sum(axis=0)).sum()) + (math.pi / reach) ** 2
            best = max(best, 1 / total)
    return math.sqrt(best)


def mean_radius(epsilons: Floats, counts: Floats, beta: float) -> float:
    """For values -1 and 1: the largest d such that means d and -d cannot be distinguished.

    If prod (1 - d^2 t^2) > 4 beta (1 - beta), no test of reports errs with at most beta on both
    sides.
    """
    t = np.tanh(epsilons / 2)
    wanted = math.log(4 * beta * (1 - beta))

    def alike(d: float) -> bool:
        return float((counts * np.log1p(-((d * t) ** 2))).sum()) > wanted

    return bisect(alike, 0.0, 1.0, 60)[0]


def vector_rmse(epsilons: Floats, counts: Floats, dimension: int) -> float:
    """For vectors of the unit ball, l2: the largest bound over cubes of 1 to `dimension` sides."""
    best = mean_rmse(epsilons, counts)
    told = np.sinh(np.minimum(epsilons, 50.0) / 2) ** 2
    for k in np.unique(np.geomspace(2, max(2, dimension), 60).astype(int)):
        if k > dimension:
            continue
        information = float((counts * np.minimum(told, k)).sum())
        for a in np.linspace(0.05, 0.999, 60):
            square = k / (information / (1 - a * a) + k * (math.pi / a) ** 2)
            best = max(best, math.sqrt(square))
    return best


def share_radius(epsilons: Floats, counts: Floats, items: int, beta: float) -> float:
    """For shares of items, all at once, where everybody answers without waiting for others: Fano's
    inequality over which of them is a little more frequent."""
    information = float(
        (counts * np.minimum(np.sinh(np.minimum(epsilons, 50.0) / 2) ** 2, items - 1)).sum()
    )
    room = (1 - beta) * math.log(items) - math.log(2)
    return min(0.5, math.sqrt(max(0.0, room) / information) / 2)


@dataclass(frozen=True)
class RoundPlan(HasOutput):
    """What a round costs and tells.

    choice: what the rule prefers for this question, and why; mechanism: what the round uses.
    bytes: of a report. rmse: expected root mean square error at worst (of one mean; of a vector,
    l2; of one share, if it is about a half). radius: with weights by what each level tells.
    limit: what no other protocol can do better, for the worst distribution.
    """

    mechanism: str
    choice: Choice
    persons: int
    bytes: int
    rmse: float
    radius: float
    beta: float
    limit: Limit

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {
            "mechanism": self.mechanism,
            "preferred": self.choice.mechanism,
            "why": self.choice.reason,
            "persons": self.persons,
            "bytes": self.bytes,
            "rmse": self.rmse,
            "radius": self.radius if math.isfinite(self.radius) else None,
            "beta": self.beta,
            "limit": asdict(self.limit),
            "candidates": [asdict(item) for item in self.choice.candidates],
        }

    def output(self) -> Output:
        """What `print` shows: every usable mechanism, and the error of the one that is used."""
        chosen = self.mechanism == self.choice.mechanism
        rows = []
        for item in self.choice.candidates:
            cells = f"{item.variance:.4g}", f"{item.bytes:,}"
            rows.append(TableRow(item.mechanism, cells))
        return Output(
            f"Collection round: {self.mechanism}",
            f"n = {self.persons:,} people (planned); {self.bytes:,} bytes per report",
            ("variance x n", "bytes"),
            tuple(rows),
            (),
            (
                f"Expected error {self.rmse:.4g} at worst; no protocol has less than "
                f"{self.limit.rmse:.4g}.",
                f"Radius {self.radius:.4g} at {percent(1 - self.beta)}; no protocol has less than "
                f"{self.limit.radius:.4g}.",
            ),
            (("Method" if chosen else "Least variance", f"{self.choice.reason}."),),
        )


def choice_of(round_: Round, *, mix: Sequence[float] | None = None) -> Choice:
    """What the rule says of the question of a finished round (which may use another mechanism)."""
    kind = KINDS["items"]
    if round_.mechanism in SCALARS:
        kind = KINDS["numbers"]
    elif round_.mechanism in BALLS:
        kind = KINDS["vectors"] if (round_.dimension or 1) > 1 else (BALL_BIT,)
    elif round_.mechanism == SKETCH:
        kind = (SKETCH,)
    names = kind if round_.mechanism in kind else (*kind, round_.mechanism)
    return choose(lambda name: remade(round_, name), names, mix=mix)[1]


def plan_round(round_: Round, *, mix: Sequence[float] | None = None) -> RoundPlan:
    """Plan a round from public numbers.

    Parameters
    ----------
    round_ : Round
        The round.
    mix : list of float, optional
        Expected share of people at each level. Default: equal shares.

    Returns
    -------
    RoundPlan
        Mechanism, report size and predicted errors.

    Privacy
    -------
    Reads no data and charges nothing.

    Examples
    --------
    from privmean.local import items_round, plan_round

    plan = plan_round(items_round(16, epsilon=2, persons=10_000))
    assert (plan.mechanism, plan.bytes) == ("subset", 44)
    """
    levels, parts = level_shares(round_, mix)
    menu = [round_.menu[k] for k in levels]
    persons = [(item, float(p) * round_.persons) for item, p in zip(menu, parts, strict=True)]
    return RoundPlan(
        mechanism=round_.mechanism,
        choice=choice_of(round_, mix=mix),
        persons=round_.persons,
        bytes=report_size(round_),
        rmse=_error(round_, mix),
        radius=_radius(round_, levels, parts * round_.persons),
        beta=round_.beta,
        limit=lower_bound(round_, persons),
    )


def _error(round_: Round, mix: Sequence[float] | None) -> float:
    """The expected error at worst over the data."""
    levels, parts = level_shares(round_, mix)
    law = law_of(round_, levels)
    if not isinstance(law, ItemRound):
        return math.sqrt(variance_of(round_, mix) / round_.persons)
    shares = (law.variances(p) for p in np.linspace(0, 1, 101))
    one = max(float(expected(parts, law.trusted, v)[0]) for v in shares)
    found = math.sqrt(one * law.sites / round_.persons)
    return (
        math.hypot(found, 1 / math.sqrt(round_.rows or 1)) if round_.mechanism == SKETCH else found
    )


def _radius(round_: Round, levels: list[int], persons: Floats) -> float:
    """The radius if so many people answered at these levels (at equal shares of items)."""
    law = law_of(round_, levels)
    n, beta = np.maximum(1.0, np.round(persons / law.sites)), round_.beta / law.sites
    flat = np.full(law.width, 1 / law.width)
    found = []
    for j, scale in enumerate(law.scale):
        at = Weighed(j, n, level_weights(n, law.trusted[:, j]), flat)
        found.append(float(np.max(scale * law.radius(at, beta))))
    return max(found)
