"""How much each level of the menu counts.

Source: Aliakbarpour, Fallah, Roy and Stevens (2025), with the weights that are minimax at every
epsilon (docs/proofs/local-scalar.md).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from privmean import validate
from privmean.local.coins import exact_epsilon
from privmean.local.descriptor import Round

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MINIMAX, UNIFORM, TESTED = "minimax", "uniform", "tested"
FEW = 50  # reports of a level whose own spread is not relied upon
CHOICES = (MINIMAX, UNIFORM, TESTED)


def level_weights(
    counts: Integers, variances: Floats, *, weights: str = MINIMAX
) -> tuple[Floats, float]:
    """The weight of one report of each level (sum over reports is 1), and sum w^2 v.

    counts: reports a level. variances: worst-case variance of a report of each level.
    "minimax": inversely to the variance, which minimises the worst case at every epsilon.
    "uniform": every report counts the same, as it must if epsilon may depend on the value.
    """
    validate.choice("weights", weights, [MINIMAX, UNIFORM])
    raw = 1.0 / variances if weights == MINIMAX else np.ones(len(variances))
    total = float((counts * raw).sum())
    if total <= 0:
        return np.zeros(len(variances)), float("inf")
    result = raw / total
    return result, float((counts * result**2 * variances).sum())


def freedom(counts: Floats, parts: Floats) -> float:
    """Degrees of freedom of a sum of variances, one part a level (Satterthwaite 1946).

    A level with few reports counts as FEW: its variance is not taken from them.
    """
    total = float(parts.sum())
    if not 0 < total < float("inf"):
        return float(FEW)
    return total**2 / float((parts**2 / np.maximum(counts - 1, FEW - 1)).sum())


def distance(counts: Floats, weights: Floats, variances: Floats) -> Floats:
    """The standard deviation of the estimate with these weights minus that with equal ones.

    counts, weights: shape (levels,). variances: of one report, shape (levels,) or (levels, width).
    """
    gap = counts * (weights - 1.0 / counts.sum()) ** 2
    result: Floats = np.sqrt(np.tensordot(gap, variances, axes=1))
    return result


def unevenness(counts: Floats, weights: Floats) -> float:
    """sum (w_i - 1/n)^2: times the variance between persons, what a weighted mean of the persons
    who reported is off their plain mean, if epsilon is not related to the values."""
    return float((counts * (weights - 1.0 / counts.sum()) ** 2).sum())


def capped_levels(round_: Round, epsilon_cap: object | None) -> list[float]:
    """The epsilon from which each level's weight is computed: at most the cap.

    A cap limits what a client gains by claiming a large epsilon; reports stay unbiased.
    """
    levels = [float(item) for item in round_.menu]
    if epsilon_cap is None:
        return levels
    cap = float(exact_epsilon("epsilon_cap", epsilon_cap))
    return [min(level, cap) for level in levels]
