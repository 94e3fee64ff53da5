"""Privacy loss distributions on a grid, rounded pessimistically (dp-accounting).

Each mechanism is replaced by a pair of laws that dominates it (docs/proofs/composition.md):

* Gaussian parts by one continuous Gaussian (the lattice correction is added by the caller);
* discrete Laplace noise by its own law for the whole shift on one answer,
or on each of `cells_changed`
  answers: a continuous Laplace law would understate the loss of a shift of a few steps;
* any other pure part, answers with several scales included, by randomized response of the same
  epsilon, the worst pair there is.

The grid's step follows the size of the loss, so that memory does not depend on epsilon. What is
planned is composed here; what is verified is composed a second time, in another way
(`laplace_convolution.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from privmean.privacy.privacy_events import Laplace, PrivacyEvent

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

GRID_POINTS = 2**15
LONGEST_SHIFT = 2**13  # steps; longer shifts are coarsened, which dominates them
# The grid's own arithmetic is not rounded outward. A piece's cells are differences of exact deltas
# (2^15 cells of error 2^-52) and convolutions go through FFTs (sqrt(2^17 cells) times the error
# 3 * 17 * 2^-53 of a transform of unit mass): together at most this much delta a piece.
GRID_DELTA = 1e-11

LARGEST_PURE, LARGEST_MU = 400, 25.0
MOST_PIECES = 10**6  # of which arithmetic alone may lose a delta of 1e-5

Piece = tuple[Fraction, int]  # scale and shift of discrete Laplace noise


def pieces_of(losses: Sequence[PrivacyEvent]) -> Counter[Piece]:
    """The pure parts as discrete Laplace noise, with how often each occurs.

    Randomized response of epsilon is discrete Laplace noise of scale 1/epsilon against a shift
    of one step.
    """
    count: Counter[Piece] = Counter()
    for loss in losses:
        if not loss.pure:
            continue
        if isinstance(loss, Laplace) and not loss.joint:
            shift = math.floor(loss.sensitivity / loss.cells_changed)
            if shift >= 1:
                count[loss.scale, shift] += loss.cells_changed
            else:
                count[loss.cells_changed / loss.pure, 1] += loss.cells_changed
        else:
            count[1 / loss.pure, 1] += 1
    return count


def grid_helps(losses: Sequence[PrivacyEvent]) -> bool:
    """Whether a grid can beat the closed forms: where not all noise is Gaussian.

    Losses far beyond any budget, and parts without number, are left to the closed forms: a grid of
    them would overflow.
    """
    pure = sum((loss.pure for loss in losses), Fraction(0))
    mu_squared = math.fsum(loss.mu**2 for loss in losses)
    few = (
        sum(loss.cells_changed if isinstance(loss, Laplace) else 1 for loss in losses)
        <= MOST_PIECES
    )
    return few and 0 < pure <= LARGEST_PURE and mu_squared <= LARGEST_MU**2


def grid_delta(losses: Sequence[PrivacyEvent], epsilon: float) -> float:
    """An upper bound on delta of the noise parts at `epsilon`."""
    total, slack = _distribution(tuple(losses))
    return float(total.get_delta_for_epsilon(epsilon)) + slack


def gaussian_and_step(losses: Sequence[PrivacyEvent]) -> tuple[float, float]:
    """mu of the Gaussian parts together, and the step of a grid for all parts."""
    mu = math.sqrt(math.fsum(loss.mu**2 for loss in losses)) * (1 + 1e-15)
    rho = math.fsum(loss.rho for loss in losses)
    widest = float(sum(loss.pure for loss in losses)) + mu * (mu / 2 + 12)
    return mu, min(widest, rho + 12 * math.sqrt(2 * rho)) / GRID_POINTS


@lru_cache(maxsize=8)
def _distribution(losses: tuple[PrivacyEvent, ...]) -> tuple[PrivacyLossDistribution, float]:
    """The composed distribution of the noise parts, and the delta its arithmetic may have lost."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    pure = pieces_of(losses)
    mu, interval = gaussian_and_step(losses)
    total: Any = None
    if mu:
        total = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=interval)
    for piece, times in sorted(pure.items()):
        one = _one(piece, interval)
        many = one.self_compose(times) if times > 1 else one
        total = many if total is None else total.compose(many)
    return total, GRID_DELTA * (pure.total() + 1)


def _one(piece: Piece, interval: float) -> PrivacyLossDistribution:
    from dp_accounting.pld import privacy_loss_distribution as pld

    scale, shift = piece
    if shift > LONGEST_SHIFT:
        coarser = 2 * shift // LONGEST_SHIFT
        shift, scale = -(-shift // coarser), scale / coarser
    return pld.from_discrete_laplace_mechanism(
        math.nextafter(float(1 / scale), math.inf),
        shift,
        value_discretization_interval=interval,
        use_connect_dots=True,
    )
