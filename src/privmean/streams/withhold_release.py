"""Withhold-release: a private running mean without separation between a person's records."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from privmean import validate
from privmean.errors import ArgumentError
from privmean.noise.noise_source import Noise
from privmean.streams import stream_release as bands
from privmean.streams.integer_strategy import Lattice, NoisyPrefixSums
from privmean.streams.mean_stream import Journaled, source_of
from privmean.streams.record_sources import person_name
from privmean.streams.schedule_steps import bin_averages, cover
from privmean.streams.stream_release import StreamRelease
from privmean.streams.toeplitz_matrices import Floats
from privmean.streams.withhold_plan import Level, WithholdPlan, plan_levels


class _OpenLevel:
    """A level at work: its interval once it has one, and its noisy sums."""

    def __init__(self, level: Level, plan: WithholdPlan, noise: Noise) -> None:
        self.level = level
        self.sums = NoisyPrefixSums(level.mechanism, noise)
        self.middle: Floats | None = None
        self.radius = level.radius
        self.lent = 0  # records that bins may use
        self.checked = 0  # lent records at the last look at the bins
        self.waiting: list[Floats] = []  # averages not yet in the sums
        self.count = 0  # averages submitted, also those of the batch under way
        self.latest = np.zeros((1, plan.dimension))
        self.square = np.zeros(1)

    def submit(self, average: Floats) -> None:
        """Take in the average of one person, at once if the level is open."""
        self.waiting.append(average)
        self.count += self.middle is not None

    def open(self, middle: Floats, radius: Floats) -> None:
        self.middle, self.radius = middle, radius
        self.count = len(self.waiting)

    def advance(self, counts: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Noisy sums (events, d) and their noise variances (events, d) after these counts."""
        d = self.latest.shape[1]
        if self.middle is None or not counts.any():
            return np.zeros((len(counts), d)), np.zeros((len(counts), d))
        steps = 1 << self.level.mechanism.lattice.row_bits
        before = self.sums.steps
        sums, squares = self.latest, self.square
        if self.waiting:
            share = (np.array(self.waiting) - self.middle) / self.radius
            lattice = np.rint(np.clip(share, -1.0, 1.0) * steps).astype(np.int64)
            block = self.sums.advance(lattice)
            sums = np.concatenate([self.latest, block.sums / steps])
            squares = np.concatenate([self.square, block.squares])
            self.latest, self.square = sums[-1:], squares[-1:]
            self.waiting = []
        at = np.maximum(counts - before, 0)
        unit = self.level.mechanism.noise_step / steps
        totals = sums[at] * self.radius + counts[:, None] * self.middle
        variances = squares[at][:, None] * (unit * self.radius) ** 2
        inside = (counts > 0)[:, None]
        return np.where(inside, totals, 0.0), np.where(inside, variances, 0.0)


