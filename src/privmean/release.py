"""What every estimator gives back: the estimate, its intervals, and the exact promise made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from privmean import validate
from privmean.errors import PrivateFailure
from privmean.intervals.interval import FAILED, OK, UNSAFE, Floats, Interval, IntervalMaker
from privmean.plain import plain, plain_tree
from privmean.privacy.guarantee import Guarantee
from privmean.provenance import SCHEMA, Provenance, sealed

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


@dataclass(frozen=True)
class Release:
    """One differentially private release.

    estimate: shape (d,), NaN where the private outcome was a failure. persons: n if it is public,
    a noisy count if one was bought, else None. status: "ok" or what the private outcome was;
    statuses: one a column, where columns differ (none: all have that of the release).
    diagnostics: further numbers that were paid for. secure: False for simulated noise. provenance:
    when and by what it was made, and the ledger entry; the one place for what changes between runs.
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
        """One row an estimate, in the columns that every release has."""
        from privmean.rows import Row

        ends, noise = self.interval(level), self.noise_interval(level)
        persons = float("nan") if self.persons is None else float(self.persons)
        found = zip(
            self.columns, self.estimate, ends.lower, ends.upper, noise.lower, noise.upper,
            self.statuses or (self.status,) * len(self.columns), strict=True,
        )  # fmt: skip
        return tuple(
            Row(column, "", float(value), lower=low, upper=high, noise_lower=below,
                noise_upper=above, persons=persons, status=status)
            for column, value, low, high, below, above, status in found
        )  # fmt: skip

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

    def summary(self) -> str:
        """The release in words and numbers, as a person would want to read it."""
        from privmean.summary import summary

        return summary(self, UNSAFE)

    def __str__(self) -> str:
        return self.summary()
