"""Mean curves of people with records at any times, in public bins.

Times belong to people and are private, so that cells of time are not disjoint: a person
contributes one mean a bin, a vector, and the means of bins are released together, over many
columns. docs/proofs/longitudinal.md, section 6.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import date
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from privmean import validate
from privmean.central.concentration import Bounded
from privmean.central.winsorized import WinsorizedMean
from privmean.data.array_table import ArrayPersonTable
from privmean.errors import ArgumentError
from privmean.estimators.means.clipped_mean import ClippedMeans
from privmean.inference.at_bound import BOOLEAN, TypeBounds
from privmean.inference.status import FAILED, release_status
from privmean.models.bin_suppression import TOO_FEW, BinnedIntervals
from privmean.models.bins_from_region import RegionBins
from privmean.models.curve_release import CurveRelease
from privmean.models.joint_bins import JointBins
from privmean.models.private_scale import CHEAP, PrivateScale
from privmean.models.tail_intervals import TailIntervals
from privmean.questions.assumptions import (
    BOUNDS,
    CONCENTRATION,
    Auto,
    Clipping,
    argument_name,
    kind_of,
)
from privmean.questions.base import Estimator, QuestionDefaults
from privmean.questions.bin_edges import Edges, bin_names, edge_text, edges_of, middles
from privmean.questions.declared_bounds import booleans_of, is_unit_pair
from privmean.release.release import Release
from privmean.signatures import known_keywords

if TYPE_CHECKING:
    from privmean.data.table import Table
    from privmean.privacy.budget import Budget


@dataclass(frozen=True)
class BinnedMeans:
    """A person's mean of own records in every bin of time, null without one."""

    value: str
    time: str
    edges: Edges
    resolution: float
    by: str | None = None
    levels: tuple[str | float, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        bins = bin_names(self.edges)
        if self.by is None:
            return bins
        return tuple(f"{level} {item}" for level in self.levels for item in bins)

    def reduce(self, table: Table) -> ArrayPersonTable:
        """Private, spends nothing. Sums are exact integers, counted and added in the engine."""
        from privmean.data.person_products import person_products

        x, t = ast.Name(self.value), ast.Name(self.time)
        bins: list[tuple[Any, Any]] = list(pairwise(self.edges))
        # an indicator of a bin is the product of two comparisons
        indicators: list[tuple[ast.expr, ...]] = [
            (
                ast.Compare(t, [ast.GtE()], [ast.Constant(a)]),
                ast.Compare(t, [ast.Lt()], [ast.Constant(b)]),
            )
            for a, b in bins
        ]
        names, texts = dict.fromkeys((self.value, self.time)), tuple[str, ...]()
        dates = (self.time,) if isinstance(self.edges[0], str) else ()
        if self.by is not None:  # the bins of one group, then those of the other
            group = [
                ast.Compare(ast.Name(self.by), [ast.Eq()], [ast.Constant(level)])
                for level in self.levels
            ]
            indicators = [(*item, one) for one in group for item in indicators]
            names |= {self.by: None}
            if isinstance(self.levels[0], str):
                texts = (self.by,)
        d = len(indicators)
        made = person_products(
            table.source,
            person=table.person,
            columns=tuple(names),
            texts=texts,
            dates=dates,
            products=[*indicators, *((*item, x) for item in indicators)],
            steps=[1.0] * d + [self.resolution] * d,
            roster=table.roster,
            text=table.text,
            resources=table.resources.options(),
            squares=False,
        )
        count, total = made.sums[:, :d], made.sums[:, d:]
        with np.errstate(all="ignore"):
            rows = np.where(count > 0, total / count, np.nan)
        return ArrayPersonTable(rows, self.names, engine=made.engine)


@known_keywords
@dataclass(frozen=True)
class Curve(QuestionDefaults):
    """Estimate a mean over time, in public bins.

    Parameters
    ----------
    value : str
        Column to average. A person counts in a bin with the mean of the person's records there.
    time : str
        Column of times: numbers or dates.
    bins : list of float, date or str
        Increasing public edges; bin j holds edges[j] <= time < edges[j + 1]. With dates the unit of
        time is a day, counted from 1970-01-01.
    resolution : float, default 2**-20
        Grid step: values are rounded to this power of two, in their unit.
    assume : bounds or concentration, optional
        What accuracy assumes; privacy assumes nothing. Default: the scale is found privately, and
        values are clipped around zero.
    method : str or estimator, default "auto"
        Estimator of the means. `PrivateScale(target="mean")` counts outliers at any budget.
    clustering : float, default 1.0
        Design effect of clustered people.
    smooth : float, default 0.0
        Bandwidth of a local linear smoother, in units of time; requires bounds.
    by : str, optional
        Column of two groups: the difference of their curves is released.
    levels : list, optional
        The two values of `by`; the second minus the first is released.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    Person-level differential privacy, times included. One person can be in all bins, which share
    the budget: their composed loss is at most the budget, for any data. Public are the bins, the
    settings and, under replace-one, the roster.

    Notes
    -----
    A bin is "suppressed" if its noisy number of people is below 5 standard deviations of its noise.
    Source: docs/proofs/longitudinal.md, section 6, in its binned form.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    question = pm.Curve("ln_wage", "year", bins=[1968, 1975, 1982, 1989], assume=(0, 4))
    print(pm.ask(table, question, epsilon=1.0))
    """

    kind: ClassVar[str] = "curve"

    value: Annotated[str, "Name the column to average."]
    time: Annotated[str, "Name the column of times."]
    bins: Annotated[
        Sequence[float] | Sequence[date] | list[str],
        "List increasing public edges, numbers or dates.",
    ]
    resolution: Annotated[float, "Round values to this power of two."] = 2.0**-20
    assume: Annotated[Clipping | None, "Assume this about the values; see the method guide."] = None
    method: Annotated[Auto | Estimator, "Choose the estimator; auto uses public facts only."] = (
        "auto"
    )
    clustering: Annotated[float, "Give the design effect of clustered people."] = 1.0
    smooth: Annotated[float, "Smooth with this bandwidth, in units of time."] = 0.0
    by: Annotated[str | None, "Name a column of two groups to compare."] = None
    levels: Annotated[
        tuple[str, ...] | None, "Name the two values; the second minus the first."
    ] = None

    def __post_init__(self) -> None:
        validate.nonnegative("smooth", self.smooth)
        object.__setattr__(self, "levels", _levels(self.by, self.levels))
        for name in ("value", "time"):
            if not isinstance(getattr(self, name), str):
                raise ArgumentError(name, getattr(self, name), "is not a column", "name a column")
        if self.by in (self.value, self.time):
            raise ArgumentError("by", self.by, "is named twice", "name each column once")
        object.__setattr__(self, "bins", edges_of(self.bins))
        validate.positive("clustering", self.clustering)
        _ = self.summary
        self._chosen()

    @property
    def summary(self) -> BinnedMeans:
        step = validate.power_of_two("resolution", self.resolution)
        return BinnedMeans(
            self.value, self.time, edges_of(self.bins), step, self.by, self.levels or ()
        )

    def with_public_facts(self, table: Table | None) -> Curve:
        """With the bounds of a Boolean column."""
        has_assumption = self.assume is not None and not is_unit_pair(self.assume)
        if has_assumption or self.method != "auto":
            return self
        return replace(self, assume=BOOLEAN) if any(booleans_of(table, (self.value,))) else self

    def estimator(self, columns: int, max_records: int | None, budget: Budget) -> Estimator:
        return self._chosen()

    @property
    def shareable_columns(self) -> tuple[str, ...]:
        """Its column, where nothing is assumed of the values."""
        usual = self.assume is None and self.method == "auto" and not self._joint
        return (self.value,) if usual else ()

    @property
    def _joint(self) -> bool:
        """Whether points share bins, so that the covariance of bins is asked for."""
        return bool(self.smooth) or self.by is not None

    @property
    def wants_shared_location(self) -> bool:
        return False

    def from_regions(self, columns: tuple[str, ...]) -> RegionBins:
        return RegionBins(self.clustering)

    def _chosen(self) -> Estimator:
        if self._joint:
            if self.method != "auto" or self.assume is None or kind_of(self.assume) != BOUNDS:
                name = "bounds" if self.assume is None else argument_name(self.assume)
                raise ArgumentError(
                    name, self.assume, "must be public bounds",
                    "use bounds=(lower, upper) for a smoothed curve or a difference",
                )  # fmt: skip
            given: Any = self.assume
            ends = validate.bounds("bounds", given)
            return JointBins(
                ends, self._middles, self.smooth, self.by is not None, self.clustering,
                isinstance(given, TypeBounds),
            )  # fmt: skip
        if self.method != "auto":
            if not isinstance(self.method, WinsorizedMean | PrivateScale):
                raise ArgumentError(
                    "method",
                    self.method,
                    "cannot estimate means of bins",
                    "use for example pm.WinsorizedMean(...)",
                )
            if self.assume is not None:
                raise ArgumentError(
                    argument_name(self.assume), self.assume, "cannot be combined with method",
                    "use one of them",
                )  # fmt: skip
            return self.method
        assume: Any = self.assume
        if assume is None:
            return PrivateScale(target=CHEAP, design_effect=self.clustering)
        kind = kind_of(assume)
        if kind == BOUNDS:
            ends = validate.bounds("bounds", assume)
            limits = Bounded(*ends, declared=isinstance(assume, TypeBounds))
            return WinsorizedMean(limits, design_effect=self.clustering)
        if kind != CONCENTRATION:
            raise ArgumentError(
                "assume", assume, "is not used by a curve", "give bounds or a concentration"
            )
        return WinsorizedMean(assume, design_effect=self.clustering)

    @property
    def _middles(self) -> tuple[float, ...]:
        return middles(edges_of(self.bins))

    def to_release(self, release: Release) -> CurveRelease:
        kept = {item.name: getattr(release, item.name) for item in fields(Release)}
        at = self._middles
        words = f"mean of {self.value} by {self.time}"
        made = release.intervals
        if self._joint:
            told = f"difference of the {words}, {self.by}" if self.by is not None else words
            if self.levels is not None:
                first, second = (x if isinstance(x, str) else f"{x:g}" for x in self.levels)
                told += f" {second} - {first}"
            names = tuple(edge_text(x, edges_of(self.bins)) for x in at)
            return CurveRelease(**kept | {"estimand": told, "columns": names}, at=at)
        assert isinstance(
            made, ClippedMeans | TailIntervals
        )  # of the methods that `_chosen` lets pass
        limits = made.bounds[0] if isinstance(made, ClippedMeans) and made.bounds else None
        found = self.assume is None and self.method == "auto"
        binned = BinnedIntervals(made, limits, found and isinstance(made, ClippedMeans))
        statuses = binned.statuses(release.level)
        status = release_status(statuses)
        return CurveRelease(
            **kept
            | {
                "estimand": words,
                "intervals": binned,
                "estimate": binned.shown(release.estimate, release.level),
                "status": status,
                "statuses": statuses,
                "advice": release.advice or (TOO_FEW if status == FAILED else ""),
            },
            at=at,
        )


def _levels(by: str | None, levels: object) -> tuple[str | float, ...] | None:
    """Two values of a column, both numbers or both text; texts of numbers are numbers."""
    if by is None:
        if levels is not None:
            raise ArgumentError("levels", levels, "require by", "give by='COLUMN' too")
        return None
    given = tuple(levels) if isinstance(levels, Sequence) and not isinstance(levels, str) else ()
    found: list[str | float] = []
    for item in given:
        try:
            found.append(float(item))
        except (TypeError, ValueError):
            found.append(str(item))
    if len(found) != 2 or found[0] == found[1] or len({type(x) for x in found}) != 1:
        raise ArgumentError(
            "levels", levels, "must be two values of one type", "give levels=(0, 1) for example"
        )
    return tuple(found)
