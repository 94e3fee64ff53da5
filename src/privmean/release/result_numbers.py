"""The numbers of a release: estimates, intervals, and what is said of them.

An `Outcome` is what running a plan gives, without bookkeeping; `ResultNumbers` has it in common
with the release that is made of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.inference.interval import UNDETECTED, Interval, IntervalMaker
from privmean.inference.status import AT_BOUND, FAILED, OK
from privmean.privacy.guarantee import Guarantee
from privmean.release.stored_release import Provenance, Row

T = TypeVar("T")
KEPT = 16  # intervals and tables of rows, one per level and target, that a release keeps
# what is estimated, and how people are weighted in it
PERSONS, RECORDS = "mean, people weighted equally", "mean, people weighted by records"


@dataclass(frozen=True, kw_only=True)
class ResultNotes:
    """What is said of an estimate, in an outcome and in the release that is made of it.

    persons: n if it is public, a noisy count if one was bought, else None. estimand: what is
    estimated, in words. status: the worst code of all rows; advice: what is particular to
    this case; statuses: one a column (none: all have that of the release).
    shares: parts of the budget by purpose. diagnostics: further numbers that were paid for.
    """

    n: int | None = None
    estimand: str = PERSONS
    status: str = OK
    statuses: tuple[str, ...] = ()
    advice: str = ""
    assumptions: tuple[str, ...] = ()
    shares: Mapping[str, float] = field(default_factory=dict)
    diagnostics: Mapping[str, Any] = field(default_factory=dict)

    def findings(self) -> dict[str, Any]:
        """The same by name."""
        return {item.name: getattr(self, item.name) for item in fields(ResultNotes)}


@dataclass(frozen=True)
class Outcome(ResultNotes):
    """The private outcome of one plan; the road makes a release of it.

    estimate: shape (d,), NaN where the private outcome was a failure. follows_from_answers: whether
    public facts and noisy answers alone led here. False where an error was caught, or a source was
    found changed: then what was not asked never comes back to a ledger.
    """

    estimate: Floats
    intervals: IntervalMaker
    follows_from_answers: bool = field(kw_only=True)

    @property
    def shown(self) -> Floats:
        """The estimate, NaN in every column that failed: noise is never shown as an estimate."""
        statuses = self.statuses or (self.status,) * len(self.estimate)
        failed = np.array([status == FAILED for status in statuses], dtype=bool)
        return np.where(failed, np.nan, self.estimate)


def by_cause(sampling: float, noise: float) -> dict[str, float]:
    """A predicted error, and what it is made of."""
    rmse = math.hypot(sampling, noise)
    return {"rmse": rmse, "sampling": sampling, "privacy_noise": noise}


def estimand_of(max_records: int | None) -> str:
    """What a mean of people is over: people, or their capped records."""
    return PERSONS if max_records is None else RECORDS


def name_estimand(words: str, estimand: str) -> str:
    """These words for what is estimated, with people weighted as in `estimand`."""
    return "".join((words, *estimand.partition(", people ")[1:]))


class Plan(Protocol):
    """Everything decided before data are read: scales, radii, the worst-case accounting, the
    error."""

    @property
    def estimator(self) -> str:
        """The estimator's name."""
        ...

    @property
    def rationale(self) -> str:
        """Why this method runs, in a line a person understands."""
        ...

    def describe(self) -> dict[str, Any]:
        """Public facts of the plan, for printing and JSON."""
        ...


