"""Steps of the published variance stage: groups, stable histograms, columns above a level."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from scipy.stats import chi2

from privmean.data.person_table import Floats, Integers
from privmean.mechanisms.above_threshold import HitsAbove
from privmean.mechanisms.likeliest_bin import LikeliestBin
from privmean.privacy.privacy_events import PrivacyEvent

BINS = 200  # variances from 4^-200 to 4^200
ZERO_BIN = -BINS - 1


def group_pairs(dimension: int) -> int:
    """The least pairs a group for which all variances are right within 2 w.p. 7/8 or more.

    A union bound over columns, which may be dependent.
    """
    pairs = 1
    while True:
        wrong = float(chi2.sf(2 * pairs, pairs) + chi2.cdf(pairs / 2, pairs))
        if dimension * wrong <= 1 / 8:
            return pairs
        pairs += 1


def group_variances(x: Floats, pairs: int) -> Floats:
    """Variances by group of 2 `pairs` people in the roster's order, shape (m, d)."""
    m = len(x) // (2 * pairs)
    rows = x[: 2 * pairs * m].reshape(m * pairs, 2, x.shape[1])
    with np.errstate(all="ignore"):
        square = (rows[:, 0] - rows[:, 1]) ** 2
    square = np.where(np.isfinite(square), square, 0.0)
    return np.asarray(square.reshape(m, pairs, -1).sum(axis=1) / (2 * pairs))


def variance_bins(values: Floats) -> dict[int, int]:
    """How many values lie in each occupied [4^b, 4^(b+1))."""
    with np.errstate(divide="ignore"):
        b = np.floor(np.log2(values) / 2)
    b = np.where(values > 0, np.clip(b, -BINS, BINS), ZERO_BIN).astype(np.int64)
    bins, counts = np.unique(b, return_counts=True)
    return dict(zip(bins.tolist(), counts.tolist(), strict=True))


def variance_of(found: int | None) -> float | None:
    """2*4^b: between a quarter of and four times the truth where most groups are right."""
    if found is None:
        return None
    return 0.0 if found == ZERO_BIN else 2 * 4.0**found


def kth_largest(variances: Floats, k: int) -> Floats:
    """The k-th largest variance of every group (Algorithm 5 finds the likeliest bin of these)."""
    d = variances.shape[1]
    return np.asarray(np.partition(variances, d - k, axis=1)[:, d - k])


def groups_above(variances: Floats, level: float) -> Integers:
    """In how many groups each column's variance is above `level`."""
    return np.asarray(np.count_nonzero(variances >= level, axis=0))


def top_columns(k: int, epsilon: Fraction, groups: int) -> HitsAbove:
    """Algorithm 4: columns in order whose variance is above a level in most groups, at most k."""
    moved = "each count of groups, by one (above a noisy threshold, one answer a run)"
    return HitsAbove("columns", epsilon, k, moved, groups / 2)


def stage_losses(
    location: LikeliestBin, hit_epsilon: Fraction, single: LikeliestBin, k: int
) -> tuple[PrivacyEvent, ...]:
    """The worst-case accounting of the variance stage."""
    first = replace(location, name="largest variances")
    each = replace(single, name="variance of a column")
    return (*first.events, *top_columns(k, hit_epsilon, 0).events, *each.events * (k + 1))
