"""Tables of groups.

Tables of groups of several values side by side: intervals one after the other.

Means of groups from released numbers: rows, and any weighted sum of them. No data are read.

An interval is the estimate with an allowance for what the limits cut off, and as much for noise and
sampling error as holds the level for every bias that the allowance leaves room for
(docs/proofs/groups.md, section 6).

Comparisons of groups: texts against the public list of keys, and what they mean as weights.

A text is read before anything is spent; it must mean one comparison and no other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import numpy.typing as npt

from privmean import validate
from privmean.errors import ArgumentError
from privmean.inference.interval import Floats, Interval, IntervalMaker
from privmean.inference.laplace_normal import bounded_quantiles, sum_quantiles, sum_tail
from privmean.inference.status import MODIFIED_TARGET, OK, SUPPRESSED, worst_status


@dataclass(frozen=True)
class SeveralTables:
    """One maker a value; each interval stands for its own row alone."""

    tables: tuple[IntervalMaker, ...]

    def interval(self, level: float, target: str | None) -> Interval:
        return joined([item.interval(level, target) for item in self.tables])

    def noise_interval(self, level: float) -> Interval:
        return joined([item.noise_interval(level) for item in self.tables])


def joined(found: Sequence[Interval]) -> Interval:
    """One after the other."""
    return replace(
        found[0],
        lower=tuple(x for item in found for x in item.lower),
        upper=tuple(x for item in found for x in item.upper),
        clip_bounds=tuple(x for item in found for x in item.clip_bounds),
        status=worst_status(item.status for item in found),
    )


MEAN, CLIPPED = "mean", "clipped mean"
WORDS = {"clipped": CLIPPED}
KEPT = 8  # pairs of level and target whose rows a table keeps
COUNTS = 0.1  # of the largest factor: rows below it do not give a sum their status
Flags = npt.NDArray[np.bool_]


def each_of(level: float, number: int) -> float:
    """The level at which so many intervals hold together at `level`, whatever they share."""
    return 1 - (1 - level) / max(number, 1)


def target_of(target: str | None, counted: bool) -> str:
    """What an interval is for. counted: whether people beyond the limits were counted, which the
    mean needs."""
    asked = target or (MEAN if counted else CLIPPED)
    wanted = validate.choice("target", WORDS.get(asked, asked), [MEAN, CLIPPED])
    if wanted == MEAN and not counted:
        raise ArgumentError(
            "target",
            wanted,
            "is not available: outliers were not counted in this release",
            "use target='clipped mean', or make the release without target",
        )
    return wanted


@dataclass(frozen=True)
class LinearCombination:
    """One estimate with its intervals. std_error: of sampling and noise."""

    estimate: float
    std_error: float = math.nan
    lower: float = math.nan
    upper: float = math.nan
    noise_lower: float = math.nan
    noise_upper: float = math.nan
    status: str = OK


@dataclass(frozen=True)
class Errors:
    """Estimates and what is known of their errors, one row each.

    scales: of Laplace noise, shape (rows, k). normal: deviation of Gaussian noise. sampling:
    deviation of the sampling error. up, down: allowances for what the limits cut off, infinite
    where nothing is known beyond that side. limits: what public bounds allow every row, which
    neither an estimate nor an end passes.
    """

    estimate: Floats
    scales: Floats
    normal: Floats
    sampling: Floats
    up: Floats
    down: Floats
    limits: tuple[float, float] | None = None

    def lines(self, level: float, statuses: Sequence[str]) -> list[LinearCombination]:
        """Return the estimates with both intervals of each."""
        noise = sum_quantiles((1 - level) / 2, self.scales, self.normal)
        spread = np.hypot(self.normal, self.sampling)
        whole = bounded_quantiles(level, self.up + self.down, self.scales, spread)
        error = np.sqrt(2 * (self.scales**2).sum(axis=1) + spread**2)
        ends = [
            self.estimate,
            self.estimate - whole - self.down,
            self.estimate + whole + self.up,
            self.estimate - noise,
            self.estimate + noise,
        ]
        if self.limits is not None:
            ends = [np.clip(item, *self.limits) for item in ends]
        estimate, *others = (item.tolist() for item in ends)
        rows = zip(estimate, error.tolist(), *others, statuses, strict=True)
        return [LinearCombination(*row) for row in rows]


@dataclass(frozen=True)
class GroupTable:
    """Numbers of every group, each of shape (groups,); `scales` (groups, 3) are the Laplace scales
    of the mean's noise, `normal` the deviation of Gaussian noise instead.

    above, below: allowances, without which an interval is for the clipped mean; corrected: what was
    added to that mean for what the limits cut off. open_above, open_below: nothing is known beyond
    that side. related: the groups share people, so that errors
    of sampling add up in the worst way. weight: noisy people, `weight_sd` its noise. divisor,
    cell: people that a mean was divided by, and the noise deviation of each of its three parts.
    lower, upper: the limits of values. bounds: public ones, which no end passes. limits:
    what the type of the values allows, to which they are not clipped.
    """

    keys: tuple[str, ...]
    estimate: Floats
    sampling: Floats
    scales: Floats = field(repr=False)
    normal: Floats = field(repr=False)
    above: Floats = field(repr=False)
    below: Floats = field(repr=False)
    corrected: Floats = field(repr=False)
    open_above: Flags = field(repr=False)
    open_below: Flags = field(repr=False)
    weight: Floats = field(repr=False)
    weight_sd: float
    divisor: Floats = field(repr=False)
    cell: float
    lower: Floats = field(repr=False)
    upper: Floats = field(repr=False)
    status: tuple[str, ...]
    counted: bool = True
    clustering: bool = False
    simultaneous: bool = False
    assumption: str = ""
    brief: str = ""
    bounds: tuple[float, float] | None = None
    limits: tuple[float, float] | None = None

    @property
    def shown(self) -> Flags:
        """Groups with an estimate."""
        found: Flags = ~np.isnan(self.estimate)
        return found

    @cached_property
    def places(self) -> dict[str, int]:
        """The row of every key."""
        return {key: row for row, key in reversed(list(enumerate(self.keys)))}

    def place(self, key: str) -> int:
        """The row of a key."""
        return self.places[key]

    def row_level(self, level: float) -> float:
        """The level of one row: of all rows together where that is asked for."""
        rows = int((self.shown & ~self.open_above & ~self.open_below).sum())
        return each_of(level, rows) if self.simultaneous else level

    def line(self, weights: Floats, level: float, *, extra: float = 0.0, clipped: bool = False,
             independent: bool = False) -> LinearCombination:  # fmt: skip
        """A weighted sum of means. extra: variance of noise in the weights themselves. clipped: of
        means of limited values. independent: take errors of sampling as independent where groups
        share people."""
        used = np.flatnonzero(weights)
        if not self.shown[used].all():
            return LinearCombination(math.nan, status=self.worst(used))
        size = np.abs(weights[used])
        rising, falling = np.maximum(weights[used], 0.0), np.maximum(-weights[used], 0.0)
        estimate = float(weights[used] @ self.estimate[used])
        above, below = self.above[used], self.below[used]
        if clipped:
            above, below = np.zeros(len(used)), np.zeros(len(used))
            estimate -= float(weights[used] @ self.corrected[used])
        each, normal = size * self.sampling[used], size * self.normal[used]
        apart = independent or not self.clustering
        far_up = (self.open_above[used] & (rising > 0)) | (self.open_below[used] & (falling > 0))
        far_down = (self.open_below[used] & (rising > 0)) | (self.open_above[used] & (falling > 0))
        one = Errors(
            np.array([estimate]),
            (size[:, None] * self.scales[used]).reshape(1, -1),
            np.array([math.sqrt(float(normal @ normal) + extra)]),
            np.array([math.sqrt(float(each @ each)) if apart else float(each.sum())]),
            np.array([math.inf if far_up.any() else rising @ above + falling @ below]),
            np.array([math.inf if far_down.any() else rising @ below + falling @ above]),
            self.allowed(rising.sum(), falling.sum()),
        )
        return one.lines(level, [self.worst(used[size >= COUNTS * size.max()])])[0]

    def allowed(self, rising: float = 1.0, falling: float = 0.0) -> tuple[float, float] | None:
        """What public bounds and types allow a weighted sum of means: its factors above and
        below 0."""
        pairs = [pair for pair in (self.bounds, self.limits) if pair is not None]
        if not pairs:
            return None
        low, high = max(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
        ends = ((rising, low, falling, high), (rising, high, falling, low))
        least, most = (
            (up * a if up else 0.0) - (down * b if down else 0.0) for up, a, down, b in ends
        )
        return least, most

    def p_value(self, weights: Floats) -> float:
        """The smallest level at which the interval for a weighted sum of means of limited values
        leaves 0 out: NaN without an estimate, 1 where too much lies beyond the limits."""
        line = self.line(weights, 0.95, clipped=True)
        if math.isnan(line.estimate):
            return math.nan
        if line.status == MODIFIED_TARGET:
            return 1.0
        distance = abs(line.estimate)
        used = np.flatnonzero(weights)
        scales = (np.abs(weights[used])[:, None] * self.scales[used]).ravel()
        each = np.abs(weights[used]) * self.sampling[used]
        sampling = float(each.sum()) if self.clustering else math.sqrt(float(each @ each))
        normal = math.sqrt(float(((weights[used] * self.normal[used]) ** 2).sum()))
        return 2 * sum_tail(distance, scales.tolist(), math.hypot(normal, sampling))

    def worst(self, used: npt.NDArray[np.intp]) -> str:
        """The status of a sum of these rows."""
        return worst_status(self.status[g] for g in used)

    def rows(self, level: float, *, clipped: bool = False) -> tuple[LinearCombination, ...]:
        """Return the line of every group, the ends of all found at once.

        level: of each row, or of all rows together where intervals are simultaneous. The rows asked
        for last are kept: a text, a frame and a record of one release ask for the same.
        """
        asked = level, clipped
        if asked not in self._kept:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            self._kept[asked] = self._rows(level, clipped)
        return self._kept[asked]

    @cached_property
    def _kept(self) -> dict[tuple[float, bool], tuple[LinearCombination, ...]]:
        return {}

    def _rows(self, level: float, clipped: bool) -> tuple[LinearCombination, ...]:
        seen, nothing = np.flatnonzero(self.shown), np.zeros(len(self.keys))
        above, below = (nothing, nothing) if clipped else (self.above, self.below)
        errors = Errors(
            (self.estimate - self.corrected if clipped else self.estimate)[seen],
            self.scales[seen],
            self.normal[seen],
            self.sampling[seen],
            np.where(self.open_above, math.inf, above)[seen],
            np.where(self.open_below, math.inf, below)[seen],
            self.allowed(),
        )
        lines = errors.lines(self.row_level(level), [self.status[g] for g in seen])
        found = dict(zip(seen.tolist(), lines, strict=True))
        return tuple(
            found.get(g) or LinearCombination(math.nan, status=status)
            for g, status in enumerate(self.status)
        )

    def row(self, place: int, level: float, *, clipped: bool = False) -> LinearCombination:
        """One of `rows`."""
        return self.rows(level, clipped=clipped)[place]

    def interval(self, level: float, target: str | None) -> Interval:
        """One pair of ends a group."""
        wanted = target_of(target, self.counted)
        lines = self.rows(level, clipped=wanted == CLIPPED)
        return Interval(
            tuple(item.lower for item in lines),
            tuple(item.upper for item in lines),
            level,
            target=wanted,
            assumption=self.assumption if wanted == MEAN else "",
            short_assumption=self.brief if wanted == MEAN else "",
            clip_bounds=tuple(zip(self.lower.tolist(), self.upper.tolist(), strict=True)),
            status=worst_status(self.status),
        )

    def noise_interval(self, level: float) -> Interval:
        lines = self.rows(level, clipped=True)
        return Interval(
            tuple(item.noise_lower for item in lines),
            tuple(item.noise_upper for item in lines),
            level,
            kind="noise_interval",
            target="clipped mean of these people",
            status=worst_status(self.status),
        )


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
