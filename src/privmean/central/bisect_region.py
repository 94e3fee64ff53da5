"""One part of known limits, chosen by the people in it: how values are narrowed down where a
histogram of what is left of the budget would show too little.

Candidates are 2^l equal parts of the limits for l = 0, 1, ..., and the same parts moved by
fractions of their length. Claim and proof: docs/proofs/default-mean.md, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean.central.pure_budget import PureBudgetSpender
from privmean.data.person_table import Integers
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_argmax import Choice
from privmean.privacy.budget import REPLACE_ONE

WORDS = "every score by at most one"


@dataclass(frozen=True)
class RegionBisection:
    """levels: halvings of the limits; shifts: how many copies of the parts, each moved by this
    part of their length; narrow: noise scales that a part half as long is preferred by."""

    levels: int
    shifts: int
    narrow: float

    def choose(
        self,
        curator: Curator,
        column: int,
        limits: tuple[float, float],
        price: Fraction,
        spender: PureBudgetSpender,
    ) -> tuple[float, float, int]:
        """The ends of the chosen part (a moved one may begin before the limits), and its level. A
        person is in one part of each kind: no score moves by more than 1, and all that one who is
        added or removed moves, move in the same direction."""
        change = 2 if spender.relation == REPLACE_ONE else 1
        lower, upper = limits
        finest = self.shifts << self.levels  # steps within the limits: all parts begin at one
        half = (upper - lower) / finest / 2
        below = finest * (self.shifts - 1) // (2 * self.shifts)  # and before them
        counts = np.zeros(below + finest, dtype=np.int64)
        for index, count in curator.people.uniform_counts(column, half, lower + half).items():
            if -below <= index < finest:
                counts[below + index] = count
        scores: list[Integers] = []
        found: list[tuple[float, float, int]] = []
        for level in range(self.levels + 1):
            parts, size = 2**level, finest >> level
            public = round(self.narrow * level * change / float(price))
            for moved in range(self.shifts if level else 1):
                shift = moved * size // self.shifts
                start = below - shift
                scores.append(counts[start : start + finest].reshape(parts, size).sum(1) + public)
                for k in range(parts):
                    first = lower + 2 * half * (k * size - shift)
                    found.append((first, first + 2 * half * size, level))
        mechanism = Choice("place", spender.spend(price), spender.relation, change, WORDS)
        return found[int(curator.ask(mechanism, np.concatenate(scores)))]
