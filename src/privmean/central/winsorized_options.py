"""The ways to spend a budget on a Winsorized mean: which location step, which noise.

Each way is complete (`Stages`) and within the budget; the plan takes the one with the least
predicted noise. Nothing here reads data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from privmean.central import winsorized_run as stages
from privmean.central.concentration import Bounded, Concentration, UnknownScale
from privmean.central.winsorized_run import Location, PublicFacts, Spending, Stages
from privmean.errors import ArgumentError
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.noisy_counts import MOST_BINS, Bins, GaussianArgmax, NoisyArgmax
from privmean.mechanisms.searches import DyadicBins, PairScale
from privmean.mechanisms.stable_histogram import GaussianStableHistogram, StableHistogram
from privmean.plurals import count_noun
from privmean.privacy.budget import Budget
from privmean.privacy.compose import calibrate, within
from privmean.privacy.privacy_events import Gaussian, Laplace, PrivacyEvent, Selection, Threshold

Range = tuple[float, float]
Make = Callable[[Fraction], Location]
Way = tuple[Stages, PublicFacts]

GRID_COLUMNS = 24  # beyond this many columns one Gaussian release beats composed Laplace noise


@dataclass(frozen=True)
class WinsorizedOptions:
    """What a caller says of the ways: the assumption, a public range of the center, and shares
    that are held fixed (None: the plan chooses)."""

    concentration: Concentration
    range: Range | tuple[Range, ...] | None = None
    share: float | None = None
    recenter: float | None = None


def best_way(ways: Iterator[Way] | Sequence[Way]) -> Way | None:
    """The way with the least predicted noise and clipping."""
    return min(ways, key=lambda way: way[0].score(way[1]), default=None)


def ways_to_spend(settings: WinsorizedOptions, budget: Budget, facts: PublicFacts) -> Iterator[Way]:
    """Every feasible way: one column by Laplace noise; several by basic composition, by composing
    privacy loss distributions, or by one Gaussian loss; zCDP by Gaussian noise."""
    if budget.rho is None:
        epsilon = budget.pure_epsilon() / facts.columns
        yield from _laplace(settings, epsilon, budget.delta / facts.columns, facts)
        if facts.columns == 1 or budget.delta == 0:
            return
        if facts.columns <= GRID_COLUMNS:
            yield from _composed(settings, budget, facts)
    yield from _gaussian(settings, budget, facts)


def ranges_of(given: Range | tuple[Range, ...] | None, columns: int) -> tuple[Range, ...] | None:
    """The public range of each column's center, from one pair or one a column."""
    if given is None:
        return None
    pairs = given if isinstance(given[0], tuple) else (given,) * columns
    if len(pairs) != columns:
        raise ArgumentError(
            "range",
            given,
            f"has {count_noun(len(pairs), 'pair')} for {count_noun(columns, 'column')}",
            "give one per column",
        )
    return tuple(pairs)


# --- Laplace noise --------------------------------------------------------------------------------
def _laplace(
    settings: WinsorizedOptions, epsilon: Fraction, delta: float, facts: PublicFacts
) -> Iterator[Way]:
    """Laplace noise with (epsilon, delta) a column."""
    relation, d = facts.relation, facts.columns

    def sums(name: str, loss: Fraction) -> ClippedSums:
        return ClippedSums(name, relation, d, epsilon=loss)

    if isinstance(settings.concentration, Bounded):
        yield stages.single(facts, "laplace", sums("clipped sum", epsilon)), facts
        return
    scale, spent, facts = _scale_step(settings, facts, epsilon=epsilon)
    left = epsilon * (1 - spent)

    def stable(share: Fraction) -> Location:
        return StableHistogram.of(left * share, delta, relation)

    def argmax(share: Fraction) -> Location:
        return NoisyArgmax.of(left * share, relation)

    spending = Spending("laplace", scale, spent, lambda name, part: sums(name, left * part))
    yield from _with_location(settings, facts, spending, stable if delta else None, argmax)


def _composed(settings: WinsorizedOptions, budget: Budget, facts: PublicFacts) -> Iterator[Way]:
    """Laplace noise with more than epsilon/columns a column, paid for by half of delta."""
    delta = budget.delta / 2 / facts.columns
    basic = budget.pure_epsilon() / facts.columns
    first = best_way(_laplace(settings, basic, delta, facts))
    if first is None:
        return
    # shares are held fixed, so that all losses grow together
    more = _stronger(first[0].events, budget, facts.columns)
    share, recenter = first[0].held_shares
    held = replace(settings, share=share or None, recenter=recenter)
    while more > 1.01:
        better = best_way(_laplace(held, basic * Fraction(more), delta, facts))
        if better is not None and within(better[0].events, budget):
            yield better
            return
        more *= 0.998  # the share of a scale step moves with epsilon: not all losses grew alike


@lru_cache(maxsize=256)
def _stronger(losses: tuple[PrivacyEvent, ...], budget: Budget, most: int) -> float:
    """The factor by which all pure losses may grow within the budget (thresholds stay)."""

    def bill(factor: float) -> Sequence[PrivacyEvent]:
        return [_grown(loss, Fraction(factor)) for loss in losses]

    return calibrate(bill, budget, smallest=1 - 1e-9, largest=float(most), tolerance=1e-3)


