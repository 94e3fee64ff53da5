"""Functions that build a `Round` for each kind of question, and public recipes for `tau`.

`tau`: how far people's values lie from a common point. Each recipe returns a tau with P(every value
within tau) at least 1 - gamma under its assumption. A wrong tau costs accuracy, never privacy.
Source: Roth and Avella-Medina (2025), Section 4.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, replace
from fractions import Fraction
from typing import Any, TypedDict, Unpack

from privmean import validate
from privmean.errors import ArgumentError
from privmean.local.exact_coins import exact_epsilon
from privmean.local.round import (
    AUTO,
    BALL_BIT,
    BALLS,
    CLOSEST,
    HADAMARD,
    ITEMS,
    KINDS,
    LARGEST_CANDIDATES,
    LARGEST_ITEMS,
    ONE_BIT,
    SCALARS,
    SKETCH,
    ClientSplit,
    Round,
)
from privmean.validate import with_full_signature


def _limit(persons: int, gamma: float, dimension: int) -> float:
    validate.whole("persons", persons, least=1)
    validate.fraction("gamma", gamma)
    return math.log(2 * validate.whole("dimension", dimension, least=1) * persons / gamma)


def tau_sub_gaussian(
    sigma: float, persons: int, *, gamma: float = 0.05, dimension: int = 1
) -> float:
    """Return a radius that holds all sub-Gaussian values with probability 1 - gamma.

    Parameters
    ----------
    sigma : float
        Sub-Gaussian scale; for normal values the standard deviation.
    persons : int
        Public n.
    gamma : float, default 0.05
        Probability that any value lies outside.
    dimension : int, default 1
        Number of coordinates.

    Returns
    -------
    float
        The radius, in the unit of the value. A wrong radius costs accuracy, never privacy.

    Notes
    -----
    Source: Roth and Avella-Medina (2025), Section 4.
    """
    return validate.positive("sigma", sigma) * math.sqrt(2 * _limit(persons, gamma, dimension))


def tau_random_effects(
    between: float,
    within: float,
    records: int,
    persons: int,
    *,
    gamma: float = 0.05,
    dimension: int = 1,
) -> float:
    """Return a radius that holds all person means with probability 1 - gamma.

    Parameters
    ----------
    between, within : float
        Standard deviation between people, and of records within a person. If records are dependent:
        root of the largest eigenvalue of their covariance.
    records : int
        Records per person, public.
    persons : int
        Public n.
    gamma : float, default 0.05
        Probability that any value lies outside.
    dimension : int, default 1
        Number of coordinates.

    Returns
    -------
    float
        The radius, in the unit of the value. A wrong radius costs accuracy, never privacy.

    Notes
    -----
    Without the part between people, which no number of records shrinks, most values are clipped.
    Source: Roth and Avella-Medina (2025), Section 4.
    """
    validate.whole("records", records, least=1)
    variance = validate.nonnegative("between", between) ** 2
    variance += validate.nonnegative("within", within) ** 2 / records
    return math.sqrt(2 * variance * _limit(persons, gamma, dimension))


class Options(TypedDict, total=False):
    """What every builder takes besides: a mechanism's name ("auto" for the best one), and the
    fields of `Round` that its question leaves open."""

    mechanism: str
    seed: bytes
    title: str
    beta: float
    other: int | None
    rows: int | None
    row_choice: str
    step: object | None
    candidates: int | None
    favoured: tuple[int, ...]
    issued: bool
    closes: int | None
    part: ClientSplit | None
    messages: int
    points: Sequence[float]


_USUAL = {item.name: item.default for item in fields(Round) if item.default is not MISSING}
with_options = with_full_signature(Options, {**_USUAL, "mechanism": AUTO})


def power_of_two_above(value: float) -> int:
    """The smallest power of two that is at least `value` (and at least 1)."""
    return 1 << max(0, math.ceil(math.log2(max(1.0, value))))


def levels_of(menu: object) -> tuple[Fraction, ...]:
    """A rising menu from one level or several."""
    levels = menu if isinstance(menu, Sequence) and not isinstance(menu, str | bytes) else [menu]
    if not levels:
        raise ArgumentError("epsilon", menu, "is empty", "give a level or several")
    return tuple(sorted({exact_epsilon("epsilon", item) for item in levels}))


def per_coordinate(name: str, value: object) -> tuple[float, ...]:
    """One number a coordinate, from a number or a sequence given as the argument `name`."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return tuple(validate.number(name, item) for item in value)
    return (validate.number(name, value),)


