"""Releases of a stream: from the steps to stored sums, and from these to what is shown.

The noise of all steps is jointly Gaussian (to within the lattice) with a public law, so the bands
read no data and cost no privacy. All factors multiply the standard deviation of one coordinate.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypedDict

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.data.person_table import L2Ball
from privmean.errors import ArgumentError
from privmean.inference.interval import UNSAFE
from privmean.noise.noise_source import Noise
from privmean.output import HasOutput, Output, TableRow, decimals, number, percent
from privmean.streams.integer_strategy import NoisyPrefixSums
from privmean.streams.participation import (
    PersonWeights,
    Step,
    StoredPerson,
    StoredRelease,
    heaviest,
)
from privmean.streams.strategy_error import RunningSums
from privmean.streams.stream_plan import StreamPlan


@lru_cache(maxsize=64)
def pointwise(level: float, dimension: int = 1) -> float:
    """Radius factor for one fixed step: the root of a chi-squared quantile."""
    from scipy.stats import chi2

    return math.sqrt(float(chi2.ppf(level, dimension)))


@lru_cache(maxsize=64)
def _beyond(misses: float, dimension: int) -> float:
    from scipy.stats import chi2

    return math.sqrt(float(chi2.isf(misses, dimension)))


def together(level: float, step: int, steps: int | None, dimension: int = 1) -> float:
    """Radius factor of a step such that all steps hold together, whatever their correlation.

    With a horizon each of `steps` steps needs level^(1/n) only: centered Gaussian balls are
    positively correlated (Royen 2014; Sidak 1967 for d = 1). Without one step t may miss with
    probability (1 - level) 6/(pi^2 t^2).
    """
    if steps is not None:
        return _beyond(-math.expm1(math.log(level) / steps), dimension)
    return _beyond((1 - level) * 6 / (math.pi * step) ** 2, dimension)


def population_width(
    noise: float,
    sample: float,
    level: float,
    dimension: int,
    *,
    radius: float,
    sd: float | None = None,
) -> float:
    """How far a release is from the expectation of clipped records, noise and sampling together.

    noise: deviation of a coordinate. sample: independent rows of equal weight that would be as
    exact: 1 over the sum over people of c^2, with c the sum of
    |weights| of a person's rows in the estimate. sd: public limit of the deviation of a coordinate
    of a row, for a normal interval; without it, Hoeffding's inequality over people (bounded
    differences for rows of several coordinates) and the noise share the misses equally.
    """
    if sd is not None:
        return pointwise(level, dimension) * math.sqrt(noise * noise + sd**2 / sample)
    each = (1 + level) / 2
    if dimension == 1:
        sampling = radius * math.sqrt(2 * math.log(2 / (1 - each)) / sample)
    else:
        sampling = radius * (1 + math.sqrt(2 * math.log(1 / (1 - each)))) / math.sqrt(sample)
    return pointwise(each, dimension) * noise + sampling


def clamp(rows: Floats, radius: float) -> Floats:
    """Rows projected on the ball around 0: never farther from a mean that lies inside."""
    if rows.shape[-1] == 1:
        return np.minimum(np.maximum(rows, -radius), radius)
    size = np.sqrt(np.sum(rows * rows, axis=-1, keepdims=True))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(size > radius, rows * (radius / size), rows)


FADED = 1e-280  # squares of weights below this are no longer exact


@dataclass(frozen=True, eq=False)
class StreamRelease(HasOutput):
    """The released mean after one step.

    Attributes
    ----------
    step : int
        Number of the step, from 1.
    arrivals : int
        Records that had arrived (public).
    records : int
        Records in the mean (public); with a half-life all records so far.
    waiting : int
        Accepted records that wait for their turn.
    estimate : array (d,)
        The mean, in the unit of the value.
    noise_sd : float
        Standard deviation of the noise of one coordinate before clamping.
    half_width : float
        Half width (L2) of the noise-only interval, for the mean of the same clipped records.
    level : float
        Confidence level of the intervals.
    secure : bool
        False for simulated noise.
    population : float
        Half width of the confidence interval for the population mean, under `assumes`.
    period : str
        Calendar period of the step.
    group : str, optional
        Group of the step.
    assumes : str
        What the confidence interval assumes.
    """

    step: int
    arrivals: int
    records: int
    waiting: int
    estimate: Floats
    noise_sd: float
    half_width: float
    level: float
    secure: bool
    population: float = math.nan
    period: str = ""
    group: str | None = None
    assumes: str = ""

    def __float__(self) -> float:
        if len(self.estimate) != 1:
            raise TypeError("only a release of one column converts to a float")
        return float(self.estimate[0])

    def output(self) -> Output:
        """What `print` shows: a row per coordinate; intervals where there is one coordinate."""
        values, places = self.estimate.tolist(), decimals(self.noise_sd)
        columns = ["estimate", "noise sd"]
        table = [[value, self.noise_sd] for value in values]
        halves = {"population": self.population, "privacy noise": self.half_width}
        at, lines = percent(self.level), []
        if len(values) == 1:
            columns += ["CI lower", "CI upper", "noise lo", "noise hi"]
            table[0] += [values[0] + sign * half for half in halves.values() for sign in (-1, 1)]
        else:
            lines += [
                f"{at} confidence radius (l2), {kind}: {number(half, places, self.noise_sd)}."
                for kind, half in halves.items()
                if not math.isnan(half)
            ]
        said = [f"step {self.step:,}", self.period, self.group and f"group {self.group}"]
        return Output(
            f"Stream mean, {', '.join(item for item in said if item)}",
            f"{self.records:,} records in the mean, {self.waiting:,} waiting (public)"
            + (f"; {at} confidence intervals" if len(values) == 1 else ""),
            tuple(columns),
            tuple(
                TableRow(
                    "mean" if len(values) == 1 else str(j),
                    tuple(number(item, places, self.noise_sd) for item in row),
                )
                for j, row in enumerate(table)
            ),
            lines=tuple(lines),
            paragraphs=(("Assumes", f"{self.assumes}."),) if self.assumes else (),
            warning="" if self.secure else UNSAFE,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for one line of JSON."""
        values = [float(item) for item in self.estimate]
        result: dict[str, Any] = {
            **({} if self.group is None else {"group": self.group}),
            "step": self.step,
            **({"period": self.period} if self.period else {}),
            "arrivals": self.arrivals,
            "records": self.records,
            "waiting": self.waiting,
            "estimate": values,
            "noise_sd": self.noise_sd,
        }
        kinds = {"noise": self.half_width, "population": self.population}
        for kind, half in kinds.items():
            if math.isnan(half):
                continue
            assumes = {"assumes": self.assumes} if kind == "population" else {}
            if len(values) == 1:
                ends = {"lower": [values[0] - half], "upper": [values[0] + half]}
                result[f"{kind}_interval"] = {"level": self.level, **ends, **assumes}
            else:
                result[f"{kind}_radius"] = {"level": self.level, "radius": half, **assumes}
        if not self.secure:
            result["secure"] = False
        return result


