"""Mechanisms that meet people elsewhere than before a curator: each on pairs of exact answers.

Streams keep their own accounting, two servers add noise to shares, fixed designs are about
responses, and some mechanisms are asked by forms as published alone.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from privmean.auditing.coverage import of_answers
from privmean.auditing.findings import Findings
from privmean.auditing.fixed_noise import Answer, Endless
from privmean.auditing.replay import inspected, measured
from privmean.auditing.transcript import Compared, Parted, Recording, Replaying, Transcript
from privmean.data.person_table import ClipInterval
from privmean.mechanisms.above_threshold import HitsAbove
from privmean.mechanisms.exponential import TopChoices
from privmean.mechanisms.likeliest_bin import LikeliestBin
from privmean.mechanisms.location_search import LocationSearch
from privmean.mechanisms.noisy_share import NoisyShare
from privmean.mechanisms.stream_radius import RadiusSearch, sides_of
from privmean.mechanisms.weighted_sums import WeightedSums
from privmean.noise.simulated import SimulatedNoise

VALUES = (0.0, -1.0, 1.0, 8.0, 1e308, -1e308, 5e-324, 2.0**41, -(2.0**41), 3.5)
EPSILON = Fraction(2)


def pairs() -> Iterator[tuple[Any, Any, list[Any]]]:
    """A mechanism, an exact answer, and those of neighbors."""
    rows = np.linspace(-4, 9, 60)
    others: list[Any] = [np.concatenate([[value], rows[1:]]) for value in VALUES]
    lengths = [sides_of(item[:, None]) for item in (rows, *others)]
    yield RadiusSearch(60, EPSILON).mechanism, lengths[0], lengths[1:]
    averages = [1.0] * 40 + [9.0] * 20
    moved = [[value, *averages[1:]] for value in (1.0, 9.0, -3.0, 1e6)]
    yield LocationSearch("place", 2.0, EPSILON, 1e-6), averages, moved
    counts = np.array([1, 7, 3, 9, 2, 8, 5, 4, 6, 0], dtype=np.int64)
    near = [counts + change for change in (-1, 0, 1)]
    near += [counts + np.where(np.arange(10) == k, -1, 1) for k in (0, 3)]
    yield HitsAbove("columns", EPSILON, 2, "each count, by one", 6.0), counts, near
    yield TopChoices("columns", EPSILON, 2, "each score, by one", 1), counts, near
    bins = {3: 40, 5: 1, 9: 12}
    moved_one = [{**bins, 3: 39, 9: 13}, {3: 41, 9: 12}, {**bins, 5: 2, 9: 11}]
    yield LikeliestBin(EPSILON, 1e-6), bins, moved_one
    whole = 2**20 - 1
    shares = [[value, whole - value] for value in (0, whole, whole // 2)]
    yield NoisyShare(whole, 2, EPSILON), [0, 0], shares
    weights = np.array([[2**20, 1], [3, 2**20], [2**19, 2**19]], dtype=np.int64)
    box = ClipInterval(-1.0, 1.0)
    pure = WeightedSums("points", weights, epsilon=EPSILON)
    for sums in (pure, WeightedSums("points", weights, mu=0.5)):
        over: Any = sums.over(box)
        first = np.array([1.0, math.nan, 0.5])
        near = [np.array([value, math.nan, 0.5]) for value in (-1.0, 0.0, 1e308, math.nan)]
        near += [np.array([1.0, value, 0.5]) for value in (-1.0, 1.0)]
        yield over, over.exact(first), [over.exact(item) for item in near]


def audit_direct(found: Findings) -> None:
    """Every pair, by operands and by what the mechanism says."""
    for mechanism, exact, others in pairs():
        where = f"direct: {type(mechanism).__name__}"
        tried(mechanism, exact, others, where, found)
        found.subjects[where] = len(others)


def tried(
    mechanism: Any, exact: Answer, others: Sequence[Any], where: str, found: Findings
) -> None:
    """One answer, recorded by itself, and those of neighbors."""
    tape = Transcript()
    found.recorded += 1
    try:
        Recording(tape, SimulatedNoise(1)).answer(mechanism, exact)
    except Endless:
        found.violated(where, "a draw comes to no end: noise is drawn again until it suits")
        return
    found.seen |= set(of_answers(tape.answers))
    inspected(tape.answers, where, found)
    for other in others:
        compared = Compared()
        with contextlib.suppress(Parted):
            Replaying(tape, compared).answer(mechanism, other)
        if compared.difference:
            found.violated(where, compared.difference)
        measured(tape.answers, compared, where, found)
        found.runs += 1
