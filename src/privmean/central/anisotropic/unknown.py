"""Plans for an unknown covariance: half of the persons show the scales, the other half the mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privmean import validate
from privmean.central.anisotropic import filter as keep
from privmean.central.anisotropic.average import KeptMean, kept_mean
from privmean.central.anisotropic.blocks import Block, Stage
from privmean.central.anisotropic.box import GaussianBox
from privmean.central.anisotropic.degrees import degrees
from privmean.central.anisotropic.ellipsoid import STEPS, clipped_sums
from privmean.central.anisotropic.known import check_people
from privmean.central.anisotropic.lattice import RADIUS, Bools, Metric, lattices
from privmean.central.anisotropic.progress import Progress, shown
from privmean.central.anisotropic.scales import FACTOR, ScaleNoise, Scales, tail_reach
from privmean.central.anisotropic.scales import run as run_scales
from privmean.noise.base import Noise
from privmean.noise.exact import ExactNoise
from privmean.people.collecting import rows
from privmean.people.reductions import Floats, People
from privmean.privacy.budget import REPLACE_ONE, Budget, Relation
from privmean.privacy.curves import ParallelCurve
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.loss import Loss
from privmean.release import FAILED, OK, Release

EXPONENT = 1.5  # shape of the centre's noise: Sigma^(3/4) needs the least total
ASSUMED = "columns near Gaussian, so that pairs of persons show their scales"


@dataclass(frozen=True)
class UnknownPlan:
    """Scales from one half of the persons, a centre from the other, then a clipped sum.

    The halves are fixed by position, so what each pays is not added. If `pooled`, the sum is over
    all persons, and scales and centre share what it leaves; else over the second half, the scales
    have the whole budget, and the centre's share is chosen from `stages` by the released scales.
    """

    budget: Budget
    persons: int
    dimension: int
    scale_noise: ScaleNoise
    stages: tuple[Stage, ...]
    scale_range: tuple[float, float] | None
    beta: float
    pooled: bool = False
    estimator: str = "anisotropic"
    relation: Relation = REPLACE_ONE

    @property
    def half(self) -> int:
        """Persons of the second half, for the centre."""
        return self.persons // 2

    @property
    def summed(self) -> int:
        """Persons whose clipped sum is taken."""
        return self.persons if self.pooled else self.half

    @property
    def why(self) -> str:
        how = "all columns" if not self.scale_noise.chooses else f"{self.scale_noise.top} columns"
        if not self.scale_noise.top:
            how = "no column of its own"
        return (
            f"unknown covariance: half of the persons show the scales of {how}, the other half "
            f"a filtered centre; then a clipped sum over {'all' if self.pooled else 'the latter'}"
        )

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The worst-case bill."""
        stage = self.stages[0]
        d = self.dimension
        return self._bill(stage, stage.clip_losses((d,), (1.0,)))

    def _bill(self, stage: Stage, clip: tuple[Loss, ...]) -> tuple[Loss, ...]:
        assert self.budget.epsilon is not None
        epsilon = Fraction(self.budget.epsilon)
        scales, centre = self.scale_noise.losses, stage.calibration.losses
        name = "two halves of the persons"
        if self.pooled:
            return (ParallelCurve(name, Fraction(stage.epsilon), (scales, centre)), *clip)
        return (ParallelCurve(name, epsilon, (scales, centre + clip)),)

    def describe(self) -> dict[str, Any]:
        stage = self.scale_noise
        return {
            "method": "unknown covariance",
            "filter": "basic",
            "dimension": self.dimension,
            "persons": self.persons,
            "persons in the clipped sum": self.summed,
            "columns with a scale of their own": stage.top,
            "octaves of scale": stage.window,
            "noise of a scale (octaves)": stage.value_deviation,
            "error of the choice (octaves)": stage.choice_error(self.beta),
            "smallest count offset": min(item.calibration.offset for item in self.stages),
        }

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted l2 error by cause if every column had this deviation: the worst spectrum.

        Distances of alike columns are alike, so persons reach sqrt(d) deviations.
        """
        sd = validate.positive("guess_sd", guess_sd)
        d = self.dimension
        sampling = sd * math.sqrt(d / self.summed)

        def noise(stage: Stage) -> float:
            s = stage.calibration.expected_multiplier(self.half)
            centre = 2 * FACTOR * math.sqrt(2 * d) * s / self.half
            radius = math.sqrt(d * (1.2 + centre**2))
            return sd * 2 * radius / (stage.mu * self.summed) * math.sqrt(d)

        least = min(noise(stage) for stage in self.stages)
        return {"rmse": math.hypot(sampling, least), "sampling": sampling, "privacy_noise": least}

    def blocks(self, scales: Scales) -> list[Block]:
        """The metrics that the released scales give."""
        result = []
        if len(scales.top):
            sigma = scales.deviations
            result.append(
                Block(
                    scales.top,
                    FACTOR * scales.centre,
                    tail_reach(scales.clip, scales.middle) / math.sqrt(2),
                    sigma ** (-EXPONENT / 2),
                    sigma**-0.5,
                )
            )
        if len(scales.top) < self.dimension:
            rest = np.setdiff1d(np.arange(self.dimension), scales.top)
            one = np.ones(len(rest))
            result.append(
                Block(rest, FACTOR * scales.rest, FACTOR * scales.rest / math.sqrt(2), one, one)
            )
        return result

    def centre_shares(self, blocks: Sequence[Block]) -> list[float]:
        """How the centre's precision is split: least total radius of the clip that follows."""
        cost = [
            item.radius * math.sqrt(item.inflation * math.sqrt(item.spread) / item.reach)
            for item in blocks
        ]
        return [item / sum(cost) for item in cost]

    def clip_shares(self, blocks: Sequence[Block], radii: Sequence[float]) -> list[float]:
        """How the sums' precision is split: least total noise."""
        cost = [r * math.sqrt(item.spread) for item, r in zip(blocks, radii, strict=True)]
        return [item / sum(cost) for item in cost]

    def best_stage(self, blocks: Sequence[Block]) -> Stage:
        """The share of epsilon for the centre with the least noise, from released numbers."""

        def noise(stage: Stage) -> float:
            s = stage.calibration.expected_multiplier(self.half)
            if math.isinf(s):
                return math.inf
            shares = self.centre_shares(blocks)
            radii = [
                item.clip_radius(2 * item.radius * s / math.sqrt(part) / self.half)
                for item, part in zip(blocks, shares, strict=True)
            ]
            total = sum(r * math.sqrt(item.spread) for item, r in zip(blocks, radii, strict=True))
            return total / stage.mu

        return min(self.stages, key=noise)

    def release(
        self, people: People, noise: Noise | None = None, progress: bool | Progress | None = None
    ) -> Release:
        """Run the plan on people. A filter that finds no centre gives a release that failed."""
        source = ExactNoise() if noise is None else noise
        check_people(people, self.dimension, self.persons)
        first = rows(people.part(0, 2), size_is_public=True)
        scales = run_scales(self.scale_noise, first, source, self.scale_range, EXPONENT)
        blocks = self.blocks(scales)
        stage = self.best_stage(blocks)
        x = rows(people.part(1, 2), size_is_public=True)
        metrics, usable = lattices(
            x,
            [
                (item.columns, item.centre_weight / scales.unit * (RADIUS / item.radius))
                for item in blocks
            ],
        )
        with shown(progress, float(self.half) ** 2 * self.dimension) as tell:
            found = self._centre(metrics, usable, blocks, stage, source, tell)
        if found is None:
            return self._release(people.columns, source.secure, scales, stage, blocks, None)
        del metrics
        if self.pooled:
            x = rows(people, size_is_public=True)
        return self._clip(people.columns, x, found, scales, blocks, stage, source)

    def _centre(
        self,
        metrics: list[Metric],
        usable: Bools,
        blocks: list[Block],
        stage: Stage,
        noise: Noise,
        progress: Progress | None,
    ) -> KeptMean | None:
        friends = degrees(metrics, usable, progress=progress)
        kept = keep.basic_keep(friends, usable, REPLACE_ONE, noise)
        return kept_mean(metrics, kept, stage.calibration, noise, self.centre_shares(blocks))

    def _clip(
        self,
        columns: tuple[str, ...],
        x: Floats,
        found: KeptMean,
        scales: Scales,
        blocks: list[Block],
        stage: Stage,
        source: Noise,
    ) -> Release:
        radii = [
            item.clip_radius(sd * item.radius / RADIUS)
            for item, sd in zip(blocks, found.deviations, strict=True)
        ]
        shares = self.clip_shares(blocks, radii)
        estimate, deviation = np.empty(self.dimension), np.empty(self.dimension)
        for item, radius, part, mean in zip(blocks, radii, shares, found.means, strict=True):
            centre = mean * (item.radius / RADIUS) / item.centre_weight * scales.unit
            step = radius / STEPS / item.clip_weight * scales.unit
            sums = clipped_sums(x[:, item.columns], centre, 1 / step)
            scale = 2 * STEPS / (stage.mu * math.sqrt(part))
            drawn = source.gaussian(len(item.columns), scale)
            estimate[item.columns] = centre + (sums + drawn) * step / self.summed
            deviation[item.columns] = scale * step / self.summed
        bill = stage.clip_losses([len(item.columns) for item in blocks], shares)
        return self._release(
            columns, source.secure, scales, stage, blocks, (estimate, deviation, bill)
        )

    def _release(
        self,
        columns: tuple[str, ...],
        secure: bool,
        scales: Scales,
        stage: Stage,
        blocks: list[Block],
        found: tuple[Floats, Floats, tuple[Loss, ...]] | None,
    ) -> Release:
        nothing = np.full(self.dimension, np.nan)
        estimate, deviation, bill = found if found is not None else (nothing, nothing, ())
        assert self.budget.epsilon is not None
        guarantee = Guarantee.of(
            self.budget,
            REPLACE_ONE,
            self._bill(stage, bill),
            public=("persons", "columns", "positions in the roster"),
        )
        spread = self._spread(scales, blocks)
        return Release(
            estimate=estimate,
            columns=columns,
            estimator=self.estimator,
            guarantee=guarantee.require(),
            intervals=GaussianBox(
                estimate,
                deviation,
                spread / math.sqrt(self.summed),
                ASSUMED,
                "mean clipped to an ellipsoid"
                + ("" if self.pooled else ", of half of the persons"),
                failed=found is None,
            ),
            plan=self,
            persons=self.persons,
            status=OK if found is not None else FAILED,
            advice=""
            if found is not None
            else (
                "too few persons of the second half lie close together at the scales found in the "
                "first half, or their values are beyond the range of the lattice; more persons, a "
                "larger epsilon, a known covariance or another origin of the values may help"
            ),
            assumptions=(ASSUMED, "persons alike in distribution whatever their position"),
            shares={"centre": stage.share, "clipped sum": 1 - stage.share},
            diagnostics={
                "unit": scales.unit,
                "columns with a scale": [columns[i] for i in scales.top],
                "scales": (scales.deviations * scales.unit).tolist(),
            },
            secure=secure,
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
