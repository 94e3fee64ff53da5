"""Releases of means by group: their rows, comparisons, one table a value, and one effect with
its p-value of two arms or within the same people.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from privmean.array_types import Floats
from privmean.bisection import bisect_ratio
from privmean.errors import ArgumentError
from privmean.estimators.groups.build_table import HIDDEN, LEFT_OUT
from privmean.inference.contrasts import (
    ALL_PAIRS,
    Contrast,
    average_line,
    contrast_lines,
    contrasts_of,
    ratio_line,
)
from privmean.inference.group_table import GroupTable, LinearCombination, SeveralTables, each_of
from privmean.inference.interval import Interval, stacked
from privmean.inference.laplace_normal import sum_quantile
from privmean.inference.status import MODIFIED_TARGET, OK, release_status
from privmean.plain_data import plain
from privmean.release.release import Release, as_kind
from privmean.release.result_numbers import name_estimand
from privmean.release.stored_release import Row

KNOWN = 1e-5  # a deviation below it is that of a public number
WORST = "holds for any dependence within people"
PARTS = "rest and overall: by noisy n, of groups that are neither at a bound nor suppressed."
APART = "groups of different people"


def _nothing() -> GroupTable:
    from privmean.estimators.groups.build_table import empty_table

    return empty_table((), OK)


@dataclass(frozen=True, repr=False)
class GroupRelease(Release):
    """A release whose rows are groups.

    Attributes
    ----------
    term : str
        The value that was averaged.
    by : tuple of str
        The group columns.
    groups : GroupTable
        The numbers of every row.
    contrasts : tuple of Contrast
        The comparisons that were asked, computed from the released means at no further charge.
    shrunk : array, optional
        Means shrunk towards each other, which no interval uses.
    crossed : tuple of tuple of str
        The keys of each row, by column, if several columns were crossed.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    release = pm.mean(table, "ln_wage", by="union", keys=[0, 1], epsilon=1.0)
    release.contrast("1 - 0"), release.ratio("1 / 0"), release.pairwise()
    """

    term: str = ""
    by: tuple[str, ...] = ()
    groups: GroupTable = field(default_factory=_nothing, repr=False)
    contrasts: tuple[Contrast, ...] = ()
    shrunk: Floats | None = field(default=None, repr=False)
    crossed: tuple[tuple[str, ...], ...] = field(default=(), repr=False)

    question_kind = "groups"

    @property
    def grouped_by(self) -> tuple[str, ...]:
        return self.by

    def _rows(self, level: float) -> tuple[Row, ...]:
        """One row a group, then one a comparison that was asked."""
        lines = self.groups.rows(level, clipped=self._clipped)
        weights = self.groups.weight.tolist()
        own = tuple(
            self._row(*row)
            for row in zip(self.columns, lines, weights, self.groups.status, strict=True)
        )
        return own + self._compared(self.contrasts, self._each(level))

    def contrasts_frame(self, backend: str | None = None, *, level: float | None = None) -> Any:
        """The comparisons that were asked as a frame of their own, with the columns of `to_frame`
        (which has them below the groups).

        Example:
            release.contrasts_frame("polars")
        """
        from privmean.data.list_columns import frame_of
        from privmean.release.stored_release import columns_of

        return frame_of(columns_of(self.rows(level)[len(self.columns) :]), backend)

    def n_interval(self, key: object, level: float | None = None) -> tuple[float, float]:
        """Interval for n of a group, from its noise; a public n is both ends.

        Raises ArgumentError for a key that is no row.

        Example:
            release.n_interval("1")
        """
        text = str(key)
        if text not in self.columns:
            raise ArgumentError(
                "key", key, "is not a row of the release", f"choose one of {list(self.columns[:9])}"
            )
        half = self._persons_half(self._level(level))
        return _about(float(self.groups.weight[self.columns.index(text)]), half)

    def _persons_half(self, level: float) -> float:
        # the last stage has most of the precision: a sum of three noises
        sd = self.groups.weight_sd
        return sum_quantile((1 - level) / 2, [sd / math.sqrt(6)] * 3, 0.0) if sd > KNOWN else 0.0

    def _each(self, level: float) -> float:
        """The level of a comparison that was asked: of all of them, where they hold together."""
        together = self.groups.simultaneous and len(self.contrasts) > 1
        return each_of(level, len(self.contrasts)) if together else level

    def contrast(
        self,
        said: str | Mapping[Any, float],
        level: float | None = None,
        *,
        independent: bool = False,
    ) -> Row:
        """One comparison: "a - b", "a - rest", "a - overall", or factors by key.

        independent: where groups share people, take sampling errors as independent; that assumes
        that people who are high in one group are not low in the other. Raises ArgumentError for a
        text that is no comparison of these groups.
        """
        (found,) = self._parsed(said)
        if found.ratio:
            raise ArgumentError("contrast", said, "is a ratio, not a difference", "use ratio(...)")
        return self._compared([found], self._level(level), independent=independent)[0]

    def ratio(
        self, said: str, level: float | None = None, *, independent: bool = False
    ) -> LinearCombination:
        """The ratio of two groups, "a / b": its set of values may be everything."""
        (found,) = self._parsed(said)
        if not found.ratio:
            raise ArgumentError("ratio", said, "is not a ratio", "write 'a / b'")
        return ratio_line(self.groups, found, self._level(level), independent=independent)

    def pairwise(self, level: float | None = None) -> tuple[Row, ...]:
        """All differences of two groups with an estimate, together at the level."""
        at = self._level(level)
        shown = [key for key, seen in zip(self.columns, self.groups.shown, strict=True) if seen]
        pairs = contrasts_of([ALL_PAIRS], shown) if len(shown) > 1 else ()
        return self._compared(pairs, each_of(at, len(pairs)))

    def margin(self, column: str, level: float | None = None) -> tuple[Row, ...]:
        """Means by one of several crossed columns: one row a value of it, the mean of its groups by
        their noisy people, so that it is the sum of its cells. Groups without an estimate, or at
        a bound, are left out. Costs nothing more."""
        if column not in self.by or not self.crossed:
            raise ArgumentError(
                "column",
                column,
                "is not one of the crossed columns",
                f"choose one of {list(self.by)}",
            )
        place, at, rows = self.by.index(column), self._level(level), []
        for value in dict.fromkeys(key[place] for key in self.crossed):
            which = np.array([key[place] == value for key in self.crossed])
            line = average_line(self.groups, which, at)
            persons = float(self.groups.weight[which].sum())
            rows.append(self._row(value, line, persons, line.status))
        return tuple(rows)

    def facts(self) -> dict[str, Any]:
        result = super().facts()
        result["term"] = self.term
        result["by"] = list(self.by)
        half, rows = self._persons_half(self.level), self.rows()
        result["groups"] = [
            {
                "key": row.group,
                **_told(row),
                "n": plain(row.n),
                "n_std_error": plain(self.groups.weight_sd),
                "n_interval": [plain(x) for x in _about(row.n, half)],
                **({} if self.shrunk is None else {"shrunk": plain(self.shrunk[g])}),
            }
            for g, row in enumerate(rows[: len(self.columns)])
        ]
        if self.crossed:
            result["margins"] = {
                name: [
                    {"key": row.group, **_told(row), "n": plain(row.n)} for row in self.margin(name)
                ]
                for name in self.by
            }
        result["contrasts"] = [
            {
                "contrast": row.group,
                **_told(row),
                "assumption": WORST if self.groups.clustering else APART,
            }
            for row in rows[len(self.columns) :]
        ]
        return result

    def joint_interval(self, level: float | None = None) -> Interval:
        """Intervals of groups that hold at once, whatever the groups share."""
        at = self._level(level)
        all_rows = replace(self.groups, simultaneous=True)
        return self._shared(("jointly", at), lambda: all_rows.interval(at, None))

    def joint_text(self) -> str:
        """Intervals of comparisons are intervals of their own."""
        return "simultaneous" if self.groups.simultaneous else super().joint_text()

    def footer(self) -> tuple[str, ...]:
        """What the table leaves out."""
        hidden = [note for note in self.assumptions if note.startswith((HIDDEN, LEFT_OUT))]
        if any(key in ("rest", "overall") for item in self.contrasts for key, _ in item.terms):
            hidden.append(PARTS)
        return (*super().footer(), *hidden)

    def plot(self, axes: object = None) -> Any:
        """Both intervals of every group on one axis, the largest estimate first, groups without one
        last (needs privmean[plot]); returns the axes."""
        from privmean.release.charts import plotted

        own = self.rows()[: len(self.columns)]
        falling = sorted(
            own, key=lambda row: -row.estimate if math.isfinite(row.estimate) else math.inf
        )
        return plotted(falling, self.level, axes)

    # --- lines ------------------------------------------------------------------------------------
    def _parsed(self, said: object) -> tuple[Contrast, ...]:
        found = contrasts_of([said], self.columns)
        if len(found) != 1:
            raise ArgumentError(
                "contrast", said, "is several comparisons", "use pairwise(), or give one of them"
            )
        return found

    @property
    def _clipped(self) -> bool:
        return not self.groups.counted

    def _row(self, group: str, line: LinearCombination, persons: float, status: str) -> Row:
        return Row(
            self.term, group, line.estimate, line.std_error, line.lower, line.upper,
            line.noise_lower, line.noise_upper, persons, status,
        )  # fmt: skip

    def _compared(
        self, contrasts: Sequence[Contrast], level: float, *, independent: bool = False
    ) -> tuple[Row, ...]:
        lines = contrast_lines(
            self.groups, contrasts, level, clipped=self._clipped, independent=independent
        )
        return tuple(
            self._row(item.text, line, math.nan, line.status)
            for item, line in zip(contrasts, lines, strict=True)
        )


def group_release(
    release: Release,
    *,
    term: str,
    by: Sequence[str],
    keys: Sequence[str] | None,
    contrasts: Sequence[Contrast],
    shrink: bool,
    later: Sequence[object] = (),
    crossed: Sequence[tuple[str, ...]] = (),
) -> GroupRelease:
    """The release of a plan by group in the words of its question, rows in the order of `keys`.

    keys: None where they are private: then those shown, and `later` are the comparisons of them.
    """
    table = release.intervals
    assert isinstance(table, GroupTable)
    if keys is None:
        keys, contrasts = table.keys, contrasts_of(later, table.keys, later=True)
    places = {key: place for place, key in enumerate(table.keys)}
    order = [places[key] for key in keys]
    diagnostics = dict(release.diagnostics)
    shrunk = diagnostics.pop("shrunk means", None)
    if shrink and shrunk is None:
        shrunk = np.full(len(keys), np.nan)
    ordered = reordered(table, order)
    return as_kind(
        release,
        GroupRelease,
        estimate=ordered.estimate,
        columns=tuple(keys),
        intervals=ordered,
        statuses=ordered.status,
        diagnostics=diagnostics,
        estimand=name_estimand(f"mean of {term} by {', '.join(by)}", release.estimand),
        term=term,
        by=tuple(by),
        groups=ordered,
        contrasts=tuple(contrasts),
        crossed=tuple(crossed) if len(by) > 1 else (),
        shrunk=shrunk[order] if shrink and shrunk is not None else None,
    )


def reordered(table: GroupTable, order: Sequence[int]) -> GroupTable:
    """The same rows in another order."""
    places = list(order)
    moved: dict[str, Any] = {}
    for item in fields(GroupTable):
        value = getattr(table, item.name)
        if isinstance(value, np.ndarray):
            moved[item.name] = value[places]
        elif item.name in ("keys", "status"):
            moved[item.name] = tuple(value[g] for g in places)
    return replace(table, **moved)


def _about(weight: float, half: float) -> tuple[float, float]:
    return max(weight - half, 0.0), max(weight + half, 0.0)


def _told(row: Row) -> dict[str, Any]:
    return {
        "estimate": plain(row.estimate),
        "std_error": plain(row.std_error),
        "interval": [plain(row.lower), plain(row.upper)],
        "noise_interval": [plain(row.noise_lower), plain(row.noise_upper)],
        "status": row.status,
    }


ABOUT = ("groups", "contrasts", "margins", "by", "status", "advice", "diagnostics")


@dataclass(frozen=True, repr=False)
class MultiValueRelease(Release):
    """A release whose rows are the groups of several values.

    Attributes
    ----------
    tables : tuple of GroupRelease
        One per value; `release["wage"]` is the table of "wage".

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    release = pm.mean(table, ["ln_wage", "hours"], by="union", keys=[0, 1], epsilon=2.0)
    release["hours"].contrast("1 - 0")
    """

    tables: tuple[GroupRelease, ...] = field(default=(), repr=False)

    question_kind = "groups"

    @property
    def grouped_by(self) -> tuple[str, ...]:
        return self.tables[0].by

    def __getitem__(self, value: str) -> GroupRelease:
        found = {item.term: item for item in self.tables}
        if value not in found:
            raise ArgumentError(
                "value", value, "is not one of the values", f"choose one of {list(found)}"
            )
        return found[value]

    def _rows(self, level: float) -> tuple[Row, ...]:
        """The rows of every table, one after the other."""
        return tuple(row for item in self.tables for row in item.rows(level))

    def facts(self) -> dict[str, Any]:
        result = super().facts()
        told = [item.facts() for item in self.tables]
        result["values"] = [
            {"term": item.term, **{name: found[name] for name in ABOUT if name in found}}
            for item, found in zip(self.tables, told, strict=True)
        ]
        return result

    def joint_interval(self, level: float | None = None) -> Interval:
        """Intervals of all values and groups that hold at once."""
        each = each_of(self._level(level), len(self.tables))
        found = stacked([item.joint_interval(each) for item in self.tables])
        return replace(found, level=self._level(level))

    def footer(self) -> tuple[str, ...]:
        """As of each value."""
        return self.tables[0].footer()


def values_release(
    release: Release,
    *,
    terms: Sequence[str],
    by: Sequence[str],
    keys: Sequence[str],
    contrasts: Sequence[Contrast],
    shrink: bool,
    crossed: Sequence[tuple[str, ...]] = (),
) -> MultiValueRelease:
    """The release of a plan of several values, in the words of its question."""
    made = release.intervals
    assert isinstance(made, SeveralTables)
    width, tables = len(keys), []
    for j, (term, intervals) in enumerate(zip(terms, made.tables, strict=True)):
        which = slice(j * width, (j + 1) * width)
        one = replace(
            release,
            estimate=release.estimate[which],
            columns=tuple(keys),
            intervals=intervals,
            status=release_status(release.statuses[which]),
            statuses=release.statuses[which],
            diagnostics=release.diagnostics[term],
        )
        tables.append(
            group_release(
                one, term=term, by=by, keys=keys, contrasts=contrasts, shrink=shrink,
                crossed=crossed,
            )
        )  # fmt: skip
    statuses = tuple(status for item in tables for status in item.statuses)
    names = tuple(f"{item.term}: {key}" for item in tables for key in item.columns)
    words = f"means of {', '.join(terms)} by {', '.join(by)}"
    return as_kind(
        release,
        MultiValueRelease,
        columns=names,
        estimate=np.concatenate([item.estimate for item in tables]),
        estimand=name_estimand(words, release.estimand),
        statuses=statuses,
        tables=tuple(tables),
    )


SMALLEST, LARGEST = 1e-12, 1 - 1e-6  # p-values that are distinguished,
CLOSE = 1 + 1e-10  # up to this ratio
CHANCE = "Causal only if the arms were randomized."


class HasEffect(Release):
    """What a release of one comparison adds: an effect, its p-value and what stands below both."""

    by_arms: ClassVar[bool]

    @property
    @abstractmethod
    def p_value(self) -> float:
        """For a null hypothesis of no effect; NaN without an effect."""

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"p_value": plain(self.p_value)}

    def footer(self) -> tuple[str, ...]:
        lines: tuple[str, ...] = (CHANCE,) if self.by_arms else ()
        if not math.isnan(self.p_value):
            said = f"p = {self.p_value:.2g}" if self.p_value >= 1e-6 else "p < 1e-6"
            null = "equal distributions in both arms" if self.by_arms else "no difference"
            lines = (f"{said} for the null hypothesis of {null}.", *lines)
        return (*super().footer(), *lines)


@dataclass(frozen=True, repr=False)
class EffectRelease(HasEffect):
    """A release of one difference within the same people.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    release = pm.compare(table, "ln_wage", by="union", pair=["1", "0"], epsilon=1.0)
    release.effect, release.p_value
    """

    by_arms = False

    question_kind = "effect"

    @property
    def effect(self) -> Row:
        """First less second, with its intervals."""
        return self.rows()[0]

    @property
    def p_value(self) -> float:
        """For the null hypothesis of no effect: the smallest level at which an interval excludes 0.

        1 if nothing is excluded; NaN without an effect; 1e-12 stands for all smaller numbers.
        """
        if math.isnan(self.effect.estimate):
            return math.nan
        if self.status == MODIFIED_TARGET or self._holds(LARGEST):
            return 1.0
        if not self._holds(SMALLEST):
            return SMALLEST
        return bisect_ratio(self._holds, SMALLEST, LARGEST, CLOSE)[1]

    def _holds(self, alpha: float) -> bool:
        found = self.interval(1 - alpha)
        return not (found.lower[0] > 0 or found.upper[0] < 0)

    def labels(self) -> tuple[str, ...]:
        return tuple(row.term.rpartition(": ")[2] for row in self.rows())


@dataclass(frozen=True)
class CompareRelease(HasEffect, GroupRelease):
    """A release of two arms: their means, the effect and its p-value.

    Notes
    -----
    Every number follows from the released means, at no further charge.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    release = pm.compare(table, "ln_wage", arms="collgrad", epsilon=1.0)
    release.effect, release.p_value
    """

    by_arms = True

    question_kind = "compare"

    @property
    def effect(self) -> Row:
        """First arm less second, with its intervals."""
        return self.rows()[len(self.columns)]

    @property
    def answered(self) -> bool:
        return math.isfinite(self.effect.estimate)

    @property
    def p_value(self) -> float:
        """For the null hypothesis of equal distributions in both arms.

        The smallest level at which the interval for the difference of clipped means excludes 0.
        Both arms have the same clipping bounds, so that this difference is 0 under the null
        hypothesis. The interval of the effect allows for different outliers and is wider. NaN
        without an effect; 1 if too many values lie outside the bounds.
        """
        return self.groups.p_value(np.array([1.0, -1.0]))
