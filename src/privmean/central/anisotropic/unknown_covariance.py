"""Plans for an unknown covariance: half of the people show the scales, the other half the mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from privmean import validate
from privmean.central.anisotropic.column_blocks import (
    EXPONENT,
    Block,
    Stage,
    blocks_of,
    centre_shares,
    clip_losses,
    clip_shares,
)
from privmean.central.anisotropic.column_scales import ScaleNoise, Scales
from privmean.central.anisotropic.column_scales import run as run_scales
from privmean.central.anisotropic.ellipsoid import STEPS, clipped_sums
from privmean.central.anisotropic.gaussian_box import GaussianBox
from privmean.central.anisotropic.known_covariance import weighed_alike
from privmean.central.anisotropic.predict_anisotropic import expected_scales, reference, stage_noise
from privmean.central.choose_vector_method import instead
from privmean.data.collect_rows import collect_rows
from privmean.data.person_table import Floats, PersonTable
from privmean.data.public_shape import PublicShape
from privmean.inference.status import FAILED, LOW_PRECISION, OK
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.filtered.filtered_mean import FilteredMean, Rows
from privmean.mechanisms.filtered.filtered_noise import KeptMean
from privmean.mechanisms.filtered.row_lattice import RADIUS, lattices, of_columns
from privmean.mechanisms.lattice_sums import LatticeSums
from privmean.pipeline import PlanBase
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.privacy.profile_events import ParallelCurve
from privmean.release.outcome import Outcome

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
    beta: float
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
        how = "all columns" if not self.scale_noise.chooses else f"{self.scale_noise.top} columns"
        if not self.scale_noise.top:
            how = "no column of its own"
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
        return tuple(reference(self.dimension, self.scale_noise.top).tolist())

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        """The worst-case accounting."""
        stage = self.stages[0]
        d = self.dimension
        sums = (clip_losses(mu, (d,), (1.0,)) for mu in self.sums_mu(stage))
        return self._bill(stage, tuple(loss for bill in sums for loss in bill))

    def sums_mu(self, stage: Stage) -> tuple[float, ...]:
        """mu of each clipped sum."""
        shares = (self.refinement, 1 - self.refinement) if self.refinement else (1.0,)
        return tuple(stage.mu * math.sqrt(share) for share in shares)

    def _bill(self, stage: Stage, clip: tuple[PrivacyEvent, ...]) -> tuple[PrivacyEvent, ...]:
        scales, centre = self.scale_noise.events, stage.calibration.events
        if self.pooled:
            return (self._halves(stage, (scales, centre)), *clip)
        return (self._halves(stage, (scales, centre + clip)),)

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
            "columns with a scale of their own": stage.top,
            "octaves of scale": stage.window,
            "noise of a scale (octaves)": stage.value_deviation,
            "error of the choice (octaves)": stage.choice_error(self.beta),
            "smallest count offset": min(item.calibration.offset for item in self.stages),
        }

    @cached_property
    def noise_share(self) -> float:
        """Predicted l2 noise over the distance of one person's own row from the mean."""
        top = self.scale_noise.top
        scales = expected_scales(reference(self.dimension, top), top, EXPONENT)
        blocks = blocks_of(scales, self.dimension)
        return min(self._noise(blocks, stage) for stage in self.stages)

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

    def best_stage(self, blocks: Sequence[Block]) -> Stage:
        """The share of epsilon for the center with the least noise, from released numbers."""
        return min(self.stages, key=lambda stage: self._noise(blocks, stage))

    def _noise(self, blocks: Sequence[Block], stage: Stage) -> float:
        return stage_noise(blocks, stage, self.sums_mu(stage), self.centred, self.summed)

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
        blocks = blocks_of(scales, self.dimension)
        stage = chosen[0] = self.best_stage(blocks)
        x = collect_rows(two.people, size_is_public=True)
        metrics, usable = lattices(
            x[:: self.centre_parts],
            [
                (item.columns, item.centre_weight / scales.unit * (RADIUS / item.radius))
                for item in blocks
            ],
        )
        found = two.ask(
            FilteredMean(
                stage.calibration,
                REPLACE_ONE,
                tuple(centre_shares(blocks)),
                work=float(self.centred) ** 2 * self.dimension,
            ),
            Rows(metrics, usable),
        )
        if found is None:
            return self._told(people.columns, scales, stage, blocks, None)
        del metrics
        summing = two
        if self.pooled:
            x, summing = collect_rows(people, size_is_public=True), curator
        moved = self._clip(summing, x, found, scales, blocks, stage)
        return self._told(people.columns, scales, stage, blocks, moved)

    def _clip(
        self,
        curator: Curator,
        x: Floats,
        found: KeptMean,
        scales: Scales,
        blocks: list[Block],
        stage: Stage,
    ) -> tuple[Floats, Floats]:
        """The estimate and the deviation of its noise, after the clipped sums."""
        radii = [
            item.clip_radius(sd * item.radius / RADIUS)
            for item, sd in zip(blocks, found.deviations, strict=True)
        ]
        estimate, deviation = np.empty(self.dimension), np.empty(self.dimension)
        for item, mean in zip(blocks, found.means, strict=True):
            centre = mean * (item.radius / RADIUS) / item.centre_weight
            estimate[item.columns] = centre * scales.unit
        for mu in self.sums_mu(stage):
            shares = clip_shares(blocks, radii)
            noise = [2 * STEPS / (mu * math.sqrt(part)) for part in shares]
            steps = [
                radius / STEPS / item.clip_weight * scales.unit
                for item, radius in zip(blocks, radii, strict=True)
            ]
            sums = [
                clipped_sums(of_columns(x, item.columns), estimate[item.columns], 1 / step)
                for item, step in zip(blocks, steps, strict=True)
            ]
            losses = clip_losses(mu, [len(item.columns) for item in blocks], shares)
            noisy = curator.ask(LatticeSums(losses), sums)
            for i, (item, step, scale) in enumerate(zip(blocks, steps, noise, strict=True)):
                estimate[item.columns] += noisy[i] * step / self.summed
                deviation[item.columns] = scale * step / self.summed
                radii[i] = item.next_radius(scale * radii[i] / STEPS / self.summed)
        return estimate, deviation

    def _told(
        self,
        columns: tuple[str, ...],
        scales: Scales,
        stage: Stage,
        blocks: list[Block],
        found: tuple[Floats, Floats] | None,
    ) -> Outcome:
        nothing = np.full(self.dimension, np.nan)
        estimate, deviation = found if found is not None else (nothing, nothing)
        status, advice = self._outcome(found is None, deviation, scales, blocks)
        spread = self._spread(scales, blocks)
        return Outcome(
            estimate,
            GaussianBox(
                estimate,
                deviation,
                spread / math.sqrt(self.summed),
                ASSUMED,
                "mean clipped to an ellipsoid" + ("" if self.pooled else ", of half of the people"),
                failed=found is None,
            ),
            n=self.n,
            status=status,
            advice=advice,
            assumptions=(ASSUMED, "people alike in distribution whatever their position"),
            shares={"center": stage.share, "clipped sum": 1 - stage.share},
            diagnostics={
                "unit": scales.unit,
                "columns with a scale": [columns[i] for i in scales.top],
                "scales": (scales.deviations * scales.unit).tolist(),
            },
            follows_from_answers=True,
        )

    def _outcome(
        self, failed: bool, deviation: Floats, scales: Scales, blocks: list[Block]
    ) -> tuple[str, str]:
        """Status and advice from paid numbers."""
        if failed:
            return FAILED, (
                "Too few people of the second half lie close together at the scales of the first "
                "half, or their values lie beyond the range of the lattice. Add people, raise "
                "epsilon, give the covariance, or shift the origin of the values."
            )
        square = sum(
            scales.rest**2 / 2
            if item.columns is not scales.top
            else float((scales.deviations**2).sum())
            for item in blocks
        )
        share = math.sqrt(float((deviation**2).sum()) / square) / scales.unit
        if share < 1:
            return OK, ""
        return LOW_PRECISION, (
            f"The noise is {share:.2g} times the distance of a single person's row from the mean, "
            "by the scales found."
        )

    def _spread(self, scales: Scales, blocks: list[Block]) -> Floats:
        """A bound on the columns' standard deviations from paid numbers."""
        result = np.empty(self.dimension)
        for item in blocks:
            if len(scales.top) and item.columns is scales.top:
                high = 2 ** (2 * self.scale_noise.value_deviation)
                result[item.columns] = scales.deviations * scales.unit * high
            else:
                # no column's deviation exceeds the root of their total variance
                result[item.columns] = item.reach * scales.unit
        return result
