"""What every estimator gives back: the estimate, its intervals, and the exact guarantee made.

A stored release is read back from what `to_dict` stored: its numbers, nothing computed anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np

from privmean.array_types import Floats
from privmean.errors import ArgumentError, NoEstimateError
from privmean.inference.interval import UNSAFE, Interval, IntervalMaker
from privmean.inference.status import read_status
from privmean.output import HasOutput, Output
from privmean.plain_data import plain, plain_tree
from privmean.privacy import older_names
from privmean.privacy.guarantee import Guarantee
from privmean.release.result_numbers import ResultNumbers
from privmean.release.stored_release import (
    NOT_COVERED,
    PROVENANCE,
    ROW_FIELDS,
    SCHEMA,
    Provenance,
    Row,
    columns_of,
    sealed,
)

R = TypeVar("R", bound="Release")


@dataclass(frozen=True, repr=False)
class Release(HasOutput, ResultNumbers):
    """One differentially private release: estimates, intervals, guarantee and accounting.

    Attributes
    ----------
    estimate : array (d,)
        One number per row, in the unit of the value; NaN without an estimate.
    columns : tuple of str
        Names of the rows.
    estimator : str
        Name of the estimator.
    guarantee : Guarantee
        The privacy guarantee with every mechanism call.
    intervals : IntervalMaker
        Makes the intervals; use `interval`.
    plan : Plan
        The plan that was run.
    secure : bool
        False for simulated noise.
    level : float
        Confidence level of the intervals.
    provenance : Provenance
        When and by what the release was made, and its ledger entry. All that changes between runs.
    n : int, optional
        Number of people: public, or a noisy count. None if neither is known.
    estimand : str
        What is estimated, and how people are weighted.
    status, statuses : str, tuple of str
        The worst code of all rows, and one code per row (empty: all have that of the release).
    advice : str
        Detail of this case.
    assumptions : tuple of str
        What the intervals assume. The guarantee assumes nothing.
    shares : dict
        Budget shares by purpose.
    diagnostics : dict
        Further numbers that were charged.

    Notes
    -----
    As a table: `print(release)`, `to_markdown()`, `to_latex()`, `to_frame()` and `rows()`. In full:
    `details()`; as a figure: `plot()`; for files and `privmean verify`: `to_dict()`.

    Examples
    --------
    people = pm.read(pm.example("nlswork"), person="person_id", values="ln_wage")
    release = pm.mean(people, epsilon=1.0)
    release.estimate, release.interval(0.99), release.rows()
    print(release.details())
    assert pm.verify(release.to_dict())
    """

    def conf_int(self, level: float | None = None, *, simultaneous: bool = False) -> Floats:
        """Lower and upper ends, shape (d, 2): each interval alone, or all columns together.

        Example:
            low, high = release.conf_int(0.9)[0]
        """
        if simultaneous:
            together = self.joint_interval(level)
            if together is None:
                raise _not_stored("simultaneous", True, "is not in the stored release")
            return np.array([together.lower, together.upper]).T
        rows = self.rows(level)
        return np.array([[row.lower, row.upper] for row in rows])

    def to_frame(self, backend: str | None = None, *, level: float | None = None) -> Any:
        """The rows as a frame: term, group, estimate, std_error, lower, upper, noise_lower,
        noise_upper, people, status.

        backend: "pandas", "polars" or "pyarrow"; None takes one that is imported or installed.

        Example:
            release.to_frame("polars")
        """
        from privmean.data.list_columns import frame_of

        return frame_of(columns_of(self.rows(level)), backend)

    def plot(self, axes: object = None) -> Any:
        """Both intervals of every row on one axis (needs privmean[plot]); returns the axes."""
        from privmean.release.charts import plotted

        return plotted(self.rows(), self.level, axes)

    def __float__(self) -> float:
        if len(self.columns) != 1:
            raise TypeError("only a release of one column converts to a float")
        if self.failed:
            raise NoEstimateError(f"the release has no estimate: {self.advice}")
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
            "n": self.n,
            "columns": list(self.columns),
            "estimator": self.estimator,
            "estimand": self.estimand,
            "rationale": self.plan.rationale,
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
        """The release that `to_dict` stored: its numbers, rows, guarantee and accounting, with
        intervals at the levels that were stored. Whether it is as it was written is for
        `privmean.verify`.

        Raises ArgumentError for what is no stored release.

        Example:
            pm.Release.from_dict(json.loads(path.read_text())).to_frame()
        """
        return StoredRelease(**parts_of(values))

    def output(self, noise: bool = False) -> Output:
        """What `print` shows, before it is text. noise: with the intervals of privacy noise."""
        from privmean.release.formatting import output

        return output(self, UNSAFE, noise=noise)

    def summary(self, *, noise: bool = False) -> str:
        """The release as a table: what `print` shows.

        noise: with the noise-only interval of every row, which leaves sampling error out.

        Example:
            print(release.summary(noise=True))
        """
        return self.output(noise).text()

    def sentence(self, label: str = "", unit: str = "") -> str:
        """The answer in words, for readers who are no analysts, with three significant digits.

        label: what the values are, such as "log wage"; unit: theirs, such as "dollars".

        Example:
            release.sentence("log wage")
        """
        from privmean.release.sentences import sentence

        return sentence(self, label, unit)

    def details(self) -> str:
        """The release in full: every assumption, bound, share of the budget and mechanism call."""
        from privmean.release.formatting import details

        return details(self, UNSAFE).text()

    def __repr__(self) -> str:
        from privmean.release.formatting import one_line

        return one_line(self)


def as_kind(release: Release, kind: type[R], **changed: Any) -> R:
    """The same as a release of this kind, with these fields of its own or changed."""
    kept = {item.name: getattr(release, item.name) for item in fields(release)}
    return kind(**kept | changed)


@dataclass(frozen=True, repr=False)
class StoredRelease(Release):
    """A release as it was stored; `to_dict` gives the same again, digest and signature included."""

    stored: Mapping[str, Any] = field(default_factory=dict)
    found: tuple[Row, ...] = ()

    def _rows(self, level: float) -> tuple[Row, ...]:
        """The rows that were stored, at the level that was stored."""
        self.interval(level)
        return self.found

    @property
    def question_kind(self) -> str:
        if "p_value" in self.stored:
            return "compare" if "groups" in self.stored else "effect"
        return next((kind for key, kind in STORED_KINDS.items() if key in self.stored), "mean")

    @property
    def times(self) -> tuple[float, ...]:
        return tuple((self.stored.get("curve") or {}).get("at") or ())

    @property
    def grouped_by(self) -> tuple[str, ...]:
        stored = (self.stored.get("values") or (self.stored,))[0]
        return tuple(stored.get("by") or ())

    @property
    def answered(self) -> bool:
        """The effect of a comparison is its last row."""
        if "p_value" in self.stored:
            return math.isfinite(self.found[-1].estimate)
        return super().answered

    def labels(self) -> tuple[str, ...]:
        if self.question_kind == "quantile":
            return quantile_labels(self.stored["q"])
        return VARIANCE_LABELS if self.question_kind == "variance" else super().labels()

    def unit_of(self, row: Row, place: int) -> object:
        shared = self.question_kind in ("quantile", "curve")
        return "" if shared else super().unit_of(row, place)

    def joint_text(self) -> str:
        return "" if self.question_kind == "variance" else super().joint_text()

    def fitted_text(self) -> str:
        regression = self.question_kind == "regression"
        return fitted_text(self.diagnostics) if regression else ""

    def joint_interval(self, level: float | None = None) -> Interval | None:
        """Of groups the ends of each alone are stored."""
        return None if any(row.group for row in self.found) else self.interval(level)

    @property
    def std_error(self) -> Floats:
        return np.array([row.std_error for row in self.found])

    def facts(self) -> dict[str, Any]:
        return {name: value for name, value in self.stored.items() if name != PROVENANCE}

    def to_dict(self) -> dict[str, Any]:
        return dict(self.stored)


STORED_KINDS = {  # keys that only one kind of release stores
    "q": "quantile", "deviation": "variance", "curve": "curve", "formula": "regression",
    "groups": "groups", "values": "groups",
}  # fmt: skip
VARIANCE_LABELS = ("variance", "std deviation")


def quantile_labels(parts: Iterable[float]) -> tuple[str, ...]:
    """The name of every quantile in a print: 25%."""
    return tuple(f"{100 * part:.10g}%" for part in parts)


def fitted_text(diagnostics: Mapping[str, Any]) -> str:
    """How many people a regression could be fitted to, where that was released."""
    weights = [item for item in diagnostics.get("weight") or () if math.isfinite(item or math.nan)]
    return f", about {max(0, round(weights[0])):,} with a fit (noisy)" if weights else ""


# --- a stored release, read back ------------------------------------------------------------------
INFINITE = {
    "lower": -math.inf,
    "upper": math.inf,
    "noise_lower": -math.inf,
    "noise_upper": math.inf,
}


@dataclass(frozen=True)
class StoredPlan:
    """What a release says of the plan that made it."""

    estimator: str
    rationale: str
    stated: Mapping[str, Any]

    def describe(self) -> dict[str, Any]:
        return dict(self.stated)


@dataclass(frozen=True)
class StoredIntervals(IntervalMaker):
    """The two intervals of a stored release, at their level; no other can be made of them."""

    population: Interval
    noise: Interval

    def interval(self, level: float, target: str | None = None) -> Interval:
        if target not in (None, self.population.target):
            raise _not_stored("target", target, "is not the one that was stored")
        return _at(self.population, level)

    def noise_interval(self, level: float) -> Interval:
        return _at(self.noise, level)


def _at(found: Interval, level: float) -> Interval:
    if level != found.level:
        raise _not_stored("level", level, f"must be the stored level, {found.level:g}")
    return found


def _not_stored(name: str, value: object, problem: str) -> ArgumentError:
    return ArgumentError(name, value, problem, "use the release object that made the file")


def parts_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a stored release, by their names; see `Release.from_dict`."""
    stored = values
    if isinstance(values, Mapping):
        values = older_names.release(values)
    if not isinstance(values, Mapping) or "estimate" not in values:
        raise ArgumentError(
            "values", type(values).__name__, "must hold a release", "give the result of `to_dict`"
        )
    if not isinstance(values.get("rows"), list):
        raise ArgumentError(
            "schema",
            values.get("schema"),
            "is from an older privmean, which stored no rows",
            "read its numbers by name, or check it with pm.verify",
        )
    try:
        population, noise = _interval(values["interval"]), _interval(values["noise_interval"])
        stated = values.get("plan") or {}
        return {
            "estimate": np.array([_number(item, math.nan) for item in values["estimate"]]),
            "columns": tuple(str(item) for item in values["columns"]),
            "estimator": str(values["estimator"]),
            "guarantee": Guarantee.from_dict(stored["guarantee"]),
            "intervals": StoredIntervals(population, noise),
            "plan": StoredPlan(str(values["estimator"]), str(values["rationale"]), stated),
            "n": values.get("n"),
            "estimand": str(values["estimand"]),
            "status": read_status(values["status"], None not in values["estimate"]),
            "advice": str(values["advice"]),
            "assumptions": tuple(values["assumptions"]),
            "shares": {name: _number(x, math.nan) for name, x in values["budget_shares"].items()},
            "diagnostics": dict(values["diagnostics"]),
            "secure": values["secure"] is True,
            "level": population.level,
            "provenance": provenance_of(values.get(PROVENANCE) or {}),
            "stored": dict(stored),
            "found": tuple(_row(item) for item in values["rows"]),
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArgumentError(
            "values",
            type(error).__name__,
            "must hold a complete release",
            "give the result of `to_dict`",
        ) from None


def provenance_of(found: Mapping[str, Any]) -> Provenance:
    """When and by what a stored release was made."""
    engine = found.get("engine") or {}
    stated = {name: value for name, value in found.items() if name not in NOT_COVERED}
    return Provenance(
        time=str(stated.get("time", "")),
        versions=dict(stated.get("versions") or {}),
        engine=str(engine.get("name", "not stated")),
        engine_version=engine.get("version"),
        entry=stated.get("ledger"),
    )


def _interval(found: Mapping[str, Any]) -> Interval:
    return Interval(
        tuple(_number(item, -math.inf) for item in found["lower"]),
        tuple(_number(item, math.inf) for item in found["upper"]),
        float(found["level"]),
        kind=str(found["kind"]),
        target=str(found["target"]),
        assumption=str(found["assumption"]),
        clip_bounds=tuple(
            (_number(a, -math.inf), _number(b, math.inf)) for a, b in found["clip_bounds"]
        ),
        half_widths={
            name: tuple(_number(item, math.inf) for item in half)
            for name, half in found["half_widths"].items()
        },
        status=read_status(found["status"]),
        advice=str(found["advice"]),
        secure=found["secure"],
        short_assumption=str(found.get("short_assumption", "")),
    )


def _row(found: Mapping[str, Any]) -> Row:
    words: dict[str, Any] = {name: str(found[name]) for name in ("term", "group")}
    words["status"] = read_status(found["status"], found["estimate"] is not None)
    failed = found["estimate"] is None and found["lower"] is None and found["upper"] is None
    numbers: dict[str, Any] = {
        name: _number(found[name], math.nan if failed else INFINITE.get(name, math.nan))
        for name in ROW_FIELDS
        if name not in words
    }
    return Row(**words, **numbers)


def _number(value: Any, missing: float) -> float:
    return missing if value is None else float(value)