def _round(
    known: Sequence[str],
    kind: Sequence[str],
    question: dict[str, Any],
    own: Callable[[str], dict[str, Any]] = lambda _: {},
) -> Round:
    """The round of a named mechanism, or of the best of a kind.

    question: the fields of any mechanism's round, and what `Options` has; own: what a mechanism
    sets beside them, where they leave it open.
    """
    mechanism = question.pop("mechanism", AUTO)
    if question.get("seed") is None:
        question["seed"] = os.urandom(32)

    def make(name: str) -> Round:
        return Round(mechanism=name, **{**own(name), **question})

    if validate.choice("mechanism", mechanism, [AUTO, *known]) != AUTO:
        return make(mechanism)
    if len(kind) == 1:
        return make(kind[0])
    from privmean.local.choose_mechanism import choose

    return choose(make, kind)[0]


def _range(lower: object, upper: object) -> dict[str, Any]:
    return {"lower": per_coordinate("lower", lower), "upper": per_coordinate("upper", upper)}


def _rows(name: str, items: int) -> dict[str, Any]:
    return {"rows": power_of_two_above(items)} if name == HADAMARD else {}


@with_options
def mean_round(
    lower: object,
    upper: object,
    *,
    epsilon: object,
    persons: int,
    sigma: object | None = None,
    **options: Unpack[Options],
) -> Round:
    """Make a round for the mean of bounded values.

    Parameters
    ----------
    lower, upper : float or list of float
        Public bounds, one per coordinate.
    epsilon : float or list of float
        Levels; with `step` the smallest and largest level of a ladder.
    persons : int
        Planned number of reports, public.
    sigma : float or list of float, optional
        Public bound of the standard deviation, to which mechanism and weights are adapted.
    mechanism : {"auto", "one-bit", "hybrid", "piecewise"}, default "auto"
        "auto" has the least worst-case variance, "one-bit" is best for values at both bounds.
    seed, title, beta, other, rows, row_choice, step, candidates, favoured
        As for `Round`.
    issued, closes, part, messages, points
        As for `Round`.

    Returns
    -------
    Round
        The public description of the round.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Examples
    --------
    from privmean.local import mean_round

    round_ = mean_round(0, 24, epsilon=[0.5, 1, 2], persons=10_000)
    """
    question: dict[str, Any] = dict(
        menu=levels_of(epsilon), persons=persons, **_range(lower, upper), **options
    )
    if sigma is not None:
        spread = per_coordinate("sigma", sigma)
        question["sigma"] = spread * len(question["lower"]) if len(spread) == 1 else spread
    # with any spread one bit has the least variance at worst (docs/proofs/local-scalar.md)
    kind = (ONE_BIT,) if sigma is None else KINDS["numbers"]
    return _round(SCALARS, kind, question)


@with_options
def ball_round(
    radius: float, dimension: int, *, epsilon: object, persons: int, **options: Unpack[Options]
) -> Round:
    """Make a round for the mean of vectors in an L2 ball.

    Parameters
    ----------
    radius : float
        Public bound of the norm.
    dimension : int
        Number of coordinates.
    epsilon : float or list of float
        Levels; with `step` the smallest and largest level of a ladder.
    persons : int
        Planned number of reports, public.
    mechanism : {"auto", "closest", "ball-bit"}, default "auto"
        "auto" has the least worst-case variance. "closest" sends the number of a public direction,
        "ball-bit" one bit.
    seed, title, beta, other, rows, row_choice, step, candidates, favoured
        As for `Round`.
    issued, closes, part, messages, points
        As for `Round`.

    Returns
    -------
    Round
        The public description of the round.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Examples
    --------
    from privmean.local import ball_round

    round_ = ball_round(1.0, 8, epsilon=2, persons=10_000)
    """
    menu, given = levels_of(epsilon), options.get("candidates")
    dimension = validate.whole("dimension", dimension, least=1)
    if given is not None:
        given = validate.whole("candidates", given, least=2, most=LARGEST_CANDIDATES)
    question: dict[str, Any] = dict(
        menu=menu, persons=persons, radius=radius, dimension=dimension, **options
    )
    kind = KINDS["vectors"] if dimension > 1 else (BALL_BIT,)
    if "candidates" in options or "favoured" in options:
        kind = (CLOSEST,)
    return _round(BALLS, kind, question, lambda name: _geometry(name, menu, dimension, given))


