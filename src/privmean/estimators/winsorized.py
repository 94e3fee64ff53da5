"""The Winsorized mean: find a location privately, clip around it, release the clipped mean.

Here are its settings and the ways to spend a budget on it: which location step, which noise. Each
way is complete (`Stages`) and within the budget; the plan takes the one with the least predicted
noise. Nothing here reads data.

Source: Roth and Avella-Medina, "Differential Privacy with Dependent Data" (2025), Algorithms 2-5,
with small bins, the tight threshold, a recentering stage, shares from a planning rule, and for
several columns the cheaper of Laplace and Gaussian noise (docs/proofs/winsorized.md).

`RandomEffects` is for people in public groups that share an effect (schools, firms, villages):
record t of person u in group g is mean + U_g + V_u + error. The radius comes from the marginal
variance of one person, which the number of people in a group does not enter, and the interval from
the design effect of the groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

from privmean import validate
from privmean.bisection import smallest_int
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators import winsorized_run as stages
from privmean.estimators.column_plan import require_roster
from privmean.estimators.concentration import (
    Bounded,
    Concentration,
    Radii,
    Range,
    UnknownScale,
    clipped_at,
    one_each,
    per_column,
    ranges_of,
)
from privmean.estimators.noise_budget import NoiseBudget, stages_mu
from privmean.estimators.winsorized_run import (
    Location,
    PublicFacts,
    Spending,
    Stages,
    WinsorizedPlan,
)
from privmean.inference.interval import grouped_design_effect
from privmean.mechanisms.choices import MOST_BINS, Bins, GaussianArgmax, NoisyArgmax
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.histograms import (
    DyadicBins,
    GaussianStableHistogram,
    PairScale,
    StableHistogram,
)
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.privacy.compose import calibrate, within
from privmean.privacy.privacy_events import Laplace, PrivacyEvent, Selection, Threshold

Make = Callable[[Fraction], Location]
Way = tuple[Stages, PublicFacts]

GRID_COLUMNS = 24  # beyond this many columns one Gaussian release beats composed Laplace noise


def best_way(ways: Iterator[Way] | Sequence[Way]) -> Way | None:
    """The way with the least predicted noise and clipping."""
    return min(ways, key=lambda way: way[0].score(way[1]), default=None)


def ways_to_spend(settings: WinsorizedMean, budget: Budget, facts: PublicFacts) -> Iterator[Way]:
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


# --- the law of noise -----------------------------------------------------------------------------
def _of_law(
    settings: WinsorizedMean, whole: NoiseBudget, delta: float, facts: PublicFacts
) -> Iterator[Way]:
    """Shares are of epsilon (Laplace noise, a column) or of mu^2 (Gaussian, all columns together).
    delta: of a threshold (a column, or all); Gaussian ways have a threshold or a public range."""
    relation, d = facts.relation, facts.columns
    if isinstance(settings.concentration, Bounded):
        final = ClippedSums("clipped sum", relation, d, **whole.sums(Fraction(1)))
        yield stages.single(facts, whole.law, final), facts
        return
    scale, spent, facts = _scale_step(settings, facts, whole)
    left = replace(whole, strength=whole.part(1 - spent))

    def stable(share: Fraction) -> Location:
        part = left.part(share)
        if isinstance(part, Fraction):
            return StableHistogram.of(part, delta, relation)
        return GaussianStableHistogram.of(part, d, relation, "histogram", delta=delta)

    def argmax(share: Fraction) -> Location:
        part = left.part(share)
        if isinstance(part, Fraction):
            return NoisyArgmax.of(part, relation)
        return GaussianArgmax.of(part, d, relation, "noisy argmax")

    def sums(name: str, share: Fraction) -> ClippedSums:
        return ClippedSums(name, relation, d, **left.sums(share))

    spending = Spending(whole.law, scale, spent, sums)
    ranged = argmax if whole.laplace or not delta else None
    yield from _with_location(settings, facts, spending, stable if delta else None, ranged)


def _laplace(
    settings: WinsorizedMean, epsilon: Fraction, delta: float, facts: PublicFacts
) -> Iterator[Way]:
    return _of_law(settings, NoiseBudget("laplace", epsilon), delta, facts)


def _composed(settings: WinsorizedMean, budget: Budget, facts: PublicFacts) -> Iterator[Way]:
    """Laplace noise with more than epsilon/columns a column, paid for by half of delta."""
    delta = budget.delta / 2 / facts.columns
    basic = budget.pure_epsilon() / facts.columns
    first = best_way(_laplace(settings, basic, delta, facts))
    if first is None:
        return
    # shares are held fixed, so that all losses grow together
    more = _stronger(first[0].events, budget, facts.columns)
    held = settings
    if not isinstance(settings.concentration, Bounded):  # of one stage, there is nothing to share
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


def _gaussian(settings: WinsorizedMean, budget: Budget, facts: PublicFacts) -> Iterator[Way]:
    """One Gaussian loss for all columns; half of delta goes to thresholds where they occur."""
    known = budget.rho is not None or isinstance(settings.concentration, Bounded)
    for delta in (0.0,) if known else (0.0, budget.delta / 2):
        whole = NoiseBudget("gaussian", stages_mu(budget, delta, facts.columns))
        yield from _of_law(settings, whole, delta, facts)


# --- the location step ----------------------------------------------------------------------------
def _with_location(
    settings: WinsorizedMean,
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


def _bins(settings: WinsorizedMean, facts: PublicFacts, ranges: Sequence[Range]) -> int:
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
    settings: WinsorizedMean, facts: PublicFacts, whole: NoiseBudget
) -> tuple[PairScale | None, Fraction, PublicFacts]:
    """The private scale, its share, and the facts with the safety factor on the radii."""
    concentration = settings.concentration
    if not isinstance(concentration, UnknownScale):
        return None, Fraction(0), facts
    scale, share, safety = stages.scale_step(facts, dyadic(concentration), whole)
    if concentration.safety is not None:
        safety = concentration.safety
    factor = math.sqrt(safety)
    options = tuple(replace(r.times(factor), sd=r.sd) for r in (facts.radii, *facts.options))
    return scale, share, replace(facts, radii=options[0], options=options[1:])


def _exact(share: float | None) -> Fraction | None:
    return None if share is None else Fraction(share).limit_denominator(10**6)


CLOSE = 0.03  # a number of people that would do is this close to the smallest
USUAL_GAMMA = 0.05
LARGEST_RADIUS = 1e100
STEP = 1.5  # between tail probabilities that a plan tries
LARGEST_TAIL = 0.02  # of people clipped, at most, under the assumption


@dataclass(frozen=True)
class WinsorizedMean:
    """Mean of values that concentrate around a center, by clipping around it.

    Parameters
    ----------
    concentration : SubGaussian, LogSobolev, BetweenWithin, BoundedWithin, UnknownScale or Bounded
        The assumption that gives the clipping radius. `Bounded` requires no location.
    range : (float, float) or list of pairs, optional
        Public range of the center, for all columns or one per column. Without it delta > 0 is
        required.
    gamma : float, optional
        Probability that any value of a column is clipped. Default: the plan clips closer if its
        bound of the bias, which is in the interval, is small beside the noise saved.
    failure : float, default 0.01
        Acceptable probability that the location step fails.
    share, recenter : float, optional
        Shares of the budget for the location and recentering stages. Default: chosen by the plan.
    fallback : float or list of float, optional
        Public center if no location is found. Default: the release has no estimate.
    design_effect : float, default 1.0
        Design effect of clustered people.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    Person-level differential privacy within the budget, for any data. Public are the columns, the
    settings and, under replace-one, n; under add-remove `n_guess` replaces n.

    Notes
    -----
    Source: Roth and Avella-Medina, "Differential Privacy with Dependent Data" (2025), Section 5;
    changes in docs/proofs/winsorized.md.

    Examples
    --------
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    known = pm.WinsorizedMean(pm.SubGaussian(sd=0.5), range=(-5, 10))  # no delta is needed
    pm.mean(people, method=known, epsilon=1.0)
    """

    serves_records: ClassVar[bool] = True

    concentration: Concentration
    range: Range | tuple[Range, ...] | None = None
    gamma: float | None = None
    failure: float = 0.01
    share: float | None = None
    recenter: float | None = None
    fallback: float | tuple[float, ...] | None = None
    design_effect: float = 1.0

    def __post_init__(self) -> None:
        remedy = "give SubGaussian(sd=...), UnknownScale() or Bounded(lower, upper)"
        if not hasattr(self.concentration, "radius"):
            problem = "is not an assumption about values"
            raise ArgumentError("concentration", self.concentration, problem, remedy)
        if self.gamma is not None:
            validate.keep(self, validate.fraction, "gamma")
        validate.keep(self, validate.fraction, "failure")
        validate.keep(self, validate.positive, "design_effect")
        if self.share is not None:
            validate.keep(self, validate.fraction, "share")
        if self.range is not None:
            object.__setattr__(self, "range", _pairs(self.range))
        if self.fallback is not None:
            given = per_column("fallback", self.fallback, validate.number)
            object.__setattr__(self, "fallback", given)
        if self.recenter is not None:
            validate.keep(self, validate.nonnegative, "recenter")
        if isinstance(self.concentration, Bounded):
            for name in ("range", "gamma", "share", "recenter", "fallback"):
                if getattr(self, name) is not None:
                    raise ArgumentError(
                        name,
                        getattr(self, name),
                        "is not used where bounds are given",
                        "remove it, or give another assumption",
                    )
        if round((self.share or 0) + (self.recenter or 0), 9) > 0.95:
            raise ArgumentError(
                "share", self.share, "leaves too little budget for the mean", "give smaller shares"
            )

    def plan(self, budget: Budget, shape: PublicShape) -> WinsorizedPlan:
        """Everything decided before data are read: mechanisms, scales, shares, predicted error.

        Raises
        InfeasibleError if no way to spend the budget finds the location with the wanted
        probability."""
        relation, d, n = budget.neighbors, shape.dimension, shape.number()
        if relation != REPLACE_ONE and isinstance(self.concentration, UnknownScale):
            raise ArgumentError(
                "concentration",
                self.concentration,
                "requires a public roster, hence neighbors='replace-one'",
                "give SubGaussian(sd=...) or Bounded(lower, upper)",
            )
        fallback = None if self.fallback is None else one_each("fallback", self.fallback, d)
        best = best_way(ways_to_spend(self, budget, self._facts(n, d, relation)))
        if best is None:
            raise self._infeasible(budget, n, d, relation)
        return WinsorizedPlan(
            budget, best[1], best[0], ranges_of(self.range, d), self.concentration, fallback
        )

    def _facts(self, n: int, columns: int, relation: Relation) -> PublicFacts:
        gamma = USUAL_GAMMA if self.gamma is None else self.gamma
        if isinstance(self.concentration, Bounded):
            options: tuple[Radii, ...] = (self.concentration.radius(n, columns),)
        else:
            tails = [gamma / n]
            while self.gamma is None and tails[-1] * STEP <= LARGEST_TAIL:
                tails.append(tails[-1] * STEP)
            options = tuple(clipped_at(self.concentration, columns, tail) for tail in tails)
        reach = [r for radii in options for r in (*radii.tau, *radii.half)]
        if not (max(reach) <= LARGEST_RADIUS and min(reach) >= 1 / LARGEST_RADIUS):
            raise ArgumentError(
                "concentration",
                self.concentration,
                "requires clipping radii beyond the range of doubles",
                "measure values in another unit",
            )
        return PublicFacts(
            n, columns, relation, options[0], self.failure, self.design_effect, options
        )

    def _infeasible(
        self, budget: Budget, n: int, columns: int, relation: Relation
    ) -> InfeasibleError:
        if self.range is None and (budget.rho is not None or budget.delta == 0):
            return InfeasibleError(
                f"a search with {budget.describe()} requires delta > 0 or a public range",
                "pass delta=1e-6, or range=(lower, upper) for the center",
            )

        def enough(size: int) -> bool:
            facts = self._facts(size, columns, relation)
            return any(True for _ in ways_to_spend(self, budget, facts))

        size = smallest_int(enough, n + 1, within=CLOSE)
        more = f"about {size} people, " if size is not None else ""
        return InfeasibleError(
            f"n={n} is too small to find the location with {budget.describe()}",
            f"provide {more}a larger epsilon, or range=(lower, upper) for the center",
        )


def _pairs(given: object) -> Range | tuple[Range, ...]:
    items = validate.listed("range", given, "give (lower, upper), or one pair a column")
    if items and all(isinstance(item, tuple | list) for item in items):
        return tuple(validate.bounds("range", item) for item in items)
    return validate.bounds("range", items)


FEWEST_GROUPS = 20.0


@dataclass(frozen=True)
class RandomEffects(Concentration):
    """Person means vary by a random effect of their public group, of the person, and by errors.

    Parameters
    ----------
    group_sd : float
        Standard deviation of the group effects, in the unit of the value.
    within_sd : float
        Standard deviation of a person's independent records.
    records : int
        Public minimum of records per person.
    group_sizes : list of int, optional
        Public n of each group; they add up to n. Either this or `group` is required.
    person_sd : float, default 0.0
        Standard deviation of the person effects.
    group : str, optional
        Public column of the table in which the groups are counted.
    range : (float, float) or list of pairs, optional
        Public range of the center. Without it delta > 0 is required.
    gamma : float, optional
        Clipping probability, as in `WinsorizedMean`.

    Privacy
    -------
    Accuracy depends on this assumption; privacy holds for any data. Group membership and sizes are
    public and the same for neighbors.

    Notes
    -----
    Source: Roth and Avella-Medina, "Differential Privacy with Dependent Data" (2025), Definition
    5.8; docs/proofs/longitudinal.md, section 7.

    Examples
    --------
    schools = pm.RandomEffects(group_sd=0.5, within_sd=1.0, records=10, group_sizes=(25,) * 80)
    assert schools.design_effect > 1
    scores = np.random.default_rng(1).normal(50, 1, 2000)
    pm.mean(scores, clustering=schools, epsilon=1.0, delta=1e-6)
    """

    group_sd: float
    within_sd: float
    records: int
    group_sizes: tuple[int, ...] | None = None
    person_sd: float = 0.0
    group: str | None = None
    range: Any = None
    gamma: float | None = None

    def __post_init__(self) -> None:
        validate.keep(self, validate.positive, "group_sd")
        validate.keep(self, validate.nonnegative, "within_sd", "person_sd")
        object.__setattr__(self, "records", validate.whole("records", self.records, least=1))
        if self.group_sizes is None:
            if self.group is None:
                raise ArgumentError(
                    "group_sizes", None, "are required", "give them, or a public column as group"
                )
            return
        given = validate.listed("group_sizes", self.group_sizes, "give the size of every group")
        sizes = tuple(validate.whole("group_sizes", n, least=1) for n in given)
        if not sizes:
            raise ArgumentError("group_sizes", sizes, "is empty", "give the size of every group")
        object.__setattr__(self, "group_sizes", sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Public n of each group, once known."""
        if self.group_sizes is None:
            raise ArgumentError(
                "group_sizes", None, "are required here", "give them, or ask with a table"
            )
        return self.group_sizes

    @property
    def sd(self) -> float:
        """Marginal deviation of one person's mean."""
        own = self.within_sd / math.sqrt(self.records)
        return math.hypot(self.group_sd, self.person_sd, own)

    @property
    def icc(self) -> float:
        """Correlation of the means of two people in a group."""
        return (self.group_sd / self.sd) ** 2

    @property
    def design_effect(self) -> float:
        """Variance of the mean over people, over that of as many independent people."""
        return grouped_design_effect(self.sizes, self.icc)

    @property
    def effective_groups(self) -> float:
        """n^2 over the sum of squared sizes: the number of equal groups with the same effect."""
        n = sum(self.sizes)
        return n * n / sum(size**2 for size in self.sizes)

    @property
    def interval_factor(self) -> float:
        """Variance of the mean over (expected sample variance)/n.

        The sample misses what people in a group share: its expected variance is sd^2 (1 - (design
        effect)/n).
        """
        n = sum(self.sizes)
        effect = self.design_effect
        return effect / max(1 - effect / n, 1 / n)

    @property
    def words(self) -> str:
        few = "" if self.effective_groups >= FEWEST_GROUPS else "; too few for a reliable interval"
        return (
            f"{len(self.sizes)} groups (effectively {self.effective_groups:.3g}{few}) with "
            f"deviation {self.group_sd:g} between groups, {self.person_sd:g} between people and "
            f"{self.within_sd:g} within {self.records} records"
        )

    def deviations(self, dimension: int) -> tuple[float, ...]:
        """The marginal rule, whatever the groups' sizes."""
        return (self.sd,) * dimension

    def estimator(self) -> RandomEffectsMean:
        """Who answers under this model."""
        return RandomEffectsMean(self)

    def shown(self) -> dict[str, float]:
        """What a release says of the groups."""
        return {
            "design_effect": self.design_effect,
            "icc": self.icc,
            "effective_groups": self.effective_groups,
        }


@dataclass(frozen=True)
class RandomEffectsMean:
    """The Winsorized mean whose interval is widened by the design effect of the groups.

    Guarantees: unit one person with all records (not a group); replace-one; the budget given to
    `plan`, for any data. People of a group may still tell of each other by what they share.
    """

    effects: RandomEffects

    def plan(self, budget: Budget, shape: PublicShape) -> WinsorizedPlan:
        effects = self.effects
        require_roster(budget, "is not supported with public group sizes")
        if sum(effects.sizes) != shape.n:
            raise ArgumentError(
                "group_sizes",
                sum(effects.sizes),
                f"must add up to n={shape.n}",
                "give the size of every group",
            )
        winsorized = WinsorizedMean(
            effects, range=effects.range, gamma=effects.gamma, design_effect=effects.interval_factor
        )
        return winsorized.plan(budget, shape)
