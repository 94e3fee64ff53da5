"""What every estimator gives back: the estimate, its intervals, and the exact promise made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from privmean import validate
from privmean.errors import PrivateFailure
from privmean.intervals.interval import (
    FAILED,
    OK,
    UNSAFE,
    ByColumn,
    Deviating,
    Floats,
    Interval,
    IntervalMaker,
)
from privmean.plain import plain, plain_tree
from privmean.privacy.guarantee import Guarantee
from privmean.provenance import NAME, SCHEMA, Provenance, sealed

if TYPE_CHECKING:
    from privmean.rows import Row


class Plan(Protocol):
    """Everything decided before data are read: scales, radii, the worst-case bill, the error."""

    @property
    def estimator(self) -> str:
        """The estimator's name."""
        ...

    @property
    def why(self) -> str:
        """Why this method runs, in a line a person understands."""
        ...

    def describe(self) -> dict[str, Any]:
        """Public facts of the plan, for printing and JSON."""
        ...


@dataclass(frozen=True, repr=False)
class Release:
    """One differentially private release.

    In a few lines: `print(release)`; all of it: `release.details()`; as a table: `rows()`,
    `to_frame()`; as a picture: `plot()`; for files and `privmean verify`: `to_dict()`.

    estimate: shape (d,), NaN where the private outcome was a failure. persons: n if it is public,
    a noisy count if one was bought, else None. status: "ok" or what the private outcome was;
    statuses: one a column, where columns differ (none: all have that of the release).
    diagnostics: further numbers that were paid for. secure: False for simulated noise. provenance:
    when and by what it was made, and the ledger entry; the one place for what changes between runs.

    Example:
        people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
        release = pm.mean(people, epsilon=1.0)
        release.estimate, release.interval(0.99), release.rows()
        print(release.details())
        assert pm.verify(release.to_dict())
    """

    estimate: Floats
    columns: tuple[str, ...]
    estimator: str
    guarantee: Guarantee
    intervals: IntervalMaker = field(repr=False)
    plan: Plan = field(repr=False)
    persons: int | None = None
    estimand: str = "mean over persons"
    status: str = OK
    advice: str = ""
    assumptions: tuple[str, ...] = ()
    shares: Mapping[str, float] = field(default_factory=dict)
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    secure: bool = True
    level: float = 0.95
    provenance: Provenance = field(default_factory=Provenance, repr=False)
    statuses: tuple[str, ...] = ()
    tabled: ClassVar[bool] = False  # shown as a table, also where it is one line

    def interval(self, level: float | None = None, target: str | None = None) -> Interval:
        """Interval for the population: covers sampling, privacy noise and clipping as stated."""
        found = self.intervals.interval(self._level(level), target)
        return replace(found, secure=self.secure)

    def noise_interval(self, level: float | None = None) -> Interval:
        """Interval for the same quantity of this very sample: privacy noise alone."""
        return replace(self.intervals.noise_interval(self._level(level)), secure=self.secure)

    def _level(self, level: float | None) -> float:
        return validate.level("level", self.level if level is None else level)

    def rows(self, level: float | None = None) -> tuple[Row, ...]:
        """One row an estimate, in the columns that every release has; each interval stands for its
        row alone (`interval` holds all together)."""
        from privmean.rows import Row

        persons = float("nan") if self.persons is None else float(self.persons)
        made = []
        for j, column in enumerate(self.columns):
            ends, noise = self.alone(j, level), self.noise_alone(j, level)
            own = isinstance(self.intervals, ByColumn) and not self.failed
            status = ends.status if own or self.status == OK else self.status
            if self.statuses and self.statuses[j] != OK:
                status = self.statuses[j]
            made.append(
                Row(
                    column,
                    "",
                    float(self.estimate[j]),
                    self._errors(j)[1],
                    ends.lower[0],
                    ends.upper[0],
                    noise.lower[0],
                    noise.upper[0],
                    persons,
                    status,
                )
            )
        return tuple(made)

    def alone(self, column: int, level: float | None = None) -> Interval:
        """The interval of one column for itself."""
        wanted = self._level(level)
        one = self._one(column)
        found = self.interval(wanted) if one is None else one.interval(wanted, None)
        return replace(found if one else _part(found, column), secure=self.secure)

    def noise_alone(self, column: int, level: float | None = None) -> Interval:
        """The interval of one column for itself: privacy noise alone."""
        wanted = self._level(level)
        one = self._one(column)
        found = self.noise_interval(wanted) if one is None else one.noise_interval(wanted)
        return replace(found if one else _part(found, column), secure=self.secure)

    def _one(self, column: int) -> IntervalMaker | None:
        """The intervals of one column; None where they are known for all together only."""
        if len(self.columns) == 1:
            return self.intervals
        return self.intervals.column(column) if isinstance(self.intervals, ByColumn) else None

    def _errors(self, column: int) -> tuple[float, float]:
        one: object = self._one(column)
        if isinstance(one, Deviating) and math.isfinite(self.estimate[column]):
            return one.errors()
        return math.nan, math.nan

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

    def conf_int(self, level: float | None = None, *, simultaneous: bool = False) -> Floats:
        """Lower and upper ends, shape (d, 2): each interval alone, or all columns together.

        Example:
            low, high = release.conf_int(0.9)[0]
        """
        if simultaneous:
            together = self.interval(level)
            return np.array([together.lower, together.upper]).T
        rows = self.rows(level)
        return np.array([[row.lower, row.upper] for row in rows])

    def to_frame(self, backend: str | None = None, *, level: float | None = None) -> Any:
        """The rows as a frame: term, group, estimate, std_error, lower, upper, noise_lower,
        noise_upper, persons, status.

        backend: "pandas", "polars" or "pyarrow"; None takes one that is imported or installed.

        Example:
            release.to_frame("polars")
        """
        from privmean.people.framing import frame_of
        from privmean.rows import columns_of

        return frame_of(columns_of(self.rows(level)), backend)

    def plot(self, axes: object = None) -> Any:
        """Both intervals of every row on one axis (needs privmean[plot]); returns the axes."""
        from privmean.pictures import plotted

        return plotted(self.rows(), self.level, axes)

    @property
    def failed(self) -> bool:
        """Whether the private outcome is that no estimate was found."""
        return self.status == FAILED

    def __float__(self) -> float:
        if len(self.columns) != 1:
            raise TypeError("only a release of one column converts to a float")
        if self.failed:
            raise PrivateFailure(f"the release failed privately: {self.advice}")
        return float(self.estimate[0])

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON (numbers that are not finite become null).

        The digest in `provenance` binds all of it: `privmean.verify` notices what was changed.
        """
        return sealed(plain_tree(self.facts()), self.provenance.to_dict())

    def facts(self) -> dict[str, Any]:
        """What `to_dict` holds besides the provenance."""
        result: dict[str, Any] = {
            "schema": SCHEMA,
            "kind": "release",
            "rows": [row.to_dict() for row in self.rows()],
            "estimate": [plain(item) for item in self.estimate],
            "interval": self.interval().to_dict(),
            "noise_interval": self.noise_interval().to_dict(),
            "guarantee": self.guarantee.to_dict(),
            "persons": self.persons,
            "columns": list(self.columns),
            "estimator": self.estimator,
            "estimand": self.estimand,
            "why": self.plan.why,
            "assumptions": list(self.assumptions),
            "budget_shares": {name: plain(value) for name, value in self.shares.items()},
            "diagnostics": plain_tree(self.diagnostics),
            "plan": plain_tree(self.plan.describe()),
            "status": self.status,
            "statuses": list(self.statuses or (self.status,) * len(self.columns)),
            "advice": self.advice,
            "secure": self.secure,
        }
        if not self.secure:
            result["warning"] = UNSAFE
        return result

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Release:
        """The release that `to_dict` stored: its numbers, rows, promise and bill, with intervals at
        the levels that were stored. Whether it is as it was written is for `privmean.verify`.

        Raises ArgumentError for what is no stored release.

        Example:
            pm.Release.from_dict(json.loads(path.read_text())).to_frame()
        """
        from privmean.stored import parts_of

        return StoredRelease(**parts_of(values))

    def title(self) -> str:
        """What is estimated, in a line."""
        return self.estimand

    def footer(self) -> tuple[str, ...]:
        """Lines below the table that only this kind of release has."""
        return ()

    def summary(self) -> str:
        """The release in a few lines: what `print` shows."""
        from privmean.summary import summary

        return summary(self, UNSAFE)

    def details(self) -> str:
        """The release in full: every assumption, limit, share of the budget and mechanism call."""
        from privmean.summary import details

        return details(self, UNSAFE)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        from privmean.summary import one_line

        return one_line(self)

    def _repr_html_(self) -> str:
        from privmean.pictures import page

        return page(self, UNSAFE)


def _part(found: Interval, column: int) -> Interval:
    """One column of intervals that hold together: valid for it alone, and longer than needed."""
    return replace(
        found,
        lower=found.lower[column : column + 1],
        upper=found.upper[column : column + 1],
        region=found.region[column : column + 1] if found.region else (),
        parts={name: half[column : column + 1] for name, half in found.parts.items()},
    )


@dataclass(frozen=True, repr=False)
class StoredRelease(Release):
    """A release as it was stored; `to_dict` gives the same again, digest and signature included."""

    stored: Mapping[str, Any] = field(default_factory=dict)
    found: tuple[Row, ...] = ()

    def rows(self, level: float | None = None) -> tuple[Row, ...]:
        """The rows that were stored, at the level that was stored."""
        self.interval(level)
        return self.found

    @property
    def std_error(self) -> Floats:
        return np.array([row.std_error for row in self.found])

    def facts(self) -> dict[str, Any]:
        return {name: value for name, value in self.stored.items() if name != NAME}

    def to_dict(self) -> dict[str, Any]:
        return dict(self.stored)
