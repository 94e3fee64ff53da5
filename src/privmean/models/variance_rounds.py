"""The two adaptive searches for a variance: refinement (CoinPress) and bisection on coverage.

What every round costs is fixed by the plan, and so is the number of rounds, whatever the data
answer: constant data stop at the smallest variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from scipy.special import ndtri

from privmean.central.clipped_mean import ClippedMean
from privmean.data.person_table import ClipInterval
from privmean.inference.status import ASSUMPTION_VIOLATED, FAILED, OK
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.laplace_sums import JointLaplace
from privmean.privacy.budget import Relation

FINE = 4  # halvings of the octave that bisection ends in
GROWTH = Fraction(6, 5)  # of the epsilon of a refinement's rounds: the last ones decide


@dataclass(frozen=True)
class Scope:
    """Where a search looks: the public range of the deviation, a public rough center (the pair
    scale needs none), and gamma, the chance per person left outside."""

    smallest: float
    largest: float
    center: float
    gamma: float


@dataclass(frozen=True)
class Found:
    """What a search found. scale: the pair scale, or the deviation at which the last second moment
    was taken; moment: that moment (noisy, in units of scale^2); persons: what it was divided by;
    seen: for bisection, deviations tested from the accepted one on, with the noisy share covered.
    """

    variance: float
    status: str
    center: float | None
    scale: float
    moment: float = 0.0
    n: float = 0.0
    seen: tuple[tuple[float, float], ...] = ()


def clip_multiple(gamma: float) -> float:
    """beta: how many deviations a round of refinement keeps."""
    log = math.log(1 / gamma)
    return math.sqrt(1 + 2 * math.sqrt(log) + 2 * log)


def covered_at(gamma: float) -> float:
    """The deviation, over the true one, at which sqrt(2) deviations cover 1 - gamma of normal
    values."""
    return -float(ndtri(gamma / 2)) / math.sqrt(2)


def bisection_error(gamma: float, unit: float) -> float:
    """Deviation of the variance found over the true one: noise of deviation `unit` in the share
    covered, over its slope, and the last step's width."""
    z = math.sqrt(2) * covered_at(gamma)
    slope = z * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return math.hypot(unit / slope, math.log(4) / 2**FINE / math.sqrt(12))


def levels(smallest: float, largest: float) -> list[float]:
    """The deviations that bisection tests first: halved from the largest down to the smallest."""
    found = [largest]
    while found[-1] > smallest:
        found.append(max(found[-1] / 2, smallest))
    return found


@dataclass
class Search:
    """The private questions of a search. n: the public number of people, None under add-remove.

    always_n: divide by n even where null people show.
    """

    curator: Curator
    n: int | None
    relation: Relation
    always_n: bool = False
    empty: bool = False

    def midpoint(self, center: float, radius: float, epsilon: Fraction) -> tuple[float, float]:
        """The clipped mean around `center`, and what it was divided by (n less visible nulls);
        `empty` is then whether nobody was seen."""
        box = _box(center, radius)
        step = ClippedSums("midpoint", self.relation, 1, epsilon=epsilon).over([box])
        (sums,) = self.curator.ask(step, step.exact(self.curator.people.interval_sums([box])))
        mean = ClippedMean(box, sums, self.n, always_n=self.always_n)
        self.empty = mean.empty
        return mean.estimate, mean.weight

    def second_moment(self, center: float, radius: float, epsilon: Fraction) -> float:
        """Noisy sum of squared deviations clipped at `radius`, in units of radius^2: one person's
        share is at most 1."""
        box = _box(center, radius)
        (exact,) = self.curator.people.interval_sums([box])
        assert exact is not None
        moment = JointLaplace((box.steps**2,), (1,), epsilon, self.relation, "second moment")
        (noisy,) = self.curator.ask(moment, [exact.zz])
        return noisy

    def inside(self, center: float, radius: float, epsilon: Fraction) -> float:
        """Noisy number of people within `radius` of the center."""
        count = self.curator.people.count_in_interval([_box(center, radius)])
        (noisy,) = self.curator.ask(
            JointLaplace((1,), (1,), epsilon, self.relation, "coverage"), [count]
        )
        return noisy


def coinpress(scope: Scope, search: Search, spending: Sequence[Fraction]) -> Found:
    """Center and spread in turn, one round for each epsilon of `spending` (paid twice)."""
    center, sd, beta = scope.center, scope.largest, clip_multiple(scope.gamma)
    moment, scale, weight = 0.0, sd, 1.0
    for epsilon in spending:
        center, weight = search.midpoint(center, math.sqrt(2) * sd, epsilon)
        moment = search.second_moment(center, beta * sd, epsilon) * beta**2 / weight
        scale = sd
        # the terms added keep the next radius above the truth up to the noise, and above 0
        sd = scale * math.sqrt(max(0.0, moment) + 1 / math.sqrt(weight) + 1 / (2 * weight))
        sd = min(max(sd, scope.smallest), scope.largest)
    return Found(sd**2, FAILED if search.empty else OK, center, scale, moment, weight)


def bisection(scope: Scope, search: Search, spending: Sequence[Fraction]) -> Found:
    """The deviation whose interval of sqrt(2) deviations covers 1 - gamma of the people.

    First all halvings of the largest deviation are tested; accepted is the level down to which the
    excesses of coverage over 1 - gamma add up to most, so that one test that fails by its noise
    does not end the search. Then the octave below it is halved `FINE` times. The variance is that
    of normal values of which the deviation found covers 1 - gamma.
    """
    goal, center = 1 - scope.gamma, scope.center
    tested = levels(scope.smallest, scope.largest)
    seen: list[tuple[float, float]] = []
    total = best = 0.0
    accepted: tuple[int, float] | None = None
    weight = 1.0
    for at, sd in enumerate(tested):
        center, weight = search.midpoint(center, math.sqrt(2) * sd, spending[at])
        share = search.inside(center, math.sqrt(2) * sd, spending[at]) / weight
        seen.append((sd, share))
        total += share - goal
        if total > best:
            best, accepted = total, (at, center)
    if search.empty:
        return Found(math.nan, FAILED, center, scope.largest, n=weight)
    if accepted is None:
        largest = scope.largest
        return Found(largest**2, ASSUMPTION_VIOLATED, center, largest, n=weight)
    place, center = accepted
    high, low = tested[place], tested[min(place + 1, len(tested) - 1)]
    seen = seen[place:]
    for epsilon in spending[len(tested) :] if low < high else ():
        sd = math.sqrt(low * high)
        center, weight = search.midpoint(center, math.sqrt(2) * sd, epsilon)
        share = search.inside(center, math.sqrt(2) * sd, epsilon) / weight
        seen.append((sd, share))
        low, high = (low, sd) if share >= goal else (sd, high)
    sd = math.sqrt(low * high) / covered_at(scope.gamma)
    sd = min(max(sd, scope.smallest), scope.largest)
    return Found(sd**2, OK, center, sd, n=weight, seen=tuple(seen))


def _box(center: float, radius: float) -> ClipInterval:
    """[center - radius, center + radius], as wide as doubles can hold around a far center."""
    radius = max(radius, abs(center) * 2.0**-40)
    return ClipInterval(center - radius, center + radius)
