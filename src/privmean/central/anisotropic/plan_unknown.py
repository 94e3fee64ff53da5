"""The split of the variance stage's budget, decided from public numbers."""

from __future__ import annotations

import math

from privmean.central.anisotropic.scales import (
    WIDE_GRID,
    WIDE_ROUNDS,
    WINDOW,
    Counting,
    ScaleNoise,
)
from privmean.central.anisotropic.unknown import UnknownPlan, mean_stages
from privmean.errors import Infeasible
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.privacy.compose import rho_delta

CHOICE_ERROR = 1.5  # octaves by which a chosen column may fall short of the best
ALL_NOISE = 0.8  # octaves of noise a column up to which every column gets a scale of its own


def largest_rho(epsilon: float, delta: float) -> float:
    """The largest rho for which a rho-zCDP stage is (epsilon, delta)-DP."""
    low, high = 0.0, epsilon
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if rho_delta(middle, epsilon) <= delta else (low, middle)
    return low


def plan_unknown(
    budget: Budget,
    persons: int,
    dimension: int,
    relation: Relation,
    *,
    beta: float,
    scale_range: tuple[float, float] | None,
) -> UnknownPlan:
    """The plan for an unknown covariance. Raises Infeasible from public numbers."""
    if relation != REPLACE_ONE:
        raise Infeasible(
            "an unknown covariance needs halves and pairs of persons by position, which a person "
            "who comes or goes would shift",
            "use replace-one neighbours (the same roster), or give a public covariance bound",
        )
    assert budget.epsilon is not None
    first = persons - persons // 2
    stages = mean_stages(budget.epsilon, budget.delta, persons // 2, dimension)
    rho = largest_rho(budget.epsilon - 1e-9, budget.delta * (1 - 1e-9)) * (1 - 1e-9)
    noise = scale_noise(rho, first // 2, dimension, scale_range, beta)
    return UnknownPlan(budget, persons, dimension, noise, stages, scale_range, beta)


def scale_noise(
    rho: float,
    pairs: int,
    dimension: int,
    scale_range: tuple[float, float] | None,
    beta: float,
) -> ScaleNoise:
    """Shares of rho: 0.7 for choice and values, 0.3 for radii (less a tenth for the unit)."""
    unit = None
    if scale_range is None:
        unit = Counting(0.1 * rho, WIDE_ROUNDS, WIDE_GRID)
        window = WINDOW + math.log2(math.sqrt(dimension)) + 1
        rho *= 0.9
    else:
        window = math.log2(scale_range[1] / scale_range[0])
    move = window / pairs if pairs else math.inf
    everybody = move * math.sqrt(dimension / (2 * 0.7 * rho))
    top = dimension if everybody <= ALL_NOISE else choices(move, 0.5 * rho, dimension, beta)
    if top == dimension:
        values, choice, radii = 0.7 * rho, 0.0, (0.15, 0.15, 0.0)
    else:
        values, choice, radii = 0.2 * rho, 0.5 * rho, (0.1, 0.1, 0.1)
    return ScaleNoise(
        dimension,
        pairs,
        window,
        top,
        values,
        choice,
        Counting(radii[0] * rho),
        Counting(radii[1] * rho),
        Counting(radii[2] * rho) if radii[2] else None,
        unit,
    )


def choices(move: float, rho: float, dimension: int, beta: float) -> int:
    """The most columns, below all, whose choice is right within CHOICE_ERROR octaves."""
    k = 0
    while k < dimension - 1:
        error = 2 * move * math.sqrt((k + 1) / (8 * rho)) * math.log(dimension * (k + 1) / beta)
        if error > CHOICE_ERROR:
            break
        k += 1
    return k
