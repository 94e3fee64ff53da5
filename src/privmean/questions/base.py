"""What every question owes the road."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from privmean.people.shape import Shape
    from privmean.people.table import Summary, Table
    from privmean.privacy.budget import Budget, Neighbors
    from privmean.release import Release
    from privmean.road import Plan

PRIVATE, PUBLIC = "private", "public"  # who has records in which group


class Estimator(Protocol):
    """Assumptions and settings; see docs/architecture.md for the smallest real one."""

    def plan(self, budget: Budget, shape: Shape) -> Plan:
        """Everything decided before data are read; raises ArgumentError or Infeasible."""
        ...


class Question(Protocol):
    """A frozen dataclass: its fields are what a caller may say, checked when it is made."""

    kind: ClassVar[str]

    @property
    def usual_neighbors(self) -> Neighbors:
        """The neighbours where a call names none."""
        ...

    @property
    def summary(self) -> Summary:
        """One row a person, as a value."""
        ...

    def estimator(self, columns: int, cap: int | None, budget: Budget) -> Estimator:
        """Who answers, from public facts alone. cap: of records, for the mean over records."""
        ...

    def prepared(self, table: Table | None) -> Question:
        """The question with the public facts it takes from the table (sizes of groups)."""
        ...

    def told(self, release: Release) -> Release:
        """The release in the words of the question."""
        ...
