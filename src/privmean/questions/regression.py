"""Longitudinal regression: one for all people, or person-specific coefficients averaged.

Source of the latter: Roth and Avella-Medina, "Differential Privacy with Dependent Data" (2025),
Definition 5.13 and its estimators, with an enforced threshold on the smallest eigenvalue, the
radius without the condition number, and the ratio form for people who cannot be fitted
(docs/proofs/longitudinal.md). The former: docs/proofs/pooled-regression.md.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from privmean import validate
from privmean.data.schema import BOOLEAN
from privmean.errors import ArgumentError
from privmean.estimators.concentration import Bounded, UnknownScale
from privmean.estimators.means.clipped_mean import ClippedMeans
from privmean.estimators.regression.formula import read_formula
from privmean.estimators.regression.mean_coefficients import CoefficientPanel, MeanCoefficients
from privmean.estimators.regression.panel import (
    Exchangeable,
    Independence,
    PanelSums,
    Weighting,
    Working,
)
from privmean.estimators.regression.pooled_intervals import TailIntervals, unseen
from privmean.estimators.regression.private_scale import CLIPPED, MEAN, PrivateScale
from privmean.estimators.regression.regression_release import NO_VARIATION, RegressionRelease
from privmean.estimators.regression.run_pooled import Pooled
from privmean.estimators.winsorized import WinsorizedMean
from privmean.inference.interval import NoInterval
from privmean.inference.status import FAILED, NOT_IDENTIFIED, OK, OUTLIERS_UNCHECKED, release_status
from privmean.privacy.budget import REPLACE_ONE
from privmean.questions.assumptions import (
    BOUNDS,
    CONCENTRATION,
    Auto,
    Clipping,
    ColumnTypes,
    check_keys,
    given_estimator,
    kind_of,
)
from privmean.questions.base import Estimator, QuestionDefaults
from privmean.questions.regression_options import (
    EFFECTS,
    FIRST,
    OWN,
    POOLED,
    SHARES,
    SINGLE,
    WITHIN,
    PersonCoefficients,
    WorkingErrors,
    cap_of,
    ranges_of,
    sizes_of,
    targets_of,
    units_of,
    votes,
    working_of,
)
from privmean.release.release import Release, as_kind
from privmean.validate import known_keywords

if TYPE_CHECKING:
    from privmean.data.table import Table
    from privmean.privacy.budget import Budget

Effect = Literal["pooled", "within", "per_person"]
OWN_WORDS = ("time", "threshold", "min_records", "resolution", "assume", "method")
POOLED_WORDS = ("only", "contrasts", "weights", "bounds", "clipping_bias")


@known_keywords
@dataclass(frozen=True)
class Regression(QuestionDefaults):
    """Fit a regression: pooled, within people, or person-specific.

    Parameters
    ----------
    formula : str
        Such as "y ~ a + b", with a:b, a*b, 0 + a, I(a**2) and C(a, levels=[1, 2, 3]). Pooled
        formulas may have own(x), the person mean of x: "y ~ x + own(x)" separates the within slope.
    fixed_effects : bool, default False
        For "per_person": use deviations from person means, without an intercept.
    working : {"independence"}, Exchangeable or AR1, default "independence"
        Public working covariance of the errors of a person; AR1 is for "per_person".
    time : str, optional
        Column that orders the records, for AR1.
    threshold : float, default 0.01
        For "per_person": exclude people whose smallest eigenvalue of X'X/T is below this.
    min_records : int, optional
        For "per_person": exclude people with fewer records. Default: coefficients + 1.
    scales : dict, optional
        Public center and scale of variables, such as {"age": (30, 8)}. For "per_person": one scale
        per term and for the response. Default: found privately.
    resolution : float, default 2**-20
        Grid step of the columns, in units of their scale. At most 2^40 steps are used.
    assume : bounds, concentration or WorkingErrors, optional
        Bounds of person-specific coefficients. Default: found privately.
    method : str or estimator, default "auto"
        Estimator of the coefficients.
    clustering : float, default 1.0
        Design effect of clustered people.
    effect : {"pooled", "within", "per_person"}, default "pooled"
        One regression for all people, within (fixed-effects) regression, or the mean of
        person-specific coefficients.
    only : list of str, optional
        Terms to release; the other terms are fitted only, which narrows the intervals.
    contrasts : dict, optional
        Sums of coefficients to release, such as {"b - a": {"k[b]": 1, "k[a]": -1}}.
    weights : {"people"} or int, default "people"
        People weighted equally, or records up to this number per person.
    bounds : dict, optional
        Public bounds of variables, such as {"age": (14, 50)}.
    clipping_bias : {"shared", "single"}, default "shared"
        How intervals allow for clipped score contributions: each coefficient for an equal share, or
        for all of it. Use "single" where the true relation may be curved.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Privacy
    -------
    Person-level differential privacy: the composed loss is at most the budget, for any data. The
    contribution of a person follows from that person's records and earlier noisy answers, and is
    clipped. Public are the formula, the settings and, under replace-one, the roster.

    Notes
    -----
    With "per_person" the estimate is for people that can be fitted. Who they are may depend on
    regressors, and on the response through missing values only. Source: docs/proofs, pages
    pooled-regression and longitudinal.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    question = pm.Regression("ln_wage ~ union + tenure", effect="within")
    print(pm.ask(table, question, epsilon=3.0, delta=1e-6))
    """

    kind: ClassVar[str] = "regression"
    wants_shared_location: ClassVar[bool] = False

    formula: Annotated[str, "Write a formula, such as 'y ~ a + b + I(a**2)'."]
    fixed_effects: Annotated[bool, "Use deviations from person means."] = False
    working: Annotated[
        Literal["independence"] | Working, "Give the working covariance of a person's errors."
    ] = "independence"
    time: Annotated[str | None, "Name the column that orders the records."] = None
    threshold: Annotated[float, "Require this least eigenvalue of X'X/T per person."] = 0.01
    min_records: Annotated[int | None, "Require at least this many records per person."] = None
    scales: Annotated[
        Mapping[str, float] | Mapping[str, tuple[float, float]] | None,
        "Give public scales by name, such as age=30,8.",
    ] = None
    resolution: Annotated[float, "Round columns to this power of two."] = 2.0**-20
    assume: Annotated[
        Clipping | WorkingErrors | None,
        "Bound person-specific coefficients, such as 0,3;-1,1.",
    ] = None
    method: Annotated[Auto | Estimator, "Choose the estimator; auto uses public facts only."] = (
        "auto"
    )
    clustering: Annotated[float, "Give the design effect of clustered people."] = 1.0
    effect: Annotated[Effect, "Choose the effect: 'pooled', 'within' or 'per_person'."] = "pooled"
    only: Annotated[tuple[str, ...] | None, "Release these terms only; fit all of them."] = None
    contrasts: Annotated[
        Mapping[str, Mapping[str, float]] | None, "Release sums such as '2 - 1: k[2]=1 k[1]=-1'."
    ] = None
    weights: Annotated[int | str, "Weight people equally, or records up to this number."] = "people"
    bounds: Annotated[
        Mapping[str, tuple[float, float]] | None, "Give public bounds by name, such as age=18,90."
    ] = None
    clipping_bias: Annotated[
        Literal["shared", "single"], "Allow for clipping per coefficient: an equal share, or all."
    ] = "shared"

    def __post_init__(self) -> None:
        validate.keep(self, validate.power_of_two, "resolution")
        validate.keep(self, validate.positive, "threshold", "clustering")
        validate.choice("effect", self.effect, EFFECTS)
        validate.flag("fixed_effects", self.fixed_effects)
        validate.choice("clipping_bias", self.clipping_bias, SHARES)
        if self.effect != OWN:
            beside = f"cannot be combined with effect={self.effect!r}"
            remedy = "say effect='per_person' for the mean of person-specific coefficients"
            validate.refuse_said(self, ("fixed_effects",), beside, f"{remedy}, or effect='within'")
            validate.refuse_said(self, OWN_WORDS, beside, remedy)
            self._pooled()
            return
        beside = "cannot be combined with effect='per_person'"
        validate.refuse_said(self, POOLED_WORDS, beside, "use effect='pooled' or effect='within'")
        if self.method != "auto":
            remedy = "use pm.PrivateScale(...) or pm.WinsorizedMean(...)"
            besides = {"assume": self.assume, "clustering": self.clustering}
            given_estimator(self.method, besides, "is not an estimator", remedy)
        summary = self._own()
        assume: Any = self.assume
        if isinstance(assume, WorkingErrors):
            assume.concentration((1.0,) * len(summary.names))
            ranges_of(assume.coefficient_bounds, len(summary.names))
        elif assume is not None:
            kind = kind_of(assume)
            if kind == BOUNDS:
                ranges_of(assume, len(summary.names))
            elif kind != CONCENTRATION:
                raise ArgumentError(
                    "assume",
                    assume,
                    "is not an assumption about coefficients",
                    "use bounds such as (-1, 1), SubGaussian(sd=...) or WorkingErrors(...)",
                )

    @property
    def summary(self) -> PersonCoefficients | CoefficientPanel | PanelSums:
        if self.effect != OWN:
            return self._panel()
        own = self._own()
        if not self._unsaid:
            return own
        return CoefficientPanel(self.formula, self.fixed_effects, own.time if own.by_time else None)

    @property
    def _unsaid(self) -> bool:
        """Whether sizes of variables and of coefficients are to be found privately."""
        words = ("scales", "resolution", "assume", "method")
        return all(validate.is_usual(getattr(self, x), getattr(Regression, x)) for x in words)

    def _panel(self) -> PanelSums:
        return PanelSums(self.formula, self.effect == WITHIN)

    def _pooled(self) -> Pooled:
        working, within = working_of(self.working, False, "t"), self.effect == WITHIN
        if isinstance(working, Exchangeable) and within:
            raise ArgumentError(
                "working", working, "cannot be combined with effect='within'", "choose one of them"
            )
        if not isinstance(working, Independence | Exchangeable):
            raise ArgumentError(
                "working", working, f'cannot be combined with effect={self.effect!r}',
                "give Exchangeable(icc), or effect='per_person'",
            )  # fmt: skip
        icc = working.icc if isinstance(working, Exchangeable) else 0.0
        design = self._panel().design
        return Pooled(
            design,
            Weighting(cap_of(self.weights), icc, within),
            targets_of(design.names, self.only, self.contrasts),
            units_of(design, self.scales, self.bounds),
            self.clustering,
            single=self.clipping_bias == SINGLE,
        )

    def _own(self) -> PersonCoefficients:
        model = read_formula(self.formula, intercept=not self.fixed_effects)
        p = len(model.terms)
        least = p + 1 + self.fixed_effects
        if self.min_records is not None:
            least = validate.whole("min_records", self.min_records, least=p)
        return PersonCoefficients(
            self.formula,
            self.fixed_effects,
            working_of(self.working, self.fixed_effects, self.time),
            self.time,
            self.threshold,
            least,
            sizes_of(self.scales, model),  # type: ignore[arg-type]
            self.resolution,
        )

    def estimator(self, columns: int, max_records: int | None, budget: Budget) -> Estimator:
        if self.effect != OWN:
            return self._pooled()
        if self.method != "auto":
            chosen: Estimator = self.method
            return chosen
        effect, limits = self.clustering, None
        assume: Any = self.assume
        if isinstance(assume, WorkingErrors):
            own = self._own()
            unit = math.sqrt(own.records * own.threshold)
            limits = ranges_of(assume.coefficient_bounds, columns)
            assume = assume.concentration(tuple(1 / (s * unit) for s in own.sizes[:-1]))
        if assume is None:
            target = MEAN if budget.neighbors == REPLACE_ONE else CLIPPED
            if not self._unsaid:
                return PrivateScale(target=target, design_effect=effect)
            own = self._own()
            return MeanCoefficients(
                CoefficientPanel(self.formula, self.fixed_effects).design,
                self.fixed_effects,
                own.working,
                own.threshold,
                own.records,
                target,
                effect,
            )
        if isinstance(assume, list | tuple | np.ndarray):
            pairs = ranges_of(assume, columns)
            assert pairs is not None
            low, high = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
            return WinsorizedMean(Bounded(low, high), design_effect=effect)
        if isinstance(assume, UnknownScale):
            raise ArgumentError(
                "assume",
                assume,
                "cannot be used for coefficients, because it pairs people",
                "remove it; the scale is found privately",
            )
        if limits is None and (budget.rho is not None or budget.delta == 0):
            raise ArgumentError(
                "range",
                None,
                "or a delta is required beside an assumption",
                "pass delta=1e-6, WorkingErrors(..., coefficient_bounds=(-1, 1)) or "
                "method=WinsorizedMean(..., range=(-1, 1))",
            )
        return WinsorizedMean(assume, range=limits, design_effect=effect)

    def with_public_facts(self, table: Table | None) -> Regression:
        """With the bounds of Boolean variables, for one regression of all."""
        if table is None:
            return self
        self._check_levels(table)
        if self.effect == OWN:
            return self
        given = {*(self.bounds or {}), *(self.scales or {})}
        named = [name for name in self._variables() if name not in given]
        types = ColumnTypes.of(table, named)
        found = {
            name: pair for name, pair in zip(named, types.limits, strict=True) if pair == BOOLEAN
        }
        return types.in_question(self, bounds={**(self.bounds or {}), **found}) if found else self

    def _check_levels(self, table: Table) -> None:
        """Refuse levels of texts that the declared type of their column does not list."""
        for _, tree in self._panel().design.trees:
            if not isinstance(tree, ast.Compare) or not isinstance(tree.left, ast.Name):
                continue
            level: Any = getattr(tree.comparators[0], "value", None)
            if not isinstance(level, str):
                continue
            try:
                check_keys("levels", table, (tree.left.id,), [(level,)])
            except ArgumentError as error:
                problem = f"has the level {level!r}, which {error.problem}"
                raise ArgumentError("formula", self.formula, problem, error.remedy) from None

    @property
    def shareable_columns(self) -> tuple[str, ...]:
        """Columns that are variables of one regression for all, with no public scale."""
        return tuple(self._variables()) if self.effect == POOLED else ()

    def from_regions(self, columns: tuple[str, ...]) -> Pooled:
        variables = self._variables()
        return replace(self._pooled(), looked=tuple(variables[item] for item in columns))

    def _variables(self) -> dict[str, str]:
        """Variables that are a column as it stands and whose units are looked for, by column."""
        pooled = self._pooled()
        trees = dict(pooled.design.trees)
        named = ((name, trees[name]) for name in pooled.searched)
        return {tree.id: name for name, tree in named if isinstance(tree, ast.Name)}

    def to_release(self, release: Release) -> RegressionRelease:
        if self.effect != OWN:
            pooled = self._pooled()
            working = working_of(self.working, False, "t")
            return as_kind(
                release,
                RegressionRelease,
                estimand=FIRST[self.effect].format(self.formula, votes(self.weights)),
                columns=tuple(target.name for target in pooled.asked),
                formula=self.formula,
                method=working.words if isinstance(working, Exchangeable) else "least squares",
                effect=self.effect,
            )
        within = "within-person " if self.fixed_effects else ""
        made, changed = release.intervals, dict[str, Any]()
        if isinstance(made, ClippedMeans | TailIntervals) and all(map(unseen, made.columns)):
            changed = {
                "estimate": np.full(len(release.columns), math.nan),
                "intervals": NoInterval(len(release.columns)),
                "status": FAILED,
                "statuses": (NOT_IDENTIFIED,) * len(release.columns),
                "advice": NO_VARIATION,
            }
        elif isinstance(made, ClippedMeans) and self.assume is None and self.method == "auto":
            # under add-remove nobody beyond the limits is counted
            said = [x if x != OK else OUTLIERS_UNCHECKED for x in made.statuses]
            changed = {"statuses": tuple(said), "status": release_status(said)}
        return as_kind(
            release,
            RegressionRelease,
            **changed,
            estimand=FIRST[OWN].format(self.formula),
            formula=self.formula,
            method=f"{within}{self._own().working.words} a person",
            fixed_effects=self.fixed_effects,
        )
