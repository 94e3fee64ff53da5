"""What a promise means to one person, by numbers: how good a guess about them can become.

Someone who knows all but one thing about a person tosses a fair coin between two tables of records
that are neighbours, sees the release of one of them and guesses which it was. Without the release
half of the guesses are right; with it at most the share given here, whatever else is known.

Under (epsilon, delta) the share is at most (e^epsilon + delta)/(1 + e^epsilon): the two errors of
any test satisfy a + e^epsilon b >= 1 - delta both ways (Wasserman and Zhou 2010; Kairouz, Oh and
Viswanath 2015), so that a + b >= 2 (1 - delta)/(1 + e^epsilon). Under rho-zCDP it is at most
(1 + t)/2 with t the total variation, for which three bounds hold: Pinsker's sqrt(rho/2) and
Bretagnolle and Huber's sqrt(1 - e^-rho), since the Kullback-Leibler divergence is at most rho (the
limit of order 1), and that of the (epsilon, delta) to which rho converts, at any epsilon.
"""

from __future__ import annotations

import math
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING

from privmean.errors import PrivmeanWarning
from privmean.privacy.zcdp import rho_delta

if TYPE_CHECKING:
    from privmean.privacy.guarantee import Guarantee


@lru_cache(maxsize=64)
def guess_right(epsilon: float | None, delta: float = 0.0, rho: float | None = None) -> float:
    """The largest share of right guesses about one person, where half were right before."""
    if rho is None:
        assert epsilon is not None
        return _approximate(epsilon, delta)
    variation = min(math.sqrt(rho / 2), math.sqrt(-math.expm1(-rho)))
    center = max(rho, 1e-9)
    points = (center * 1.15**k for k in range(-60, 61))
    curve = (_approximate(x, rho_delta(rho, x)) for x in points if x < 700)
    return min((1 + variation) / 2, *curve, 1.0)


def _approximate(epsilon: float, delta: float) -> float:
    odds = math.exp(-epsilon)
    return min(1.0, (1 + delta * odds) / (1 + odds))


def in_words(promise: Guarantee) -> str:
    """One sentence: "a guess about one person that was right 50 % of the time becomes right at most
    73 % of the time"."""
    share = guess_right(promise.epsilon, promise.delta, promise.rho)
    return (
        f"a guess about one {promise.unit} that was right 50 % of the time becomes right at most "
        f"{percent(share)} of the time"
    )


def warn_of_delta(promise: Guarantee, persons: int | None) -> None:
    """Say so where the promise leaves room for a release that shows one person outright.

    persons: their number where it is public, or a public guess of it. To publish the records of one
    person in a thousand keeps (0, 1/1000)-DP: a delta is a promise only far below 1/persons.
    """
    if persons and promise.delta * persons >= 1:
        warnings.warn(
            f"delta={promise.delta:g} is not below 1/persons ({persons} {promise.unit}s): such a "
            f"promise would be kept by showing one {promise.unit}'s records to everybody; give a "
            f"delta far below {1 / persons:.2g}",
            PrivmeanWarning,
            stacklevel=4,
        )


def percent(share: float) -> str:
    """A share from 0.5 to 1 in per cent, with as many digits as its distance to either end needs;
    "100 %" is said of certainty alone."""
    gap = min(share - 0.5, 1 - share)
    if gap <= 0:
        return f"{100 * share:.3g} %" if share < 1 else "100 %"
    digits = max(0, min(12, -math.floor(math.log10(100 * gap))))
    return f"{100 * share:.{digits}f} %"
