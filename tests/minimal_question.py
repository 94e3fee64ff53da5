"""The smallest question there can be: what `test_smallest_question.py` adds to privmean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from privmean.data.table import RecordMeans
from privmean.estimators.means.bounded import BoundedMean
from privmean.privacy.budget import Neighbors

if TYPE_CHECKING:
    from privmean.data.table import Table
    from privmean.privacy.budget import Budget
    from privmean.release.release import Release


@dataclass(frozen=True)
class Grade:
    """The mean of person means in one column of grades, which are from 1 to 6."""

    kind: ClassVar[str] = "grade"
    default_neighbors: ClassVar[Neighbors] = "replace-one"

    value: Annotated[str, "Column of grades."]

    @property
    def summary(self) -> RecordMeans:
        return RecordMeans((self.value,))

    def estimator(self, columns: int, max_records: int | None, budget: Budget) -> BoundedMean:
        return BoundedMean((1.0, 6.0))

    def with_public_facts(self, table: Table | None) -> Grade:
        return self

    def to_release(self, release: Release) -> Release:
        return release
