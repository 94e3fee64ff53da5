"""Running the stages of a Winsorized mean before a curator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from privmean.central.winsorized_stages import PublicFacts, Stages
from privmean.data.person_table import ClipInterval
from privmean.estimators.means.clipped_mean import ClippedMean, seen
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.curator import Curator
from privmean.mechanisms.noisy_argmax import MOST_BINS, Bins, GaussianArgmax, NoisyArgmax
from privmean.mechanisms.per_column import EachColumn
from privmean.mechanisms.stable_histogram import top_bin
from privmean.privacy.budget import REPLACE_ONE

Centers = list[float | None]


@dataclass(frozen=True)
class Run:
    """One release under way: the public numbers of its plan."""

    facts: PublicFacts
    stages: Stages
    ranges: tuple[tuple[float, float], ...] | None
    limits: tuple[tuple[float, float], ...] | None
    fallback: float | tuple[float, ...] | None

    @property
    def _times(self) -> int:
        """Mechanisms on one column are billed once a column, those on all columns once."""
        return self.facts.columns if self.stages.kind == "laplace" else 1

    def units(self, curator: Curator) -> list[float]:
        """What radii are multiplied by, a column: the private scale, or 1."""
        step, d = self.stages.scale, self.facts.columns
        if step is None:
            return [1.0] * d
        exact = [step.exact(curator.people, j) for j in range(d)]
        return curator.ask(EachColumn(step, self._times), exact)

    def locate(self, curator: Curator, units: Sequence[float]) -> tuple[Centers, list[bool]]:
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
            chosen = curator.ask(EachColumn(step, self._times), counts)
            centers += [item.center(index) for item, index in zip(bins, chosen, strict=True)]
        else:
            occupied = [people.uniform_counts(j, half) for j, half in enumerate(halves)]
            for half, kept in zip(
                halves, curator.ask(EachColumn(step, self._times), occupied), strict=True
            ):
                top = top_bin(kept)
                centers.append(None if top is None else 2 * half * top)
        return self._with_fallback(centers), [center is not None for center in centers]

    def _with_fallback(self, centers: Centers) -> Centers:
        given = self.fallback
        if given is None:
            return centers
        spare = given if isinstance(given, tuple) else (given,) * len(centers)
        return [s if c is None else c for c, s in zip(centers, spare, strict=True)]

    def clip(
        self, curator: Curator, centers: Centers, units: Sequence[float]
    ) -> list[ClippedMean | None]:
        """The recentering stage, if planned, and the last; None for columns without a center."""
        stages = self.stages
        if stages.recenter is not None:
            boxes = self._boxes(centers, self._first_slack(), units)
            rough = self._sums(curator, boxes, stages.recenter)
            centers = [None if item is None else item.estimate for item in seen(rough)]
        if self.limits is not None:
            boxes = [ClipInterval(low, high) for low, high in self.limits]
        else:
            boxes = self._boxes(centers, stages.slack, units)
        return self._sums(curator, boxes, stages.final)

    def _first_slack(self) -> tuple[float, ...]:
        """How far centers may be off before recentering."""
        if self.stages.location is None:
            assert self.ranges is not None
            return tuple((high - low) / 2 for low, high in self.ranges)
        return tuple(2 * half for half in self.facts.radii.half)

    def _boxes(
        self, centers: Centers, slack: Sequence[float], units: Sequence[float]
    ) -> list[ClipInterval | None]:
        """[center - R, center + R] with R = tau + slack, a column."""
        tau = self.facts.radii.tau
        return [
            None if c is None else _around(c, (t + s) * u)
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


def _around(center: float, radius: float) -> ClipInterval:
    """The box around a released center; wider where doubles cannot tell its ends apart, so that no
    center, however far, can make a release fail that was charged."""
    reach = max(radius, abs(center) * 2.0**-40)
    return ClipInterval(center - reach, center + reach)
