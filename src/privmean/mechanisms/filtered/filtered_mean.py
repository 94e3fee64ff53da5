"""The mean of the people that a random filter keeps, with its noisy count: one mechanism.

Who is kept, how many and their mean cost together what `FilterCalibration` states; none of them
alone is private. Proofs: docs/proofs/anisotropic.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean.array_types import Flags
from privmean.mechanisms.filtered.filtered_noise import FilterCalibration, KeptMean, kept_mean
from privmean.mechanisms.filtered.neighbor_degrees import degrees, sampled_degrees
from privmean.mechanisms.filtered.pair_progress import Progress, shown
from privmean.mechanisms.filtered.random_filter import (
    NoisyDegrees,
    Sampled,
    basic_keep,
    bernoulli,
    noisy_degree_keep,
    sampled_odds,
)
from privmean.mechanisms.filtered.row_lattice import Metric
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import Relation
from privmean.privacy.privacy_events import PrivacyEvent


@dataclass(frozen=True)
class Rows:
    """People on the lattice of every metric; usable: those whose values are on it."""

    metrics: Sequence[Metric]
    usable: Flags


@dataclass(frozen=True)
class FilteredMean:
    """People with enough friends, at random; their number; and, if it is large enough, their mean.

    shares: of the mean's precision, one a metric. noisy, sampled: set for those filters, else the
    basic one runs. parts: every person takes part with probability 1/parts, by a secret coin.
    work: the public number of products that all pairs take (None: not public). tell: what is told
    the fraction done (see `progress.shown`).

    Guarantees: the calibration's losses for its relation, for any rows.
    """

    calibration: FilterCalibration
    relation: Relation
    shares: tuple[float, ...] = (1.0,)
    noisy: NoisyDegrees | None = None
    sampled: Sampled | None = None
    parts: int = 1
    work: float | None = None
    tell: bool | Progress | None = None

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.calibration.events

    def sensitivity_share(self, exact: Rows, other: Rows) -> tuple[Fraction, ...]:
        """Nothing that a pair of tables shows: the proof is of filter, count and mean together."""
        return ()

    def draw(self, exact: Rows, noise: Noise) -> KeptMean | None:
        rows = exact if self.parts == 1 else self.some(exact, noise)
        with shown(self.tell, self.work) as tell:
            kept = self.kept(rows, noise, tell)
            return kept_mean(rows.metrics, kept, self.calibration, noise, self.shares)

    def kept(self, rows: Rows, noise: Noise, tell: Progress | None = None) -> Flags:
        """The people that the filter keeps: private, only its noisy summaries may leave."""
        if self.sampled is not None:
            draws = self.sampled.draws
            friends = sampled_degrees(rows.metrics, rows.usable, draws, noise, progress=tell)
            return bernoulli(*sampled_odds(friends, draws, self.sampled.threshold), noise)
        found = degrees(rows.metrics, rows.usable, progress=tell)
        if self.noisy is not None:
            return noisy_degree_keep(found, self.noisy, noise)
        return basic_keep(found, rows.usable, self.relation, noise)

    def some(self, rows: Rows, noise: Noise) -> Rows:
        """Those who take part, each by a coin of their own."""
        one = np.ones(len(rows.usable), dtype=np.int64)
        chosen = bernoulli(one, self.parts, noise)
        return Rows([item.of(chosen) for item in rows.metrics], rows.usable[chosen])
