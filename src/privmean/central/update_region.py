"""Limits that leave too many people beyond are moved as far as those are: one private choice.

Candidates are the edges of the signed logarithmic grid around the origin from the farther limit on:
the upper limit moves there, or the lower one to as far on the other side, or both; and the limits
before they were narrowed to a part of the values. The score is minus the people who are then
beyond; one person moves each by at most 1 (docs/proofs/default-mean.md, section 8).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from privmean.central.bound_pairs import EDGES, MOVED, SNUG, WORDS, ZERO
from privmean.central.pure_budget import PureBudgetSpender, floor_epsilon
from privmean.data.grids import LOG_BINS, LOG_ZERO
from privmean.data.person_table import Integers
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_argmax import Choice

FARTHEST = 48  # half octaves beyond the farther limit
BRAKE = 1.0  # what each costs, in noise scales
BACK = 12.0  # and what the first limits cost
COST, LEAST_PART, MOST_PART = 60.0, 0.1, 0.4  # people beyond, times the price; parts of the rest


def update_bounds(
    curator: Curator,
    column: int,
    origin: float,
    first: tuple[float, float],
    limits: tuple[float, float],
    beyond: float,
    spender: PureBudgetSpender,
) -> tuple[float, float]:
    """The limits, of which one or both were moved out to a chosen edge; or `first`, which they
    were narrowed from. beyond: noisy number of people beyond them."""
    wanted = max(Fraction(LEAST_PART) * spender.left, Fraction(COST / max(beyond, 1.0)))
    price = floor_epsilon(min(Fraction(MOST_PART) * spender.left, wanted))
    up, down = limits[1] - origin, origin - limits[0]
    start = int(np.searchsorted(EDGES[ZERO + 1 :], max(up, down), side="left"))
    last = min(start + FARTHEST, LOG_BINS - 1)
    people = curator.people
    counts = people.log_counts(column, origin)
    above = np.cumsum(counts[:LOG_BINS][::-1])[::-1][start : last + 1]
    below = np.cumsum(counts[LOG_ZERO + 1 :][::-1])[::-1][start : last + 1]
    under, over = people.count_outside(column, *limits)
    scores: list[Integers] = [above + under, below + over, above + below]
    steps = np.arange(len(above), dtype=np.int64)
    public = np.rint(steps * BRAKE * float(MOVED / price)).astype(np.int64)
    mechanism = Choice("limits moved", spender.spend(price), spender.relation, MOVED, WORDS)
    back = sum(people.count_outside(column, *first)) + round(BACK * float(MOVED / price))
    alone = np.array([-back, -(under + over)], dtype=np.int64)
    every = np.concatenate([alone, *(-(score + public) for score in scores)])
    index = int(curator.ask(mechanism, every)) - len(alone)
    if index < 0:
        return (first, limits)[index + len(alone)]
    side, step = divmod(index, len(steps))
    edge = float(EDGES[ZERO + 1 + start + step]) * SNUG
    lower = origin - edge if side else limits[0]
    upper = origin + edge if side != 1 else limits[1]
    return min(lower, limits[0]), max(upper, limits[1])
