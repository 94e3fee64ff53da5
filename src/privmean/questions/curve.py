"""Mean curves of persons with records at any times, in public bins.

Times belong to persons and are private, so that cells of time are not disjoint: a person
contributes one mean a bin, a vector, and the means of bins are released together, over many
columns. docs/proofs/longitudinal.md, section 6.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from privmean import validate
from privmean.central.clipped_mean import ClippedMeans
from privmean.central.concentration import Bounded
from privmean.central.winsorized import Winsorized
from privmean.errors import ArgumentError
from privmean.intervals.interval import OK
from privmean.models.binned import BinnedIntervals, worst
from privmean.models.curve_release import CurveRelease
from privmean.models.located_bins import LocatedBins
from privmean.models.magnitudes import CHEAP, Magnitudes
from privmean.models.tail_means import TailMeans
from privmean.people.matrix import MatrixPeople
from privmean.questions.assumptions import BOUNDS, CONCENTRATION, Auto, Clipping, kind_of
from privmean.questions.base import Estimator, Usual
from privmean.release import Release

if TYPE_CHECKING:
    from privmean.people.table import Table
    from privmean.privacy.budget import Budget


@dataclass(frozen=True)
class BinnedMeans:
    """A person's mean of own records in every bin of time, null without one."""

    value: str
    time: str
    edges: tuple[float, ...]
    resolution: float

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"[{a:g}, {b:g})" for a, b in pairwise(self.edges))

    def reduce(self, table: Table) -> MatrixPeople:
        """Private, spends nothing. Sums are exact integers, counted and added in the engine."""
        from privmean.people.products import person_products

        x, t = ast.Name(self.value), ast.Name(self.time)
        # an indicator of a bin is the product of two comparisons
        indicators = [
            (
                ast.Compare(t, [ast.GtE()], [ast.Constant(a)]),
                ast.Compare(t, [ast.Lt()], [ast.Constant(b)]),
            )
            for a, b in pairwise(self.edges)
        ]
        d = len(indicators)
        made = person_products(
            table.source,
            person=table.person,
            columns=tuple(dict.fromkeys((self.value, self.time))),
            products=[*indicators, *((*item, x) for item in indicators)],
            steps=[1.0] * d + [self.resolution] * d,
            roster=table.roster,
            text=table.text,
            machine=table.machine.options(),
            squares=False,
        )
        count, total = made.sums[:, :d], made.sums[:, d:]
        with np.errstate(all="ignore"):
            rows = np.where(count > 0, total / count, np.nan)
        return MatrixPeople(rows, self.names, engine=made.engine)


