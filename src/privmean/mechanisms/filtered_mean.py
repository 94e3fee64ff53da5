"""A mean of the rows that have enough rows near them: filter, noisy count and noisy mean, as one
mechanism.

Whether two people are friends must depend on their two rows alone: a floating-point Gram matrix
around a center read from the data would let one person flip the friendships of others. So rows are
rounded to a lattice fixed in advance, and distances are compared as integers. Translations by
integers are exact, so the center used for speed cannot change a decision.

Two people with more than half of all degrees share a friend, so they are at most two radii apart,
however far the rest of the data lies. Keeping is random, with a probability that grows with the
degree, so that one person cannot switch others on or off. Who is kept, how many and their mean cost
together what `FilterCalibration` states; none of them alone is private. Proofs:
docs/proofs/anisotropic.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from privmean.array_types import Flags, Floats, Integers
from privmean.data.array_kernels import big_sum
from privmean.noise.noise_source import Noise
from privmean.privacy.budget import REPLACE_ONE, Relation
from privmean.privacy.privacy_events import PrivacyEvent

Progress = Callable[[float], None]
LONG = 2e11  # products of all pairs and columns; some seconds


@contextmanager
def shown(public_work: float | None) -> Iterator[Progress | None]:
    """What to tell the fraction done: a bar, which shows a fraction only, if standard error is a
    terminal and the public amount of work is large (None: not public, no bar); or nothing."""
    if public_work is None or public_work <= LONG or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("comparing people", total=1.0)
        yield lambda done: bars.update(task, completed=done)


RADIUS = 2**22  # the friendship radius lambda, in lattice steps
REACH = 2.0**60  # coordinates are clamped to +-REACH steps, and a row beyond them is not usable
EXACT_SQUARE = 2.0**50  # rows with smaller squared norm have exact double products
LIMB = 20  # bits of a limb in exact rotations
LIMBS = 4  # of them, so that rotations reach 2^80 steps, more than doubles resolve
ROWS = 1 << 20  # numbers handled at a time
CACHED = 1 << 17  # and where every one is looked at several times


def usable_rows(x: Floats, factor: Floats) -> Flags:
    """Rows without a null, an infinite value, or one that would be clamped by `to_lattice`.

    Clamped rows would all be friends at a place where nobody is.
    """
    result = np.empty(len(x), dtype=bool)
    for where in slices(x):
        with np.errstate(all="ignore"):
            result[where] = (np.abs(x[where] * factor) <= REACH).all(axis=1)
    return result


def slices(x: Floats | Integers, length: int | None = None, numbers: int = ROWS) -> list[slice]:
    """Slices of about `numbers` numbers of the rows of x (or of `length` such rows)."""
    rows = max(1, numbers // max(1, x.shape[1]))
    return [slice(a, a + rows) for a in range(0, len(x) if length is None else length, rows)]


def of_columns(x: Floats, columns: Integers) -> Floats:
    """x[:, columns] for sorted columns, without a copy where they are all there are."""
    return x if len(columns) == x.shape[1] else x[:, columns]


def to_lattice(x: Floats, factor: Floats) -> Integers:
    """round(x * factor), number by number; nulls give 0, far numbers the end of the reach."""
    z = np.empty(x.shape, dtype=np.int64)
    for where in slices(x, numbers=CACHED):
        with np.errstate(all="ignore"):
            y = x[where] * factor
        np.rint(y, out=y)
        np.clip(y, -REACH, REACH, out=y)
        y[np.isnan(y)] = 0.0
        z[where] = y
    return z


def rotate(x: Floats, rotation: Floats, step: float) -> Floats:
    """x @ rotation, each row a function of that row alone in whatever order a library adds.

    Rows are read in units of `step`, a power of two, as integers in limbs of 20 bits, the rotation
    as 40 bits in two; every product of limbs is a sum of integers below 2^53, hence exact, and the
    few sums are added in one order. Rows with a null or a number too far become nulls.
    """
    half = 2**LIMB
    upper = np.rint(rotation * half)
    lower = np.rint((rotation * half - upper) * half)
    result = np.empty((len(x), rotation.shape[1]))
    for where in slices(x):
        with np.errstate(all="ignore"):
            rest = np.rint(x[where] / step)
            far = ~(np.abs(rest) < 2.0 ** (LIMB * LIMBS)).all(axis=1)
        rest[far] = 0.0
        total = np.zeros((len(rest), rotation.shape[1]))
        for power in range(LIMB * (LIMBS - 1), -1, -LIMB):
            limb = np.rint(rest * 2.0**-power)
            rest = rest - limb * 2.0**power
            if limb.any():  # the highest are 0 nearly always, and then add nothing
                total = total + (limb @ upper) * 2.0 ** (power - LIMB)
                total = total + (limb @ lower) * 2.0 ** (power - 2 * LIMB)
        total[far] = np.nan
        result[where] = total * step
    return result


@dataclass(frozen=True)
class Metric:
    """People are close if their lattice points are at most `radius` steps apart."""

    points: Integers
    radius: int = RADIUS

    def of(self, chosen: Flags) -> Metric:
        return Metric(self.points[chosen], self.radius)


def lattices(x: Floats, blocks: Sequence[tuple[Integers, Floats]]) -> tuple[list[Metric], Flags]:
    """A metric for each (columns, factor), and the rows usable in all of them."""
    usable = np.ones(len(x), dtype=bool)
    metrics = []
    for columns, factor in blocks:
        some = of_columns(x, columns)
        usable &= usable_rows(some, factor)
        metrics.append(Metric(to_lattice(some, factor)))
    return metrics, usable


def pairs_close(metric: Metric, i: Integers, j: Integers) -> Flags:
    """Whether each pair (i[k], j[k]) is close: integer differences, exact decision.

    Differences are exact integers. If the sum of squares is below 2^53 its double is exact; if not,
    it is far above the squared radius either way.
    """
    result = np.empty(len(i), dtype=bool)
    limit = float(metric.radius) ** 2
    rows = max(1, ROWS // max(1, metric.points.shape[1]))
    for start in range(0, len(i), rows):
        where = slice(start, start + rows)
        gap = (metric.points[i[where]] - metric.points[j[where]]).astype(np.float64)
        result[where] = np.einsum("ij,ij->i", gap, gap) <= limit
    return result


class Prepared:
    """One metric, ordered and centered for block products; decisions are those of `pairs_close`."""

    def __init__(self, metric: Metric, order: Integers) -> None:
        self.metric = metric
        self.order = order
        self.limit = float(metric.radius) ** 2
        self.rows, self.half = _centred(metric.points, order, middle_row(metric.points, order))

    def close(self, a: slice, b: slice) -> Flags:
        """Closeness of every row in slice a to every row in slice b (of the order)."""
        found, unsure = _decide(self.rows[a], self.half[a], self.rows[b], self.half[b], self.limit)
        if unsure is None:
            return found
        if np.count_nonzero(unsure) > 8 * len(found):
            # far from the common centre: a center of this block's own is as good, and nearer
            points = self.metric.points
            centre = middle_row(points, self.order[a])
            near_a = _centred(points, self.order[a], centre)
            near_b = _centred(points, self.order[b], centre)
            found, unsure = _decide(*near_a, *near_b, self.limit)
            if unsure is None:
                return found
        i, j = np.nonzero(unsure)
        found[i, j] = pairs_close(self.metric, self.order[a][i], self.order[b][j])
        return found


def middle_row(points: Integers, order: Integers) -> Integers:
    """The coordinate-wise middle of up to 501 rows; any integers would give the same answers."""
    some = points[order[:: max(1, len(order) // 501)]]
    return np.asarray(np.partition(some, len(some) // 2, axis=0)[len(some) // 2])


def half_norms(metric: Metric, index: Integers) -> Floats:
    """Half the squared distance of some rows to their middle (only to put rows in order)."""
    half = np.empty(len(index))
    centre = middle_row(metric.points, index)
    for where in slices(metric.points[:0], len(index)):
        gap = (metric.points[index[where]] - centre).astype(np.float64)
        half[where] = np.einsum("ij,ij->i", gap, gap) / 2
    return half


def _centred(points: Integers, order: Integers, centre: Integers) -> tuple[Floats, Floats]:
    rows = np.empty((len(order), points.shape[1]))
    half = np.empty(len(order))
    for where in slices(rows):
        rows[where] = points[order[where]] - centre
        half[where] = np.einsum("ij,ij->i", rows[where], rows[where]) / 2
    return rows, half


def _decide(
    rows_a: Floats, half_a: Floats, rows_b: Floats, half_b: Floats, limit: float
) -> tuple[Flags, Flags | None]:
    """Closeness by -dist^2/2 = <a,b> - |a|^2/2 - |b|^2/2, and which pairs are in doubt.

    Exact, hence without doubt, if all squared norms are at most EXACT_SQUARE. Otherwise the error
    of sums of d products is at most (d+16) 2^-53 (|a|^2 + |b|^2), in any order of addition.
    """
    inner = rows_a @ rows_b.T
    inner -= half_a[:, None]
    inner -= half_b[None, :]
    largest = 2 * max(half_a.max(initial=0.0), half_b.max(initial=0.0))
    if largest <= EXACT_SQUARE:
        return inner >= -limit / 2, None
    unit = (rows_a.shape[1] + 16) * 2.0**-51
    error = unit * half_a[:, None] + unit * half_b[None, :]
    found = inner - error >= -limit / 2
    unsure = (inner + error >= -limit / 2) & ~found
    return found, unsure


MEAN_STEPS = 2.0**30  # least lattice steps a standard deviation of the mean's noise


@dataclass(frozen=True)
class FilterCalibration:
    """Noise of one filtered mean.

    count_steps: lattice steps a person; count_scale: noise of the count in steps; threshold: steps
    taken off; multiplier: s; losses: the accounting of the whole filtered mean (filter included).
    law: "gaussian" or "laplace" (the published form) for the count.
    """

    count_steps: int
    count_scale: float
    threshold: int
    multiplier: float
    events: tuple[PrivacyEvent, ...]
    law: str = "gaussian"

    @property
    def offset(self) -> float:
        """t: people taken off the count."""
        return self.threshold / self.count_steps

    def expected_multiplier(self, persons: float) -> float:
        """s people/(people - t): the noise in units of 2 lambda/people; infinite if t is."""
        left = persons - self.offset
        return self.multiplier * persons / left if left >= 1 else math.inf


@dataclass(frozen=True)
class KeptMean:
    """What a filtered mean releases, in lattice units.

    count: the noisy count of kept people (less its offset). means, deviations: one a metric, the
    noisy means and the standard deviation of their noise a coordinate.
    """

    count: float
    means: tuple[Floats, ...]
    deviations: tuple[float, ...]


def kept_mean(
    metrics: Sequence[Metric],
    kept: Flags,
    calibration: FilterCalibration,
    noise: Noise,
    shares: Sequence[float] = (1.0,),
) -> KeptMean | None:
    """The noisy mean of the kept rows, or None where the noisy count is below one person.

    shares: of the squared precision 1/s^2 a metric; they add up to 1. The mean is a ratio with a
    private denominator, so it is first rounded to a lattice that the noisy count alone decides.
    """
    persons = int(np.count_nonzero(kept))
    if calibration.law == "laplace":
        (drawn,) = noise.laplace(1, Fraction(calibration.count_scale)).tolist()
    else:
        (drawn,) = noise.gaussian(1, calibration.count_scale).tolist()
    # the count less its offset plus noise, in lattice steps
    steps: int = persons * calibration.count_steps - calibration.threshold + drawn
    if steps < calibration.count_steps:
        return None
    count = steps / calibration.count_steps
    means, deviations = [], []
    for metric, share in zip(metrics, shares, strict=True):
        multiplier = calibration.multiplier / math.sqrt(share)
        deviation = 2 * metric.radius * multiplier / count
        # halvings of the data's lattice step until the noise has MEAN_STEPS
        bits = max(0, math.ceil(math.log2(MEAN_STEPS / deviation)))
        drawn = noise.gaussian(metric.points.shape[1], deviation * 2**bits)
        sums = [big_sum(column[kept]) for column in metric.points.T]
        # an empty count above one person has probability below the billed delta; its mean is 0
        c = max(persons, 1)
        rounded = [((2 * total << bits) + c) // (2 * c) for total in sums]
        means.append(
            np.array([(a + b) / 2**bits for a, b in zip(rounded, drawn.tolist(), strict=True)])
        )
        deviations.append(deviation)
    return KeptMean(count, tuple(means), tuple(deviations))


BLOCK = 2048


def degrees(
    metrics: Sequence[Metric],
    usable: Flags,
    *,
    block: int = BLOCK,
    progress: Progress | None = None,
) -> Integers:
    """Friends of each person, self included; friends are close in every metric.

    usable: rows that can have friends; the others have themselves only. Memory: one block^2 matrix
    of doubles and a second copy of the rows; never people^2. `progress` gets the fraction done.
    """
    result = np.ones(len(usable), dtype=np.int64)
    index = np.flatnonzero(usable)
    if len(index) == 0:
        return result
    # rows far from the middle come last, so that the blocks before them need no second look
    norm = np.zeros(len(index))
    for metric in metrics:
        norm += half_norms(metric, index) / float(metric.radius) ** 2
    order = index[np.argsort(norm, kind="stable")]
    prepared = [Prepared(metric, order) for metric in metrics]
    count = np.zeros(len(order), dtype=np.int64)
    starts = range(0, len(order), block)
    total, done = len(starts) * (len(starts) + 1) / 2, 0
    for first in starts:
        a = slice(first, min(first + block, len(order)))
        for second in range(first, len(order), block):
            b = slice(second, min(second + block, len(order)))
            close = prepared[0].close(a, b)
            for other in prepared[1:]:
                close &= other.close(a, b)
            count[a] += np.count_nonzero(close, axis=1)
            if second > first:
                count[b] += np.count_nonzero(close, axis=0)
            done += 1
            if progress is not None:
                progress(done / total)
    result[order] = count
    return result


def keep_odds(deg: Integers, relation: Relation) -> tuple[Integers, int]:
    """Keeping probabilities of the basic filter as integers over one denominator.

    add-remove (2 deg - n)/n, replace-one (2 deg - n - 1)/(n - 1), never below 0. The published
    threshold n/2 is wrong for replace-one neighbors and odd n: two people without a common friend
    can then be kept in neighboring tables.
    """
    n = len(deg)
    if relation == REPLACE_ONE:
        if n < 2:
            return np.ones(n, dtype=np.int64), 1
        return np.maximum(2 * deg - n - 1, 0), n - 1
    return np.maximum(2 * deg - n, 0), max(n, 1)


def bernoulli(numerators: Integers, denominator: int, noise: Noise) -> Flags:
    """Independent coins, each true with probability numerator/denominator exactly."""
    drawn = noise.below(len(numerators), denominator)
    return np.asarray(drawn < numerators)


@dataclass(frozen=True)
class Rows:
    """People on the lattice of every metric; usable: those whose values are on it."""

    metrics: Sequence[Metric]
    usable: Flags


@dataclass(frozen=True)
class FilteredMean:
    """People with enough friends, at random; their number; and, if it is large enough, their mean.

    shares: of the mean's precision, one a metric. parts: every person takes part with probability
    1/parts, by a secret coin.
    work: the public number of products that all pairs take (None: not public). tell: what is told
    the fraction done (see `progress.shown`).

    Guarantees: the calibration's losses for its relation, for any rows.
    """

    calibration: FilterCalibration
    relation: Relation
    shares: tuple[float, ...] = (1.0,)
    parts: int = 1
    work: float | None = None

    @property
    def events(self) -> tuple[PrivacyEvent, ...]:
        return self.calibration.events

    def sensitivity_share(self, exact: Rows, other: Rows) -> tuple[Fraction, ...]:
        """Nothing that a pair of tables shows: the proof is of filter, count and mean together."""
        return ()

    def draw(self, exact: Rows, noise: Noise) -> KeptMean | None:
        rows = exact if self.parts == 1 else self.some(exact, noise)
        with shown(self.work) as tell:
            kept = self.kept(rows, noise, tell)
            return kept_mean(rows.metrics, kept, self.calibration, noise, self.shares)

    def kept(self, rows: Rows, noise: Noise, tell: Progress | None = None) -> Flags:
        """The people that the filter keeps: private, only its noisy summaries may leave."""
        found = degrees(rows.metrics, rows.usable, progress=tell)
        # other rows are as if they were not there: a person whose row becomes usable is an added
        # one, which the replace-one filter bears as well
        kept = np.zeros(len(found), dtype=np.bool_)
        kept[rows.usable] = bernoulli(*keep_odds(found[rows.usable], self.relation), noise)
        return kept

    def some(self, rows: Rows, noise: Noise) -> Rows:
        """Those who take part, each by a coin of their own."""
        one = np.ones(len(rows.usable), dtype=np.int64)
        chosen = bernoulli(one, self.parts, noise)
        return Rows([item.of(chosen) for item in rows.metrics], rows.usable[chosen])
