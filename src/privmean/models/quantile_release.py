"""What the release of quantiles adds to a release: a row a quantile, and the whole distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privmean import validate
from privmean.inference.status import AT_BOUND
from privmean.models.quantile_intervals import Band, Distribution
from privmean.release.release import Release, quantile_labels
from privmean.release.result_rows import Row


@dataclass(frozen=True)
class QuantileRelease(Release):
    """A release whose rows are quantiles.

    Attributes
    ----------
    q : tuple of float
        The probabilities.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    made = pm.quantile(table, "ln_wage", [0.25, 0.5, 0.75], epsilon=1.0)
    made.rows()
    made.distribution()  # at, estimate, lower, upper
    """

    q: tuple[float, ...] = ()

    @property
    def question_kind(self) -> str:
        return "quantile"

    @property
    def _law(self) -> Distribution:
        made = self.intervals
        assert isinstance(made, Distribution)
        return made

    def _rows(self, level: float) -> tuple[Row, ...]:
        """One row a quantile, with the interval of that quantile alone."""
        one, noise = self._law.alone(level), self.noise_interval(level)
        found = []
        for j, term in enumerate(self.columns):
            value = float(self.estimate[j])
            status = self.statuses[j] if self.statuses else self.status
            if math.isnan(value) and status != AT_BOUND:
                found.append(Row(term, n=self._law.n, status=status))
                continue
            # of one beyond the bounds: that it is beyond, and no more
            ends = one.lower[j], one.upper[j], noise.lower[j], noise.upper[j]
            error = math.nan if math.isnan(value) else self._law.std_errors()[j]
            found.append(Row(term, "", value, error, *ends, n=self._law.n, status=status))
        return tuple(found)

    def labels(self) -> tuple[str, ...]:
        return quantile_labels(self.q)

    def unit_of(self, row: Row, place: int) -> object:
        """All quantiles have the unit of the value."""
        return ""

    def distribution(self, level: float | None = None) -> Band:
        """The distribution function of people's values at some points, with a simultaneous band.

        It costs nothing beside the quantiles.
        """
        return self._law.band(validate.level("level", self.level if level is None else level))

    def facts(self) -> dict[str, Any]:
        result = super().facts()
        band = self.distribution()
        result["q"] = list(self.q)
        result["distribution"] = {
            "at": band.at.tolist(),
            "estimate": band.estimate.tolist(),
            "lower": band.lower.tolist(),
            "upper": band.upper.tolist(),
        }
        return result

    def plot(self, axes: Any = None) -> Any:
        """Draw the distribution function with its band (needs privmean[plot]); returns the axes."""
        from privmean.models.curve_release import new_axes

        axes = new_axes() if axes is None else axes
        band = self.distribution()
        inside = (band.estimate > 0.005) & (band.estimate < 0.995)
        at = band.at[inside]
        axes.fill_between(
            at, band.lower[inside], band.upper[inside], alpha=0.25, color="C0", linewidth=0,
            label=f"{100 * self.level:g} % for the whole function",
        )  # fmt: skip
        axes.plot(at, band.estimate[inside], color="C0", label="people below")
        axes.legend()
        return axes