class Opening(TypedDict, total=False):
    """How a stream runs (noise, whether all its releases are kept, whether its state was moved),
    and how its releases are shown: the fields of `View`."""

    noise: Noise | None
    history: bool
    moved: bool
    clamp: bool
    first_release: int
    level: float
    sd: float | None
    icc: float | None


@dataclass(frozen=True)
class View:
    """How stored noisy sums are shown. Post-processing only: choices here cost no privacy.

    sd: a public limit of the standard deviation of a row around its expectation, for the population
    interval; None: it is only known to lie in the region. icc: a public limit of the correlation of
    two rows of a person.
    """

    clamp: bool = True
    first_release: int = 1
    level: float = 0.95
    sd: float | None = None
    icc: float | None = None

    def __post_init__(self) -> None:
        first = validate.whole("first_release", self.first_release, least=1)
        object.__setattr__(self, "first_release", first)
        validate.keep(self, validate.level, "level")
        if self.sd is not None:
            validate.keep(self, validate.positive, "sd")
        if self.icc is not None:
            if self.sd is None:
                raise ArgumentError("icc", self.icc, "requires sd", "give both, or remove it")
            if not 0 <= validate.number("icc", self.icc) <= 1:
                raise ArgumentError("icc", self.icc, "must lie in [0, 1]", "give a correlation")

    @cached_property
    def assumes(self) -> str:
        """What the population interval depends on, beside that people come whatever their
        values."""
        parts = ["people are independent"]
        if self.sd is not None:
            parts.append(f"sd <= {self.sd:.4g}")
        if self.icc is not None:
            parts.append(f"icc <= {self.icc:.4g}")
        return "; ".join(parts)


