"""Privacy loss distributions, rounded pessimistically.

Each mechanism is replaced by a pair of laws that dominates it (docs/proofs/composition.md):

* Gaussian parts by one continuous Gaussian (the lattice correction is added by the caller), whose
  curve is a closed form: it is never put on a grid;
* discrete Laplace noise by its own law for the whole shift on one answer, or on each of `spread`
  answers: a continuous Laplace law would understate the loss of a shift of a few steps;
* any other pure part, answers with several scales included, by randomized response of the same
  epsilon, the worst pair there is.

The pure parts are convolved on a grid (`convolution.py`), whose step follows the size of the loss,
so that memory does not depend on epsilon. NumPy does the arithmetic; tests compare it with exact
laws and with another library.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from privmean.privacy.loss import Laplace, Loss

if TYPE_CHECKING:
    from privmean.privacy.amplification import Profile

GRID_POINTS = 2**15
LARGEST_PURE, LARGEST_MU = 400, 25.0
TURNS, CLOSE = 200, 1e-10  # of the search for an epsilon: at most, and relative precision

Piece = tuple[Fraction, int]  # scale and shift of discrete Laplace noise


def _pieces(losses: Sequence[Loss]) -> Counter[Piece]:
    """The pure parts as discrete Laplace noise, with how often each occurs.

    Randomized response of epsilon is discrete Laplace noise of scale 1/epsilon against a shift
    of one step.
    """
    count: Counter[Piece] = Counter()
    for loss in losses:
        if not loss.pure:
            continue
        if isinstance(loss, Laplace) and not loss.joint:
            shift = math.floor(loss.sensitivity / loss.spread)
            if shift >= 1:
                count[loss.scale, shift] += loss.spread
            else:
                count[loss.spread / loss.pure, 1] += loss.spread
        else:
            count[1 / loss.pure, 1] += 1
    return count


def grid_helps(losses: Sequence[Loss]) -> bool:
    """Whether a grid can beat the closed forms: where not all noise is Gaussian.

    Losses far beyond any budget are left to the closed forms: a grid of them would overflow.
    """
    pure = sum((loss.pure for loss in losses), Fraction(0))
    mu_squared = math.fsum(loss.mu**2 for loss in losses)
    return 0 < pure <= LARGEST_PURE and mu_squared <= LARGEST_MU**2


def grid_delta(losses: Sequence[Loss], epsilon: float) -> float:
    """An upper bound on delta of the noise parts at `epsilon`."""
    profile, mu = _distribution(tuple(losses))
    return profile.with_gaussian(mu, epsilon)


def grid_epsilon(losses: Sequence[Loss], delta: float) -> float:
    """An upper bound on epsilon of the noise parts at `delta`; infinite if out of reach."""
    profile, mu = _distribution(tuple(losses))

    def at(epsilon: float) -> float:
        return profile.with_gaussian(mu, epsilon) - delta

    low, high = 0.0, float(profile.losses.max()) + mu * (mu / 2 + 40)
    below, above = at(low), at(high)
    if above > 0:
        return math.inf
    if below <= 0:
        return low
    for turn in range(TURNS):
        if high - low <= CLOSE * high:
            break
        # delta falls nearly as an exponential: a chord of its logarithm, and halves in turn
        part = math.log1p(below / delta)
        part /= part - math.log1p(max(above / delta, -0.999999))
        middle = low + (high - low) * (part if turn % 2 else 0.5)
        found = at(middle)
        if found <= 0:
            high, above = middle, found
        else:
            low, below = middle, found
    return high * (1 + 1e-12)


@lru_cache(maxsize=8)
def _distribution(losses: tuple[Loss, ...]) -> tuple[Profile, float]:
    """The law that dominates the pure parts, and mu of the Gaussian ones."""
    from privmean.privacy.convolution import convolved

    mu = math.sqrt(math.fsum(loss.mu**2 for loss in losses)) * (1 + 1e-15)
    rho = math.fsum(loss.rho for loss in losses)
    widest = float(sum(loss.pure for loss in losses)) + mu * (mu / 2 + 12)
    step = min(widest, rho + 12 * math.sqrt(2 * rho)) / GRID_POINTS
    return convolved(_pieces(losses), step), mu
