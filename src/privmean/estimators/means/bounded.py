"""The mean of values limited to public bounds: no location step, nothing assumed about tails.

Every bit of the budget goes to one joint release of sums and squares, Laplace (pure epsilon) or,
for several columns and delta > 0 or rho, Gaussian where that is less noise. Source of the free
square and the interval: docs/proofs/intervals.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privmean import validate
from privmean.data.person_table import ClipInterval
from privmean.data.schema import PublicShape, TypeBounds
from privmean.errors import ArgumentError, InfeasibleError
from privmean.inference.clipped_intervals import (
    BoxIntervals,
    ColumnIntervals,
    at_bound_advice,
    bound_reached,
)
from privmean.inference.interval import BOUNDED, missing_count_at, values_within
from privmean.inference.mean_interval import (
    TOO_FEW,
    ClipUnits,
    NoisySums,
    RatioWithMissing,
    is_undetected,
)
from privmean.inference.status import AT_BOUND, FAILED, OK, release_status
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.curator import Curator
from privmean.output import count_noun
from privmean.pipeline import PlanBase
from privmean.privacy.budget import Budget
from privmean.privacy.compose import calibrate
from privmean.privacy.privacy_events import PrivacyEvent
from privmean.release.result_numbers import Outcome, by_cause

REACH = 1.96  # noise deviations to both sides may not fill the bounds


@dataclass(frozen=True)
class BoundedMean:
    """Mean of values clipped to public bounds.

    Parameters
    ----------
    bounds : (float, float) or list of pairs
        Public bounds, for all columns or one per column, in the unit of the value.
    design_effect : float, default 1.0
        Design effect of clustered people.

    Raises
    ------
    ArgumentError
        If the bounds cannot be used.

    Privacy
    -------
    Pure epsilon with Laplace noise, which leaves delta unspent, or Gaussian noise for approximate
    DP and rho. Neighbors are replace-one (n is public) or add-remove (a noisy count is charged).
    The bounds are public; privacy holds for any data.

    Notes
    -----
    The interval is for the mean of clipped values and assumes nothing about outliers. If the values
    cannot be told from a bound, the status is "at_bound" and the interval is open on that side.

    Examples
    --------
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    pm.mean(people, method=pm.BoundedMean((-2.3, 5.3)), epsilon=1.0)
    """

    bounds: tuple[float, float] | Sequence[tuple[float, float]]
    design_effect: float = 1.0

    def __post_init__(self) -> None:
        validate.keep(self, validate.positive, "design_effect")
        self.boxes(1 if self._single() else len(self.bounds))

    def _single(self) -> bool:
        try:
            return len(self.bounds) == 2 and not any(hasattr(x, "__len__") for x in self.bounds)
        except TypeError:
            raise ArgumentError(
                "bounds", self.bounds, "must be a pair", "use bounds=(lower, upper)"
            ) from None

    def boxes(self, dimension: int) -> tuple[ClipInterval, ...]:
        """One clipping interval per column."""
        if self._single():
            return (ClipInterval(*validate.bounds("bounds", self.bounds)),) * dimension
        if len(self.bounds) != dimension:
            raise ArgumentError(
                "bounds",
                self.bounds,
                f"must have one pair for each of {count_noun(dimension, 'column')}",
                "give one pair for all columns or one for each",
            )
        return tuple(ClipInterval(*validate.bounds("bounds", item)) for item in self.bounds)

    def plan(self, budget: Budget, shape: PublicShape) -> BoundedMeanPlan:
        """The noise, before any data. A guess of the number of people is used to predict errors
        only."""
        boxes = self.boxes(shape.dimension)
        sums = _cheapest(budget, shape.dimension)
        if shape.n is not None and shape.n < REACH * sums.value_sd:
            raise InfeasibleError(
                f"n={shape.n} is too small with {budget.describe()}: the noise is as wide as "
                "the bounds",
                f"provide at least {math.ceil(REACH * sums.value_sd)} people, or a larger epsilon",
            )
        return BoundedMeanPlan(self, budget, shape, boxes, sums)


def _side(sums: NoisySums) -> int:
    """At which bound the mean is, as far as the noise shows."""
    scales = sums.scales(math.copysign(1.0, sums.value))
    return bound_reached(sums.value, sums.square, sums.n, scales, sums.square_scale)


def _cheapest(budget: Budget, dimension: int) -> ClippedSums:
    """Laplace noise, or Gaussian noise of all columns together where that is less."""
    relation = budget.neighbors

    def gaussian(mu: float) -> ClippedSums:
        return ClippedSums("clipped sums", relation, dimension, mu=mu)

    each = budget.pure_epsilon() / dimension
    laplace = ClippedSums("clipped sums", relation, dimension, epsilon=each)
    if not budget.is_pure:
        mu = calibrate(lambda t: gaussian(t).events, budget, grid=False)
        if mu > 0 and gaussian(mu).value_sd < laplace.value_sd:
            return gaussian(mu)
    return laplace


@dataclass(frozen=True)
class BoundedMeanPlan(PlanBase):
    """Noise of a bounded mean: all in `sums`."""

    settings: BoundedMean
    budget: Budget
    shape: PublicShape
    boxes: tuple[ClipInterval, ...]
    sums: ClippedSums

    estimator = "bounded mean"
    fixed = True

    @property
    def rationale(self) -> str:
        return f"public bounds were given: values are limited to them, one {self.sums.law} release"

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.sums.events

    @property
    def typical_sd(self) -> float:
        """Half of the radius: a deviation between people where none is guessed."""
        return math.sqrt(sum(box.radius**2 for box in self.boxes) / len(self.boxes)) / 2

    def predict(self, guess_sd: float) -> dict[str, float]:
        """Predicted error by cause (root of the sum over columns), for a guess of the deviation."""
        sd = validate.positive("guess_sd", guess_sd)
        n = self.shape.number()
        sampling = sd * math.sqrt(self.settings.design_effect * self.shape.dimension / n)
        noise = self.sums.value_sd * math.sqrt(sum(box.radius**2 for box in self.boxes)) / n
        return by_cause(sampling, noise)

    def describe(self) -> dict[str, Any]:
        return {
            "bounds": [[box.lower, box.upper] for box in self.boxes],
            "noise": self.sums.law,
            "design effect": self.settings.design_effect,
        }

    def run(self, curator: Curator) -> Outcome:
        """A column fails privately only if nobody is seen in it (under add-remove, or nulls)."""
        sums = self.sums.over(self.boxes)
        released = curator.ask(sums, sums.exact(curator.people.interval_sums(self.boxes)))
        columns = [RatioWithMissing.of(item, self.shape.n) for item in released]
        items = [item.sums.within_bounds() for item in columns]
        present, missing = [item.present for item in columns], [item.missing for item in columns]
        sides = [
            0 if isinstance(bounds, TypeBounds) else _side(item)
            for item, bounds in zip(items, self._said(), strict=True)
        ]
        statuses = tuple(
            FAILED if item.missing and is_undetected(sums) else AT_BOUND if side else OK
            for item, sums, side in zip(columns, released, sides, strict=True)
        )
        names = self.shape.columns if self.shape.dimension > 1 else ("",)
        advice = [
            at_bound_advice(side, (box.lower, box.upper), name) if status == AT_BOUND else ""
            for side, box, name, status in zip(sides, self.boxes, names, statuses, strict=True)
        ]
        makers = [
            ColumnIntervals(
                None if status == FAILED else item,
                ClipUnits(box.middle, box.radius, (box.lower, box.upper)),
                default=BOUNDED,
                bounds=(box.lower, box.upper),
                design_effect=self.settings.design_effect,
                status=status,
                open_side=side,
                advice=words,
            )
            for item, box, status, side, words in zip(
                items, self.boxes, statuses, sides, advice, strict=True
            )
        ]
        estimate = [
            min(max(box.middle + box.radius * s.mean, box.lower), box.upper)
            for s, box in zip(items, self.boxes, strict=True)
        ]
        stand = (count for count, item in zip(present, statuses, strict=True) if item != FAILED)
        noisy_n = next(stand, present[0])
        given = (item for item in self._said() if not isinstance(item, TypeBounds))
        said = dict.fromkeys(tuple(map(float, item)) for item in given)
        notes = [values_within(*item) for item in said]
        if not all(missing):
            notes.append(missing_count_at("the middle of the bounds"))
        return Outcome(
            np.array(estimate),
            makers[0] if self.shape.dimension == 1 else BoxIntervals(makers),
            n=self.shape.n if self.shape.n is not None else max(round(noisy_n), 0),
            status=release_status(statuses),
            statuses=statuses,
            advice=" ".join(filter(None, [TOO_FEW if FAILED in statuses else "", *advice])),
            assumptions=tuple(notes),
            shares={"mean and square": 1.0},
            diagnostics={"people with a value": present},
            follows_from_answers=True,
        )

    def _said(self) -> Sequence[Any]:
        """The bounds of every column as they were given."""
        given: Any = self.settings.bounds
        return given if hasattr(given[0], "__len__") else (given,) * self.shape.dimension

    @property
    def public(self) -> tuple[str, ...]:
        shape = ("n", "roster of people") if self.shape.n is not None else ()
        return (*shape, "column names", "bounds")
