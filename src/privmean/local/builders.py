"""Functions that build a `Round` for each kind of question."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from privmean import validate
from privmean.local.coins import exact_epsilon
from privmean.local.descriptor import Round
from privmean.local.mechanisms import (
    BALL_BIT,
    BALLS,
    CLOSEST,
    HADAMARD,
    HISTOGRAM,
    ITEMS,
    ONE_BIT,
    PRIV_UNIT,
    SCALARS,
    SKETCH,
    SUBSET,
    UNARY,
)


def power_of_two_above(value: float) -> int:
    """The smallest power of two that is at least `value` (and at least 1)."""
    return 1 << max(0, math.ceil(math.log2(max(1.0, value))))


def levels_of(menu: object) -> tuple[Fraction, ...]:
    """A rising menu from one level or several."""
    levels = menu if isinstance(menu, Sequence) and not isinstance(menu, str) else [menu]
    return tuple(sorted({exact_epsilon("menu", item) for item in levels}))


def per_coordinate(value: object) -> tuple[float, ...]:
    """One number a coordinate, from a number or a sequence."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(validate.number("bounds", item) for item in value)
    return (validate.number("bounds", value),)


def _seeded(options: dict[str, Any]) -> dict[str, Any]:
    """Options with a seed of the round's own, unless they name one."""
    return {**options, "seed": options.get("seed") or os.urandom(32)}


def mean_round(
    lower: object,
    upper: object,
    *,
    epsilon: object,
    persons: int,
    mechanism: str = ONE_BIT,
    **options: Any,
) -> Round:
    """A round for the mean of values in [lower, upper] (numbers, or one bound a coordinate).

    epsilon: one level or a list of levels. mechanism: "one-bit" (default, best at worst), or
    "laplace", "piecewise", "hybrid" (better for spread below the range and larger epsilon).
    points: for a curve, the public design points, rising; see `curve`.
    """
    validate.choice("mechanism", mechanism, list(SCALARS))
    return Round(
        mechanism=mechanism,
        menu=levels_of(epsilon),
        persons=persons,
        lower=per_coordinate(lower),
        upper=per_coordinate(upper),
        **_seeded(options),
    )


def ball_round(
    radius: float,
    dimension: int,
    *,
    epsilon: object,
    persons: int,
    mechanism: str = BALL_BIT,
    **options: Any,
) -> Round:
    """A round for the mean of vectors of norm at most `radius`.

    mechanism: "ball-bit" (one bit a report; the direction follows from the nonce), "ball" (the
    client draws the direction and sends it), or "priv-unit" (better for epsilon above 1,
    idealised: its caps are drawn with floating-point numbers).
    """
    validate.choice("mechanism", mechanism, list(BALLS))
    menu = levels_of(epsilon)
    if mechanism == PRIV_UNIT and "caps" not in options and dimension >= 2:
        from privmean.local.clients.caps import best_cap

        options["caps"] = tuple(best_cap(float(item), dimension) for item in menu)
    if mechanism == CLOSEST and "favoured" not in options:
        from privmean.local.candidates import best_favoured

        number = options.setdefault("candidates", 128)
        options["favoured"] = tuple(best_favoured(item, dimension, number) for item in menu)
    return Round(
        mechanism=mechanism,
        menu=menu,
        persons=persons,
        radius=radius,
        dimension=dimension,
        **_seeded(options),
    )


def items_round(
    items: int,
    *,
    epsilon: object,
    persons: int,
    mechanism: str = HADAMARD,
    oversize: float = 4.0,
    **options: Any,
) -> Round:
    """A round for the frequencies of `items` items.

    mechanism: "hadamard" (default: one bit, no bias), "sketch" (one bit, for huge domains; its
    rows are `oversize` times the planned sum of tanh^2(epsilon/2)), "subset" (a set of items,
    best at every epsilon, items/8 bytes), "unary" (optimized unary encoding), or "histogram"
    (every bit by randomized response at epsilon/2).
    """
    validate.choice("mechanism", mechanism, list(ITEMS))
    menu = levels_of(epsilon)
    items = validate.whole("items", items, least=1)
    if mechanism == HADAMARD:
        options.setdefault("rows", power_of_two_above(items))
    if mechanism == SKETCH and "rows" not in options:
        validate.positive("oversize", oversize)
        planned = persons * math.tanh(float(menu[-1]) / 2) ** 2
        options["rows"] = power_of_two_above(oversize * planned)
    return Round(mechanism=mechanism, menu=menu, persons=persons, items=items, **_seeded(options))


def vote_round(
    lower: object,
    upper: object,
    bins: int,
    *,
    epsilon: object,
    persons: int,
    mechanism: str = SUBSET,
    **options: Any,
) -> Round:
    """A round in which every client votes for the bin that holds its value.

    `bins` bins of equal width cover [lower, upper]; the end bins take everything beyond.
    """
    if mechanism == HADAMARD:
        options.setdefault("rows", power_of_two_above(bins))
    return Round(
        mechanism=validate.choice("mechanism", mechanism, [HADAMARD, UNARY, SUBSET, HISTOGRAM]),
        menu=levels_of(epsilon),
        persons=persons,
        lower=per_coordinate(lower),
        upper=per_coordinate(upper),
        bins=bins,
        items=bins,
        **_seeded(options),
    )