@dataclass(frozen=True, repr=False)
class ResultNumbers(ResultNotes):
    """What a text, a picture or a table is made of; see `Release`."""

    estimate: Floats
    columns: tuple[str, ...]
    estimator: str
    guarantee: Guarantee
    intervals: IntervalMaker = field(repr=False)
    plan: Plan = field(repr=False)
    secure: bool = True
    level: float = 0.95
    provenance: Provenance = field(default_factory=Provenance, repr=False)

    def interval(self, level: float | None = None, target: str | None = None) -> Interval:
        """Interval for the population: covers sampling, privacy noise and clipping as stated."""
        at = self._level(level)
        made = self._shared(("interval", at, target), lambda: self.intervals.interval(at, target))
        return replace(made, secure=self.secure)

    def joint_interval(self, level: float | None = None) -> Interval | None:
        """Intervals that hold for all columns at once; None where they were not stored."""
        return self.interval(level)

    def noise_interval(self, level: float | None = None) -> Interval:
        """Interval for the same quantity of this very sample: privacy noise only."""
        at = self._level(level)
        made = self._shared(("noise", at), lambda: self.intervals.noise_interval(at))
        return replace(made, secure=self.secure)

    @cached_property
    def _kept(self) -> dict[tuple[object, ...], Any]:
        return {}

    def _shared(self, name: tuple[object, ...], make: Callable[[], T]) -> T:
        """What a text, a frame and a record of one release all ask for, made once."""
        if name in self._kept:
            found: T = self._kept[name]
            return found
        if len(self._kept) >= KEPT:
            self._kept.clear()
        made = self._kept[name] = make()
        return made

    def _level(self, level: float | None) -> float:
        return validate.level("level", self.level if level is None else level)

    def rows(self, level: float | None = None) -> tuple[Row, ...]:
        """One row an estimate, in the columns that every release has; each interval stands for its
        row alone (`interval` holds all together)."""
        at = self._level(level)
        return self._shared(("rows", at), lambda: self._rows(at))

    def _rows(self, level: float) -> tuple[Row, ...]:
        persons = float("nan") if self.n is None else float(self.n)
        each = self.intervals.each(level) if len(self.columns) > 1 else None
        made = []
        for j, column in enumerate(self.columns):
            interval = each[j] if each else self.row_interval(j, level)
            noise = self.row_interval(j, level, noise=True)
            status = self.statuses[j] if self.statuses else self.status
            ends = interval.lower[0], interval.upper[0], noise.lower[0], noise.upper[0]
            error = self._errors(j)[1]
            made.append(Row(column, "", float(self.estimate[j]), error, *ends, persons, status))
        return tuple(made)

    def row_interval(
        self, column: int, level: float | None = None, *, noise: bool = False
    ) -> Interval:
        """The interval of one column for itself. noise: that of privacy noise only."""
        one = self._one(column)
        made, wanted = one or self.intervals, self._level(level)
        found = made.noise_interval(wanted) if noise else made.interval(wanted)
        return replace(found if one else _part(found, column), secure=self.secure)

    def _one(self, column: int) -> IntervalMaker | None:
        """The intervals of one column; None where they are known for all together only."""
        return self.intervals if len(self.columns) == 1 else self.intervals.column(column)

    def _errors(self, column: int) -> tuple[float, float]:
        one = self._one(column)
        known = one is not None and math.isfinite(self.estimate[column])
        return one.errors() if one and known else (math.nan, math.nan)

    @property
    def std_error(self) -> Floats:
        """Standard errors of the estimates, shape (d,): privacy noise and sampling together, as far
        as noisy numbers tell. NaN where they do not. For intervals use `interval`: they count what
        a standard error leaves out (tails, noise that is not normal)."""
        return np.array([self._errors(j)[1] for j in range(len(self.columns))])

    @property
    def noise_sd(self) -> Floats:
        """Standard deviations of the privacy noise in the estimates, shape (d,); NaN if unknown."""
        return np.array([self._errors(j)[0] for j in range(len(self.columns))])

    @property
    def failed(self) -> bool:
        """Whether the private outcome is that no estimate was found."""
        return self.status == FAILED

    @property
    def answered(self) -> bool:
        """Whether there is an estimate of anything that was asked; of a comparison, of its effect.
        A public bound that no one is seen away from is no estimate. The exit status of a command is
        3 where there is none."""
        return any(
            math.isfinite(row.estimate) and (row.group or row.status != AT_BOUND)
            for row in self.rows()
        )

    parts_title: ClassVar[str] = "Parts of the half-widths"

    # --- what is printed of it --------------------------------------------------------------------
    @property
    def question_kind(self) -> str:
        """What was asked, which its sentence depends on: "mean", "groups", "compare", "effect",
        "curve", "quantile", "variance" or "regression"."""
        return "mean"

    @property
    def takes_bounds(self) -> bool:
        """Whether its question takes bounds, so that advice may name them."""
        return self.question_kind in ("mean", "curve", "quantile", "regression")

    @property
    def times(self) -> tuple[float, ...]:
        """The times of the rows of a curve; empty for other releases."""
        return ()

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """The group columns; empty for other releases."""
        return ()

    def labels(self) -> tuple[str, ...]:
        """The name of every row in a print."""
        return tuple(row.group or row.term for row in self.rows())

    def unit_of(self, row: Row, place: int) -> object:
        """What rows of one unit share, hence their decimals: means by group and their differences;
        columns and ratios have units of their own."""
        return (row.term, " / " in row.group) if row.group else place

    def joint_text(self) -> str:
        """Whether the level of several intervals holds for each or for all; "" for neither."""
        return "pointwise"

    def fitted_text(self) -> str:
        """How many people the estimate is of, beside those that there are."""
        return ""

    def footer(self) -> tuple[str, ...]:
        """Sentences below the table that only this kind of release has."""
        return ()

    def parts_text(self) -> tuple[str, ...]:
        """One line per row: the parts of its interval, where one is for undetected outliers."""
        each = self.intervals.each(self.level) or [self.interval()]
        return tuple(
            f"{name}: "
            + ", ".join(f"{cause} {half[0]:.2g}" for cause, half in one.half_widths.items())
            for name, one in zip(self.columns, each, strict=False)
            if UNDETECTED in one.half_widths
        )


def _part(found: Interval, column: int) -> Interval:
    """One column of intervals that hold together: valid for it alone, and longer than needed."""
    return replace(
        found,
        lower=found.lower[column : column + 1],
        upper=found.upper[column : column + 1],
        clip_bounds=found.clip_bounds[column : column + 1] if found.clip_bounds else (),
        half_widths={name: half[column : column + 1] for name, half in found.half_widths.items()},
    )
