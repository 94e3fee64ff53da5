"""The levels of epsilon that a round offers: a short list, or every step of a ladder.

Pure Python: both halves import it.
"""

from __future__ import annotations

from bisect import bisect_right
from decimal import Decimal
from fractions import Fraction

from privmean import validate
from privmean.errors import ArgumentError
from privmean.local.exact_coins import exact_epsilon
from privmean.local.mechanisms import (
    LARGEST_CANDIDATES,
    LARGEST_LADDER,
    LARGEST_MENU,
    SCALARS,
)
from privmean.noise.decimal_context import plain_context

_CONTEXT = plain_context(28)


def checked_menu(
    menu: tuple[object, ...], step: object | None, mechanism: str
) -> tuple[tuple[Fraction, ...], Fraction | None]:
    """The levels, rising, and the step of a ladder (None for a list).

    With a step, `menu` names the least and the most level (or is the whole ladder already).
    """
    if len(menu) > (LARGEST_MENU if step is None else LARGEST_LADDER):
        raise ArgumentError(
            "menu", len(menu), "must hold fewer levels", f"give at most {LARGEST_MENU} levels"
        )
    levels = tuple(exact_epsilon("menu", item) for item in menu)
    if not levels or list(levels) != sorted(set(levels)):
        raise ArgumentError("menu", menu, "must hold increasing levels", "sort the epsilon levels")
    if step is None:
        return levels, None
    stride = exact_epsilon("step", step)
    steps = (levels[-1] - levels[0]) / stride
    if mechanism not in SCALARS:
        raise ArgumentError(
            "step",
            str(stride),
            f"is not for {mechanism}",
            "remove it; a ladder is for means of numbers",
        )
    if len(levels) < 2 or steps.denominator != 1 or steps >= LARGEST_LADDER:
        raise ArgumentError(
            "step",
            str(stride),
            "must lead from the lowest to the highest level",
            f"give two levels a whole number of steps apart, below {LARGEST_LADDER}",
        )
    ladder = tuple(levels[0] + k * stride for k in range(int(steps) + 1))
    if len(levels) > 2 and levels != ladder:
        raise ArgumentError(
            "menu", len(levels), "is not a ladder of the round", "give the two ends"
        )
    return ladder, stride


def checked_favoured(
    candidates: int, favoured: tuple[object, ...], menu: tuple[Fraction, ...]
) -> tuple[int, ...]:
    """How many of the candidates each level favours."""
    if candidates & (candidates - 1) or candidates > LARGEST_CANDIDATES:
        raise ArgumentError(
            "candidates",
            candidates,
            f"must be a power of two of at most {LARGEST_CANDIDATES}",
            "try 128",
        )
    sets = tuple(validate.whole("favoured", item, least=1) for item in favoured)
    if len(sets) != len(menu) or max(sets) > candidates // 2:
        raise ArgumentError(
            "favoured", sets, "must hold 1 to candidates/2 per level", "use ball_round"
        )
    return sets


def level_within(menu: tuple[Fraction, ...], epsilon: object, messages: int) -> int:
    """The largest level that a client allowing `epsilon` for all its messages can answer at."""
    allowed = exact_epsilon("epsilon", epsilon) / messages
    fitting = bisect_right(menu, allowed)
    if not fitting:
        raise ArgumentError(
            "epsilon",
            float(allowed * messages),
            f"is below the smallest level of this round, {float(menu[0]):g}"
            + (f", in each of {messages} messages" if messages > 1 else ""),
            "do not answer this round",
        )
    return fitting - 1


def menu_text(menu: tuple[Fraction, ...], step: Fraction | None) -> list[str]:
    """The menu as published: every level, or the two ends of a ladder."""
    return [level_text(item) for item in (menu if step is None else (menu[0], menu[-1]))]


def level_text(epsilon: Fraction) -> str:
    """The shortest exact text: a decimal where there is one.

    In a context of its own: the caller's decimals must not change what a round hashes to.
    """
    text = str(_CONTEXT.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)))
    return text if Fraction(text) == epsilon else str(epsilon)
