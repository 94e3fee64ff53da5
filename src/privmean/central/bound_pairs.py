"""Pairs of limits to choose from, and how well each fits: one private choice finds both limits.

Candidates are the edges of the signed logarithmic grid, two an octave: a lower limit at or below
the origin with an upper one at or above it, and narrow pairs to one side of it. The score of a pair
is minus the largest of four numbers of persons: those cut off above and below, and those missing
just inside either limit. So a pair that cuts off many scores badly, and so does one that reaches
farther than people do. One person moves a score by at most 1 (docs/proofs/default-mean.md,
section 8). What is preferred among equals is public: places near a public guess of the size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt

from privmean.data.grids import LOG_BINS, LOG_LOW, LOG_ZERO, log_edges
from privmean.data.person_table import Integers
from privmean.mechanisms.noisy_argmax import Choice
from privmean.privacy.budget import Relation

Floats = npt.NDArray[np.float64]

EDGES: Floats = np.concatenate([-log_edges()[::-1], [0.0], log_edges()])
ZERO = LOG_BINS  # index of the edge 0
# log2 of the size of an edge; that of 0 is never read
_LEVELS: Floats = np.arange(LOG_LOW, LOG_LOW + LOG_BINS) / 2
_SIZES: Floats = np.concatenate([_LEVELS[::-1], [LOG_LOW / 2], _LEVELS])
MOVED = 2  # people over which scores range when one person is replaced, added or removed

SNUG = 2**0.25  # an outer limit lies so much beyond its edge, an inner one so much nearer
NARROW = 8.0  # an inner limit is kept where it is more than this part of the outer one
PLACES = 12  # half octaves inside a limit in which people are asked for
MOST_ASKED = 0.1  # of all persons: so many are asked for at most
BEYOND, WITHIN = 1.0, 0.15  # what half an octave beyond the guess and within it costs, in scales
WIDEST_LONE, TIGHT = 6, 2  # half octaves between the limits of a pair to one side of the origin
LONE, LESS, FOR_TIGHT = 1.5, 0.3, 4.0  # what such a pair is preferred by, in scales
WORDS = "every score by at most one"


@dataclass(frozen=True)
class BoundPairs:
    """Indices of the lower and upper edges of all candidates; lone: half octaves between them for
    pairs to one side of the origin, else 0."""

    lower: Integers
    upper: Integers
    lone: Integers

    @property
    def outer(self) -> Integers:
        """The index of the edge that is farther from the origin."""
        farther = np.abs(self.lower - ZERO) > np.abs(self.upper - ZERO)
        return np.where(farther, self.lower, self.upper)


@cache
def all_pairs() -> BoundPairs:
    """The public candidates, in a fixed order."""
    edges = len(EDGES)
    lower, upper = (
        axis.ravel() for axis in np.meshgrid(np.arange(ZERO + 1), np.arange(ZERO, edges))
    )
    apart = lower < upper
    found = [(lower[apart], upper[apart], np.zeros(int(apart.sum()), dtype=np.int64))]
    for width in range(1, WIDEST_LONE + 1):
        first = np.concatenate([np.arange(ZERO + 1, edges - width), np.arange(ZERO - width)])
        found.append((first, first + width, np.full(len(first), width)))
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    return BoundPairs(*columns)


def offsets(near: float) -> Floats:
    """What every pair is preferred by, in noise scales of a choice, for a guess `near` of the
    size of values. The brake beyond the guess makes a runaway cheaper than its noise is dear: half
    an octave of false width multiplies a variance by 2."""
    beyond = 2 * np.maximum(_SIZES - math.log2(near), 0)
    within = 2 * np.maximum(math.log2(near) - _SIZES, 0)
    edge = -(BEYOND * beyond + WITHIN * within)
    edge[ZERO] = 0.0
    pairs = all_pairs()
    about = edge[pairs.lower] + edge[pairs.upper]
    narrow = np.where(pairs.lone <= TIGHT, FOR_TIGHT, LONE - LESS * (pairs.lone - 1))
    return np.where(pairs.lone > 0, edge[pairs.outer] + narrow, about)


def asked_for(price: Fraction, persons: float) -> Integers:
    """People asked for within 1, 2, ... places inside a limit."""
    most = max(MOST_ASKED * persons, 0.0)
    each = float(MOVED / price)
    return np.array([math.floor(min(k * each, most)) for k in range(1, PLACES + 1)])


def fits(cells: Integers, asked: Integers) -> Integers:
    """Scores of all pairs, from counts in the layout of `cells_of`, without what is public."""
    positive, zero = cells[:LOG_BINS], int(cells[LOG_ZERO])
    negative = cells[LOG_ZERO + 1 : LOG_ZERO + 1 + LOG_BINS]
    up, down = np.cumsum(positive[::-1])[::-1], np.cumsum(negative[::-1])[::-1]
    everybody = int(up[0] + down[0]) + zero
    # people at or above every edge, and at or below it; those at 0 are on neither side of it
    above = np.concatenate([everybody - down[::-1], [up[0]], up])
    below = np.concatenate([down[::-1], [down[0]], everybody - up])
    reached_up, reached_down = above.copy(), below.copy()
    reached_up[ZERO] += zero
    reached_down[ZERO] += zero
    too_far_up = _unmet(reached_up, asked, everybody)
    too_far_down = _unmet(reached_down[::-1], asked, everybody)[::-1]
    at_upper, at_lower = np.maximum(above, too_far_up), np.maximum(below, too_far_down)
    pairs = all_pairs()
    worst: Integers = np.maximum(at_lower[pairs.lower], at_upper[pairs.upper])
    return -worst


def _unmet(reached: Integers, asked: Integers, everybody: int) -> Integers:
    """How many people are missing inside every limit, at worst over the places."""
    worst = np.zeros(len(reached), dtype=np.int64)
    for k, wanted in enumerate(asked, start=1):
        inside = np.concatenate([np.full(k, everybody), reached[:-k]])
        worst = np.maximum(worst, wanted - inside)
    return worst


def choice(name: str, price: Fraction, relation: Relation) -> Choice:
    """The mechanism that chooses one of them for `price`."""
    return Choice(name, price, relation, MOVED, WORDS)


def scored(cells: Integers, price: Fraction, persons: float, near: float) -> Integers:
    """What the choice is made by: fits in people, and what is public, rounded to people."""
    public = np.rint(offsets(near) * float(MOVED / price)).astype(np.int64)
    return fits(cells, asked_for(price, persons)) + public


def limits_of(index: int) -> tuple[float, float]:
    """The limits of a chosen pair, seen from the origin."""
    pairs = all_pairs()
    lower, upper = float(EDGES[pairs.lower[index]]), float(EDGES[pairs.upper[index]])
    upper = upper * SNUG if upper > 0 else upper / SNUG
    lower = lower * SNUG if lower < 0 else lower / SNUG
    if 0 < lower < upper / NARROW:
        lower = 0.0
    if 0 > upper > lower / NARROW:
        upper = 0.0
    return lower, upper


def is_tight(index: int) -> bool:
    """Whether a chosen pair is a narrow one to one side of the origin."""
    return 0 < int(all_pairs().lone[index]) <= TIGHT
