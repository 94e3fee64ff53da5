"""Whether rounds that carry the origin into the data leave a group behind: people beside a value
that most share, who stay where they are while every round follows that value to its next digits.

The rounds' own histograms say how many are missed, one question how many of these are far away, and
then the origin goes back to where they were beside it. docs/proofs/default-mean.md, sections 1, 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from privmean.central.log_histogram import Histogram, Window, bin_edge, concentrated
from privmean.central.pure_budget import TICK, PureBudgetSpender, floor_epsilon
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_counts import as_counts

WINDOW, PAIR = 4, 2  # bins that a round moves for, and those that hold a value that most share
DEVIATION = 2.0  # of a number in two bins, in noise scales of a bin
ROUNDS, MISSED = 2, 2.0  # so many rounds before the last one miss so many deviations of their mean
BESIDE, DOUBT = 6.0, 2.0  # log likelihood for an origin nearer than 0, and from which to wait
NEARER = 1 / 32  # the last window's farther edge, of that where they were beside the value
SEEN = 26.0  # noise scales of a look that shows them from here,
NARROWER = 1.0  # and more of these for each half octave that the last window is narrower
AWAY = 8.0  # times the farther edge of the last window: three octaves beyond all that it held
PRICE, MOST = 12.0, 0.2  # epsilon times the people missed; at most so much of what is left
APART = 0.25  # part of those missed that are away
CERTAIN, MORE_CERTAIN = 8.0, 10.0  # noise scales of their number; where no round missed them


@dataclass(frozen=True)
class OverlookedGroup:
    """About how many people the rounds miss, less a deviation; and after how many rounds the
    origin was where those were beside it."""

    n: float
    rounds: int
    certain: float


def find_overlooked(
    lost: Sequence[float], scale: float, least: float = 0.0
) -> OverlookedGroup | None:
    """What rounds say that held all but `lost` people in two bins, with this noise scale of a bin;
    `least`: there are no more rounds, and so many are asked for anyway.

    The first ones may have held everybody: those missed are as near to the value that the later
    ones follow as it was to the origin then.
    """
    every = np.asarray(lost)
    sd = DEVIATION * scale
    fits = [
        float((every[:start] ** 2).sum() + ((every[start:] - every[start:].mean()) ** 2).sum())
        for start in range(len(every))
    ]
    start, gain = 0, 0.0
    if fits:
        start = int(np.argmin(fits))
        gain = (fits[0] - fits[start]) / (2 * sd * sd)
    if gain <= BESIDE:
        if gain > DOUBT and not least:
            return None
        start = 0
    later = every[start:]
    mean, error = (float(later.mean()), sd / math.sqrt(len(later))) if fits else (0.0, 0.0)
    if len(later) >= ROUNDS and mean >= MISSED * error:
        return OverlookedGroup(mean - error, start, CERTAIN)
    return OverlookedGroup(least, 0, MORE_CERTAIN) if least else None


@dataclass
class OverlookedGroupCheck:
    """The rounds that moved the origin, and whether they left a group behind.

    away: the noisy number of people far from the origin and its scale, once it was asked for.
    scale: noise of a bin of the last round.
    """

    curator: Curator
    column: int
    spender: PureBudgetSpender
    lost: list[float] = field(default_factory=list)
    places: list[tuple[float, float]] = field(default_factory=list)
    away: tuple[float, float] | None = None
    scale: float = 0.0

    def moved(
        self, around: Histogram, window: Window, origin: float, there: float, doubt: float
    ) -> float:
        """After a round that saw `window` from `origin`: the next origin. there: people with a
        value, known to a noise scale of `doubt`."""
        self.places.append((origin, bin_edge(window.first + WINDOW)))
        self.lost.append(there - concentrated(around, PAIR).held)
        self.scale = math.hypot(around.scale, doubt)
        return origin + window.middle

    def start(self, origin: float, least: float, sees: float) -> float | None:
        """Where to look from, if the rounds, which led to `origin`, left a group behind: from here,
        if it is so large that the next look, with this noise scale, `sees` it; else one question
        is paid for, once, and the origin goes back. least: as in `missed`."""
        found = find_overlooked(self.lost[:-1], self.scale, least) if self.away is None else None
        edge = self.places[-1][1]
        if found is None or edge > NEARER * self.places[found.rounds][1]:
            return None
        narrower = 2 * math.log2(self.places[found.rounds][1] / edge)
        if found.n > (SEEN + NARROWER * narrower) * sees:
            return origin
        left = float(self.spender.left)
        price = floor_epsilon(min(PRICE / max(found.n, 1.0), MOST * left))
        price = max(price, Fraction(1, TICK))
        step = self.spender.counts("count far from coarse location", price, 1)
        far = origin - AWAY * edge, origin + AWAY * edge
        away = sum(self.curator.people.count_outside(self.column, *far))
        (number,) = self.curator.ask(step, as_counts(away))
        self.away = float(number), float(step.scale)
        if self.away[0] <= max(APART * found.n, found.certain * self.away[1]):
            return None
        return self.places[found.rounds][0]
