"""How little may be asked of one mechanism: below, no exact sampler draws noise so wide."""

from __future__ import annotations

from fractions import Fraction

from privmean.errors import InfeasibleError
from privmean.noise.noise_source import LARGEST_SCALE

# Sums whose noise is wider than 2^54 steps are rounded to a lattice on which one step is a change
# of at most 2^-53 scales. At a loss of 2^-40 that adds 2^-13 of it an answer, which the noise pays
# for; at a loss of 2^-90 it would multiply the noise by 2^37.
SMALLEST_LOSS = 2.0**-40
REMEDY = "give a larger epsilon or delta, or release fewer columns"


def require_loss(name: str, loss: Fraction | float) -> None:
    """Raise InfeasibleError if `loss` (epsilon or mu of the mechanism called `name`) is too small.

    Asked when a mechanism is made, which is when it is planned.
    """
    if not loss >= SMALLEST_LOSS:
        raise InfeasibleError(
            f"the privacy loss of {name!r}, {float(loss):.3g}, must be at least 2^-40",
            REMEDY,
        )


def require_drawn(name: str, scale: Fraction | float) -> None:
    """Raise InfeasibleError if noise of this scale, in steps, is never drawn."""
    if not scale <= LARGEST_SCALE:
        raise InfeasibleError(
            f"the noise of {name!r} is too wide to be drawn exactly",
            REMEDY,
        )
