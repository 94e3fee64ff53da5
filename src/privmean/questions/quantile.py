"""Quantiles of person means in one column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from privmean import validate
from privmean.data.grids import RESOLUTION
from privmean.data.schema import BOOLEAN
from privmean.data.table import RecordMeans
from privmean.errors import ArgumentError
from privmean.estimators.quantiles import QuantileRelease, Quantiles
from privmean.questions.assumptions import ColumnTypes, limited
from privmean.questions.base import QuestionDefaults
from privmean.release.release import Release, as_kind
from privmean.validate import known_keywords

if TYPE_CHECKING:
    from privmean.data.table import Table
    from privmean.privacy.budget import Budget


@known_keywords
@dataclass(frozen=True)
class Quantile(QuestionDefaults):
    """Estimate quantiles of person means in one column.

    Parameters
    ----------
    value : str, optional
        The column. Default: the only column of an array.
    q : list of float, default (0.5,)
        Increasing probabilities between 0 and 1. More of them cost nothing.
    bounds : (float, float), optional
        Public bounds of the values, in their unit. Default: found privately.
    clustering : float, default 1.0
        Design effect of clustered people.
    resolution : float, default 2**-36
        Grid step: values are rounded to this power of two, in their unit.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    Person-level differential privacy: the composed loss is at most epsilon, for any data. Delta is
    left unspent.

    Notes
    -----
    One noisy histogram around a private median answers for all quantiles. Where values repeat, the
    interval is a cell that holds the value. Source: docs/proofs/quantiles.md.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    print(pm.ask(table, pm.Quantile("ln_wage", (0.1, 0.5, 0.9)), epsilon=1.0))
    """

    kind: ClassVar[str] = "quantile"
    wants_shared_location: ClassVar[bool] = False

    value: Annotated[str | None, "Name the column of the quantiles."] = None
    q: Annotated[Sequence[float], "List the quantiles, such as 0.25,0.5,0.75."] = (0.5,)
    bounds: Annotated[tuple[float, float] | None, "Give public bounds of the values."] = None
    clustering: Annotated[float, "Give the design effect of clustered people."] = 1.0
    resolution: Annotated[float, "Round values to this power of two."] = RESOLUTION

    def __post_init__(self) -> None:
        validate.keep(self, validate.power_of_two, "resolution")
        validate.keep(self, validate.positive, "clustering")
        given = self.q
        if isinstance(given, str | Set | Mapping):
            raise ArgumentError("q", given, "must lie between 0 and 1", "use q=(0.25, 0.5, 0.75)")
        try:
            object.__setattr__(self, "q", tuple(given))
        except TypeError:  # one number, of whatever type
            object.__setattr__(self, "q", (given,))
        _ = self.summary
        object.__setattr__(self, "q", self._chosen().points)

    @property
    def summary(self) -> RecordMeans:
        return RecordMeans.of_one(self.value, self.resolution)

    def with_public_facts(self, table: Table | None) -> Quantile:
        """With what the declared type says of the column."""
        types = ColumnTypes.of(table, None if self.value is None else (self.value,))
        if self.bounds is not None:
            return types.in_question(self, types.beside(self.bounds, self.resolution))
        if types.limits == (BOOLEAN,):
            return types.in_question(self, bounds=BOOLEAN)
        return types.in_question(self, types.limits)

    def estimator(self, columns: int, max_records: int | None, budget: Budget) -> Quantiles:
        if columns != 1:
            raise ArgumentError("value", self.value, "is not one column", "name one column")
        if max_records is not None:
            raise ArgumentError("estimand", "records", "has no quantiles", "use estimand='people'")
        return self._chosen()

    @property
    def shareable_columns(self) -> tuple[str, ...]:
        """Its column, if no bounds are given."""
        named = self.summary.names
        usual = self.bounds is None and self.summary == RecordMeans(named)
        return named if usual and named is not None else ()

    def from_regions(self, columns: tuple[str, ...]) -> Quantiles:
        return self._chosen(looked=True)

    def _chosen(self, looked: bool = False) -> Quantiles:
        return Quantiles(tuple(self.q), self.bounds, self.clustering, looked)

    def to_release(self, release: Release) -> QuantileRelease:
        release = limited(release, self.limits)
        words = f"quantiles of {release.columns[0]} (person means)"
        names = tuple(f"{release.columns[0]} at {point:g}" for point in self.q)
        return as_kind(release, QuantileRelease, columns=names, estimand=words, q=tuple(self.q))