class WithholdRelease(Journaled[WithholdPlan]):
    """Private running mean by exponentially growing blocks of each person's records.

    Parameters
    ----------
    state : path, optional
        State file, which keeps every record and draw. Default: in memory, no restart.
    noise : SimulatedNoise, optional
        For tests only. Default: exact noise from system entropy.
    level : float, default 0.95
        Confidence level of the intervals.
    history : bool, default True
        Keep all releases; otherwise only the latest.
    plan : WithholdPlan, optional
        A finished plan, instead of settings.
    moved : bool, default False
        You state that a state file, which this machine does not know, is the newest, and that no
        other copy is used again.
    settings : float, int or str
        The parameters of `plan_levels`.

    Raises
    ------
    ArgumentError, InfeasibleError
        Before anything is read.

    Privacy
    -------
    See `WithholdPlan`: values at fixed public times, not participation. Each level has one charged
    attempt at a private interval; if it fails, the public bounds serve.

    Notes
    -----
    The average of a person's records 2^(l-1)+1 .. 2^l is withheld until the last of them, then
    added to level l. Records of one person need no separation. `MeanStream` is better at late
    steps. Source: Kalinin, Najar, Roth and Lampert (2026), Algorithms 2 to 4.

    Examples
    --------
    stream = pm.WithholdRelease(max_records=16, bounds=(0, 1), epsilon=1, delta=1e-6)
    for i in range(16):
        stream.update(f"person {i % 4}", 0.5)
    stream.close()
    """

    def __init__(
        self,
        *,
        state: str | os.PathLike[str] | None = None,
        noise: Noise | None = None,
        level: float = 0.95,
        history: bool = True,
        plan: WithholdPlan | None = None,
        moved: bool = False,
        **settings: Any,
    ) -> None:
        self._history = bool(history)
        self.level = validate.level("level", level)
        if plan is not None and (settings or state is not None):
            raise ArgumentError(
                "plan",
                plan.rationale,
                "cannot be combined with other settings",
                "give the settings instead",
            )
        made = [] if plan is None else [plan]
        source: Noise = source_of(noise)

        def planned() -> dict[str, Any]:
            if not made:
                made.append(plan_levels(**settings))
            return {"lattice": made[0].levels[0].mechanism.lattice.to_dict()}

        self._start(source)
        stored = self._remember(
            state, settings, source, kind="withhold-release", moved=moved, more=planned
        )
        if not made:  # the search for a strategy takes seconds: what it found is in the state
            found = Lattice.from_dict(stored["lattice"])
            made.append(plan_levels(**{**settings, "strategy": found}))
        self.plan = made[0]
        self._levels = [_OpenLevel(item, self.plan, self._noise) for item in self.plan.levels]
        for item in self._levels:
            if not item.level.searches:
                item.open((self.plan.lower + self.plan.upper) / 2, item.radius)
        self._used: dict[str, int] = {}
        self._partial: dict[str, Floats] = {}
        self._records: dict[str, list[Floats]] = {}
        self.arrivals = 0
        self._taken = 0
        self._kept: list[StreamRelease] = []
        self._replay()

    @property
    def waiting(self) -> int:
        """Records that were taken and are not in the mean yet."""
        held = sum(item.level.width * item.count for item in self._levels)
        return self._taken - held

    @property
    def n(self) -> int:
        """People so far, except those beyond the planned number."""
        return len(self._used)

    @property
    def awaited(self) -> tuple[Level, ...]:
        """Levels that release nothing yet: each waits until counts allow `averages` bins."""
        return tuple(item.level for item in self._levels if item.middle is None)

    def update(self, person: object, value: object) -> list[StreamRelease]:
        """One arrival; returns the release after it, or none while nothing can be released."""
        return self.extend([person], [value])

    def extend(
        self, people: Sequence[object], values: Collection[object], mark: object = None
    ) -> list[StreamRelease]:
        """Many arrivals in order, durable together; one release an arrival, once there is a mean.

        people: ids (None is dropped before it counts). values: shape (m,) or (m, d). mark: a
        public note stored with the batch.
        """
        self._require_open()
        rows = self._rows(people, values)
        names = [person_name(item) for item in people]
        events = [(name, row) for name, row in zip(names, rows, strict=True) if name is not None]
        return self._durably(events, mark)

    def releases(self) -> Iterator[StreamRelease]:
        """All releases so far."""
        yield from self._kept

    def _run(self, events: list[tuple[str, Floats]]) -> list[StreamRelease]:
        counts = np.zeros((len(events), len(self._levels)), dtype=np.int64)
        arrived = np.zeros(len(events), dtype=np.int64)
        for index, (name, row) in enumerate(events):
            self._arrive(name, row)
            counts[index] = [item.count for item in self._levels]
            arrived[index] = self._taken
        released = self._release(counts, arrived)
        if self._history:
            self._kept.extend(released)
        self.arrivals += len(events)
        return released

    def _arrive(self, name: str, row: Floats) -> None:
        plan = self.plan
        if name not in self._used:
            if plan.n is not None and len(self._used) >= plan.n:
                return
            self._used[name] = 0
            self._partial[name] = np.zeros(plan.dimension)
            self._records[name] = []
        last = plan.levels[-1].index
        if self._used[name] >= 1 << last:
            return
        middle = (plan.lower + plan.upper) / 2
        value = np.clip(np.where(np.isnan(row), middle, row), plan.lower, plan.upper)
        self._used[name] += 1
        used = self._used[name]
        self._taken += 1
        self._partial[name] = self._partial[name] + value
        if any(item.middle is None for item in self._levels):
            self._records[name].append(value)
        if used & (used - 1) == 0:
            item = self._levels[used.bit_length() - 1]
            item.submit(self._partial[name] / item.level.width)
            self._partial[name] = np.zeros(plan.dimension)
        for item in self._levels:
            if item.middle is None:
                item.lent += used <= item.level.width
                self._try_interval(item)

    def _try_interval(self, item: _OpenLevel) -> None:
        """The one attempt, as soon as counts alone say that enough averages are there."""
        width, needed = item.level.width, item.level.averages
        due = max(needed * width, item.checked + width, 1.02 * item.checked)
        if self.plan.n is not None:  # when all have lent all, each of them fills a bin
            due = min(due, self.plan.n * width)
        if item.lent < due:
            return
        item.checked = item.lent
        groups = cover(self._used, width)
        if len(groups) < needed:
            return
        averages = bin_averages(groups, self._records)
        middle = (self.plan.lower + self.plan.upper) / 2
        radius = (self.plan.upper - self.plan.lower) / 2
        found = [
            search.find(averages[:, j].tolist(), self._noise)
            for j, search in enumerate(item.level.searches)
        ]
        for j, place in enumerate(found):
            if place is not None:
                middle[j], radius[j] = place, item.level.radius[j]
        item.open(middle, radius)
        if all(other.middle is not None for other in self._levels):
            self._records.clear()

    def _release(
        self, counts: npt.NDArray[np.int64], arrived: npt.NDArray[np.int64]
    ) -> list[StreamRelease]:
        """The releases after each event, given the counts of all levels after it."""
        total = np.zeros((len(counts), self.plan.dimension))
        variance = np.zeros_like(total)
        records = np.zeros(len(counts), dtype=np.int64)
        for index, item in enumerate(self._levels):
            width = item.level.width
            sums, variances = item.advance(counts[:, index])
            total += width * sums
            variance += width**2 * variances
            records += width * counts[:, index]
        factor = bands.pointwise(self.level, self.plan.dimension)
        released = []
        for index in np.flatnonzero(records).tolist():
            held = int(records[index])
            sd = float(np.sqrt(variance[index].max())) / held
            released.append(
                StreamRelease(
                    step=self.arrivals + index + 1,
                    arrivals=self.arrivals + index + 1,
                    records=held,
                    waiting=int(arrived[index]) - held,
                    estimate=np.clip(total[index] / held, self.plan.lower, self.plan.upper),
                    noise_sd=sd,
                    half_width=sd * factor,
                    level=self.level,
                    secure=self._noise.secure,
                )
            )
        return released
