"""What the release of a variance adds to a release: the standard deviation, from the same noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from privmean.plain_data import plain
from privmean.release.release import VARIANCE_LABELS, Release
from privmean.release.result_rows import Row

DEVIATION = "standard deviation"
VARIANCE = "variance"


@dataclass(frozen=True, repr=False)
class VarianceRelease(Release):
    """A release of one variance and of the standard deviation, its root.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    made = pm.variance(table, "ln_wage", epsilon=1.0)
    variance, deviation = made.rows()
    print(deviation.estimate, deviation.lower, deviation.upper)
    """

    @property
    def question_kind(self) -> str:
        return "variance"

    @property
    def deviation(self) -> float:
        """The standard deviation between people; NaN where no variance was found."""
        return _root(float(self.estimate[0]))

    def _rows(self, level: float) -> tuple[Row, ...]:
        """The variance, then the standard deviation."""
        (row,) = super()._rows(level)
        error = row.std_error / (2 * self.deviation) if self.deviation > 0 else math.nan
        root = replace(
            row, term=DEVIATION, estimate=self.deviation, std_error=error,
            lower=_root(row.lower), upper=_root(row.upper),
            noise_lower=_root(row.noise_lower), noise_upper=_root(row.noise_upper),
        )  # fmt: skip
        return replace(row, term=VARIANCE), root

    def labels(self) -> tuple[str, ...]:
        return VARIANCE_LABELS

    def joint_text(self) -> str:
        """The second interval is the root of the first."""
        return ""

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"deviation": plain(self.deviation)}


def _root(value: float) -> float:
    return math.sqrt(value) if value >= 0 else (math.nan if math.isnan(value) else 0.0)
