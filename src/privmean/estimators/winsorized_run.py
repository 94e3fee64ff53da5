"""The stages of a Winsorized mean at given public numbers, what they predict, and their run.

location (a noisy histogram of wide bins) -> recentre (a rough clipped mean) -> final clipped sums.
Laplace noise spends a share of a column's epsilon on each stage; Gaussian noise a share of mu^2 for
all columns together. docs/proofs/winsorized.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from scipy.special import log_ndtr, ndtri

from privmean import validate
from privmean.data.person_table import ClipInterval
from privmean.data.schema import PublicShape
from privmean.estimators.column_plan import box_around
from privmean.estimators.concentration import Bounded, Concentration, Radii, UnknownScale
from privmean.estimators.means.clipped_mean import ClippedMean, ClippedMeans, seen
from privmean.estimators.noise_budget import NoiseBudget
from privmean.inference.interval import dependence
from privmean.inference.laplace_normal import survival
from privmean.inference.mean_interval import TOO_FEW
from privmean.inference.status import FAILED, OUTLIERS_UNCHECKED, release_status
from privmean.mechanisms.choices import MOST_BINS, Bins, GaussianArgmax, NoisyArgmax
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.curator import Curator, EachColumn
from privmean.mechanisms.histograms import (
    DyadicBins,
    GaussianStableHistogram,
    PairScale,
    StableHistogram,
    top_bin,
)
from privmean.pipeline import HasEvents, PlanBase, Step
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.result_numbers import Outcome, estimand_of

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
    def times(self) -> int:
        """How often a mechanism on one column is billed: once a column, or, where noise was set
        for all columns together, once."""
        return self.final.columns if self.kind == "laplace" else 1

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every stage runs on every column."""
        stages: dict[str, tuple[HasEvents | None, int]] = {
            "scale": (self.scale, self.times),
            "location": (self.location, self.times),
            "recentring": (self.recenter, 1),
            "mean": (self.final, 1),
        }
        shares = dict(self.shares)
        return tuple(
            Step(name, shares[name], (stage,), times)
            for name, (stage, times) in stages.items()
            if stage is not None
        )

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return tuple(event for step in self.steps for event in step.events)

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

    def holds(share: Fraction) -> bool:
        return shortfall(make(share), facts, bins) <= 0

    if not holds(SHARES[-1]):
        return None
    return SHARES[bisect_left(SHARES, True, hi=len(SHARES) - 1, key=holds)]


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
    facts: PublicFacts, bins: DyadicBins, whole: NoiseBudget
) -> tuple[PairScale, Fraction, float]:
    """The pair scale, its share of the budget and the safety factor kappa that goes with it.

    A share that gives the histogram 200 people's worth of epsilon a column, from 4 to 25 %; one
    octave of safety (kappa = 4) where that cannot be had.
    """
    loss = float(whole.strength) / (1.0 if whole.laplace else math.sqrt(facts.columns))
    wanted = 200.0 / (facts.n * loss)
    if not whole.laplace:
        wanted = wanted**2 / 4  # the share of mu^2 that gives counts of the same deviation
    share = Fraction(round(1000 * min(0.25, max(0.04, wanted))), 1000)
    safety, part = 1.2 if wanted <= 0.25 else 4.0, whole.part(share)
    if isinstance(part, Fraction):
        return PairScale.of(part, bins), share, safety
    return PairScale.gaussian(part, bins, facts.columns), share, safety


Centers = list[float | None]


