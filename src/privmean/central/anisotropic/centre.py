"""The filtered mean as a step: filter, count and mean along the axes of a public covariance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privmean.central.anisotropic import filter as keep
from privmean.central.anisotropic.average import kept_mean
from privmean.central.anisotropic.calibration import FilterCalibration
from privmean.central.anisotropic.degrees import degrees, sampled_degrees
from privmean.central.anisotropic.lattice import RADIUS, Bools, Metric, to_lattice, usable_rows
from privmean.central.anisotropic.noisy_degrees import NoisyDegrees, noisy_degree_keep
from privmean.central.anisotropic.progress import Progress
from privmean.central.anisotropic.spectrum import Spectrum
from privmean.noise.base import Noise
from privmean.people.reductions import Floats
from privmean.privacy.budget import Relation
from privmean.privacy.loss import Loss


@dataclass(frozen=True)
class Sampled:
    """The sampled-degree filter: friends among `draws` persons a person, above `threshold`."""

    draws: int
    threshold: int


@dataclass(frozen=True, eq=False)
class Found:
    """A released centre along the axes: values, noise deviations, and the noisy count."""

    values: Floats
    deviations: Floats
    count: float


@dataclass(frozen=True)
class Centre:
    """A filtered mean in the metric of Sigma^(-exponent/4), all of it decided before data.

    persons: the public number that radius and noise are made for. radius: persons closer than this
    are friends; calibration: noise and bill; noisy or sampled: set for those filters, else the
    basic one runs.
    """

    spectrum: Spectrum
    exponent: float
    persons: int
    radius: float
    relation: Relation
    calibration: FilterCalibration
    noisy: NoisyDegrees | None = None
    sampled: Sampled | None = None

    @property
    def losses(self) -> tuple[Loss, ...]:
        return self.calibration.losses

    @property
    def filter_name(self) -> str:
        if self.noisy is not None:
            return "noisy-degree"
        return "sampled-degree" if self.sampled is not None else "basic"

    def noise(self, count: float) -> float:
        """Noise of the centre in its metric, given the noisy count of kept persons."""
        return 2 * self.radius * self.calibration.multiplier / count

    @property
    def expected_noise(self) -> float:
        """The same at the count expected if nobody is dropped; infinite if that count fails."""
        multiplier = self.calibration.expected_multiplier(self.persons)
        return 2 * self.radius * multiplier / self.persons

    def metric(self, x: Floats) -> Metric:
        """Rows (along the axes) on the lattice of this centre."""
        return Metric(to_lattice(x, self._steps()))

    def _steps(self) -> Floats:
        return np.asarray(RADIUS / self.radius * self.spectrum.deviations ** (-self.exponent / 2))

    def kept(
        self, metric: Metric, usable: Bools, noise: Noise, progress: Progress | None = None
    ) -> Bools:
        """The persons that the filter keeps: private, only its noisy summaries may leave."""
        if self.sampled is not None:
            friends = sampled_degrees(
                [metric], usable, self.sampled.draws, noise, progress=progress
            )
            odds = keep.sampled_odds(friends, self.sampled.draws, self.sampled.threshold)
            return keep.bernoulli(*odds, noise)
        found = degrees([metric], usable, progress=progress)
        if self.noisy is not None:
            return noisy_degree_keep(found, self.noisy, noise)
        return keep.basic_keep(found, usable, self.relation, noise)

    def run(self, x: Floats, noise: Noise, progress: Progress | None = None) -> Found | None:
        """The noisy centre of rows along the axes, or None (a paid outcome)."""
        metric = self.metric(x)
        kept = self.kept(metric, usable_rows(x, self._steps()), noise, progress)
        result = kept_mean([metric], kept, self.calibration, noise)
        if result is None:
            return None
        unit = 1 / self._steps()
        return Found(result.means[0] * unit, result.deviations[0] * unit, result.count)
