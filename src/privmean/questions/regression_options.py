"""What one regression of all people is asked: targets, weights and public units, as plain values.

The words belong to `Regression`; this reads them. Everything is refused here, before a table is
opened.

A person's own regression coefficients as one row a person: the summary of effect
"per_person".

Assumed errors behind person-specific coefficients, and public limits of coefficients.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privmean import validate
from privmean.data.array_table import ArrayPersonTable
from privmean.errors import ArgumentError
from privmean.estimators.concentration import SubGaussian, per_column
from privmean.estimators.regression.formula import INTERCEPT, Model, read_formula
from privmean.estimators.regression.panel import (
    AR1,
    Exchangeable,
    Independence,
    Working,
    fit_persons,
)
from privmean.estimators.regression.polynomial_design import Design
from privmean.estimators.regression.run_pooled import Target
from privmean.questions.assumptions import Bounds
from privmean.validate import known_keywords

if TYPE_CHECKING:
    from privmean.data.table import Table

POOLED, WITHIN, OWN = "pooled", "within", "per_person"
EFFECTS = (POOLED, WITHIN, OWN)
SINGLE = "single"
SHARES = ("shared", SINGLE)
FIRST = {
    POOLED: "pooled regression: {}, people {}",
    WITHIN: "within-person (fixed-effects) regression: {}, people {}",
    OWN: "mean of person-specific coefficients: {}, people weighted equally",
}
WELL = 1e6  # widest ratio of a public center to its scale


def cap_of(weights: str | int) -> int | None:
    """None for people weighted equally, or the records up to which a person counts."""
    if weights == "people":
        return None
    if isinstance(weights, str) and weights.isdecimal():
        weights = int(weights)
    if isinstance(weights, bool) or not isinstance(weights, int) or not 1 <= weights <= 2**20:
        raise ArgumentError(
            "weights", weights, "is not 'people' or a number of records",
            "use weights=8 to count up to 8 records per person",
        )  # fmt: skip
    return weights


def votes(weights: str | int) -> str:
    max_records = cap_of(weights)
    return (
        "weighted equally"
        if max_records is None
        else f"weighted by records, at most {max_records} each"
    )


def targets_of(
    names: Sequence[str],
    only: Sequence[str] | None,
    contrasts: Mapping[str, Mapping[str, float]] | None,
) -> tuple[Target, ...] | None:
    if only is None and contrasts is None:
        return None
    found = []
    for name in (only,) if isinstance(only, str) else only or ():
        found.append(Target(_known("only", name, names), ((name, 1.0),)))
    example = "{'b - a': {'k[b]': 1, 'k[a]': -1}}"
    for name, weights in _named("contrasts", contrasts, example).items():
        if not isinstance(weights, Mapping) or not weights:
            raise ArgumentError(
                "contrasts", weights, "is not a sum of coefficients",
                "give contrasts={'b - a': {'k[b]': 1, 'k[a]': -1}}",
            )  # fmt: skip
        pairs = tuple(
            (_known("contrasts", term, names), validate.number("contrasts", weight))
            for term, weight in weights.items()
        )
        if not any(weight for _, weight in pairs):
            raise ArgumentError("contrasts", name, "must have a weight above 0", "give a weight")
        found.append(Target(str(name), pairs))
    labels = [target.name for target in found]
    if not found or len(set(labels)) < len(labels):
        raise ArgumentError("only", only, "must name each item once", "name each item once")
    return tuple(found)


def _named(argument: str, given: object, example: str) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ArgumentError(
            argument, given, "must name a term", f'use {argument}={example}'
        )  # fmt: skip
    return given


def _known(argument: str, name: object, names: Sequence[str]) -> str:
    if name not in names:
        raise ArgumentError(
            argument, name, "is not a term of the formula", f"choose one of {', '.join(names)}"
        )
    return str(name)


def units_of(
    design: Design, scales: Mapping[str, Any] | None, bounds: Mapping[str, Any] | None
) -> dict[str, tuple[float, float]]:
    """Public centers and scales of variables, by the names of columns and of the response."""
    called = {
        (ast.unparse(tree) if name == design.response else name): name
        for name, tree in design.trees
        if name in design.numeric
    }
    found: dict[str, tuple[float, float]] = {}
    for argument, given in (("bounds", bounds), ("scales", scales)):
        for name, pair in _named(argument, given, "{'age': (14, 50)}").items():
            if name not in called:
                raise ArgumentError(
                    argument, name, "is not a variable of the formula",
                    f"choose one of {', '.join(called)}",
                )  # fmt: skip
            if called[name] in found:
                raise ArgumentError(argument, name, "is named twice", "give scales or bounds")
            if argument == "bounds":
                low, high = validate.bounds("bounds", pair)
                centre, scale = low + (high - low) / 2, (high - low) / 4
            else:
                centre, scale = _pair(pair)
            if not 2.0**-40 <= scale <= 2.0**40 or abs(centre) > WELL * scale:
                raise ArgumentError(
                    argument,
                    pair,
                    "must be a scale, and not far below the center",
                    "change the unit",
                )
            found[called[name]] = centre if design.centred else 0.0, scale
    return found


def _pair(pair: Any) -> tuple[float, float]:
    try:
        centre, scale = pair
    except (TypeError, ValueError):
        raise ArgumentError(
            "scales", pair, "is not a pair of center and scale",
            "use scales={'age': (30, 8)}, or one number with effect='per_person'",
        ) from None  # fmt: skip
    return validate.number("scales", centre), validate.positive("scales", scale)


def contrasts_of(name: str, text: str) -> dict[str, dict[str, float]]:
    """Contrasts from a text: "b - a: k[b]=1 k[a]=-1; arm: arm=1"."""
    found: dict[str, dict[str, float]] = {}
    for part in text.split(";"):
        label, _, rest = part.rpartition(": ")
        weights = {}
        for item in rest.split():
            term, _, number = item.rpartition("=")
            try:
                weights[term] = float(number)
            except ValueError:
                weights[term] = math.nan
        if not label.strip() or not weights or any(math.isnan(x) for x in weights.values()):
            raise ArgumentError(
                name, part, "is not a contrast", "give 'b - a: k[b]=1 k[a]=-1', several with ;"
            )
        found[label.strip()] = weights
    return found


@dataclass(frozen=True)
class PersonCoefficients:
    """A person's own regression coefficients; sizes: public scales of terms and response."""

    formula: str
    fixed_effects: bool
    working: Working
    time: str | None
    threshold: float
    records: int
    sizes: tuple[float, ...]
    resolution: float

    @property
    def model(self) -> Model:
        return read_formula(self.formula, intercept=not self.fixed_effects)

    @property
    def by_time(self) -> bool:
        """Whether records are ordered."""
        return isinstance(self.working, AR1)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.model.names)

    def reduce(self, table: Table) -> ArrayPersonTable:
        """Private, spends nothing."""
        from privmean.estimators.regression.panel import model_records

        model = self.model
        products = model_records(table, model, self.time if self.by_time else None).products(
            [*(trees for _, trees in model.terms), (model.response,)],
            [self.resolution * size for size in self.sizes],
        )
        rows = fit_persons(
            products,
            working=self.working,
            within=self.fixed_effects,
            threshold=self.threshold,
            least=self.records,
            scales=self.sizes,
        )
        return ArrayPersonTable(rows, model.names, engine=products.engine)


