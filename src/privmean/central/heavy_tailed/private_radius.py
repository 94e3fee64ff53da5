"""A private radius, which helps when the moment bound is pessimistic.

The search goes from small radii upwards and stops where few people remain outside, never beyond the
planned radius. It is one run of the sparse vector technique on counts that all move the same way,
so it is charged once.

Proof: docs/proofs/heavy-tails-radius.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from scipy import stats

from privmean.central.heavy_tailed import clipping_bias as bias
from privmean.central.heavy_tailed.clipping_bias import Tail
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.searches import FirstBelow
from privmean.privacy.budget import REPLACE_ONE
from privmean.privacy.privacy_events import PrivacyEvent

MISS = 0.05  # chance that noise stops the search too early at some candidate


@dataclass(frozen=True)
class RadiusSearch:
    """Radii tried upwards until about `outside` people lie beyond.

    **Guarantees.** epsilon-DP (replace-one) for any data and any fixed or released center: one
    noisy threshold, noisy counts of people outside growing balls, one answer, then it ends.
    """

    candidates: tuple[float, ...]
    outside: int
    epsilon: Fraction

    @property
    def mechanism(self) -> FirstBelow:
        words = "each count of people beyond, by one (above a noisy threshold, one answer)"
        return FirstBelow("private radius", self.outside, self.epsilon, REPLACE_ONE, words)

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.mechanism.events

    def expected(self, tail: Tail, persons: int, offset: float) -> float:
        """The radius that values without large outliers are expected to give: the candidate beyond
        which no more than `outside` people lie, the center off by `offset`."""
        inside = stats.chi2.isf(self.outside / persons, tail.dimension) / tail.dimension
        least = math.hypot(offset, tail.size * math.sqrt(inside))
        return next((item for item in self.candidates if item >= least), math.inf)

    def find(self, curator: Curator, center: Sequence[float]) -> float | None:
        """The first candidate with a noisy count at most the noisy threshold; None if none has."""
        people = curator.people
        persons = people.size()
        beyond = (persons - people.count_in_ball(center, radius) for radius in self.candidates)
        index = curator.ask(self.mechanism, beyond)
        return None if index is None else self.candidates[index]


def search_one_column(
    spread: float, planned: float, persons: int, epsilon: Fraction
) -> RadiusSearch | None:
    """The search for one column: 72 radii, a factor sqrt(2) apart; None if n is too small."""
    return _search(
        [spread * 2.0 ** (j / 2 - 16) for j in range(72)], planned, persons, epsilon, 0.0
    )


def search_ball(
    size: float, planned: float, persons: int, epsilon: Fraction, least: float
) -> RadiusSearch | None:
    """The search for a ball: 80 radii, a factor 2^(1/4) apart, from size/64 upwards.

    least: people outside that the final noise hides anyway (sqrt(d)/mu).
    """
    return _search([size * 2.0 ** (j / 4 - 6) for j in range(80)], planned, persons, epsilon, least)


def _search(
    grid: Sequence[float], planned: float, persons: int, epsilon: Fraction, least: float
) -> RadiusSearch | None:
    outside = math.ceil(max(2 / float(epsilon) * math.log(len(grid) / MISS), least))
    candidates = tuple(radius for radius in grid if radius < planned)
    if outside > persons / 3 or not candidates:
        return None
    return RadiusSearch(candidates, outside, epsilon)


@dataclass(frozen=True)
class Outside:
    """What the end of a search says of those beyond the radius found, at no further cost.

    tails, offset: the assumption, and how far the center may be from the mean.
    """

    search: RadiusSearch
    n: int
    tails: tuple[Tail, ...]
    offset: float

    def share(self, alpha: float) -> float:
        """A bound on the probability of lying beyond, wrong with chance `alpha` at most.

        The count at the end was at most `outside` plus the threshold's noise less its own; the
        latter, and Clopper and Pearson's bound, are taken for all candidates at once.
        """
        scale, tried = 2 / float(self.search.epsilon), len(self.search.candidates)
        noise = scale * (math.log(3 / alpha) + math.log(3 * tried / alpha))
        most = self.search.outside + math.ceil(noise) + 1
        if most >= self.n:
            return 1.0
        return float(stats.beta.ppf(1 - alpha / (3 * tried), most + 1, self.n - most))

    def bias(self, alpha: float) -> float:
        """A bound on the bias of clipping in any direction, wrong with chance `alpha` at most."""
        return bias.of_share(self.tails, self.share(alpha), self.offset)
