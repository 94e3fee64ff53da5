"""The accounting of the default mean of many columns: a path as long as any that a release can
take."""

from __future__ import annotations

import math

from privmean.central.vector_location import ALL_LOOKS, FIRST, TWO_LOOKS, look_counts
from privmean.central.vector_rounds import LAST, LAST_NORMS, LAST_TAILS, MOST_ROUNDS, norm_counts
from privmean.mechanisms.gaussian_sums import FINEST
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.privacy_events import Gaussian, PrivacyEvent


def bill(dimension: int, mu: float, tails: bool = False) -> tuple[PrivacyEvent, ...]:
    """A longest path at a total of mu: no release has more answers or a larger sum of squares."""
    looks = (FIRST, TWO_LOOKS - FIRST, ALL_LOOKS - TWO_LOOKS)
    losses: list[PrivacyEvent] = [
        look_counts(dimension, mu * math.sqrt(part)).loss for part in looks
    ]
    small = 0.01
    losses += [norm_counts(mu * math.sqrt(small)).loss] * MOST_ROUNDS
    sums = _sums("sums of rows and sizes", 2 * dimension, mu * math.sqrt(small))
    losses += sums * (MOST_ROUNDS - 1)
    losses.append(norm_counts(mu * math.sqrt(LAST_NORMS)).loss)
    left = 1 - ALL_LOOKS - (2 * MOST_ROUNDS - 1) * small - LAST_NORMS
    name, answers = (LAST_TAILS, 3) if tails else (LAST, 2)
    return (*losses, *_sums(name, answers * dimension, mu * math.sqrt(left)))


def _sums(name: str, answers: int, mu: float) -> tuple[Gaussian, ...]:
    return (Gaussian(name, mu * FINEST, FINEST, answers, neighbors=REPLACE_ONE),)
