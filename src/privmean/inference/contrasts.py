"""Comparisons of groups: texts against the public list of keys, and what they are in numbers.

A text is read before anything is spent; it must mean one comparison and no other.

The ratio of two means is every number that the two intervals together do not rule out. For each
ratio r the sum first - r second has an interval of its own; r is in the set if that holds 0
(Fieller 1954, with the noise and the allowances of both). The set may be an interval, two rays or
the whole line, which stands for two rays as well. Directions (cos f, -sin f) take the ratio tan f
through infinity without a break.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from privmean import validate
from privmean.array_types import Flags, Floats
from privmean.errors import ArgumentError
from privmean.inference.group_table import GroupTable, LinearCombination, MeanSum
from privmean.inference.status import LOW_PRECISION, MODIFIED_TARGET, OK, SUPPRESSED, worst_status

REST, OVERALL, EACH, ALL_PAIRS = "rest", "overall", "each", "all pairs"
MINUS, OVER = " - ", " / "
MOST = 5000  # comparisons that one text may mean


@dataclass(frozen=True)
class Contrast:
    """One comparison. text: as it is shown; terms: keys (or `rest`, `overall`) with factors;
    ratio: first over second instead of a sum."""

    text: str
    terms: tuple[tuple[str, float], ...]
    ratio: bool = False


def contrasts_of(
    said: Sequence[object], keys: Sequence[str], *, later: bool = False
) -> tuple[Contrast, ...]:
    """The comparisons that texts (and mappings of keys to factors) mean, each once. later: of keys
    that were private, of which some are shown: one that names another key stays, without numbers.

    "a - b", "a / b", "a - rest", "a - overall", "each - rest", "each - overall", "all pairs".
    Raises ArgumentError for a text that names no groups of the list, or could mean two things.
    """
    found: dict[str, Contrast] = {}
    for item in said:
        try:
            made = _one(item, keys)
        except ArgumentError:
            if not later:
                raise
            made = [_unseen(item)]
        for one in made:
            found.setdefault(one.text, one)
    return tuple(found.values())


def _one(said: object, keys: Sequence[str]) -> list[Contrast]:
    if isinstance(said, Mapping):
        return [_sum(said, keys)]
    if not isinstance(said, str):
        raise _wrong(said, "is not a comparison")
    if said == ALL_PAIRS and said not in keys:
        pairs = list(combinations(keys, 2))
        if len(pairs) > MOST:
            raise _wrong(said, f"must be at most {MOST} comparisons, not {len(pairs)}")
        return [Contrast(f"{a}{MINUS}{b}", ((a, 1.0), (b, -1.0))) for a, b in pairs]
    for whole in (REST, OVERALL):
        if said == f"{EACH}{MINUS}{whole}" and EACH not in keys and whole not in keys:
            return [Contrast(f"{a}{MINUS}{whole}", ((a, 1.0), (whole, -1.0))) for a in keys]
    readings = []
    for sign in (MINUS, OVER):
        for place in _places(said, sign):
            a, b = said[:place], said[place + len(sign) :]
            second = b in keys or (sign == MINUS and b in (REST, OVERALL))
            if a in keys and second and a != b:
                readings.append((a, b, sign))
    if len(readings) != 1:
        unclear = "is not a comparison of listed keys" if not readings else "has two meanings"
        raise _wrong(said, unclear, keys)
    a, b, sign = readings[0]
    return [Contrast(said, ((a, 1.0), (b, -1.0)), ratio=sign == OVER)]


def later_contrasts(said: Sequence[object]) -> tuple[object, ...]:
    """Comparisons of keys that are not known yet, as they were said; ArgumentError for a text that
    could not name two of them."""
    for item in said:
        if isinstance(item, Mapping) or item == ALL_PAIRS:
            continue
        signs = [sign for sign in (MINUS, OVER) for _ in _places(str(item), sign)]
        if not isinstance(item, str) or len(signs) != 1:
            raise _wrong(item, "is not a comparison of two keys")
    return tuple(said)


def _unseen(said: object) -> Contrast:
    if isinstance(said, Mapping):
        named = [(str(key), float(factor)) for key, factor in said.items()]
        return Contrast(" ".join(f"{f:+g} {key}" for key, f in named), tuple(named))
    text = str(said)
    sign = OVER if OVER in text else MINUS
    first, _, second = text.partition(sign)
    return Contrast(text, ((first, 1.0), (second, -1.0)), ratio=sign == OVER)


def _sum(said: Mapping[object, object], keys: Sequence[str]) -> Contrast:
    from privmean.data.key_text import key_text

    terms = []
    for key, factor in said.items():
        text = key_text("contrasts", key)
        if text not in keys:
            raise _wrong(said, f"must name listed keys, not {text!r}")
        terms.append((text, validate.number("contrasts", factor)))
    if not any(factor for _, factor in terms):
        raise _wrong(said, "must have a factor other than 0")
    words = " ".join(f"{'-' if factor < 0 else '+'} {abs(factor):g} {key}" for key, factor in terms)
    return Contrast(words.removeprefix("+ "), tuple(terms))


def _places(text: str, sign: str) -> list[int]:
    return [i for i in range(len(text)) if text.startswith(sign, i)]


def _wrong(said: object, problem: str, keys: Sequence[str] = ()) -> ArgumentError:
    spaced = re.sub(r"\s*([-/])\s*", r" \1 ", str(said))
    remedy = "use 'a - b' or 'a / b' with two of the keys, 'each - rest' or 'all pairs'"
    if spaced != said and set(re.split(r" [-/] ", spaced)) <= set(keys):
        remedy = f"write {spaced!r} with spaces"
    return ArgumentError("contrasts", said, problem, remedy)


def contrast_lines(
    table: GroupTable,
    contrasts: Sequence[Contrast],
    level: float,
    *,
    clipped: bool = False,
    independent: bool = False,
) -> list[LinearCombination]:
    """The estimates and the intervals of comparisons, found together. A ratio has no standard
    error, and counts what limits cut off in any case."""
    found = [
        ratio_line(table, item, level, independent=independent)
        if item.ratio
        else _sum_of(table, item)
        for item in contrasts
    ]
    sums = [item for item in found if isinstance(item, MeanSum)]
    made = iter(table.lines(sums, level, clipped=clipped, independent=independent))
    return [next(made) if isinstance(item, MeanSum) else item for item in found]


def _sum_of(table: GroupTable, contrast: Contrast) -> MeanSum | LinearCombination:
    """The weights of the means in a difference; its line, where it needs no interval.

    `rest` and `overall` are means over groups whose interval is closed, by their noisy persons: a
    few people of whom nothing is known on one side would leave every comparison open.
    """
    weights: dict[int, float] = {}
    noise = 0.0
    if any(key not in table.places and key not in (REST, OVERALL) for key, _ in contrast.terms):
        return LinearCombination(math.nan, status=SUPPRESSED)
    for key, factor in contrast.terms:
        if key in table.places:
            place = table.places[key]
            if not table.shown[place]:
                return LinearCombination(math.nan, status=table.status[place])
            weights[place] = weights.get(place, 0.0) + factor
            continue
        others = table.closed.copy()
        if key == REST:
            others[table.places[contrast.terms[0][0]]] = False
        if not others.any():
            return LinearCombination(math.nan, status=nobody(table))
        parts = average(table, others)
        for place, part in zip(parts.places.tolist(), parts.weights.tolist(), strict=True):
            weights[place] = weights.get(place, 0.0) + factor * part
        noise += factor**2 * parts.noise
    kept = sorted(place for place, weight in weights.items() if weight)
    if not kept:  # a group and everybody, where nobody else is seen
        return LinearCombination(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, OK)
    return MeanSum(np.array(kept), np.array([weights[place] for place in kept]), noise)


def average_line(table: GroupTable, which: Flags, level: float) -> LinearCombination:
    """The mean of some groups together, by their noisy persons: of those that have an estimate and
    a closed interval."""
    used = which & table.closed
    if not used.any():
        return LinearCombination(math.nan, status=nobody(table))
    return table.lines([average(table, used)], level, clipped=not table.counted)[0]


def nobody(table: GroupTable) -> str:
    """The status of a mean over groups of which none has a closed interval."""
    return MODIFIED_TARGET if MODIFIED_TARGET in table.status else SUPPRESSED


def average(table: GroupTable, which: Flags) -> MeanSum:
    """The mean of some groups by their noisy people, with the variance of what the noise of these
    numbers adds."""
    places = np.flatnonzero(which)
    total = float(table.divisor[places].sum())
    parts, estimate = table.divisor[places] / total, table.estimate[places]
    mean = float(parts @ estimate)
    spread = float(((estimate - mean) ** 2).sum())
    return MeanSum(places, parts, spread * 3 * table.cell**2 / total**2)


GRID = 180  # directions looked at first
ROUNDS = 30


def ratio_line(
    table: GroupTable, contrast: Contrast, level: float, *, independent: bool = False
) -> LinearCombination:
    """The ratio of two groups' means with its set, unbounded where it is more than one interval; it
    has no standard error."""
    places = np.array([table.places.get(key, -1) for key, _ in contrast.terms])
    if (places < 0).any() or not table.shown[places].all():
        return LinearCombination(math.nan, status=SUPPRESSED)

    def holds(angles: Floats) -> Flags:
        """Whether the directions are held, with and without sampling; of shape (2, angles)."""
        weights = np.column_stack([np.cos(angles), -np.sin(angles)])
        sums = [MeanSum(places, item) for item in weights]
        lines = table.lines(sums, level, independent=independent)
        ends = np.array([(x.lower, x.upper, x.noise_lower, x.noise_upper) for x in lines]).T
        return (ends[::2] <= 0) & (ends[1::2] >= 0)

    top, bottom = table.estimate[places].tolist()
    estimate = top / bottom if bottom else math.copysign(math.inf, top)
    (lower, upper), (low, high) = _sets(holds, math.atan2(top, bottom))
    own = OK if math.isfinite(lower) else LOW_PRECISION
    status = worst_status((own, table.worst(places)))
    return LinearCombination(estimate, math.nan, lower, upper, low, high, status)


def _sets(holds: Callable[[Floats], Flags], best: float) -> list[tuple[float, float]]:
    """From the direction of the estimate both ways to the first that is ruled out, in steps and
    then to the last bit that matters; half a turn without one is the whole line."""
    steps = np.array([[1.0], [-1.0]]) * (math.pi / GRID) * np.arange(GRID + 1)
    held = holds((best + steps[:, 1:]).ravel()).reshape(2, 2, GRID)
    last = np.where(held.all(axis=2), GRID, held.argmin(axis=2))  # of those from the estimate on
    whole = (last == GRID).any(axis=1)
    kind, way = np.indices(last.shape)
    inside, outside = best + steps[way, last], best + steps[way, np.minimum(last + 1, GRID)]
    for _ in range(ROUNDS):
        middle = (inside + outside) / 2
        kept = holds(middle.ravel())[kind.ravel(), np.arange(middle.size)].reshape(middle.shape)
        inside, outside = np.where(kept, middle, inside), np.where(kept, outside, middle)
    # the tangent runs through infinity where the two ends lie on branches of their own
    branches = np.floor(inside / math.pi + 0.5)
    whole |= branches[:, 0] != branches[:, 1]
    return [
        (-math.inf, math.inf) if open_ else (math.tan(low), math.tan(high))
        for open_, (high, low) in zip(whole.tolist(), inside.tolist(), strict=True)
    ]