@dataclass(frozen=True)
class Curve(Usual):
    """The mean of persons over time, in public bins.

    value, time: columns. bins: public edges, increasing; bin j holds edges[j] <= time <
    edges[j + 1]. A person counts in a bin with the mean of own records there; persons without one
    are left out of that bin. One person can be in all bins, so that the bins share the budget.
    assume: public limits of a person's mean in a bin; or a concentration (`SubGaussian`, ...); or
    nothing: the magnitude of values is found privately, and they are clipped around zero. Where the
    budget is large, persons beyond the limits are counted (under replace-one): "tail seen" where
    there are such persons, "tail too thick" where so many that the interval is for the clipped
    mean; elsewhere it is for the clipped mean, and says "tail unchecked" (`method=
    Magnitudes(target="mean")` counts, at any budget). method:
    "auto", or an estimator itself (`Winsorized(..., range=...)`). related: public factor on the
    sampling variance if persons are related.

    A bin whose noisy number of persons is below 5 deviations of its noise has no estimate: its
    status is "too few persons". "thin": the interval is longer than half of the bounds.

    Example:
        table = pm.Table(pm.example("nlswork"), person="person_id")
        question = pm.Curve("ln_wage", "year", bins=[1968, 1975, 1982, 1989], assume=(0, 4))
        print(pm.ask(table, question, epsilon=1.0))

    Guarantees: unit one person with all records, times included; neighbours as the budget names
    them; the composed loss of all bins is at most the budget, for any data. Public: bins, settings
    and, under replace-one, the roster. Source: the binned form of docs/proofs/longitudinal.md,
    section 6.
    """

    kind: ClassVar[str] = "curve"

    value: Annotated[str, "Column to average."]
    time: Annotated[str, "Column of times."]
    bins: Annotated[Sequence[float], "Public edges, increasing."]
    resolution: Annotated[float, "Public resolution of values, a power of two."] = 2.0**-20
    assume: Annotated[Clipping | None, "What accuracy may rest on."] = None
    method: Annotated[Auto | Estimator, "Estimator; auto chooses from public facts."] = "auto"
    related: Annotated[float, "Design effect: public factor on the sampling variance."] = 1.0

    def __post_init__(self) -> None:
        for name in ("value", "time"):
            if not isinstance(getattr(self, name), str):
                raise ArgumentError(name, getattr(self, name), "is no column", "name a column")
        object.__setattr__(self, "bins", _edges(self.bins))
        validate.positive("related", self.related)
        _ = self.summary
        self._chosen()

    @property
    def summary(self) -> BinnedMeans:
        step = validate.power_of_two("resolution", self.resolution)
        return BinnedMeans(self.value, self.time, tuple(self.bins), step)

    def estimator(self, columns: int, cap: int | None, budget: Budget) -> Estimator:
        return self._chosen()

    @property
    def looked_at(self) -> tuple[str, ...]:
        """Its column, where nothing is assumed of the values."""
        return (self.value,) if self.assume is None and self.method == "auto" else ()

    @property
    def needs_look(self) -> bool:
        return False

    def located(self, columns: tuple[str, ...]) -> LocatedBins:
        return LocatedBins(self.related)

    def _chosen(self) -> Estimator:
        if self.method != "auto":
            if not isinstance(self.method, Winsorized | Magnitudes):
                raise ArgumentError(
                    "method",
                    self.method,
                    "gives no means of bins",
                    "give Winsorized(...) for example",
                )
            if self.assume is not None:
                raise ArgumentError(
                    "assume", self.assume, "is given beside a method", "give one of them"
                )
            return self.method
        assume: Any = self.assume
        if assume is None:
            return Magnitudes(target=CHEAP, design_effect=self.related)
        kind = kind_of(assume)
        if kind == BOUNDS:
            limits = Bounded(*validate.bounds("bounds", assume))
            return Winsorized(limits, design_effect=self.related)
        if kind != CONCENTRATION:
            raise ArgumentError(
                "assume", assume, "is not used by a curve", "give bounds or a concentration"
            )
        return Winsorized(assume, design_effect=self.related)

    def told(self, release: Release) -> CurveRelease:
        kept = {item.name: getattr(release, item.name) for item in fields(Release)}
        middles = tuple((a + b) / 2 for a, b in pairwise(self.bins))
        words = f"mean {self.value} over persons by {self.time}"
        made = release.intervals
        assert isinstance(made, ClippedMeans | TailMeans)  # of the methods that `_chosen` lets pass
        limits = made.bounds[0] if isinstance(made, ClippedMeans) and made.bounds else None
        found = self.assume is None and self.method == "auto"
        binned = BinnedIntervals(made, limits, found and isinstance(made, ClippedMeans))
        statuses = binned.statuses(release.level)
        status, advice = worst(statuses)
        if status == OK:
            status, advice = release.status, release.advice
        return CurveRelease(
            **kept
            | {
                "estimand": words,
                "intervals": binned,
                "estimate": binned.shown(release.estimate, release.level),
                "status": status,
                "statuses": statuses,
                "advice": advice,
            },
            at=middles,
        )


def _edges(bins: Sequence[float]) -> tuple[float, ...]:
    try:
        edges = tuple(validate.number("bins", item) for item in bins)
    except TypeError:
        edges = ()
    if len(edges) < 2 or any(b <= a for a, b in pairwise(edges)):
        raise ArgumentError("bins", bins, "are no increasing edges", "give bins=[0, 1, 2]")
    return edges
