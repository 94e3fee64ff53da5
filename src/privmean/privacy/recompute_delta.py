"""Privacy loss distributions a second time: what verification composes, by NumPy alone.

The pairs of laws are those of `loss_distribution.py`. The pure parts are convolved on a grid
(`laplace_convolution.py`); the Gaussian ones together are one closed form, never put on a grid
(docs/proofs/composition.md, section 1). Independent of the library that composes plans, and
without the time of its import.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from privmean.privacy.amplification import AmplifiedProfile
from privmean.privacy.laplace_convolution import convolved
from privmean.privacy.loss_distribution import gaussian_and_step, pieces_of
from privmean.privacy.privacy_events import PrivacyEvent


def recomputed_delta(losses: Sequence[PrivacyEvent], epsilon: float) -> float:
    """An upper bound on delta of the noise parts at `epsilon`."""
    profile, mu = _distribution(tuple(losses))
    return profile.with_gaussian(mu, epsilon)


@lru_cache(maxsize=8)
def _distribution(losses: tuple[PrivacyEvent, ...]) -> tuple[AmplifiedProfile, float]:
    """The law that dominates the pure parts, and mu of the Gaussian ones."""
    mu, step = gaussian_and_step(losses)
    return convolved(pieces_of(losses), step), mu
