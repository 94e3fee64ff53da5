"""What a release of several values by group adds to a release: one table a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from privmean.central.groups.group_release import GroupRelease, group_release
from privmean.errors import ArgumentError
from privmean.inference.contrasts import Contrast
from privmean.inference.group_table import each_of
from privmean.inference.interval import Interval
from privmean.inference.multi_value_table import SeveralTables, joined
from privmean.inference.status import release_status
from privmean.release.outcome import name_estimand
from privmean.release.release import Release
from privmean.release.result_rows import Row

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

    @property
    def question_kind(self) -> str:
        return "groups"

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
        found = joined([item.joint_interval(each) for item in self.tables])
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
    known = {item.name: getattr(release, item.name) for item in fields(Release)}
    statuses = tuple(status for item in tables for status in item.statuses)
    names = tuple(f"{item.term}: {key}" for item in tables for key in item.columns)
    words = f"means of {', '.join(terms)} by {', '.join(by)}"
    estimate = np.concatenate([item.estimate for item in tables])
    return MultiValueRelease(
        **known
        | {
            "columns": names,
            "estimate": estimate,
            "estimand": name_estimand(words, release.estimand),
            "statuses": statuses,
        },
        tables=tuple(tables),
    )
