"""The variance between persons, within public limits of the deviation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from privmean.errors import ArgumentError
from privmean.models.variance import Method, VarianceSearch
from privmean.people.table import RecordMeans
from privmean.questions.base import Usual

if TYPE_CHECKING:
    from privmean.privacy.budget import Budget
    from privmean.release import Release


@dataclass(frozen=True)
class Variance(Usual):
    """The variance of persons' own means in one column.

    value: the column. within: public smallest and largest standard deviation. method, center: see
    `VarianceSearch`: "pair scale", "coinpress" or "bisection"; the last two need a public rough
    centre. resolution: see `privmean.read`.

    A mean that clips at this scale is charged on top: the totals add. Use
    `SubGaussian(sd=safety * sqrt(estimate))` with a safety of 1.1 (pair scale) to 1.5.

    Example:
        table = pm.Table(pm.example("nlswork"), person="person_id")
        print(pm.ask(table, pm.Variance("ln_wage", within=(0.01, 10.0)), epsilon=1.0))

    Guarantees: unit one person with all records, neighbours as the budget names them; the composed
    loss is at most the budget, for any data.
    """

    kind: ClassVar[str] = "variance"

    value: Annotated[str | None, "Column whose persons' means vary."] = None
    within: Annotated[tuple[float, float] | None, "Public limits of the deviation."] = None
    method: Annotated[Method, "'pair scale', 'coinpress' or 'bisection'."] = "pair scale"
    center: Annotated[float | None, "Public rough centre (coinpress and bisection)."] = None
    resolution: Annotated[float, "Public resolution of values, a power of two."] = 2.0**-40

    def __post_init__(self) -> None:
        _ = self.summary
        self._search()

    @property
    def summary(self) -> RecordMeans:
        return RecordMeans.of_one(self.value, self.resolution)

    def estimator(self, columns: int, cap: int | None, budget: Budget) -> VarianceSearch:
        return self._search()

    def _search(self) -> VarianceSearch:
        try:
            smallest, largest = self.within  # type: ignore[misc]
        except (TypeError, ValueError):
            raise ArgumentError(
                "within", self.within, "is no pair", "give within=(smallest, largest) deviation"
            ) from None
        return VarianceSearch(smallest, largest, self.method, self.center)

    def told(self, release: Release) -> Release:
        return release