def _grown(loss: PrivacyEvent, factor: Fraction) -> PrivacyEvent:
    if isinstance(loss, Laplace):
        return replace(loss, scale=loss.scale / factor)
    if isinstance(loss, Selection):
        return replace(loss, epsilon=loss.epsilon * factor)
    assert isinstance(loss, Threshold)
    return replace(loss, scale=None, sd=None)


# --- Gaussian noise -------------------------------------------------------------------------------
def _gaussian(settings: WinsorizedOptions, budget: Budget, facts: PublicFacts) -> Iterator[Way]:
    """One Gaussian loss for all columns; half of delta goes to thresholds where they occur."""
    relation, d = facts.relation, facts.columns
    for delta in (0.0,) if budget.rho is not None else (0.0, budget.delta / 2):
        mu = stages_mu(budget, delta, d)
        if isinstance(settings.concentration, Bounded):
            final = ClippedSums("clipped sum", relation, d, mu=mu)
            yield stages.single(facts, "gaussian", final), facts
            return
        scale, spent, scaled = _scale_step(settings, facts, mu=mu)
        yield from _gaussian_at(settings, scaled, mu, scale, spent, delta)


def _gaussian_at(
    settings: WinsorizedOptions,
    facts: PublicFacts,
    mu: float,
    scale: PairScale | None,
    spent: Fraction,
    delta: float,
) -> Iterator[Way]:
    """Shares are of mu^2; delta > 0 means a threshold, 0 a public range."""
    relation, d = facts.relation, facts.columns
    left = mu * math.sqrt(1 - spent)

    def stable(share: Fraction) -> Location:
        return GaussianStableHistogram.of(left * math.sqrt(share), delta, d, relation)

    def argmax(share: Fraction) -> Location:
        return GaussianArgmax.of(left * math.sqrt(share), d, relation)

    def sums(name: str, part: Fraction) -> ClippedSums:
        return ClippedSums(name, relation, d, mu=left * math.sqrt(part))

    spending = Spending("gaussian", scale, spent, sums)
    if delta:
        yield from _with_location(settings, facts, spending, stable, None)
    else:
        yield from _with_location(settings, facts, spending, None, argmax)


@lru_cache(maxsize=256)
def stages_mu(budget: Budget, threshold_delta: float, columns: int) -> float:
    """The mu of all Gaussian stages together, with room for their lattice corrections."""
    if budget.rho is not None:
        return budget.gaussian_mu() * (1 - 1e-9)
    answers = 10 * columns  # two pair counts, two counts, three and three sums a column
    steps = 2.0**20
    left = Budget(epsilon=budget.epsilon, delta=budget.delta - threshold_delta)

    def bill(mu: float) -> Sequence[PrivacyEvent]:
        return (Gaussian("all stages", mu * steps, steps, answers),)

    return calibrate(bill, left, grid=False) * (1 - 1e-9)


# --- the location step ----------------------------------------------------------------------------
def _with_location(
    settings: WinsorizedOptions,
    facts: PublicFacts,
    spending: Spending,
    stable: Make | None,
    argmax: Make | None,
) -> Iterator[Way]:
    """No location step if a range is given (clip around all of it), or either kind of step."""
    recenter = _exact(settings.recenter)
    ranges = ranges_of(settings.range, facts.columns)
    options: list[tuple[Make, int | None]] = []
    if ranges is not None and argmax is not None:
        # a share is asked for a location step
        if settings.share is None and not isinstance(settings.concentration, UnknownScale):
            reach = tuple((high - low) / 2 for low, high in ranges)
            yield from stages.spend(facts, spending, None, Fraction(0), recenter, reach)
        options.append((argmax, _bins(settings, facts, ranges)))
    if stable is not None:
        options.append((stable, None))
    wide = tuple(2 * half for half in facts.radii.half)
    for make, bins in options:
        share = _exact(settings.share) or stages.smallest_share(make, facts, bins)
        if share is not None:
            yield from stages.spend(facts, spending, make(share), share, recenter, wide, bins)


def _bins(settings: WinsorizedOptions, facts: PublicFacts, ranges: Sequence[Range]) -> int:
    """Public bins of the widest column (at the smallest scale that could be found)."""
    unit = 1.0
    if isinstance(settings.concentration, UnknownScale):
        unit = dyadic(settings.concentration).smallest
    return max(
        min(MOST_BINS, Bins.cover(low, high, half * unit).number)
        for (low, high), half in zip(ranges, facts.radii.half, strict=True)
    )


def dyadic(concentration: UnknownScale) -> DyadicBins:
    """The public bins of the pair scale."""
    return DyadicBins.around(concentration.smallest, concentration.largest)


def _scale_step(
    settings: WinsorizedOptions,
    facts: PublicFacts,
    *,
    epsilon: Fraction | None = None,
    mu: float | None = None,
) -> tuple[PairScale | None, Fraction, PublicFacts]:
    """The private scale, its share, and the facts with the safety factor on the radii."""
    concentration = settings.concentration
    if not isinstance(concentration, UnknownScale):
        return None, Fraction(0), facts
    scale, share, safety = stages.scale_step(facts, dyadic(concentration), epsilon=epsilon, mu=mu)
    if concentration.safety is not None:
        safety = concentration.safety
    factor = math.sqrt(safety)
    options = tuple(replace(r.times(factor), sd=r.sd) for r in (facts.radii, *facts.options))
    return scale, share, replace(facts, radii=options[0], options=options[1:])


def _exact(share: float | None) -> Fraction | None:
    return None if share is None else Fraction(share).limit_denominator(10**6)
