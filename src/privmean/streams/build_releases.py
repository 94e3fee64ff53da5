"""Steps of a stream to stored releases, and stored releases to what is shown."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from privmean.data.person_table import L2Ball
from privmean.noise.noise_source import Noise
from privmean.streams.averaging_targets import AverageState
from privmean.streams.person_weights import PersonWeights, heaviest
from privmean.streams.power_series import Floats
from privmean.streams.prefix_sums import NoisyPrefixSums
from privmean.streams.schedule_steps import Step
from privmean.streams.state_file import StoredRelease
from privmean.streams.stream_plan import StreamPlan
from privmean.streams.stream_release import StreamRelease, View


class ReleaseBuilder:
    """The noisy sums of one sequence of steps, the weights in them, and their view."""

    def __init__(
        self, plan: StreamPlan, noise: Noise, view: View, *, group: str | None = None
    ) -> None:
        self.sums = NoisyPrefixSums(plan.mechanism, noise, plan.target)
        most = heaviest(plan.target, plan.lattice.participation)
        self._view = replace(view, target=plan.target, heaviest=most)
        self._step = plan.mechanism.noise_step
        self._secure = noise.secure
        self._group = group
        self._sizes = AverageState(plan.target, 1)
        self.weights = PersonWeights(plan.target)
        self._taken = 0  # records in the steps so far
        self._past: deque[StoredRelease] = deque(maxlen=self.reach)

    @property
    def reach(self) -> int:
        """How many earlier releases are needed to show one."""
        return self._view.target.window or 0

    def restore(self, records: int, kept: Sequence[StoredRelease]) -> None:
        """Go on after the last of `kept`: the `reach` + 1 last releases, or all there were."""
        self._taken = records
        self._sizes.sums[:] = kept[-1].size
        self._past.extend(kept)

    def made(self, steps: Sequence[Step]) -> list[StoredRelease]:
        """Noise for the next steps, as it is stored."""
        if not steps:
            return []
        first = self.sums.steps + 1
        if len(steps) == 1:
            (step,) = steps
            block = self.sums.advance(step.row[None, :].astype(np.int64))
            size = self._sizes.one(float(step.records - self._taken))
            self._taken = step.records
            (square,), (sums,) = block.squares.tolist(), block.sums
            return [self._stored(first, step, square, sums, size)]
        rows = np.array([step.row for step in steps]).astype(np.int64)
        block = self.sums.advance(rows)
        ends = [self._taken, *(step.records for step in steps)]
        self._taken = ends[-1]
        sizes = self._sizes.advance(np.diff(np.array(ends, dtype=np.float64))[:, None])[:, 0]
        facts = zip(steps, block.squares.tolist(), block.sums, sizes.tolist(), strict=True)
        return [self._stored(number, *fact) for number, fact in enumerate(facts, start=first)]

    def _stored(
        self, number: int, step: Step, square: float, sums: Floats, size: float
    ) -> StoredRelease:
        """One step as it is stored; called once for each, in order."""
        weights = self.weights
        weights.advance(step.people)
        names = step.people if weights.keeps_names else None
        counts = (step.arrivals, step.records, step.waiting)
        squares = (weights.people, weights.rows)
        return StoredRelease(number, *counts, square, sums, size, step.period, *squares, names)

    def shown(self, items: Sequence[StoredRelease], ball: L2Ball | None) -> list[StreamRelease]:
        """The next stored releases as they are shown."""
        result = self._show(items, ball, self._past)
        self._past.extend(items)
        return result

    def again(
        self, kept: Iterable[StoredRelease], ball: L2Ball | None, after: int
    ) -> Iterator[StreamRelease]:
        """Releases of steps > `after`; kept: those of steps > `after` - `reach`, in order."""
        held: list[StoredRelease] = []
        past: deque[StoredRelease] = deque(maxlen=self.reach)
        items = iter(kept)
        for item in items:
            if item.step > after:
                held = [item]
                break
            past.append(item)
        while held := held + list(itertools.islice(items, 1000 - len(held))):
            yield from self._show(held, ball, past)
            past.extend(held)
            held = []

    def _show(
        self, items: Sequence[StoredRelease], ball: L2Ball | None, past: Iterable[StoredRelease]
    ) -> list[StreamRelease]:
        if not items:
            return []
        assert ball is not None
        return self._view.releases(
            items, ball, self._step, secure=self._secure, past=list(past), group=self._group
        )