def sizes_of(scales: Mapping[str, float] | None, model: Model) -> tuple[float, ...]:
    """Public scales of the terms and then the response, rounded to powers of two."""
    given = dict(scales or {})
    names = [*model.names, ast.unparse(model.response)]
    for item in given:
        if item not in names or item == INTERCEPT:
            raise ArgumentError(
                "scales", item, "is not a term of the formula", f"choose one of {', '.join(names)}"
            )
    result = []
    for item in names:
        size = validate.positive("scales", given.get(item, 1.0))
        result.append(2.0 ** round(math.log2(min(max(size, 2.0**-60), 2.0**60))))
    return tuple(result)


def working_of(working: object, fixed_effects: bool, time: str | None) -> Working:
    """A working covariance that goes with the other settings."""
    if working == "independence":
        working = Independence()
    if not isinstance(working, Independence | Exchangeable | AR1):
        raise ArgumentError(
            "working", working, "is not a working covariance", "give Exchangeable(icc) or AR1(phi)"
        )
    if fixed_effects and not isinstance(working, Independence):
        raise ArgumentError(
            "working", working, "cannot be combined with fixed_effects", "choose one of them"
        )
    if isinstance(working, AR1) and time is None:
        raise ArgumentError(
            "time", None, "is required by AR1", "name the column that orders records"
        )
    return working


@known_keywords
@dataclass(frozen=True)
class WorkingErrors:
    """Assumed standard deviations behind person-specific coefficients.

    Parameters
    ----------
    residual_sd : float
        Standard deviation of the errors, in the unit of the response.
    between_sd : float or list of float, default 0.0
        Standard deviation of the coefficients between people, for all terms or one per term.
    coefficient_bounds : (float, float) or list of pairs, optional
        Public bounds of the mean coefficients; required if delta is 0.

    Privacy
    -------
    Accuracy depends on this assumption; privacy holds for any data.

    Examples
    --------
    table = pm.Table(pm.example("nlswork"), person="person_id")
    known = pm.WorkingErrors(residual_sd=0.4, between_sd=0.1)
    formula = "ln_wage ~ ttl_exp"
    pm.regress(table, formula, effect="per_person", assume=known, epsilon=2.0, delta=1e-6)
    """

    residual_sd: float
    between_sd: float | tuple[float, ...] = 0.0
    coefficient_bounds: Bounds | None = None

    def __post_init__(self) -> None:
        validate.keep(self, validate.positive, "residual_sd")
        between = per_column("between_sd", self.between_sd, validate.number)
        object.__setattr__(self, "between_sd", between)
        for item in between if isinstance(between, tuple) else (between,):
            validate.nonnegative("between_sd", item)
        if self.coefficient_bounds is not None:
            pairs = validate.listed(
                "coefficient_bounds",
                self.coefficient_bounds,
                "give (lower, upper), or a pair a term",
            )
            if not pairs or not hasattr(pairs[0], "__len__"):
                pairs = (pairs,)
            for pair in pairs:
                validate.bounds("coefficient_bounds", pair)

    def concentration(self, spread: tuple[float, ...]) -> SubGaussian:
        """Concentration of coefficients. spread: their standard deviation for unit errors."""
        between = self.between_sd
        each = tuple(between) if isinstance(between, Iterable) else (between,) * len(spread)
        if len(each) != len(spread):
            raise ArgumentError(
                "between_sd", between, "must be one number per term", f"give {len(spread)} numbers"
            )
        return SubGaussian(
            tuple(
                math.hypot(validate.nonnegative("between_sd", b), self.residual_sd * s)
                for b, s in zip(each, spread, strict=True)
            )
        )


def ranges_of(given: Bounds | None, p: int) -> tuple[tuple[float, float], ...] | None:
    if given is None:
        return None
    pairs = list(given)
    if pairs and not hasattr(pairs[0], "__len__"):
        pairs = [given] * p
    if len(pairs) != p:
        raise ArgumentError(
            "assume", given, f"has {len(pairs)} pairs for {p} terms", "give one per term"
        )
    return tuple(validate.bounds("assume", pair) for pair in pairs)
