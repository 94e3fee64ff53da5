"""The variance and the standard deviation between people."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from privmean import validate
from privmean.data.grids import RESOLUTION
from privmean.data.table import RecordMeans
from privmean.errors import ArgumentError
from privmean.estimators.moment_variance import MomentVariance, VarianceRelease
from privmean.questions.assumptions import ColumnTypes, limited
from privmean.questions.base import QuestionDefaults
from privmean.release.release import Release, as_kind
from privmean.validate import known_keywords

if TYPE_CHECKING:
    from privmean.data.table import Table
    from privmean.privacy.budget import Budget


@known_keywords
@dataclass(frozen=True)
class Variance(QuestionDefaults):
    """Estimate the variance of person means in one column.

    Parameters
    ----------
    value : str, optional
        The column. Default: the only column of an array.
    resolution : float, default 2**-36
        Grid step: values are rounded to this power of two, in their unit.
    clustering : float, default 1.0
        Design effect of clustered people.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    Person-level differential privacy: the composed loss is at most the budget, for any data. A mean
    that clips at this scale is charged separately.

    Notes
    -----
    The intervals need only a finite variance of the squares, and count outliers. To clip at this
    scale, use `SubGaussian(sd=1.1 * sqrt(estimate))`.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    print(pm.ask(table, pm.Variance("ln_wage"), epsilon=1.0))
    """

    kind: ClassVar[str] = "variance"

    value: Annotated[str | None, "Name the column of the person means."] = None
    resolution: Annotated[float, "Round values to this power of two."] = RESOLUTION
    clustering: Annotated[float, "Give the design effect of clustered people."] = 1.0

    def __post_init__(self) -> None:
        validate.keep(self, validate.power_of_two, "resolution")
        validate.keep(self, validate.positive, "clustering")
        _ = self.summary

    @property
    def summary(self) -> RecordMeans:
        return RecordMeans.of_one(self.value, self.resolution)

    def with_public_facts(self, table: Table | None) -> Variance:
        """With the largest variance that the declared type of the column allows."""
        types = ColumnTypes.of(table, None if self.value is None else (self.value,))
        pair = types.limits[0] if len(types.limits) == 1 else None
        width = math.inf if pair is None else pair[1] - pair[0]
        return types.in_question(self, ((0.0, width**2 / 4),) if width < math.inf else ())

    def estimator(self, columns: int, max_records: int | None, budget: Budget) -> MomentVariance:
        if max_records is not None:
            raise ArgumentError(
                "estimand", "records", "has no variance between people",
                "use estimand='people'",
            )  # fmt: skip
        return MomentVariance(self.clustering)

    def to_release(self, release: Release) -> VarianceRelease:
        found = limited(release, self.limits)
        words = f"variance of {release.columns[0]} between people"
        return as_kind(found, VarianceRelease, estimand=words)
