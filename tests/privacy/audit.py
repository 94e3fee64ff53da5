"""An empirical distinguishing test: what can be told apart, and how surely.

A mechanism is run many times on each of two neighbours. On one half of the runs an event is sought
that tells the neighbours apart; on the other half its probabilities are bounded (Clopper and
Pearson), which gives a lower bound on epsilon that is wrong with probability at most ALPHA. A
correct mechanism stays below its claim; a broken one, seen through a revealing pair, does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from statistics_kit import ALPHA, epsilon_lower_bound

THRESHOLDS = 64
SEARCH_LEVEL = ALPHA / 2  # as in the bound itself, so that the event sought is the best for it


def lowest_bit(x: float) -> float:
    """The exponent of the lowest bit of a double, as a number: noise made of floats shows here."""
    if x == 0 or not math.isfinite(x):
        return math.nan
    mantissa = int(math.frexp(x)[0] * 2**53)
    return math.frexp(x)[1] - 53 + ((mantissa & -mantissa).bit_length() - 1)


def numbers_of(release: Any) -> list[float]:
    """The numbers a release holds, and the lowest bit of the estimate."""
    numbers = [float(release.failed), float(release.status != "ok")]
    numbers.append(math.nan if release.n is None else float(release.n))
    numbers += [float(x) for x in release.estimate]
    numbers += [lowest_bit(float(x)) for x in release.estimate]
    return numbers + _leaves(release.diagnostics)


def intervals_of(release: Any, *kinds: str) -> list[float]:
    """The numbers of its intervals, and the estimate's place in the region of values."""
    numbers: list[float] = []
    for kind in kinds:
        interval = getattr(release, kind)()
        numbers += [*interval.lower, *interval.upper, float(interval.status != "ok")]
        numbers += _leaves(interval.clip_bounds) + _leaves(interval.half_widths)
        for x, (low, high) in zip(release.estimate.tolist(), interval.clip_bounds, strict=False):
            numbers.append((x - (low + high) / 2) / (high - low) if high > low else math.nan)
    return numbers


def _leaves(tree: Any) -> list[float]:
    if isinstance(tree, Mapping):
        return [leaf for key in sorted(tree) for leaf in _leaves(tree[key])]
    if isinstance(tree, list | tuple | np.ndarray):
        return [leaf for item in tree for leaf in _leaves(item)]
    return [float(tree)] if isinstance(tree, int | float | np.number) else []


def collect(run: Callable[[], Sequence[float]], runs: int) -> np.ndarray:
    """The outputs of `runs` runs, shape (runs, features); short outputs are filled with NaN."""
    rows = [list(run()) for _ in range(runs)]
    width = max(len(row) for row in rows)
    table = np.array([row + [math.nan] * (width - len(row)) for row in rows])
    return np.where(np.isfinite(table), table, math.nan)


def epsilon_found(first: np.ndarray, second: np.ndarray, delta: float) -> float:
    """A lower confidence bound on epsilon from the outputs under two neighbours."""
    width = max(first.shape[1], second.shape[1])
    first, second = (
        np.pad(x, ((0, 0), (0, width - x.shape[1])), constant_values=math.nan)
        for x in (first, second)
    )
    half = min(len(first), len(second)) // 2
    train = np.vstack([first[:half], second[:half]])
    test = np.vstack([first[half : 2 * half], second[half : 2 * half]])
    best, event = -math.inf, None
    for score in _scores(train, half):
        for flip in (False, True):
            bound, threshold = _best_threshold(score(train), half, delta, flip)
            if bound > best:
                best, event = bound, (score, threshold, flip)
    if event is None:
        return 0.0
    score, threshold, flip = event
    hits = score(test) >= threshold
    a, b = int(hits[:half].sum()), int(hits[half:].sum())
    return epsilon_lower_bound(*((b, a) if flip else (a, b)), half, delta)


def _scores(train: np.ndarray, half: int) -> list[Callable[[np.ndarray], np.ndarray]]:
    """Each feature upwards and downwards, its absence, and all features together."""
    scores: list[Callable[[np.ndarray], np.ndarray]] = []
    live = [j for j in range(train.shape[1]) if len(np.unique(train[:, j])) > 1]
    for j in live:
        scores.append(lambda x, j=j: np.nan_to_num(x[:, j], nan=-np.inf))
        scores.append(lambda x, j=j: np.nan_to_num(-x[:, j], nan=-np.inf))
        scores.append(lambda x, j=j: np.isnan(x[:, j]).astype(float))
    if live:
        scores += _linear(train[:, live], half, live)
    tables = [_evidence(train[:, j], half) for j in live]

    def together(x: np.ndarray) -> np.ndarray:
        total = np.zeros(len(x))
        for j, (edges, ratio) in zip(live, tables, strict=True):
            total += ratio[_cells(x[:, j], edges)]
        return total

    return [*scores, together, lambda x: -together(x)]


def _linear(
    train: np.ndarray, half: int, live: list[int]
) -> list[Callable[[np.ndarray], np.ndarray]]:
    """The linear combination of the features that tells the two halves apart best, both ways."""
    middle, width = np.nanmedian(train, axis=0), np.nanstd(train, axis=0)
    width = np.where(width > 0, width, 1.0)

    def scaled(x: np.ndarray) -> np.ndarray:
        return np.nan_to_num(np.clip((x - middle) / width, -8, 8))

    z = scaled(train)
    spread = np.atleast_2d(np.cov(z.T)) + 1e-9 * np.eye(z.shape[1])
    weights = np.linalg.solve(spread, z[:half].mean(axis=0) - z[half:].mean(axis=0))
    return [lambda x, w=w: scaled(x[:, live]) @ w for w in (weights, -weights)]


def _cells(x: np.ndarray, edges: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x), len(edges) + 1, np.searchsorted(edges, x, side="right"))


def _evidence(x: np.ndarray, half: int) -> tuple[np.ndarray, np.ndarray]:
    """Log likelihood ratios of one feature by quantile cells (the last one is for NaN)."""
    known = x[~np.isnan(x)]
    edges = (
        np.unique(np.quantile(known, np.linspace(0, 1, 17)[1:-1])) if len(known) else np.zeros(0)
    )
    cells = _cells(x, edges)
    counts = [
        np.bincount(part, minlength=len(edges) + 2) + 1 for part in (cells[:half], cells[half:])
    ]
    return edges, np.log(counts[0] / counts[1])


def _best_threshold(score: np.ndarray, half: int, delta: float, flip: bool) -> tuple[float, float]:
    values = np.unique(score[np.isfinite(score)])
    if len(values) < 2:
        return -math.inf, 0.0
    if len(values) > THRESHOLDS:
        values = np.unique(np.quantile(values, np.linspace(0, 1, THRESHOLDS)))
        order = np.sort(score[np.isfinite(score)])
        values = np.unique(np.concatenate([values, order[:: max(1, len(order) // THRESHOLDS)]]))
    a = np.array([(score[:half] >= t).sum() for t in values])
    b = np.array([(score[half:] >= t).sum() for t in values])
    if flip:
        a, b = b, a
    p = np.where(a > 0, stats.beta.ppf(SEARCH_LEVEL, np.maximum(a, 1), half - a + 1), 0.0)
    q = np.where(b < half, stats.beta.ppf(1 - SEARCH_LEVEL, b + 1, np.maximum(half - b, 1)), 1.0)
    with np.errstate(divide="ignore"):
        bound = np.where(p > delta, np.log(np.maximum(p - delta, 1e-300) / q), -np.inf)
    i = int(np.argmax(bound))
    return float(bound[i]), float(values[i])
