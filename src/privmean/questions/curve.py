"""Mean curves of people with records at any times: means by group over public bins.

A person is in many bins, so that keys are bins and weights are split (docs/proofs/groups.md,
section 14). Smoothed curves and differences follow from the released means.

Public edges of bins of time: numbers, or dates as ISO writes them.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from privmean import validate
from privmean.data.schema import BOOLEAN, TypeBounds
from privmean.errors import ArgumentError
from privmean.estimators.curve_release import CurveIntervals, CurveRelease
from privmean.estimators.groups.group_means import BinMeans
from privmean.inference.group_table import GroupTable
from privmean.inference.interval import INDEPENDENT, dependence
from privmean.inference.status import release_status
from privmean.questions.assumptions import (
    BOUNDS,
    Auto,
    Clipping,
    ColumnTypes,
    argument_name,
    check_keys,
    is_unit_pair,
    kind_of,
    limited,
)
from privmean.questions.base import Estimator, QuestionDefaults
from privmean.release.release import Release, as_kind
from privmean.release.result_numbers import name_estimand
from privmean.validate import known_keywords

if TYPE_CHECKING:
    from privmean.data.read_pairs import BinPairs
    from privmean.data.table import Table
    from privmean.privacy.budget import Budget

# texts sort as their dates do, and a time of day after its date: they are compared as texts
Edges = tuple[float, ...] | tuple[str, ...]
ORIGIN = datetime.date(1970, 1, 1)


def edges_of(bins: object) -> Edges:
    """Increasing edges, all numbers or all dates; dates become texts such as "2026-01-31"."""
    try:
        given = [] if isinstance(bins, str) else list(bins)  # type: ignore[call-overload]
    except TypeError:  # one number
        given = []
    dates = tuple(_date(item) for item in given)
    edges: Edges = dates if all(dates) else ()
    if not any(isinstance(item, str | datetime.date) for item in given):
        edges = edges or tuple(validate.number("bins", item) for item in given)
    if len(edges) < 2 or any(b <= a for a, b in pairwise(edges)):  # type: ignore[operator]
        raise _refusal(bins, given, edges)
    return edges


def _refusal(bins: object, given: list[object], edges: Edges) -> ArgumentError:
    ordered = sorted(dict.fromkeys(given)) if edges else []  # type: ignore[type-var]
    if len(ordered) < 2:
        problem = "must be at least two edges, all numbers or all dates"
        return ArgumentError("bins", bins, problem, "use for example bins=[0, 1, 2]")
    return ArgumentError("bins", bins, "must increase", f"use bins={ordered}")


def _date(item: object) -> str:
    """A date as ISO writes it; nothing for what is none."""
    text = item.isoformat() if isinstance(item, datetime.date) else str(item)
    try:
        found = datetime.date.fromisoformat(text.removesuffix("T00:00:00")).isoformat()
    except ValueError:
        return ""
    return found if text.startswith(found) else ""  # 20260131 is a number


def middles(edges: Edges) -> tuple[float, ...]:
    """The middles of the bins; those of dates in days since 1970-01-01."""
    places = [
        (datetime.date.fromisoformat(x) - ORIGIN).days if isinstance(x, str) else x for x in edges
    ]
    return tuple((a + b) / 2 for a, b in pairwise(places))


def edge_text(at: float, edges: Edges) -> str:
    """A place between edges in their words."""
    if isinstance(edges[0], str):
        return (ORIGIN + datetime.timedelta(days=at)).isoformat()
    return f"{at:.6g}"


def bin_names(edges: Edges) -> tuple[str, ...]:
    words = [x if isinstance(x, str) else f"{x:g}" for x in edges]
    return tuple(f"[{a}, {b})" for a, b in pairwise(words))


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
    assume : bounds, optional
        What accuracy assumes; privacy assumes nothing. Default: the range is found privately.
    method : str or estimator, default "auto"
        `DefaultMean(target="clipped")` for intervals of clipped means.
    clustering : float, default 1.0
        Design effect of clustered people.
    smooth : float, default 0.0
        Bandwidth of a local linear smoother, in units of time.
    by : str, optional
        Column of two groups: the difference of their curves is released.
    levels : list, optional
        The two values of `by`; the second minus the first is released.
    max_bins : int, optional
        Bins in which one person counts fully. In m > max_bins bins the weight is max_bins/m.
        Default: all of up to 4 bins, else found privately so that few people count less.

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
    Source: docs/proofs/groups.md, section 14.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    question = pm.Curve("ln_wage", "year", bins=[1968, 1975, 1982, 1989])
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
    max_bins: Annotated[int | None, "Count each person fully in at most this many bins."] = None

    def __post_init__(self) -> None:
        validate.keep(self, validate.power_of_two, "resolution")
        validate.keep(self, validate.nonnegative, "smooth")
        object.__setattr__(self, "levels", _levels(self.by, self.levels))
        for name in ("value", "time", *(() if self.by is None else ("by",))):
            if not isinstance(getattr(self, name), str):
                raise ArgumentError(name, getattr(self, name), "is not a column", "name a column")
        if self.by in (self.value, self.time):
            raise ArgumentError("by", self.by, "is named twice", "name each column once")
        object.__setattr__(self, "bins", edges_of(self.bins))
        validate.keep(self, validate.positive, "clustering")
        _ = self.summary
        self._chosen()

    @property
    def summary(self) -> BinPairs:
        from privmean.data.read_pairs import BinPairs

        made = self._chosen()
        levels: Any = self.levels or ()
        return BinPairs(
            self.value, self.time, edges_of(self.bins), made.keys, made.weights, self.resolution,
            self.by, levels,
        )  # fmt: skip

    def with_public_facts(self, table: Table | None) -> Curve:
        """With what declared types say of the value, and of the levels."""
        if self.by is not None:
            check_keys("levels", table, (self.by,), [(level,) for level in self._arms])
        types = ColumnTypes.of(table, (self.value,))
        limits, given = types.limits, self.assume
        said = given is None or is_unit_pair(given)
        if limits == (BOOLEAN,) and said and self.method == "auto":
            return types.in_question(self, assume=BOOLEAN)
        return types.in_question(
            self, limits if given is None else types.beside(given, self.resolution)
        )

    def estimator(self, columns: int, max_records: int | None, budget: Budget) -> Estimator:
        return self._chosen()

    def _chosen(self) -> BinMeans:
        from privmean.estimators.means.default_mean import DefaultMean

        target: str | None = None
        method: Any = self.method
        if isinstance(method, DefaultMean):
            method, target = "auto", method.target
        if method != "auto" or target == "mean":
            raise ArgumentError(
                "method", self.method, "cannot estimate means of bins",
                "remove it, or give bounds=(lower, upper)",
            )  # fmt: skip
        ends = None
        if self.assume is not None:
            if kind_of(self.assume) != BOUNDS:
                raise ArgumentError(
                    argument_name(self.assume), self.assume, "is not used by a curve",
                    "give bounds=(lower, upper), or remove it",
                )  # fmt: skip
            given: Any = self.assume
            ends = validate.bounds("bounds", given)
        bins = bin_names(edges_of(self.bins))
        arms = [f"{level} " for level in self._arms] or [""]
        keys = tuple((f"{arm}{item}",) for arm in arms for item in bins)
        given_bounds = not isinstance(self.assume, TypeBounds)
        return BinMeans(keys, self.max_bins, target, ends, given_bounds)

    @property
    def _arms(self) -> tuple[str, ...]:
        return tuple(x if isinstance(x, str) else f"{x:g}" for x in self.levels or ())

    def to_release(self, release: Release) -> CurveRelease:
        release = limited(release, self.limits)
        edges, table = edges_of(self.bins), release.intervals
        assert isinstance(table, GroupTable)
        at = middles(edges)
        told = f"mean of {self.value} by {self.time}"
        if self.by is not None:
            told = f"difference of the {told}, {self.by} {' - '.join(reversed(self._arms))}"
        effect = dependence(self.clustering)
        table = replace(
            table,
            sampling=table.sampling * np.sqrt(self.clustering),
            assumption=table.assumption.replace(INDEPENDENT, effect),
            brief=table.brief.replace(INDEPENDENT, effect),
        )
        made = CurveIntervals(table, tuple(at), self.smooth, self.by is not None)
        diagnostics = dict(release.diagnostics)
        diagnostics.pop("shrunk means", None)
        plain = self.by is None and not self.smooth
        names = bin_names(edges) if plain else tuple(edge_text(x, edges) for x in at)
        return as_kind(
            release,
            CurveRelease,
            columns=names,
            estimand=name_estimand(told, release.estimand),
            intervals=made,
            estimate=made.estimate,
            status=release_status(made.statuses),
            statuses=made.statuses,
            diagnostics=diagnostics,
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
