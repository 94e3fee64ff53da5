"""Withhold-release: a private running mean without separation between a person's records."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt

from privmean import validate
from privmean.array_types import Floats
from privmean.errors import ArgumentError
from privmean.mechanisms.histograms import LocationSearch
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.compose import stated
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.streams import stream_release as bands
from privmean.streams.fit_strategies import fit_scaled
from privmean.streams.integer_strategy import (
    Lattice,
    NoisyPrefixSums,
    PrefixMechanism,
    budget_of,
    mechanisms_within,
    on_lattice,
)
from privmean.streams.record_sources import person_name
from privmean.streams.strategies import Strategy
from privmean.streams.strategy_error import RMSE
from privmean.streams.stream_base import Journaled, rows_of
from privmean.streams.stream_plan import PlanFacts
from privmean.streams.stream_release import StreamRelease
from privmean.streams.toeplitz_matrices import Participation

ONCE = Participation(1, 1)
DESIGN_PERSONS = 1000

PUBLIC = (
    "who arrives when: person ids, their order and number",
    "when a level opens (it depends on counts of records alone)",
)


@dataclass(frozen=True)
class Level:
    """Level l releases the average of a person's records 2^(l-1)+1 .. 2^l, when the last is there.

    width: how many records that are. searches: a private interval a column, or () for the public
    region; averages: bin averages needed before the one attempt. radius: half the interval.
    """

    index: int
    width: int
    searches: tuple[LocationSearch, ...]
    averages: int
    radius: Floats
    mechanism: PrefixMechanism


@dataclass(frozen=True)
class WithholdPlan(PlanFacts):
    """Everything about a withhold-release stream that is fixed before the first record.

    Guarantees
    ----------
    unit: one person with all records. neighbors: same arrivals; the values of one person replaced
    by any others. Each person adds one average to each level and one record set to at most one bin
    a level; all levels are billed together: Gaussian parts add mu^2. Each level has one paid
    attempt at an interval, whether or not it succeeds. Nothing is assumed about the values.

    unsearched: widths of the levels that a private interval would have helped, were there more
    people; decided from public numbers alone.
    """

    levels: tuple[Level, ...]
    dimension: int
    lower: Floats
    upper: Floats
    n: int | None
    budget: Budget
    events: tuple[PrivacyEvent, ...]
    unsearched: tuple[int, ...] = ()

    estimator = "withhold-release"
    relation = REPLACE_ONE
    public = PUBLIC

    @property
    def rationale(self) -> str:
        text = (
            f"{len(self.levels)} levels, billed together; no separation between the records of one "
            "person is needed"
        )
        if self.unsearched:
            text += (
                f"; {len(self.unsearched)} of them use the public bounds, because {self.n} "
                "people are too few for a private interval"
            )
        return text


def plan_levels(
    *,
    max_records: int,
    bounds: Sequence[tuple[float, float]] | tuple[float, float],
    epsilon: float | None = None,
    delta: float = 0.0,
    rho: float | None = None,
    persons: int | None = None,
    sd: float | None = None,
    interval_share: float = 0.25,
    beta: float = 0.05,
    late: float = 0.0,
    strategy: Strategy | Lattice | None = None,
) -> WithholdPlan:
    """Plan a withhold-release stream.

    Parameters
    ----------
    max_records
        Records of one person that are used; the rest is ignored.
    bounds
        Public limits of the values: one pair, or one pair a column.
    people
        How many people can come; later ones are ignored. None: no known number.
    sd
        A sub-Gaussian parameter of single records around the mean: then levels whose averages
        concentrate well buy a private interval for `interval_share` of the budget, and release
        nothing before it is found; a level for which `persons` are too few uses the public bounds.
        None: the public bounds serve every level and the whole budget goes into the sums. Wrong
        values of `sd` cost accuracy, never privacy.
    beta
        Probability that an interval or a projection fails, all together.
    late
        Noise of the levels: sigma_l^2 proportional to width^-late; 0 favors early steps, 1 the
        end.
    strategy
        For the sums of each level, or its integer form that a plan has; by default the best found
        for one participation.

    Source: Kalinin, Najar, Roth and Lampert (2026), Algorithms 2 to 4, with joint accounting;
    proofs/continual-withhold-release.md.
    """
    most = validate.whole("max_records", max_records, least=1)
    pairs = _pairs(bounds)
    d = len(pairs)
    lower = np.array([pair[0] for pair in pairs])
    upper = np.array([pair[1] for pair in pairs])
    if persons is not None:
        persons = validate.whole("persons", persons, least=1)
    budget = budget_of(epsilon, delta, rho)
    if not 0 <= validate.number("late", late) <= 1:
        raise ArgumentError(
            "late", late, "must lie in [0, 1]", "use 0 for early steps, 1 for late steps"
        )
    widths = [max(1, (1 << index) >> 1) for index in range(most.bit_length())]
    half = (upper - lower) / 2
    searches, radii, needed, unsearched = _intervals(
        widths, half, budget, sd=sd, share=interval_share, beta=beta, persons=persons
    )
    design = persons or DESIGN_PERSONS
    weights = [width**late for width in widths]
    shares = [math.sqrt(weight / sum(weights)) for weight in weights]  # mu_l/mu
    if isinstance(strategy, Lattice):
        lattice = strategy
    else:
        lattice = on_lattice(
            strategy or fit_scaled(ONCE, design, RMSE, buffers=3),
            ONCE,
            persons,
            rows_a_step=1,
            mu=budget.gaussian_mu() * min(shares) / (4 * math.sqrt(d)),
            movement=2,
            budget=budget,
        )
    fixed = [loss for group in searches for item in group for loss in item.events]
    # each column is put on [-2^row_bits, 2^row_bits]: a row moves by at most 2 sqrt(d) 2^row_bits
    movement = math.isqrt(4 * d * 4**lattice.row_bits - 1) + 1
    names = [f"noisy sums of {width} records a person" for width in widths]
    parts = list(zip(names, shares, strict=True))
    mechanisms = mechanisms_within(
        budget, fixed, lattice, d, movement, relation=REPLACE_ONE, parts=parts
    )
    levels = tuple(
        Level(index, width, searches[index], needed[index], radii[index], mechanisms[index])
        for index, width in enumerate(widths)
    )
    losses = stated((*fixed, *(item.loss for item in mechanisms)), REPLACE_ONE)
    return WithholdPlan(levels, d, lower, upper, persons, budget, losses, unsearched)


def _pairs(given: object) -> list[tuple[float, float]]:
    bounds = validate.listed("bounds", given, "give (lower, upper), or one pair a column")
    first = bounds[0] if len(bounds) else None
    if isinstance(first, int | float):
        return [validate.bounds("bounds", bounds)]
    if not len(bounds):
        raise ArgumentError("bounds", bounds, "is empty", "give one pair per column")
    return [validate.bounds("bounds", pair) for pair in bounds]


def _intervals(
    widths: list[int],
    half: Floats,
    budget: Budget,
    *,
    sd: float | None,
    share: float,
    beta: float,
    persons: int | None,
) -> tuple[list[tuple[LocationSearch, ...]], list[Floats], list[int], tuple[int, ...]]:
    """Searches, radii and averages needed a level, and the widths that lack people for a search.

    Only levels that gain by a search have one, and only those that can open.
    """
    plain: tuple[LocationSearch, ...] = ()
    if sd is None:
        return [plain] * len(widths), [half] * len(widths), [0] * len(widths), ()
    spread = validate.positive("sd", sd)
    validate.fraction("interval_share", share)
    validate.fraction("beta", beta)
    if budget.rho is not None:
        raise ArgumentError(
            "rho", budget.rho, "requires delta for private intervals", "give epsilon and delta"
        )
    assert budget.epsilon is not None
    d = len(half)
    parts = d * len(widths)
    factor = math.sqrt(2 * math.log(2 * (persons or DESIGN_PERSONS) * parts / beta))
    gaining = [w for w in widths if (3 * spread * factor / math.sqrt(w) < 0.9 * half).all()]
    whole = Fraction(share).limit_denominator(1000) * Fraction(budget.epsilon)

    def group(width: int, levels: int) -> tuple[LocationSearch, ...]:
        """The searches of one level, where so many levels have some."""
        tau, count = spread * factor / math.sqrt(width), d * levels
        price, delta = whole / count, budget.delta / 2 / count
        return (LocationSearch.priced(f"interval of {width} records", tau, price, delta),) * d

    # A bin of a level takes the records that a person lends to one block, so that there are at
    # most as many averages as people. Fewer searches share the budget of all: each needs fewer
    # averages then, and the largest blocks gain most.
    kept = len(gaining)
    while kept and persons and group(1, kept)[0].averages_needed(beta / parts) > persons:
        kept -= 1
    first = len(widths) - kept  # what gains are the last levels: blocks grow
    searches = [group(w, kept) if k >= first else plain for k, w in enumerate(widths)]
    radii = [np.minimum(half, 3 * item[0].radius) if item else half for item in searches]
    needed = [item[0].averages_needed(beta / parts) if item else 0 for item in searches]
    return searches, radii, needed, tuple(gaining[: len(gaining) - kept])


def cover(counts: Mapping[str, int], capacity: int) -> list[list[tuple[str, int]]]:
    """Disjoint groups of people (in the given order) with at least `capacity` records each.

    A person lends at most `capacity` records, so that a closed bin holds fewer than twice that and
    the number of bins is at least half the best possible (less one half). Uses counts only.
    """
    closed: list[list[tuple[str, int]]] = []
    group: list[tuple[str, int]] = []
    held = 0
    for person, count in counts.items():
        lent = min(count, capacity)
        if not lent:
            continue
        group.append((person, lent))
        held += lent
        if held >= capacity:
            closed.append(group)
            group, held = [], 0
    return closed


def bin_averages(
    groups: Sequence[Sequence[tuple[str, int]]], records: Mapping[str, list[Floats]]
) -> Floats:
    """The average of the first lent records of each group's people, shape (bins, d)."""
    rows = []
    for group in groups:
        taken = [record for person, lent in group for record in records[person][:lent]]
        total = taken[0]
        for record in taken[1:]:
            total = total + record
        rows.append(total / len(taken))
    return np.array(rows)


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
        accepted = signature(plan_levels).parameters
        validate.only_keywords("streams.WithholdRelease", settings, accepted)
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

        def planned() -> dict[str, Any]:
            if not made:
                made.append(plan_levels(**settings))
            return {"lattice": made[0].levels[0].mechanism.lattice.to_dict()}

        stored = self._remember(
            state, settings, noise, kind="withhold-release", moved=moved, more=planned
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
        rows = rows_of(people, values, self.plan.dimension)
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
