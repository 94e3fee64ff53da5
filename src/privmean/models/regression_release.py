"""What the release of a regression adds to a release: the table of coefficients."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from privmean import validate
from privmean.intervals.interval import OK
from privmean.models.pointwise import alone, errors, status_of
from privmean.plain import plain
from privmean.release import Release


@dataclass(frozen=True)
class Coefficient:
    """One line of the table. noise_sd: of the privacy noise; std_error: noise and sampling; the
    interval is for this coefficient alone. status: "ok", "tail seen" (persons lie beyond the
    limits) or "tail too thick" (so many that the interval is for the clipped mean)."""

    term: str
    estimate: float
    std_error: float
    noise_sd: float
    lower: float
    upper: float
    status: str = "ok"


@dataclass(frozen=True)
class RegressionRelease(Release):
    """A release of regression coefficients: columns are the terms.

    formula, method: the model, and how a person's coefficients are computed. `table` lists the
    coefficients, each with its own interval; `interval` holds all of them together.
    """

    formula: str = ""
    method: str = ""
    fixed_effects: bool = False

    def table(self, level: float | None = None) -> list[Coefficient]:
        """Term, estimate, standard error, privacy noise and interval of every coefficient."""
        confidence = validate.level("level", self.level if level is None else level)
        lines = []
        for j, term in enumerate(self.columns):
            low, high = alone(self.intervals, j, confidence)
            noise, total = errors(self.intervals, j)
            status = status_of(self.intervals, j)
            lines.append(
                Coefficient(term, float(self.estimate[j]), total, noise, low, high, status)
            )
        return lines

    def facts(self) -> dict[str, Any]:
        result = super().facts()
        result["formula"] = self.formula
        result["method"] = self.method
        result["fixed_effects"] = self.fixed_effects
        result["coefficients"] = [
            {item.name: plain(getattr(line, item.name)) for item in fields(line)}
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
            line = f"{item.term:<{wide}}" + "".join(f"{x:>12.5g}" for x in numbers)
            lines.append(line + ("" if item.status == OK else f"   {item.status}"))
        weights = [w for w in self.diagnostics.get("weight", ()) if math.isfinite(w)]
        if weights:
            lines.append(f"persons that could be fitted (noisy): about {max(0, round(weights[0]))}")
        return "\n".join(lines) + "\n" + super().summary()

    def __str__(self) -> str:
        return self.summary()
