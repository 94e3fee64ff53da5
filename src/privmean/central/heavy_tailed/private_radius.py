"""Two bought diagnostics of clipping: a private radius, and a noisy count of clipped persons.

The private radius helps when the moment bound is pessimistic: the search goes from small radii
upwards and stops where few persons remain outside, never beyond the planned radius. It is one run
of the sparse vector technique on counts that all move the same way, so it is charged once.

Source: Dwork and Roth (2014), Algorithm 1, with the noise that monotone counts need (Lyu, Su and
Li 2017); docs/proofs/heavy-tails-radius.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from scipy import stats

from privmean.central.heavy_tailed import bias
from privmean.central.heavy_tailed.moment import Tail
from privmean.noise.base import Noise
from privmean.people.reductions import People
from privmean.privacy.loss import Loss, Selection

MISS = 0.05  # chance that noise stops the search too early at some candidate


@dataclass(frozen=True)
class RadiusSearch:
    """Radii tried upwards until about `outside` persons lie beyond.

    **Guarantees.** epsilon-DP (replace-one) for any data and any fixed or released centre: one
    noisy threshold, noisy counts of persons outside growing balls, one answer, then it ends.
    """

    candidates: tuple[float, ...]
    outside: int
    epsilon: Fraction

    @property
    def losses(self) -> tuple[Loss, ...]:
        return (Selection("private radius", self.epsilon),)

    def release(self, people: People, center: Sequence[float], noise: Noise) -> float | None:
        """The first candidate with a noisy count at most the noisy threshold; None if none has."""
        scale = 2 / self.epsilon
        threshold = self.outside + int(noise.laplace(1, scale)[0])
        persons = people.size()
        for radius in self.candidates:
            beyond = persons - people.count_in_ball(center, radius)
            if beyond + int(noise.laplace(1, scale)[0]) <= threshold:
                return radius
        return None


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

    least: persons outside that the final noise hides anyway (sqrt(d)/mu).
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


def clipped_report(
    noisy: float, spread: float, persons: int, tails: Sequence[Tail], offset: float, beta: float
) -> dict[str, float]:
    """What a noisy clipped count says: an upper bound on the clipped share and on the bias.

    spread: half length of the count's noise at confidence 1 - beta. The certificate holds with
    confidence 1 - 2 beta if the centre is within `offset` of the mean: bias <= r q^(1-1/k) + a q
    with r the k-th moment root of a value and q the upper bound on P(clipped).
    """
    most = min(float(persons), max(0.0, noisy + spread))
    share = 1.0
    if most < persons:
        share = float(stats.beta.ppf(1 - beta, most + 1, max(persons - most, 1e-9)))
    bound = min(
        bias.moment_root(tail, tail.order) * share ** (1 - 1 / tail.order) + offset * share
        for tail in tails
    )
    return {
        "clipped persons (noisy count)": float(noisy),
        "clipped share, at most": share,
        "clipping bias, at most": bound,
    }