class ReleaseBuilder:
    """The noisy sums of one sequence of steps, the weights in them, and how they are shown."""

    def __init__(
        self, plan: StreamPlan, noise: Noise, view: View, *, group: str | None = None
    ) -> None:
        self.sums = NoisyPrefixSums(plan.mechanism, noise, plan.target)
        self.reach = plan.target.window or 0  # how many earlier releases are needed to show one
        self.weights = PersonWeights(plan.target)
        self._pattern = plan.lattice.participation
        self._heaviest = heaviest(plan.target, self._pattern)
        self._view = view
        self._step = plan.mechanism.noise_step
        self._secure = noise.secure
        self._group = group
        self._sizes = RunningSums(plan.target.factor)
        self._taken = 0  # records in the steps so far
        self._past: deque[StoredRelease] = deque(maxlen=self.reach)

    def restore(
        self,
        records: int,
        kept: Sequence[StoredRelease],
        people: Mapping[str, StoredPerson],
    ) -> None:
        """Go on after the last of `kept`: the `reach` + 1 last releases, or all there were."""
        self._taken = records
        self._sizes.sums[:] = kept[-1].size
        self._past.extend(kept)
        self.weights.restore(people, kept, self._pattern.separation)

    def made(self, steps: Sequence[Step]) -> list[StoredRelease]:
        """Noise for the next steps, as it is stored."""
        if not steps:
            return []
        first = self.sums.steps + 1
        block = self.sums.advance(np.array([step.row for step in steps]).astype(np.int64))
        facts = zip(steps, block.squares.tolist(), block.sums, strict=True)
        return [self._stored(number, *fact) for number, fact in enumerate(facts, start=first)]

    def _stored(self, number: int, step: Step, square: float, sums: Floats) -> StoredRelease:
        """One step as it is stored; called once for each, in order."""
        size = self._sizes.one(float(step.records - self._taken))
        self._taken = step.records
        weights = self.weights
        weights.advance(step.people)
        names = step.people if weights.keeps_names else None
        return StoredRelease(
            number, step.arrivals, step.records, step.waiting, square, sums, size, step.period,
            weights.people, weights.rows, names,
        )  # fmt: skip

    def shown(self, items: Sequence[StoredRelease], ball: L2Ball | None) -> list[StreamRelease]:
        """The next stored releases as they are shown."""
        result = self._show(items, ball, self._past)
        self._past.extend(items)
        return result

    def again(
        self, kept: Iterable[StoredRelease], ball: L2Ball | None, after: int
    ) -> Iterator[StreamRelease]:
        """Releases of steps > `after`; kept: those of steps > `after` - `reach`, in order."""
        past: deque[StoredRelease] = deque(maxlen=self.reach)
        items = iter(kept)
        while held := list(itertools.islice(items, 1000)):
            due = [item for item in held if item.step > after]
            past.extend(held[: len(held) - len(due)])
            yield from self._show(due, ball, past)
            past.extend(due)

    def _show(
        self, items: Sequence[StoredRelease], ball: L2Ball | None, past: Iterable[StoredRelease]
    ) -> list[StreamRelease]:
        """The shown ones of `items`: before the first record there is nothing to show.

        past: the `reach` items before, or all there were.
        """
        first, shown = self._view.first_release, []
        for item in self._within(items, past):
            if item.records > 0 and item.size > 0 and item.step >= first:
                assert ball is not None
                shown.append(self._shown(item, ball))
        return shown

    def _within(
        self, items: Sequence[StoredRelease], past: Iterable[StoredRelease]
    ) -> Iterable[StoredRelease]:
        """Items with the sums and counts of their windows alone."""
        if not self.reach:
            return items
        both = [*past, *items]
        begin, result = len(both) - len(items), []
        for index, item in enumerate(items, start=begin):
            if index < self.reach:
                result.append(item)
                continue
            gone = both[index - self.reach]
            records, sums = item.records - gone.records, item.sums - gone.sums
            result.append(item._replace(records=records, size=float(records), sums=sums))
        return result

    def _shown(self, item: StoredRelease, ball: L2Ball) -> StreamRelease:
        """One release, in plain numbers where it has one coordinate: arrays of one number would
        take most of the time of an event."""
        view, unit, d = self._view, ball.step / float(item.size), len(ball.center)
        if d == 1:
            offset = item.sums.item() * unit
            if view.clamp and abs(offset) > ball.radius:
                offset = math.copysign(ball.radius, offset)
            estimate = np.array([ball.center[0] + offset])
        else:
            offsets = item.sums * unit
            estimate = ball.place + (clamp(offsets, ball.radius) if view.clamp else offsets)
        deviation = self._step * math.sqrt(item.square) * unit
        return StreamRelease(
            step=item.step,
            arrivals=item.arrivals,
            records=item.records,
            waiting=item.waiting,
            estimate=estimate,
            noise_sd=deviation,
            half_width=deviation * pointwise(view.level, d),
            level=view.level,
            secure=self._secure,
            population=population_width(
                deviation, self._sample(item), view.level, d, radius=ball.radius, sd=view.sd
            ),
            period=item.period,
            group=self._group,
            assumes=view.assumes,
        )

    def _sample(self, item: StoredRelease) -> float:
        """Independent rows that would be as exact as this estimate: by people, or by `icc`."""
        size, icc = float(item.size), self._view.icc
        # a state of before these sums were kept: nobody weighs more than the plan lets a person
        people = self._heaviest * size if item.people is None else item.people
        rows = size if item.rows is None else item.rows
        if icc is not None:
            people = (1 - icc) * rows + icc * people
        if people < FADED:  # their squares are lost, not yet the weights
            people, size = self._heaviest, math.sqrt(size)
        return size * size / people
