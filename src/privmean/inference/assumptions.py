"""What intervals assume, in sentences that are the same wherever they are said.

An assumption is a list of such sentences, joined by "; ". The privacy guarantee depends on none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from privmean.output import decimals

INDEPENDENT = "people are independent"
GROUP_SHARE = "no group has more than twice the overall share of outliers"
NEAR_NORMAL = "values are close to normal"
DECLARED = " declared "  # in every sentence about a type
FEW = 4  # columns of one type that are named
SHARED = "clipping affects all coefficients alike"
ALIKE = "other columns alike, each with its own clipping bounds"


def joined(sentences: Iterable[str]) -> str:
    """The sentences as one text, each once."""
    return "; ".join(dict.fromkeys(item for item in sentences if item))


def dependence(design_effect: float) -> str:
    """How the values of people may be related."""
    if design_effect == 1:
        return INDEPENDENT
    return f"clustered people: design effect {design_effect:g}"


def values_within(low: object, high: object) -> str:
    return f"values lie in [{low:.6g}, {high:.6g}] (values outside count as the nearer bound)"


def type_says(columns: Sequence[str], kind: str, low: float, high: float) -> str:
    """What is owed to a declared type, which the caller makes public."""
    inside = f"at least {low:g}" if high == math.inf else f"in [{low:g}, {high:g}]"
    return f"{_named(columns)}{DECLARED}{kind}: values {inside}"


def keys_say(columns: Sequence[str]) -> str:
    """The same of keys that follow from types."""
    return f"{_named(columns)}{DECLARED}Enum: the categories are the keys"


def _named(columns: Sequence[str]) -> str:
    """Columns by their names, or by their number if they are many."""
    if len(columns) == 1:
        return f"{columns[0]} is"
    few = len(columns) <= FEW
    return f"{', '.join(columns) if few else f'{len(columns)} columns'} are"


def outliers_within(most: float, nearer: float | None = None) -> str:
    """How far outliers lie beyond the clipping bounds. nearer: on the side of the nearer one."""
    beside = "" if nearer is None else f" (by {nearer:.4g} on the nearer side)"
    return f"outliers exceed the clipping bounds by at most {most:.4g} on average{beside}"


def outliers_within_times(factor: float) -> str:
    """The same as a multiple of the bound."""
    return f"outliers exceed the clipping bounds by at most {factor:.0%} of the bound on average"


def contributions_within(part: float) -> str:
    """How far score contributions lie beyond their bound, as a part of it."""
    return f"clipped score contributions exceed their bound by at most {part:.0%} on average"


def no_undetected(people: float, limits: tuple[float, float] | None = None) -> str:
    """How many outliers the noisy count may miss; "" where it can miss none."""
    if not 0 < people < math.inf:
        return ""
    where = ""
    if limits is not None:
        places = decimals((limits[1] - limits[0]) / 10)
        where = f" far outside [{limits[0]:.{places}f}, {limits[1]:.{places}f}]"
    return (
        f"no undetected outliers (fewer than about {math.ceil(people)} people{where} could go "
        "undetected)"
    )


def missing_count_at(place: object) -> str:
    return f"people without a value count at {place}"


def assumed(design_effect: float, *more: str) -> str:
    """How people may be related, and what else is assumed."""
    return joined((dependence(design_effect), *more))
