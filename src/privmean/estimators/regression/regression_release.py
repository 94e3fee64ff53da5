"""What the release of a regression adds to a release: the table of coefficients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from privmean import validate
from privmean.array_types import Floats
from privmean.bisection import bisect
from privmean.errors import ArgumentError
from privmean.estimators.regression.formula import read_formula, term_at
from privmean.estimators.regression.pooled_intervals import Coefficients
from privmean.inference.status import OK, worst_status
from privmean.plain_data import plain
from privmean.release.release import Release, fitted_text

NO_VARIATION = (
    "Too few people have enough records in which the response and all regressors vary. Use "
    "effect='pooled' for a regressor that never changes within a person, scales= for a regressor "
    "in very small units; otherwise raise epsilon."
)


@dataclass(frozen=True)
class Coefficient:
    """One line of the table. std_error: of sampling (sampling_sd) and of the privacy noise
    (noise_sd) together; clipping_bias: what the interval adds for clipped score contributions (both
    NaN for effect "per_person"). The interval is for this coefficient alone. status: a code;
    "modified_target" also where the equation is one without some terms. p_value: of no effect,
    the level at which the interval ends at 0."""

    term: str
    estimate: float
    std_error: float
    noise_sd: float
    lower: float
    upper: float
    status: str = OK
    p_value: float = math.nan
    sampling_sd: float = math.nan
    clipping_bias: float = math.nan


@dataclass(frozen=True, repr=False)
class RegressionRelease(Release):
    """A release whose rows are regression coefficients.

    Attributes
    ----------
    formula, method : str
        The model, and how it was fitted.
    fixed_effects : bool
        Whether deviations from person means were used.
    effect : {"pooled", "within", "per_person"}
        The question that was asked.

    Notes
    -----
    Each coefficient in `table` has its own interval; `interval` holds for all of them jointly.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    fit = pm.regress(table, "ln_wage ~ union + tenure", epsilon=3.0, delta=1e-6)
    fit.table()
    fit.contrast({"union": 1, "tenure": -1})
    fit.predict([{"union": 1, "tenure": 5}])
    """

    formula: str = ""
    method: str = ""
    fixed_effects: bool = False
    effect: str = "per_person"

    @property
    def question_kind(self) -> str:
        return "regression"

    def table(self, level: float | None = None) -> list[Coefficient]:
        """Term, estimate, standard error, its parts, and interval of every coefficient."""
        at, made = self._level(level), self.intervals
        return [
            Coefficient(
                row.term, row.estimate, row.std_error, float(noise), row.lower, row.upper,
                row.status, self.p_value(j),
                *(made.causes(j, at) if isinstance(made, Coefficients) else ()),
            )
            for j, (row, noise) in enumerate(zip(self.rows(level), self.noise_sd, strict=True))
        ]  # fmt: skip

    @property
    def failed(self) -> bool:
        """Whether the private outcome is that no coefficient was found."""
        return bool(np.isnan(self.estimate).all())

    def p_value(self, column: int) -> float:
        """Of no effect: one less the largest level whose interval leaves out 0; NaN where nothing
        is shown. What intervals allow for (noise, tails) is allowed for here."""
        if not math.isfinite(self.estimate[column]):
            return math.nan

        def holds(log: float) -> bool:  # of 1 - level
            ends = self.row_interval(column, -math.expm1(log))
            return ends.lower[0] <= 0 <= ends.upper[0]

        return math.exp(bisect(holds, -40 * math.log(2.0), -1e-3, 30)[1])

    # --- effects "pooled" and "within" ------------------------------------------------------------
    @property
    def _released(self) -> Coefficients:
        if not isinstance(self.intervals, Coefficients):
            raise ArgumentError(
                "effect", self.effect, "has no joint covariance of the coefficients",
                "use effect='pooled' or effect='within'",
            )  # fmt: skip
        return self.intervals

    def covariance(self) -> Floats:
        """Of the coefficients that were released, sampling and noise together, shape (d, d); NaN
        where nothing is shown. Not for effect "per_person"."""
        return self._released.covariance

    def contrast(
        self, weights: Mapping[str, float], level: float | None = None, name: str = "contrast"
    ) -> Coefficient:
        """A sum of released coefficients, weighted, with its interval: free of further budget.

        Example:
            release.contrast({"race[2]": 1, "race[3]": -1})
        """
        row = [0.0] * len(self.columns)
        validate.instance("weights", weights, Mapping, "give {term: weight}")  # type: ignore[type-abstract]
        for term, weight in weights.items():
            if term not in self.columns:
                raise ArgumentError(
                    "weights",
                    term,
                    "is not in the release",
                    f"choose one of {', '.join(self.columns)}",
                )
            row[self.columns.index(term)] = validate.number("weights", weight)
        made, confidence = self._released, self._level(level)
        value, error, low, high = made.combined(np.array(row), confidence)
        noise = math.sqrt(
            sum((w * made.column(j).errors()[0]) ** 2 for j, w in enumerate(row) if w)
        )
        status = worst_status(made.status_of(j) for j, w in enumerate(row) if w)
        return Coefficient(name, value, error, noise, low, high, status)

    def predict(
        self, points: Sequence[Mapping[str, float | str]], level: float | None = None
    ) -> list[Coefficient]:
        """The response that the regression expects at given columns, with intervals for it (of the
        line, not of one record). own(x) is given as {"own(x)": ...}. For effect "pooled", all of
        whose coefficients were released.

        Example:
            release.predict([{"ttl_exp": 5, "tenure": 2}, {"ttl_exp": 10, "tenure": 2}])
        """
        model = read_formula(self.formula, own=True)
        if self.effect != "pooled" or set(model.names) != set(self.columns):
            raise ArgumentError(
                "points", self.effect, "requires all coefficients of a pooled regression",
                "use effect='pooled', without only",
            )  # fmt: skip
        return [
            self.contrast(
                {name: term_at(name, trees, point) for name, trees in model.terms}, level, str(k)
            )
            for k, point in enumerate(points)
        ]

    def facts(self) -> dict[str, Any]:
        result = super().facts()
        result["formula"] = self.formula
        result["method"] = self.method
        result["fixed_effects"] = self.fixed_effects
        if self.effect != "per_person":
            result["effect"] = self.effect
            result["covariance"] = [[plain(x) for x in row] for row in self.covariance()]
        told = fields(Coefficient)[: None if self.effect != "per_person" else -2]
        result["coefficients"] = [
            {item.name: plain(getattr(line, item.name)) for item in told} for line in self.table()
        ]
        return result

    parts_title: ClassVar[str] = "Parts of the errors"

    def parts_text(self) -> tuple[str, ...]:
        """The parts of the errors of every coefficient that is shown."""
        return tuple(
            f"{line.term}: std err (sampling) {line.sampling_sd:.2g}, std err (noise) "
            f"{line.noise_sd:.2g}, clipping-bias bound {line.clipping_bias:.2g}"
            for line in self.table()
            if math.isfinite(line.sampling_sd)
        )

    def fitted_text(self) -> str:
        """How many people could be fitted, as far as noise tells."""
        return fitted_text(self.diagnostics)
