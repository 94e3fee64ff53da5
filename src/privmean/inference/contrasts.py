"""Comparisons of groups: texts against the public list of keys, and what they mean as weights.

A text is read before anything is spent; it must mean one comparison and no other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from privmean import validate
from privmean.errors import ArgumentError
from privmean.inference.group_table import Flags, GroupTable, LinearCombination
from privmean.inference.interval import Floats
from privmean.inference.status import MODIFIED_TARGET, OK, SUPPRESSED

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


def contrasts_of(said: Sequence[object], keys: Sequence[str]) -> tuple[Contrast, ...]:
    """The comparisons that texts (and mappings of keys to factors) mean, each once.

    "a - b", "a / b", "a - rest", "a - overall", "each - rest", "each - overall", "all pairs".
    Raises ArgumentError for a text that names no groups of the list, or could mean two things.
    """
    found: dict[str, Contrast] = {}
    for item in said:
        for one in _one(item, keys):
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


def shown_contrasts(said: Sequence[object], keys: Sequence[str]) -> tuple[Contrast, ...]:
    """The same, once some keys are shown; one that names another key stays, without numbers."""
    found: dict[str, Contrast] = {}
    for item in said:
        try:
            made = _one(item, keys)
        except ArgumentError:
            made = [_unseen(item)]
        for one in made:
            found.setdefault(one.text, one)
    return tuple(found.values())


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


def contrast_line(
    table: GroupTable,
    contrast: Contrast,
    level: float,
    *,
    clipped: bool = False,
    independent: bool = False,
) -> LinearCombination:
    """The estimate and the intervals of a sum of means (for a ratio see `ratios.py`).

    `rest` and `overall` are means over groups whose interval is closed, by their noisy persons: a
    few people of whom nothing is known on one side would leave every comparison open.
    """
    weights = np.zeros(len(table.keys))
    extra = 0.0
    if any(key not in table.places and key not in (REST, OVERALL) for key, _ in contrast.terms):
        return LinearCombination(float("nan"), status=SUPPRESSED)
    for key, factor in contrast.terms:
        if key in table.places:
            if not table.shown[table.place(key)]:
                return LinearCombination(float("nan"), status=table.status[table.place(key)])
            weights[table.place(key)] += factor
            continue
        others = table.shown & ~table.open_above & ~table.open_below
        if key == REST:
            others[table.place(contrast.terms[0][0])] = False
        parts, noise = _average(table, others)
        if not others.any():
            return LinearCombination(float("nan"), status=nobody(table))
        weights += factor * parts
        extra += factor**2 * noise
    if not weights.any():  # a group and everybody, where nobody else is seen
        return LinearCombination(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, OK)
    return table.line(weights, level, extra=extra, clipped=clipped, independent=independent)


def average_line(table: GroupTable, which: Flags, level: float) -> LinearCombination:
    """The mean of some groups together, by their noisy persons: of those that have an estimate and
    a closed interval."""
    used = which & table.shown & ~table.open_above & ~table.open_below
    if not used.any():
        return LinearCombination(float("nan"), status=nobody(table))
    parts, noise = _average(table, used)
    return table.line(parts, level, extra=noise, clipped=not table.counted)


def nobody(table: GroupTable) -> str:
    """The status of a mean over groups of which none has a closed interval."""
    return MODIFIED_TARGET if MODIFIED_TARGET in table.status else SUPPRESSED


def _average(table: GroupTable, which: np.ndarray) -> tuple[Floats, float]:
    """Weights of the mean of some groups by their noisy people, and the variance of what the noise
    of these numbers adds."""
    size = np.where(which, table.divisor, 0.0)
    total = float(size.sum())
    if total <= 0:
        return size, 0.0
    parts = size / total
    mean = float(parts[which] @ table.estimate[which])
    spread = float(((table.estimate[which] - mean) ** 2).sum())
    return parts, spread * 3 * table.cell**2 / total**2
