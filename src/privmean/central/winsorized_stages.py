"""The stages of a Winsorized mean at given public numbers, and what they predict.

location (a noisy histogram of wide bins) -> recentre (a rough clipped mean) -> final clipped sums.
Laplace noise spends a share of a column's epsilon on each stage; Gaussian noise a share of mu^2 for
all columns together. Nothing here reads data.

Source: Roth and Avella-Medina (2025), Algorithms 2-5; the third stage, the small bins, the tight
threshold and the shares are docs/proofs/winsorized.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from scipy.special import log_ndtr, ndtri

from privmean.central.concentration import Radii
from privmean.inference.laplace_normal import survival
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.noisy_argmax import GaussianArgmax, NoisyArgmax
from privmean.mechanisms.pair_scale import DyadicBins, PairScale
from privmean.mechanisms.stable_histogram import GaussianStableHistogram, StableHistogram
from privmean.privacy.budget import Relation
from privmean.privacy.privacy_events import PrivacyEvent

Location = StableHistogram | GaussianStableHistogram | NoisyArgmax | GaussianArgmax

TOP_BIN = 0.4  # share of people in the fullest bin, planned for the worst alignment of the bins
SHARES = tuple(Fraction(j, 100) for j in range(10, 91))
RECENTER_SHARES = tuple(Fraction(j, 100) for j in (0, 5, 10, 15, 20, 25))
LEAST_FINAL = Fraction(1, 20)
ROUGH = math.log(20) / math.sqrt(2)  # deviations that hold Laplace noise with probability 95 %


@dataclass(frozen=True)
class PublicFacts:
    """The public numbers a plan stands on. persons: n, or the design number under add-remove;
    radii: the chosen clipping radii; options: others that the plan may choose."""

    n: int
    columns: int
    relation: Relation
    radii: Radii
    failure: float
    design_effect: float = 1.0
    options: tuple[Radii, ...] = ()


@dataclass(frozen=True)
class Stages:
    """One way to spend the budget: mechanisms with their noise, and the predictions they give.

    kind: "laplace" (mechanisms act on one column each, billed once a column) or "gaussian" (on all
    columns together). half: radius added to tau before the last stage, a column; noise: predicted
    standard deviation of the estimate's privacy noise, a column; failure: predicted chance that
    some column's location is not found.
    """

    kind: str
    scale: PairScale | None
    location: Location | None
    recenter: ClippedSums | None
    final: ClippedSums
    shares: tuple[tuple[str, float], ...]
    slack: tuple[float, ...]
    noise: tuple[float, ...]
    failure: float

    @property
    def held_shares(self) -> tuple[float, float]:
        """Shares of location and recentering in what the scale step left, as settings name them."""
        named = dict(self.shares)
        left = 1 - named.get("scale", 0.0)
        return named.get("location", 0.0) / left, named.get("recentring", 0.0) / left

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """The worst-case accounting: every stage runs on every column."""
        times = self.final.columns if self.kind == "laplace" else 1
        bill: tuple[PrivacyEvent, ...] = ()
        for stage in (self.scale, self.location):
            if stage is not None:
                bill += stage.events * times
        if self.recenter is not None:
            bill += self.recenter.events
        return bill + self.final.events

    def score(self, facts: PublicFacts) -> float:
        """What the plan makes small: root mean square over columns of noise and three times the
        bias bound of clipping, over the assumed deviation. (Three times: so that the bias, which
        intervals must add in full, stays small beside the noise.)"""
        bias = facts.radii.beyond or (0.0,) * facts.columns
        parts = zip(self.noise, bias, facts.radii.sd, strict=True)
        total = sum((noise**2 + (3 * b) ** 2) / sd**2 for noise, b, sd in parts)
        return math.sqrt(total / facts.columns)


# --- location: people that the fullest bin must hold ---------------------------------------------
def shortfall(location: Location, facts: PublicFacts, bins: int | None = None) -> float:
    """People by which the planning rule is missed (at most 0: it holds).

    The fullest bin is planned to hold TOP_BIN of the people, less two standard deviations.
    """
    n = facts.n
    return _needed(location, facts.failure / facts.columns, bins) + _binomial(n) - n * TOP_BIN


def _binomial(n: int) -> float:
    return 2 * math.sqrt(n * TOP_BIN * (1 - TOP_BIN))


def _needed(location: Location, chance: float, bins: int | None) -> float:
    """People in the fullest bin that find it with probability 1 - chance."""
    if isinstance(location, StableHistogram):
        return location.threshold + float(location.scale) * math.log(1 / (2 * chance))
    if isinstance(location, NoisyArgmax):
        assert bins is not None
        return float(location.scale) * math.log(max(bins, 2) / (2 * chance))
    if isinstance(location, GaussianStableHistogram):
        threshold = math.ldexp(location.threshold, -location.bits)
        return threshold - location.sd * float(ndtri(chance))
    assert bins is not None
    return -location.sd * math.sqrt(2) * float(ndtri(chance / max(bins, 2)))


def predicted_failure(
    location: Location | None, facts: PublicFacts, bins: int | None = None
) -> float:
    """Predicted chance that some column's bin is not found, or a wrong one is."""
    if location is None:
        return 0.0
    n = facts.n
    mean, sd = n * TOP_BIN, _binomial(n) / 2
    if isinstance(location, StableHistogram):
        one = float(survival(mean - location.threshold, (float(location.scale),), sd))
    elif isinstance(location, NoisyArgmax):
        assert bins is not None
        one = bins / 2 * math.exp(-max(mean - 2 * sd, 0.0) / float(location.scale))
    elif isinstance(location, GaussianStableHistogram):
        gap = mean - math.ldexp(location.threshold, -location.bits)
        one = math.exp(float(log_ndtr(-gap / math.hypot(sd, location.sd))))
    else:
        assert bins is not None
        gap = max(mean - 2 * sd, 0.0)
        one = bins * math.exp(float(log_ndtr(-gap / (math.sqrt(2) * location.sd))))
    return 1.0 - (1.0 - min(one, 1.0)) ** facts.columns