@dataclass(frozen=True)
class WinsorizedPlan(PlanBase):
    """A Winsorized mean with everything public decided.

    losses: the worst-case accounting; noise: predicted standard deviation of the privacy noise a
    column (in units of the scale that is found, for `UnknownScale`).
    """

    budget: Budget
    facts: PublicFacts
    stages: Stages
    ranges: tuple[tuple[float, float], ...] | None
    concentration: Concentration
    fallback: tuple[float, ...] | None
    estimator = "Winsorized mean"

    @property
    def shape(self) -> PublicShape:
        known = self.facts.n if self.facts.relation == REPLACE_ONE else None
        return PublicShape.of(self.facts.columns, known, self.facts.n)

    @property
    def fixed(self) -> bool:
        """Whether every run bills these very lines, whatever it finds."""
        return isinstance(self.concentration, Bounded)

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.stages.steps

    @property
    def noise(self) -> tuple[float, ...]:
        return self.stages.noise

    @property
    def rationale(self) -> str:
        stages, d = self.stages, self.facts.columns
        law = "Laplace" if stages.kind == "laplace" else "Gaussian"
        if isinstance(self.concentration, Bounded):
            return f"known limits need no location step: one {law} release of the clipped sum"
        steps = []
        if stages.scale is not None:
            steps.append("scale from pairs of people")
        if stages.location is None:
            steps.append("clipping around the given range")
        elif isinstance(stages.location, NoisyArgmax | GaussianArgmax):
            steps.append("location by noisy argmax over the given range")
        else:
            steps.append("location by a stable histogram")
        if stages.recenter is not None:
            steps.append("recentring")
        across = "" if d == 1 else f" for {d} columns (the cheapest composition)"
        return f"{', '.join(steps)}, then clipped sums with {law} noise{across}"

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted errors at a guessed standard deviation between people, for planning."""
        guess = validate.positive("guess_sd", guess_sd)
        # the pair scale finds 0.93 to 1.86 standard deviations, 1.3 on geometric average
        unit = 1.3 * guess if isinstance(self.concentration, UnknownScale) else 1.0
        noise = unit * math.sqrt(sum(s * s for s in self.noise) / len(self.noise))
        sampling = guess * math.sqrt(self.facts.design_effect / self.facts.n)
        bias = unit * math.sqrt(sum(b * b for b in self.facts.radii.beyond) / len(self.noise))
        return {
            "rmse": math.hypot(noise, sampling, bias),
            "noise": noise,
            "sampling": sampling,
            "bias_at_most": bias,
            "failure_probability": self.stages.failure,
        }

    def details(self) -> dict[str, Any]:
        facts, stages = self.facts, self.stages
        public = "n" if facts.relation == REPLACE_ONE else "n_guess"
        result: dict[str, Any] = {
            public: facts.n,
            "columns": facts.columns,
            "neighbors": facts.relation,
            "noise": stages.kind,
            "tau": list(facts.radii.tau),
            "clip_radius": [a + b for a, b in zip(facts.radii.tau, stages.slack, strict=True)],
            "predicted_noise_sd": list(stages.noise),
            "predicted_failure": stages.failure,
            "clipping_bias_at_most": list(facts.radii.beyond),
        }
        if stages.location is not None:
            result["bin_half_width"] = list(facts.radii.half)
        if stages.scale is not None:
            result["unit"] = "radii are multiples of the scale found"
        if stages.location is not None and hasattr(stages.location, "threshold"):
            result["threshold"] = stages.location.threshold / 2 ** getattr(
                stages.location, "bits", 0
            )
        return result

    def run(self, curator: Curator) -> Outcome:
        people = curator.people
        units = self._units(curator)
        centers, found = self._locate(curator, units)
        last = self._clip(curator, centers, units)
        relation = self.facts.relation
        means = ClippedMeans(
            tuple(last),
            None if relation != REPLACE_ONE else self.facts.n,
            self.facts.design_effect,
            "mean" if self.limits is None else "mean within bounds",
            self.concentration.words,
            self.limits,
            tuple(b * u for b, u in zip(self.facts.radii.beyond, units, strict=False)),
            isinstance(self.concentration, Bounded) and self.concentration.declared,
            tuple(found),
        )
        unplaced = any(item is None for item in last)
        diagnostics: dict[str, Any] = {
            "center": [math.nan if c is None else c for c in centers],
            "weight": [math.nan if m is None else m.present for m in last],
        }
        if self.stages.scale is not None:
            diagnostics["scale"] = units
        return Outcome(
            means.estimate,
            means,
            n=means.n,
            status=release_status(means.statuses),
            statuses=means.statuses,
            advice=self._advice(means.statuses, unplaced, means.bound_advice(people.columns)),
            assumptions=(dependence(self.facts.design_effect), self.concentration.words),
            shares=self.shares,
            diagnostics=diagnostics,
            estimand=estimand_of(people.max_records),
            follows_from_answers=True,
        )

    def _units(self, curator: Curator) -> list[float]:
        """What radii are multiplied by, a column: the private scale, or 1."""
        step, d = self.stages.scale, self.facts.columns
        if step is None:
            return [1.0] * d
        exact = [step.exact(curator.people, j) for j in range(d)]
        return curator.ask(EachColumn(step, self.stages.times), exact)

    def _locate(self, curator: Curator, units: Sequence[float]) -> tuple[Centers, list[bool]]:
        """The center of each column (None: not found), and whether it was found."""
        step, facts, people = self.stages.location, self.facts, curator.people
        if step is None:
            pairs = self.limits or self.ranges
            assert pairs is not None
            return [low + (high - low) / 2 for low, high in pairs], [True] * facts.columns
        halves = [half * unit for half, unit in zip(facts.radii.half, units, strict=True)]
        centers: Centers = []
        if isinstance(step, NoisyArgmax | GaussianArgmax):
            assert self.ranges is not None
            bins = [
                Bins.cover(low, high, max(half, (high - low) / (2 * MOST_BINS)))
                for half, (low, high) in zip(halves, self.ranges, strict=True)
            ]
            counts = [
                item.all_counts(people.uniform_counts(j, item.half, item.origin))
                for j, item in enumerate(bins)
            ]
            chosen = curator.ask(EachColumn(step, self.stages.times), counts)
            centers += [item.center(index) for item, index in zip(bins, chosen, strict=True)]
        else:
            occupied = [people.uniform_counts(j, half) for j, half in enumerate(halves)]
            for half, kept in zip(
                halves, curator.ask(EachColumn(step, self.stages.times), occupied), strict=True
            ):
                top = top_bin(kept)
                centers.append(None if top is None else 2 * half * top)
        found = [center is not None for center in centers]
        if self.fallback is not None:
            centers = [s if c is None else c for c, s in zip(centers, self.fallback, strict=True)]
        return centers, found

    def _clip(
        self, curator: Curator, centers: Centers, units: Sequence[float]
    ) -> list[ClippedMean | None]:
        """The recentering stage, if planned, and the last; None for columns without a center."""
        stages = self.stages
        if stages.recenter is not None:
            slack = tuple(2 * half for half in self.facts.radii.half)  # how far centers may be off
            if stages.location is None:
                assert self.ranges is not None
                slack = tuple((high - low) / 2 for low, high in self.ranges)
            boxes = self._boxes(centers, slack, units)
            rough = self._sums(curator, boxes, stages.recenter)
            centers = [None if item is None else item.estimate for item in seen(rough)]
        if self.limits is not None:
            boxes = [ClipInterval(low, high) for low, high in self.limits]
        else:
            boxes = self._boxes(centers, stages.slack, units)
        return self._sums(curator, boxes, stages.final)

    def _boxes(
        self, centers: Centers, slack: Sequence[float], units: Sequence[float]
    ) -> list[ClipInterval | None]:
        """[center - R, center + R] with R = tau + slack, a column."""
        tau = self.facts.radii.tau
        return [
            None if c is None else box_around(c, (t + s) * u)
            for c, t, s, u in zip(centers, tau, slack, units, strict=True)
        ]

    def _sums(
        self, curator: Curator, boxes: Sequence[ClipInterval | None], step: ClippedSums
    ) -> list[ClippedMean | None]:
        here = sum(box is not None for box in boxes)
        if not here:
            return [None] * len(boxes)
        people = curator.people
        # columns without a box are given noise on nothing: the joint release keeps its shape
        over = step.over(
            [ClipInterval(-1.0, 1.0) if box is None else box for box in boxes],
            max_records=people.max_records,
            billed=(step.loss_of_one,) * here if step.epsilon is not None else None,
        )
        noisy = curator.ask(over, over.exact(people.interval_sums(boxes)))
        known = self.facts.n if self.facts.relation == REPLACE_ONE else None
        by_records = people.max_records is not None
        return [
            None if box is None else ClippedMean(box, sums, known, by_records=by_records)
            for box, sums in zip(boxes, noisy, strict=True)
        ]

    # --- words ------------------------------------------------------------------------------------
    @property
    def limits(self) -> tuple[tuple[float, float], ...] | None:
        """The known limits of each column's values, under `Bounded`."""
        concentration = self.concentration
        if isinstance(concentration, Bounded):
            return concentration.limits(self.facts.columns)
        return None

    @property
    def public(self) -> tuple[str, ...]:
        shape = "n" if self.facts.relation == REPLACE_ONE else "design number"
        return ("columns", shape, "settings and assumption")

    @staticmethod
    def _advice(statuses: Sequence[str], unplaced: bool, at_bound: Sequence[str]) -> str:
        if FAILED not in statuses:
            fallback = OUTLIERS_UNCHECKED in statuses
            said = "No location was found for some column; the given fallback center was used."
            return " ".join([*at_bound, *([said] if fallback else [])])
        if not unplaced:
            return TOO_FEW
        return (
            "No bin of the histogram stood out. Give a range, raise epsilon or add people. A "
            "second try is a second charge."
        )
