"""What the release of a regression adds to a release: the table of coefficients."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from privmean import validate
from privmean.central.clipped_mean import ClippedMean, ClippedMeans
from privmean.release import Release, _plain


@dataclass(frozen=True)
class Coefficient:
    """One line of the table. noise_sd: of the privacy noise; std_error: noise and sampling; the
    interval is for this coefficient alone."""

    term: str
    estimate: float
    std_error: float
    noise_sd: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Regression(Release):
    """A release of regression coefficients: columns are the terms.

    formula, method: the model, and how a person's coefficients are computed. `table` lists the
    coefficients, each with its own interval; `interval` holds all of them together.
    """

    formula: str = ""
    method: str = ""
    fixed_effects: bool = False

    def table(self, level: float | None = None) -> list[Coefficient]:
        """Term, estimate, standard error, privacy noise and interval of every coefficient."""
        confidence = validate.fraction("level", self.level if level is None else level)
        means = self.intervals
        assert isinstance(means, ClippedMeans)
        beyond = means.beyond or (0.0,) * len(self.columns)
        lines = []
        for j, (term, column) in enumerate(zip(self.columns, means.columns, strict=True)):
            if column is None:
                nothing = (math.nan, math.nan, math.nan, -math.inf, math.inf)
                lines.append(Coefficient(term, *nothing))
                continue
            low, high = column.limits(1 - confidence, means.design_effect)
            if means.bounds is not None:
                low, high = max(low, means.bounds[j][0]), min(high, means.bounds[j][1])
            noise, total = _errors(column, means.design_effect)
            lines.append(
                Coefficient(
                    term, float(self.estimate[j]), total, noise, low - beyond[j], high + beyond[j]
                )
            )
        return lines

    def to_dict(self) -> dict[str, Any]:
        result = super().to_dict()
        result["formula"] = self.formula
        result["method"] = self.method
        result["fixed_effects"] = self.fixed_effects
        result["coefficients"] = [
            {item.name: _plain(getattr(line, item.name)) for item in fields(line)}
            for line in self.table()
        ]
        return result

    def summary(self) -> str:
        """The table of coefficients, and below it the release in words."""
        wide = max(len(term) for term in (*self.columns, "term"))
        ends = f"[{(1 - self.level) / 2:.3g}", f"{(1 + self.level) / 2:.3g}]"
        head = ("estimate", "std err", "noise sd", *ends)
        lines = [
            f"{self.formula}   ({self.method})",
            f"{'term':<{wide}}" + "".join(f"{item:>12}" for item in head),
        ]
        for item in self.table():
            numbers = (item.estimate, item.std_error, item.noise_sd, item.lower, item.upper)
            lines.append(f"{item.term:<{wide}}" + "".join(f"{x:>12.5g}" for x in numbers))
        weights = [w for w in self.diagnostics.get("weight", ()) if math.isfinite(w)]
        if weights:
            lines.append(f"persons that could be fitted (noisy): about {max(0, round(weights[0]))}")
        return "\n".join(lines) + "\n" + super().summary()

    def __str__(self) -> str:
        return self.summary()


def _errors(column: ClippedMean, design_effect: float) -> tuple[float, float]:
    """Standard deviations of privacy noise, and of noise and sampling together."""
    sums, z = column.sums, column.z
    theta = 0.0 if column.public_weight else z
    scales = sums.ratio_noise(theta)
    noise = math.hypot(*scales) * (1.0 if sums.gaussian else math.sqrt(2))
    spread = design_effect * max(sums.square / column.weight - z * z, 0.0) * column.weight
    unit = column.box.radius / column.weight
    return unit * noise, unit * math.sqrt(noise**2 + spread)
