"""The filtered mean as a step: filter, count and mean along the axes of a public covariance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privmean.central.anisotropic.spectrum import Spectrum
from privmean.data.person_table import Floats
from privmean.mechanisms.filtered.filtered_mean import FilteredMean, Rows
from privmean.mechanisms.filtered.filtered_noise import FilterCalibration, KeptMean
from privmean.mechanisms.filtered.pair_progress import Progress
from privmean.mechanisms.filtered.random_filter import NoisyDegrees, Sampled
from privmean.mechanisms.filtered.row_lattice import RADIUS, Metric, to_lattice, usable_rows
from privmean.privacy.budget import Relation
from privmean.privacy.privacy_events import PrivacyEvent


@dataclass(frozen=True, eq=False)
class Found:
    """A released center along the axes: values, noise deviations, and the noisy count."""

    values: Floats
    deviations: Floats
    count: float


@dataclass(frozen=True)
class Centre:
    """A filtered mean in the metric of Sigma^(-exponent/4), all of it decided before data.

    persons: the public number that radius and noise are made for. radius: people closer than this
    are friends; calibration: noise and accounting; noisy or sampled: set for those filters, else
    the basic one runs.
    """

    spectrum: Spectrum
    exponent: float
    n: int
    radius: float
    relation: Relation
    calibration: FilterCalibration
    noisy: NoisyDegrees | None = None
    sampled: Sampled | None = None

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.calibration.events

    @property
    def filter_name(self) -> str:
        if self.noisy is not None:
            return "noisy-degree"
        return "sampled-degree" if self.sampled is not None else "basic"

    def noise(self, count: float) -> float:
        """Noise of the center in its metric, given the noisy count of kept people."""
        return 2 * self.radius * self.calibration.multiplier / count

    @property
    def expected_noise(self) -> float:
        """The same at the count expected if nobody is dropped; infinite if that count fails."""
        multiplier = self.calibration.expected_multiplier(self.n)
        return 2 * self.radius * multiplier / self.n

    def rows(self, x: Floats) -> Rows:
        """People (along the axes) on the lattice of this center."""
        steps = self._steps()
        return Rows((Metric(to_lattice(x, steps)),), usable_rows(x, steps))

    def mechanism(
        self, parts: int = 1, work: float | None = None, tell: bool | Progress | None = None
    ) -> FilteredMean:
        """What is asked of `rows`; see `FilteredMean`."""
        return FilteredMean(
            self.calibration,
            self.relation,
            noisy=self.noisy,
            sampled=self.sampled,
            parts=parts,
            work=work,
            tell=tell,
        )

    def found(self, noisy: KeptMean | None) -> Found | None:
        """The noisy center along the axes, or None (a paid outcome)."""
        if noisy is None:
            return None
        unit = 1 / self._steps()
        return Found(noisy.means[0] * unit, noisy.deviations[0] * unit, noisy.count)

    def _steps(self) -> Floats:
        return np.asarray(RADIUS / self.radius * self.spectrum.deviations ** (-self.exponent / 2))
