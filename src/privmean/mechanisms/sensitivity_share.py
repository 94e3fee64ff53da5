"""What a pair of exact answers costs, as a share of what a loss declares: exact fractions.

A mechanism's `moved` says how far two exact answers are apart in the currency of its losses. For
answers of neighbors no share may exceed 1: that is the sensitivity of the proof, tried on data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import zip_longest

import numpy as np

from privmean.privacy.privacy_events import Gaussian, Laplace, PrivacyEvent


def differences(exact: Iterable[int], other: Iterable[int]) -> list[int]:
    """Changes of whole numbers; answers that one of the two lacks count as 0 there."""
    if isinstance(exact, np.ndarray) and isinstance(other, np.ndarray) and len(exact) == len(other):
        changes: list[int] = (exact - other).tolist()  # counts and scores: far below 2^62
        return changes
    return [int(a) - int(b) for a, b in zip_longest(exact, other, fillvalue=0)]


def pure_share(cost: Fraction, loss: PrivacyEvent) -> Fraction:
    """An epsilon as a share of the pure loss."""
    return cost / loss.pure


def laplace_share(changes: Sequence[int], loss: Laplace) -> Fraction:
    """Changes of answers that all have noise of the loss's scale. Where the loss is that of
    `cells_changed` smaller answers, no single one may move by more than its part."""
    sizes = [abs(item) for item in changes]
    return max(sum(sizes), max(sizes, default=0) * loss.cells_changed) / loss.sensitivity


def gaussian_share(changes: Sequence[tuple[int, float]], loss: Gaussian) -> Fraction:
    """Squares of (change, deviation) pairs, in lattice steps, as a share of mu^2. More changed
    answers than the loss was counted for are a share above 1 by themselves."""
    moved = [(change, sd) for change, sd in changes if change]
    square = Fraction(0)
    for sd in {item for _, item in moved}:
        same = sum(change * change for change, item in moved if item == sd)
        square += same / Fraction(sd) ** 2
    share = square * (Fraction(loss.scale) / Fraction(loss.sensitivity)) ** 2
    return max(share, Fraction(len(moved), loss.answers)) if len(moved) > loss.answers else share


def choice_share(changes: Sequence[int], scale: Fraction, loss: PrivacyEvent) -> Fraction:
    """Changes of the scores of a choice with Exponential(scale) noise. What all scores have in
    common does not matter to it, so that the range of the changes counts."""
    width = max(changes, default=0) - min(changes, default=0)
    return pure_share(width / scale, loss)
