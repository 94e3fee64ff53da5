"""What every question owes the road."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol, Self, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from privmean.data.schema import PublicShape
    from privmean.data.table import Summary, Table
    from privmean.estimators.find_region import ClippingRegion
    from privmean.pipeline import Plan
    from privmean.privacy.budget import Budget, Neighbors
    from privmean.release.release import Release

R_co = TypeVar("R_co", bound="Release", covariant=True)
COLUMNS = ("values", "value", "by", "time", "arms", "baseline")  # words that name columns
PRIVATE, PUBLIC = "private", "public"  # who has records in which group


class Estimator(Protocol):
    """Assumptions and settings; see docs/architecture.md for the smallest real one."""

    def plan(self, budget: Budget, shape: PublicShape) -> Plan:
        """Everything decided before data are read; raises ArgumentError or InfeasibleError."""
        ...


class Question(Protocol):
    """A frozen dataclass: its fields are what a caller may say, checked when it is made."""

    kind: ClassVar[str]

    @property
    def default_neighbors(self) -> Neighbors:
        """The neighbors where a call names none."""
        ...

    @property
    def summary(self) -> Summary:
        """One row a person, as a value."""
        ...

    def estimator(self, columns: int, max_records: int | None, budget: Budget) -> Estimator:
        """Who answers, from public facts alone. cap: of records, for the mean over records."""
        ...

    def with_public_facts(self, table: Table | None) -> Question:
        """The question with the public facts it takes from the table (sizes of groups)."""
        ...

    def to_release(self, release: Release) -> Release:
        """The release in the words of the question."""
        ...


class TypedQuestion(Question, Protocol[R_co]):
    """A question by the kind of release that it tells."""

    def with_public_facts(self, table: Table | None) -> TypedQuestion[R_co]: ...

    def to_release(self, release: Release) -> R_co: ...


class QuestionDefaults:
    """What most questions say: replace-one where no call names neighbors; no facts of tables.

    limits: what the declared types of a table's columns allow the answers, column by column.
    declared: the same of its columns, in words.
    """

    limits: ClassVar[tuple[tuple[float, float] | None, ...]] = ()
    declared: ClassVar[tuple[str, ...]] = ()

    @property
    def default_neighbors(self) -> Neighbors:
        return "replace-one"

    def with_public_facts(self, table: Table | None) -> Self:
        return self


class RegionPlan(Protocol):
    """A plan that runs from what looks at columns found; its prices do not depend on that."""

    def after(self, places: tuple[ClippingRegion, ...]) -> Plan | None:
        """The plan to run, with the places of the columns that it was made for; None where nothing
        was found that it can start from."""
        ...


@runtime_checkable
class SharesLocation(Protocol):
    """A question that can be answered from private searches of columns that others use as well."""

    @property
    def shareable_columns(self) -> tuple[str, ...]:
        """The columns whose places it can use; none where it asks for something else."""
        ...

    @property
    def wants_shared_location(self) -> bool:
        """Whether it is worth a search by itself."""
        ...

    def from_regions(self, columns: tuple[str, ...]) -> Estimator:
        """Who answers from shared locations of these columns, by a `SharedLocationPlan`."""
        ...
