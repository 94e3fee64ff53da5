"""What the release of a regression adds to a release: the table of coefficients."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar

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


@dataclass(frozen=True, repr=False)
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
        return [
            Coefficient(
                row.term, row.estimate, row.std_error, float(noise), row.lower, row.upper,
                row.status,
            )
            for row, noise in zip(self.rows(level), self.noise_sd, strict=True)
        ]  # fmt: skip

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

    tabled: ClassVar[bool] = True

    def title(self) -> str:
        """The model, and how a person's coefficients are computed."""
        return f"{self.formula}   ({self.method}; {self.estimand})"

    def footer(self) -> tuple[str, ...]:
        """How many persons could be fitted, as far as noise tells."""
        weights = [w for w in self.diagnostics.get("weight", ()) if math.isfinite(w)]
        if not weights:
            return ()
        return (f"persons that could be fitted (noisy): about {max(0, round(weights[0]))}",)
