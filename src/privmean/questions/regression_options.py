"""What one regression of all people is asked: targets, weights and public units, as plain values.

The words belong to `Regression`; this reads them. Everything is refused here, before a table is
opened.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from typing import Any

from privmean import validate
from privmean.errors import ArgumentError
from privmean.models.fit_person import Exchangeable, Independence
from privmean.models.moment_rows import Weighting
from privmean.models.polynomial_design import Design
from privmean.models.pooled_steps import Target
from privmean.models.run_pooled import Pooled

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


def pooled_of(
    design: Design,
    effect: str,
    *,
    only: Sequence[str] | None,
    contrasts: Mapping[str, Mapping[str, float]] | None,
    weights: str | int,
    working: object,
    scales: Mapping[str, Any] | None,
    bounds: Mapping[str, Any] | None,
    clustering: float,
    clipping_bias: str,
) -> Pooled:
    """The estimator of effect "pooled" or "within"."""
    if isinstance(working, Exchangeable) and effect == WITHIN:
        raise ArgumentError(
            "working", working, "cannot be combined with effect='within'", "choose one of them"
        )
    if not isinstance(working, Independence | Exchangeable):
        raise ArgumentError(
            "working", working, f'cannot be combined with effect={effect!r}',
            "give Exchangeable(icc), or effect='per_person'",
        )  # fmt: skip
    icc = working.icc if isinstance(working, Exchangeable) else 0.0
    weighting = Weighting(cap_of(weights), icc, effect == WITHIN)
    return Pooled(
        design,
        weighting,
        _targets(design.names, only, contrasts),
        _units(design, scales, bounds),
        clustering,
        single=clipping_bias == SINGLE,
    )


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
    """The weighting in words."""
    max_records = cap_of(weights)
    return (
        "weighted equally"
        if max_records is None
        else f"weighted by records, at most {max_records} each"
    )


def _targets(
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


def _units(
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