def _geometry(
    name: str, menu: tuple[Fraction, ...], dimension: int, candidates: int | None
) -> dict[str, Any]:
    """The candidates, and how many of them are favoured at each level."""
    if name == CLOSEST and dimension >= 2:
        from privmean.local.aggregators.ball_law import best_favoured, enough_candidates

        number = candidates or enough_candidates(menu, dimension)
        sets = tuple(best_favoured(item, dimension, number) for item in menu)
        return {"candidates": number, "favoured": sets}
    return {}


@with_options
def items_round(
    items: int, *, epsilon: object, persons: int, oversize: float = 4.0, **options: Unpack[Options]
) -> Round:
    """Make a round for the frequencies of items.

    Parameters
    ----------
    items : int
        Number of items.
    epsilon : float or list of float
        Levels; with `step` the smallest and largest level of a ladder.
    persons : int
        Planned number of reports, public.
    oversize : float, default 4.0
        Rows of a sketch, relative to the planned sum of tanh^2(epsilon/2).
    mechanism : {"auto", "subset", "hadamard", "sketch"}, default "auto"
        "auto" has the least variance with reports up to 4,096 bytes. "subset" is best and sends
        items/8 bytes, "hadamard" and "sketch" (huge domains, small bias) one bit.
    seed, title, beta, other, rows, row_choice, step, candidates, favoured
        As for `Round`.
    issued, closes, part, messages, points
        As for `Round`.

    Returns
    -------
    Round
        The public description of the round.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Examples
    --------
    from privmean.local import items_round

    round_ = items_round(16, epsilon=2, persons=10_000)
    """
    menu = levels_of(epsilon)
    items = validate.whole("items", items, least=1)

    def own(name: str) -> dict[str, Any]:
        if name != SKETCH or "rows" in options:
            return _rows(name, items)
        validate.positive("oversize", oversize)
        planned = validate.whole("persons", persons, least=1) * math.tanh(float(menu[-1]) / 2) ** 2
        return {"rows": power_of_two_above(oversize * planned)}

    kind = KINDS["items"]
    if items > LARGEST_ITEMS:
        kind = (SKETCH,)
    elif "rows" in options or "row_choice" in options:
        kind = (HADAMARD,)
    question: dict[str, Any] = dict(menu=menu, persons=persons, items=items, **options)
    return _round(ITEMS, kind, question, own)


@with_options
def vote_round(
    lower: object,
    upper: object,
    bins: int,
    *,
    epsilon: object,
    persons: int,
    **options: Unpack[Options],
) -> Round:
    """Make a round in which every client votes for the bin of its value.

    Parameters
    ----------
    lower, upper : float or list of float
        Public range that the bins cover; values outside count in the end bins.
    bins : int
        Number of bins of equal width.
    epsilon : float or list of float
        Levels; with `step` the smallest and largest level of a ladder.
    persons : int
        Planned number of reports, public.
    mechanism : {"auto", "subset", "hadamard"}, default "auto"
        As for `items_round`.
    seed, title, beta, other, rows, row_choice, step, candidates, favoured
        As for `Round`.
    issued, closes, part, messages, points
        As for `Round`.

    Returns
    -------
    Round
        The public description of the round.

    Raises
    ------
    ArgumentError
        If the arguments cannot be used.

    Examples
    --------
    from privmean.local import vote_round

    round_ = vote_round(-10, 10, 5, epsilon=2, persons=100_000)
    """
    bins = validate.whole("bins", bins, least=2)
    question: dict[str, Any] = dict(
        menu=levels_of(epsilon), persons=persons, bins=bins, items=bins, **options
    )
    question |= _range(lower, upper)
    return _round(KINDS["items"], KINDS["items"], question, lambda name: _rows(name, bins))


def remade(round_: Round, mechanism: str) -> Round:
    """The same question asked by another mechanism (for comparisons: its digest differs)."""
    if mechanism == round_.mechanism:
        return round_
    own: dict[str, Any] = {"candidates": None, "favoured": (), "rows": None}
    if round_.dimension is not None:
        own |= _geometry(mechanism, round_.menu, round_.dimension, None)
    elif mechanism == HADAMARD:
        own["rows"] = power_of_two_above(round_.items or 1)
    return replace(round_, mechanism=mechanism, **own)
