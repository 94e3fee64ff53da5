"""A mean under an unknown covariance: half of the people show the scales, half the mean."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.bisection import bisect
from privmean.data.person_table import PersonTable, collect_rows
from privmean.data.schema import PublicShape
from privmean.errors import InfeasibleError
from privmean.estimators.anisotropic.calibrate_filter import (
    STEPS,
    TooFewPeople,
    centre_parts,
    clipped_sums,
    gaussian_after,
)
from privmean.estimators.anisotropic.column_scales import (
    EXPONENT,
    MOST_SUMS,
    WINDOW,
    ColumnMetrics,
    ScaleNoise,
    Scales,
    Stage,
    clip_loss,
    mean_stages,
    metrics_of,
)
from privmean.estimators.anisotropic.column_scales import run as run_scales
from privmean.estimators.anisotropic.known_covariance import weighed_alike
from privmean.estimators.anisotropic.spectrum import (
    GaussianBox,
    expected_scales,
    reference,
    stage_noise,
)
from privmean.estimators.means.choose_vector_method import instead
from privmean.inference.interval import MEAN, NoInterval
from privmean.inference.status import FAILED, LOW_PRECISION, OK
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.filtered_mean import RADIUS, FilteredMean, KeptMean, Rows, lattices
from privmean.mechanisms.noisy_counts import FINE, WIDE, Counting
from privmean.mechanisms.noisy_vector import LatticeSums
from privmean.output import count_phrase
from privmean.pipeline import PlanBase
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.gdp import gaussian_mu, rho_delta
from privmean.privacy.privacy_events import PrivacyEvent, PrivacyProfile
from privmean.privacy.profile_events import ParallelCurve
from privmean.release.result_numbers import Outcome

HALVES = "two halves of the people"
ASSUMED = "columns near Gaussian, so that pairs of people show their scales"


@dataclass(frozen=True)
class UnknownPlan(PlanBase):
    """Scales from one half of the people, a center from the other, then a clipped sum.

    The halves are fixed by position, so what each pays is not added. If `pooled`, the sum is over
    all people, and scales and center share what it leaves; else over the second half, the scales
    have the whole budget, and the center's share is chosen from `stages` by the released scales.
    centre_parts: the center is that of one in so many people of the second half, by position.
    refinement: share of the sums' mu^2 for a first one, around which the second clips closer (0:
    there is one sum).
    """

    budget: Budget
    n: int
    dimension: int
    scale_noise: ScaleNoise
    stages: tuple[Stage, ...]
    scale_range: tuple[float, float] | None
    pooled: bool = False
    centre_parts: int = 1
    refinement: float = 0.0
    nothing: float | None = None
    estimator: str = "anisotropic"
    public = ("n", "columns", "positions in the roster")

    @property
    def half(self) -> int:
        """People of the second half."""
        return self.n // 2

    @property
    def centred(self) -> int:
        """People of the center: the second half, or one in so many of them by position."""
        return -(-self.half // self.centre_parts)

    @property
    def summed(self) -> int:
        """People whose clipped sum is taken."""
        return self.n if self.pooled else self.half

    @property
    def rationale(self) -> str:
        how = "all columns" if self.scale_noise.own else "no column of its own"
        like = " of a person's distance from the mean, if columns are alike in spread"
        words = instead(self.nothing, self.error_share, like)
        return (
            f"unknown covariance: half of the people show the scales of {how}, the other half "
            f"a filtered center; then a clipped sum over {'all' if self.pooled else 'the latter'}"
            f"{words}"
        )

    @property
    def deviations(self) -> tuple[float, ...]:
        """Of the columns that errors are guaranteed for; total variance 1."""
        return tuple(reference(self.dimension, self.scale_noise.own).tolist())

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        stage, scales = self.stages[0], self.scale_noise.events
        clip = tuple(clip_loss(mu, self.dimension) for mu in self.sums_mu(stage))
        centre = stage.calibration.events
        if self.pooled:
            return (self._halves(stage, (scales, centre)), *clip)
        return (self._halves(stage, (scales, centre + clip)),)

    def sums_mu(self, stage: Stage) -> tuple[float, ...]:
        shares = (self.refinement, 1 - self.refinement) if self.refinement else (1.0,)
        return tuple(stage.mu * math.sqrt(share) for share in shares)

    def _halves(self, stage: Stage, bills: tuple[tuple[PrivacyEvent, ...], ...]) -> PrivacyEvent:
        """What the two halves cost together: a person is in one of them."""
        assert self.budget.epsilon is not None
        epsilon = Fraction(stage.epsilon if self.pooled else self.budget.epsilon)
        return ParallelCurve(HALVES, epsilon, bills, neighbors=REPLACE_ONE)

    def describe(self) -> dict[str, Any]:
        stage = self.scale_noise
        return {
            "method": "unknown covariance",
            "filter": "basic",
            "dimension": self.dimension,
            "n": self.n,
            "people of the center": self.centred,
            "people in the clipped sum": self.summed,
            "clipped sums": len(self.sums_mu(self.stages[0])),
            "predicted error over a person's distance": self.error_share,
            "the same, giving nothing": self.nothing,
            "columns with a scale of their own": self.dimension if stage.own else 0,
            "octaves of scale": stage.window,
            "noise of a scale (octaves)": stage.value_deviation,
            "smallest count offset": min(item.calibration.offset for item in self.stages),
        }

    @cached_property
    def noise_share(self) -> float:
        """Predicted l2 noise over the distance of one person's own row from the mean."""
        own = self.scale_noise.own
        scales = expected_scales(reference(self.dimension, own), own, EXPONENT)
        metrics = metrics_of(scales, self.dimension)
        return min(self._noise(metrics, stage) for stage in self.stages)

    @property
    def error_share(self) -> float:
        """The same of the error, sampling included."""
        return math.hypot(self.noise_share, 1 / math.sqrt(self.summed))

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted l2 error by cause if the columns have this deviation (root mean square)."""
        size = validate.positive("guess_sd", guess_sd) * math.sqrt(self.dimension)
        return {
            "rmse": self.error_share * size,
            "sampling": size / math.sqrt(self.summed),
            "privacy_noise": self.noise_share * size,
        }

    def _noise(self, metrics: ColumnMetrics, stage: Stage) -> float:
        return stage_noise(metrics, stage, self.sums_mu(stage), self.centred, self.summed)

    @property
    def shape(self) -> PublicShape:
        return PublicShape.of(self.dimension, self.n)

    def check_table(self, people: PersonTable) -> None:
        weighed_alike(people)

    def run(self, curator: Curator) -> Outcome:
        """A filter that finds no center gives a private failure."""
        people, chosen = curator.people, list(self.stages[:1])

        def together(bills: tuple[tuple[PrivacyEvent, ...], ...]) -> PrivacyEvent:
            return self._halves(chosen[0], bills)

        halves = (people.split(0, 2), people.split(1, 2))
        one, two = curator.parallel(HALVES, halves, join=together)
        first = collect_rows(one.people, size_is_public=True)
        scales = run_scales(self.scale_noise, first, one, self.scale_range, EXPONENT)
        metrics = metrics_of(scales, self.dimension)
        stage = chosen[0] = min(self.stages, key=lambda item: self._noise(metrics, item))
        x = collect_rows(two.people, size_is_public=True)
        factor = metrics.centre_weight / scales.unit * (RADIUS / metrics.radius)
        rows = Rows(*lattices(x[:: self.centre_parts], [(np.arange(self.dimension), factor)]))
        work = float(self.centred) ** 2 * self.dimension
        found = two.ask(FilteredMean(stage.calibration, REPLACE_ONE, work=work), rows)
        if found is None:
            return self._told(people.columns, scales, stage, metrics, None)
        del rows
        summing = two
        if self.pooled:
            x, summing = collect_rows(people, size_is_public=True), curator
        moved = self._clip(summing, x, found, scales, metrics, stage)
        return self._told(people.columns, scales, stage, metrics, moved)

    def _clip(
        self,
        curator: Curator,
        x: Floats,
        found: KeptMean,
        scales: Scales,
        metrics: ColumnMetrics,
        stage: Stage,
    ) -> tuple[Floats, Floats]:
        """The estimate and the deviation of its noise, after the clipped sums."""
        radius = metrics.clip_radius(found.deviations[0] * metrics.radius / RADIUS)
        centre = found.means[0] * (metrics.radius / RADIUS) / metrics.centre_weight
        estimate = deviation = centre * scales.unit
        for mu in self.sums_mu(stage):
            noise, step = 2 * STEPS / mu, radius / STEPS / metrics.clip_weight * scales.unit
            sums = clipped_sums(x, estimate, 1 / step)
            (noisy,) = curator.ask(LatticeSums((clip_loss(mu, self.dimension),)), [sums])
            estimate = estimate + noisy * step / self.summed
            deviation = noise * step / self.summed
            radius = metrics.next_radius(noise * radius / STEPS / self.summed)
        return estimate, deviation

    def _told(
        self,
        columns: tuple[str, ...],
        scales: Scales,
        stage: Stage,
        metrics: ColumnMetrics,
        found: tuple[Floats, Floats] | None,
    ) -> Outcome:
        nothing = np.full(self.dimension, np.nan)
        estimate, deviation = found if found is not None else (nothing, nothing)
        status, advice = self._outcome(found is None, deviation, scales)
        sampling = self._spread(scales, metrics) / math.sqrt(self.summed)
        target = "mean clipped to an ellipsoid" + ("" if self.pooled else ", of half of the people")
        none = NoInterval(self.dimension, about=(MEAN, target), assumption=ASSUMED)
        return Outcome(
            estimate,
            none if found is None else GaussianBox(estimate, deviation, sampling, ASSUMED, target),
            n=self.n,
            status=status,
            advice=advice,
            assumptions=(ASSUMED, "people alike in distribution whatever their position"),
            shares={"center": stage.share, "clipped sum": 1 - stage.share},
            diagnostics={
                "unit": scales.unit,
                "columns with a scale": list(columns) if len(scales.deviations) else [],
                "scales": (scales.deviations * scales.unit).tolist(),
            },
            follows_from_answers=True,
        )

    def _outcome(self, failed: bool, deviation: Floats, scales: Scales) -> tuple[str, str]:
        """Status and advice from paid numbers."""
        if failed:
            return FAILED, (
                "Too few people of the second half lie close together at the scales of the first "
                "half, or their values lie beyond the range of the lattice. Add people, raise "
                "epsilon, give the covariance, or shift the origin of the values."
            )
        square = scales.rest**2 / 2
        if len(scales.deviations):
            square = float((scales.deviations**2).sum())
        share = math.sqrt(float((deviation**2).sum()) / square) / scales.unit
        if share < 1:
            return OK, ""
        return LOW_PRECISION, (
            f"The noise is {share:.2g} times the distance of a single person's row from the mean, "
            "by the scales found."
        )

    def _spread(self, scales: Scales, metrics: ColumnMetrics) -> Floats:
        """A bound on the columns' standard deviations from paid numbers."""
        if len(scales.deviations):
            high = 2 ** (2 * self.scale_noise.value_deviation)
            return np.asarray(scales.deviations * scales.unit * high)
        # no column's deviation exceeds the root of their total variance
        return np.full(self.dimension, metrics.reach * scales.unit)