# --- shares ---------------------------------------------------------------------------------------
def smallest_share(
    make: Callable[[Fraction], Location], facts: PublicFacts, bins: int | None = None
) -> Fraction | None:
    """The smallest share of SHARES at which the planning rule holds; None if it holds at none."""
    low, high = 0, len(SHARES) - 1
    if shortfall(make(SHARES[high]), facts, bins) > 0:
        return None
    while low < high:
        middle = (low + high) // 2
        if shortfall(make(SHARES[middle]), facts, bins) > 0:
            low = middle + 1
        else:
            high = middle
    return SHARES[low]


@dataclass(frozen=True)
class Spending:
    """What noise the stages get: the law, what the scale step took, and clipped sums by share."""

    kind: str
    scale: PairScale | None
    scale_share: Fraction
    sums: Callable[[str, Fraction], ClippedSums]


def spend(
    facts: PublicFacts,
    spending: Spending,
    location: Location | None,
    share: Fraction,
    recenter: Fraction | None,
    wide: tuple[float, ...],
    bins: int | None = None,
) -> Iterator[tuple[Stages, PublicFacts]]:
    """The best stages at these shares (of what the scale step left), and the facts with their
    radii; nothing where the shares leave too little for the mean.

    recenter None: the best share of RECENTER_SHARES. wide: how far the center may be off before
    recentering, a column.
    """
    shares = RECENTER_SHARES if recenter is None else (recenter,)
    failure = predicted_failure(location, facts, bins)

    def made(part: Fraction) -> Iterator[tuple[Stages, PublicFacts]]:
        rest = 1 - share - part
        rough = spending.sums("recentring sum", part) if part else None
        final = spending.sums("clipped sum", rest)
        final_sd, rough_sd = final.value_sd, rough.value_sd if rough is not None else 0.0
        left = 1 - spending.scale_share
        named = {
            "scale": spending.scale_share,
            "location": left * share,
            "recentring": left * part,
            "mean": left * rest,
        }
        spent = tuple((name, float(value)) for name, value in named.items() if value)
        for chosen in choices:
            slack = wide if rough is None else _slack(chosen, rough_sd, wide)
            noise = tuple(
                (tau + extra) * final_sd / facts.n
                for tau, extra in zip(chosen.radii.tau, slack, strict=True)
            )
            stages = Stages(
                spending.kind, spending.scale, location, rough, final, spent, slack, noise, failure
            )
            yield stages, chosen

    choices = [replace(facts, radii=radii) for radii in facts.options or (facts.radii,)]
    possible = [part for part in shares if 1 - share - part >= LEAST_FINAL]
    ways = [way for part in possible for way in made(part)]
    if ways:
        yield min(ways, key=lambda way: way[0].score(way[1]))


def single(facts: PublicFacts, kind: str, final: ClippedSums) -> Stages:
    """The one stage of known limits."""
    noise = tuple(tau * final.value_sd / facts.n for tau in facts.radii.tau)
    none = (0.0,) * facts.columns
    return Stages(kind, None, None, None, final, (("mean", 1.0),), none, noise, 0.0)


def _slack(facts: PublicFacts, rough_sd: float, wide: tuple[float, ...]) -> tuple[float, ...]:
    """How far the center may be off after a rough mean, a column: its noise and sampling error,
    never more than before it. rough_sd: deviation of the noise in its sum of z."""
    result = []
    for tau, before, sd in zip(facts.radii.tau, wide, facts.radii.sd, strict=True):
        noise = ROUGH * rough_sd * (tau + before) / facts.n
        sampling = 2 * sd * math.sqrt(facts.design_effect / facts.n)
        result.append(min(noise + sampling, before))
    return tuple(result)


def scale_step(
    facts: PublicFacts,
    bins: DyadicBins,
    *,
    epsilon: Fraction | None = None,
    mu: float | None = None,
) -> tuple[PairScale, Fraction, float]:
    """The pair scale, its share of the budget and the safety factor kappa that goes with it.

    A share that gives the histogram 200 people's worth of epsilon a column, from 4 to 25 %; one
    octave of safety (kappa = 4) where that cannot be had.
    """
    loss = float(epsilon) if epsilon is not None else (mu or 0.0) / math.sqrt(facts.columns)
    wanted = 200.0 / (facts.n * loss)
    if epsilon is None:
        wanted = wanted**2 / 4  # the share of mu^2 that gives counts of the same deviation
    share = Fraction(round(1000 * min(0.25, max(0.04, wanted))), 1000)
    safety = 1.2 if wanted <= 0.25 else 4.0
    if epsilon is not None:
        return PairScale.of(epsilon * share, bins), share, safety
    assert mu is not None
    return PairScale.gaussian(mu * math.sqrt(share), bins, facts.columns), share, safety
