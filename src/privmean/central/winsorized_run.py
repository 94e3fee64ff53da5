"""Running the stages of a Winsorized mean: questions to people, noise, and the bill that grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from privmean.central.clipped_mean import ClippedMean
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.noisy_argmax import MOST_BINS, Bins, GaussianArgmax, NoisyArgmax
from privmean.mechanisms.stable_histogram import top_bin
from privmean.noise.base import Noise
from privmean.people.reductions import Box, BoxSums, People
from privmean.privacy.loss import Loss

if TYPE_CHECKING:
    from privmean.central.winsorized_plan import WinsorizedPlan

NOTHING = BoxSums(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
Centers = list[float | None]


@dataclass
class Run:
    """One release under way. `bill` holds every mechanism call made so far."""

    plan: WinsorizedPlan
    noise: Noise
    bill: list[Loss] = field(default_factory=list)

    def _charge(self, losses: Sequence[Loss]) -> None:
        """Mechanisms on one column are billed once a column, those on all columns once."""
        times = self.plan.facts.columns if self.plan.stages.kind == "laplace" else 1
        self.bill += list(losses) * times

    def units(self, people: People) -> list[float]:
        """What radii are multiplied by, a column: the private scale, or 1."""
        step, d = self.plan.stages.scale, self.plan.facts.columns
        if step is None:
            return [1.0] * d
        self._charge(step.losses)
        return [step.release(people, j, self.noise) for j in range(d)]

    def locate(self, people: People, units: Sequence[float]) -> tuple[Centers, list[bool]]:
        """The centre of each column (None: not found), and whether it was found."""
        step, facts = self.plan.stages.location, self.plan.facts
        if step is None:
            pairs = self.plan.limits or self.plan.ranges
            assert pairs is not None
            return [low + (high - low) / 2 for low, high in pairs], [True] * facts.columns
        self._charge(step.losses)
        centers: Centers = []
        for j in range(facts.columns):
            half = facts.radii.half[j] * units[j]
            if isinstance(step, NoisyArgmax | GaussianArgmax):
                assert self.plan.ranges is not None
                low, high = self.plan.ranges[j]
                bins = Bins.cover(low, high, max(half, (high - low) / (2 * MOST_BINS)))
                counts = people.uniform_counts(j, bins.half, bins.origin)
                index = step.release(bins.all_counts(counts), self.noise)
                centers.append(bins.center(index))
            else:
                top = top_bin(step.release(people.uniform_counts(j, half), self.noise))
                centers.append(None if top is None else 2 * half * top)
        return self._with_fallback(centers), [center is not None for center in centers]

    def _with_fallback(self, centers: Centers) -> Centers:
        given = self.plan.settings.fallback
        if given is None:
            return centers
        spare = given if isinstance(given, tuple) else (given,) * len(centers)
        return [s if c is None else c for c, s in zip(centers, spare, strict=True)]

    def clip(
        self, people: People, centers: Centers, units: Sequence[float]
    ) -> list[ClippedMean | None]:
        """The recentring stage, if planned, and the last one; None for columns without a centre."""
        stages = self.plan.stages
        if stages.recenter is not None:
            boxes = self._boxes(centers, self._first_slack(), units)
            rough = self._sums(people, boxes, stages.recenter)
            centers = [None if item is None else item.estimate for item in rough]
        if self.plan.limits is not None:
            boxes = [Box(low, high) for low, high in self.plan.limits]
        else:
            boxes = self._boxes(centers, stages.slack, units)
        return self._sums(people, boxes, stages.final)

    def _first_slack(self) -> tuple[float, ...]:
        """How far centres may be off before recentring."""
        if self.plan.stages.location is None:
            assert self.plan.ranges is not None
            return tuple((high - low) / 2 for low, high in self.plan.ranges)
        return tuple(2 * half for half in self.plan.facts.radii.half)

    def _boxes(
        self, centers: Centers, slack: Sequence[float], units: Sequence[float]
    ) -> list[Box | None]:
        """[centre - R, centre + R] with R = tau + slack, a column."""
        tau = self.plan.facts.radii.tau
        return [
            None if c is None else _around(c, (t + s) * u)
            for c, t, s, u in zip(centers, tau, slack, units, strict=True)
        ]

    def _sums(
        self, people: People, boxes: Sequence[Box | None], step: ClippedSums
    ) -> list[ClippedMean | None]:
        here = sum(box is not None for box in boxes)
        if not here:
            return [None] * len(boxes)
        self.bill += [step.loss_of_one] * here if step.epsilon is not None else step.losses
        exact = people.box_sums(boxes)
        # columns without a box are given noise on nothing: the joint release keeps its shape
        noisy = step.release(
            [box if box is not None else Box(-1.0, 1.0) for box in boxes],
            [sums if sums is not None else NOTHING for sums in exact],
            self.noise,
            cap=people.cap,
        )
        return [
            None if box is None else self.plan.mean_of(people, box, sums)
            for box, sums in zip(boxes, noisy, strict=True)
        ]


def _around(center: float, radius: float) -> Box:
    """The box around a released centre; wider where doubles cannot tell its ends apart, so that no
    centre, however far, can make a release fail that was charged."""
    reach = max(radius, abs(center) * 2.0**-40)
    return Box(center - reach, center + reach)