COUNT_NOISE = 0.03  # of the pairs: the noise wanted in the counts that find the radii
MOST_COUNT_NOISE = 0.04  # of the pairs: beyond this a bisection can run away
UNIT_SHARE = 0.05  # of rho, for the unit if no range of scales is public
NOMINAL_SPREAD = 8.0  # tr W of the reference spectra, for choosing shares only
REFINEMENTS = (0.0, 0.05, 0.1, 0.2, 0.3)  # of the sums' mu^2, where the center has few people
ALL_NOISE = 4.0  # octaves of noise a column up to which every column gets a scale of its own


@lru_cache(maxsize=256)
def largest_rho(epsilon: float, delta: float) -> float:
    """The largest rho for which a rho-zCDP stage is (epsilon, delta)-DP."""
    return bisect(lambda rho: rho_delta(rho, epsilon) <= delta, 0.0, epsilon, 50)[0]


def plan_unknown(
    budget: Budget,
    persons: int,
    dimension: int,
    *,
    scale_range: tuple[float, float] | None,
) -> UnknownPlan:
    """The plan for an unknown covariance. Raises InfeasibleError from public numbers."""
    if budget.neighbors != REPLACE_ONE:
        raise InfeasibleError(
            "an unknown covariance requires neighbors='replace-one'",
            "use neighbors='replace-one', or give a public covariance bound",
        )
    epsilon, delta = budget.epsilon, budget.delta
    assert epsilon is not None
    half = persons // 2
    parts = centre_parts(half, epsilon)
    stages = mean_stages(epsilon, delta, -(-half // parts), dimension)

    def made(stages: tuple[Stage, ...], epsilon: float, pooled: bool, blind: bool) -> UnknownPlan:
        half_delta = delta / 2 if pooled else delta
        rho = largest_rho(epsilon - 1e-9, half_delta * (1 - 1e-9)) * (1 - 1e-9)
        noise = scale_noise(rho, (persons - half) // 2, dimension, scale_range, blind=blind)
        return UnknownPlan(budget, persons, dimension, noise, stages, scale_range, pooled, parts)

    for blind in (False, True):  # scales of columns need more people than one radius for all
        best = made(stages, epsilon, False, blind)
        pooled = [(made((item,), item.epsilon, True, blind), item) for item in stages]
        # with what the center alone would leave, pooled plans look better than they are
        for plan, item in sorted(pooled, key=lambda found: nominal_noise(found[0])):
            if nominal_noise(plan) >= nominal_noise(best):
                break
            # the scales' curve may lie above the center's, so what may follow is found once more
            (curve, *_) = plan.events
            assert isinstance(curve, PrivacyProfile)
            mu = gaussian_after(curve, epsilon, delta, MOST_SUMS * dimension)
            share = 1 - (mu / gaussian_mu(epsilon, delta)) ** 2
            if mu > 0:
                found = replace(plan, stages=(replace(item, mu=mu, share=share),))
                best = min(best, found, key=nominal_noise)
        if math.isfinite(nominal_noise(best)):
            shares = REFINEMENTS if best.centre_parts > 1 else (0.0,)
            plans = (replace(best, refinement=share) for share in shares)
            return min(plans, key=lambda plan: plan.noise_share)
    raise TooFewPeople(
        f"{count_phrase(persons, 'person', 'is', 'are')} too few to find scales at "
        f"epsilon={epsilon:g}",
        "use more people, a larger epsilon, or give a public bound on the covariance",
    )


def nominal_noise(plan: UnknownPlan) -> float:
    """Noise of a plan in units of the people's reach, for a spectrum as in the examples.

    The center's inflation is taken as NOMINAL_SPREAD; noise in the scales of all columns costs
    exp((octaves ln 2)^2/4), knowing none a rule of thumb that grows with the dimension.
    """

    def stage_noise(stage: Stage) -> float:
        s = stage.calibration.expected_multiplier(plan.centred) / plan.centred
        return math.sqrt(1 + 8 * NOMINAL_SPREAD * s**2) / stage.mu

    stage = plan.scale_noise
    if stage.radius.deviation > MOST_COUNT_NOISE * max(stage.pairs, 1):
        return math.inf
    octaves = stage.value_deviation * math.log(2)
    blind = math.exp(octaves**2 / 4)
    if not stage.own:
        blind = 2 * math.exp(1.0) * plan.dimension**0.25
    return min(stage_noise(item) for item in plan.stages) * blind / plan.summed


def scale_noise(
    rho: float,
    pairs: int,
    dimension: int,
    scale_range: tuple[float, float] | None,
    *,
    blind: bool = False,
) -> ScaleNoise:
    """Shares of rho: what the radii need, then values.

    blind: no column gets a scale of its own, and all of rho goes to one radius.
    """
    unit = None
    if scale_range is None:
        unit = Counting(UNIT_SHARE * rho, WIDE)
        window = WINDOW + math.log2(math.sqrt(dimension)) + 1.5
        rho *= 1 - UNIT_SHARE
    else:
        window = math.log2(scale_range[1] / scale_range[0])
    need = FINE.rounds / (2 * (COUNT_NOISE * max(pairs, 1)) ** 2) / rho
    radius = min(max(need, 0.04), 0.3)
    move = window / pairs if pairs else math.inf
    everybody = move * math.sqrt(dimension / (2 * (1 - 2.25 * radius) * rho))
    if everybody > ALL_NOISE or blind:
        return ScaleNoise(dimension, pairs, window, 0.0, Counting(rho), None, unit)
    own = Counting(radius * rho)
    middle = Counting(radius / 4 * rho)  # a median may be twice as noisy
    return ScaleNoise(dimension, pairs, window, (1 - 2.25 * radius) * rho, own, middle, unit)
