"""What a guarantee means to one person, by numbers: how good a guess about them can become.

Someone who knows all but one thing about a person tosses a fair coin between two tables of records,
sees the release of one of them and guesses which it was. Without the release half of the guesses
are right; with it at most the share given here, whatever else is known.

For two tables that are neighbors the share is at most (e^epsilon + delta)/(1 + e^epsilon) under
(epsilon, delta): the two errors of any test satisfy a + e^epsilon b >= 1 - delta both ways
(Wasserman and Zhou 2010; Kairouz, Oh and Viswanath 2015), so that
a + b >= 2 (1 - delta)/(1 + e^epsilon). Under rho-zCDP it is at most (1 + t)/2 with t the total
variation, for which three bounds hold: Pinsker's sqrt(rho/2) and Bretagnolle and Huber's
sqrt(1 - e^-rho), since the Kullback-Leibler divergence is at most rho (the limit of order 1), and
that of the (epsilon, delta) to which rho converts, at any epsilon.

Two tables that differ in a person's values are neighbors under replace-one. Under add-remove and
zero-out they are two steps apart, one to the table without the person (or with the values zeroed)
and one back, so that a guess about values has the loss of two steps: 2 epsilon with
(1 + e^epsilon) delta, or 4 rho (Bun and Steinke 2016, Proposition 27).
"""

from __future__ import annotations

import math
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING

from privmean.errors import PrivmeanWarning
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, ZERO_OUT
from privmean.privacy.zcdp import rho_delta

if TYPE_CHECKING:
    from privmean.privacy.guarantee import Guarantee


@lru_cache(maxsize=64)
def guess_bound(epsilon: float | None, delta: float = 0.0, rho: float | None = None) -> float:
    """The largest share of right guesses between two neighbors, where half were right before."""
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


def guess_right_of_values(promise: Guarantee) -> float:
    """The largest share of right guesses between two sets of values of one person."""
    if promise.neighbors == REPLACE_ONE:
        return guess_bound(promise.epsilon, promise.delta, promise.rho)
    if promise.rho is not None:
        return guess_bound(None, 0.0, 4 * promise.rho)
    assert promise.epsilon is not None
    return guess_bound(2 * promise.epsilon, (1 + math.exp(promise.epsilon)) * promise.delta)


def risk_sentence(promise: Guarantee) -> str:
    """What a guess gains, in one sentence: about values under replace-one, about presence (or
    zeroed values) and about values under the other relations."""
    share = percent(guess_bound(promise.epsilon, promise.delta, promise.rho))
    unit = promise.unit
    about = {
        REPLACE_ONE: f"about one {unit}",
        ADD_REMOVE: f"whether one {unit} is in the data",
        ZERO_OUT: f"whether one {unit}'s values were replaced by the center",
    }[promise.neighbors]
    sentence = (
        f"a guess {about} that is right 50% of the time without this release is right at most "
        f"{share} of the time with it"
    )
    if promise.neighbors == REPLACE_ONE:
        return sentence
    return f"{sentence}; a guess about a {unit}'s values, {percent(guess_right_of_values(promise))}"


def loss_text(promise: Guarantee) -> str:
    """The allowed loss in numbers, with its name."""
    if promise.rho is not None:
        return f"rho = {promise.rho:g} (zCDP)"
    if promise.delta:
        return f"epsilon = {promise.epsilon:g}, delta = {promise.delta:g} (approximate DP)"
    return f"epsilon = {promise.epsilon:g} (pure DP)"


def privacy_text(promise: Guarantee) -> str:
    """The whole guarantee: its numbers, unit and relation, and what they mean for a guess."""
    risk = risk_sentence(promise)
    loss = f"{loss_text(promise)}, {promise.unit} level, {promise.neighbors}"
    return f"{loss}. {risk[0].upper()}{risk[1:]}."


def warn_of_delta(promise: Guarantee, persons: int | None) -> None:
    """Say so where the guarantee leaves room for a release that shows one person outright.

    persons: their number where it is public, or a public guess of it. To publish the records of one
    person in a thousand keeps (0, 1/1000)-DP: a delta protects only far below 1/n.
    """
    if persons and promise.delta * persons >= 1:
        warnings.warn(
            f"delta={promise.delta:g} is not below 1/n (n={persons}). Publishing the records of "
            f"one {promise.unit} would satisfy this guarantee. Use a delta far below "
            f"{1 / persons:.2g}.",
            PrivmeanWarning,
            stacklevel=4,
        )


def percent(share: float) -> str:
    """A share from 0.5 to 1 in per cent, with as many digits as its distance to either end needs;
    "100%" is said of certainty alone."""
    gap = min(share - 0.5, 1 - share)
    if gap <= 0:
        return f"{100 * share:.3g}%" if share < 1 else "100%"
    digits = max(0, min(12, -math.floor(math.log10(100 * gap))))
    return f"{100 * share:.{digits}f}%"
