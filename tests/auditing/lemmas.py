"""Lemmas of the proof pages, checked by enumeration at small widths, on the code that releases.

Integer lemmas: every case up to a width, in exact fractions. Lemmas on doubles: every number of
half precision (all 65 536 patterns, each of them a double), and doubles at every exponent, with
nulls, infinities, subnormal numbers and the neighbours of every limit. Each lemma says the page and
the step it is for and gives the number of cases it went through; it raises AssertionError where it
is false. `full` widens it (benchmarks/lemmas.py); the suite runs the narrow form.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np

from privmean.data.array_kernels import clip_rows_to_ball
from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_table import ClipInterval, IntervalSums, L2Ball
from privmean.errors import InfeasibleError
from privmean.local.exact_coins import WORD, flip_threshold, odds_threshold
from privmean.mechanisms.clipped_sum import LAMBDA, Answers
from privmean.mechanisms.filtered_mean import keep_odds
from privmean.mechanisms.histograms import laplace_tail, laplace_threshold
from privmean.mechanisms.noisy_vector import norm_above
from privmean.mechanisms.weighted_sums import grid_values
from privmean.noise.noise_source import double_above
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE
from privmean.streams.toeplitz_matrices import Participation, sensitivity

ONE = ("x",)


@dataclass(frozen=True)
class Lemma:
    """page, step: what it is a step of. check: gives the number of cases."""

    name: str
    page: str
    step: str
    says: str
    check: Callable[[bool], int]


LEMMAS: list[Lemma] = []


def lemma(
    page: str, step: str, says: str
) -> Callable[[Callable[[bool], int]], Callable[[bool], int]]:
    def add(check: Callable[[bool], int]) -> Callable[[bool], int]:
        LEMMAS.append(Lemma(check.__name__, page, step, says, check))
        return check

    return add


# --- doubles --------------------------------------------------------------------------------------
HALVES = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float64)


def corners() -> np.ndarray:
    """Doubles at every exponent: least, largest and two middle mantissas, both signs."""
    exponents = np.arange(2047, dtype=np.uint64)[:, None] << np.uint64(52)
    mantissas = np.array([0, 1, 2**51, 2**52 - 1], dtype=np.uint64)
    numbers = (exponents | mantissas).ravel().view(np.float64)
    return np.concatenate([numbers, -numbers, [math.nan, math.inf, -math.inf]])


LIMITS = [
    (-1.0, 1.0), (0.0, 8.0), (0.1, 0.3), (-8e307, 8e307), (1e308, 1.7e308), (5e-324, 1e-323),
    (-5e-324, 5e-324), (1.0, math.nextafter(1.0, 2.0)), (-3.0, 1e-300), (2.0**40, 2.0**41),
    (-65504.0, 65504.0), (6e-8, 6.1e-5), (1e16, 1e16 + 2), (-1e-310, 1e-310),
]  # fmt: skip


@lemma("ratio", "setting", "a clipped value is an integer in [-K, K], for every double; null is 0")
def box_grid(full: bool) -> int:
    numbers = np.concatenate([HALVES, corners()])
    cases = 0
    for lower, upper in LIMITS:
        box = ClipInterval(lower, upper)
        beside = [math.nextafter(x, way) for x in (lower, upper) for way in (-math.inf, math.inf)]
        z = grid_values(np.concatenate([numbers, [lower, upper, *beside]]), box)
        assert z.max() <= box.steps
        assert z.min() >= -box.steps
        assert not z[:-6][np.isnan(numbers)].any()
        cases += len(z)
        # the sums that are released are those of one person alone, weighted or not
        some = numbers if full else numbers[:: 997 + len(numbers) % 2]
        for k, value in enumerate(some.tolist()):
            if full and k % 13:
                continue
            (sums,) = ArrayPersonTable(np.array([[value]]), ONE).interval_sums([box])
            assert sums is not None
            assert abs(sums.z) <= box.steps
            assert sums.zz == sums.z**2
            assert sums.present == (not math.isnan(value))
            assert sums.z == grid_values(np.array([value]), box)[0]
            cases += 1
    return cases


@lemma("gaussian", "preconditions", "a clipped row is an integer vector of norm at most K, always")
def ball_grid(full: bool) -> int:
    rng = np.random.default_rng(0)
    numbers = np.concatenate([HALVES[::7], corners()])
    cases = 0
    sizes = [(1.0, 2.0**-20), (3.7, 2.0**-18), (1e-300, 1e-306), (1e300, 1e294), (5e-324, 5e-324)]
    for radius, step in sizes:
        for d in (1, 2, 3, 9):
            count = 400_000 if full else 20_000
            rows = rng.choice(numbers, (count, d)) if d > 1 else numbers[:, None]
            near = rng.normal(0, radius, (count // 4, d))  # at the edge, where rounding decides
            for x in (rows, near):
                ball = L2Ball((0.0,) * d, radius, step)
                z, _ = clip_rows_to_ball(x, ball)
                assert (np.sum(z.astype(object) ** 2, axis=1) <= ball.steps**2).all()
                cases += len(z)
    return cases


@lemma(
    "location-by-histograms",
    "1",
    "every double is in one cell of the logarithmic bins; so is a null",
)
def one_cell(full: bool) -> int:
    numbers = np.concatenate([HALVES[:: 1 if full else 37], corners()[:: 1 if full else 11]])
    for origin in (0.0, 3.0, -1e300, 5e-324):
        whole = ArrayPersonTable(numbers[:, None], ONE).log_counts(0, origin)
        assert whole.sum() == len(numbers)
        for value in numbers[:: 29 if full else 211].tolist():
            counts = ArrayPersonTable(np.array([[value]]), ONE).log_counts(0, origin)
            assert sorted(counts.tolist())[-2:] == [0, 1]
    return 4 * len(numbers)


@lemma("pair-scale", "1", "one replaced person moves one pair: one count down, one up")
def one_pair(full: bool) -> int:
    strange = [math.nan, math.inf, 0.0, 1.0, -1e308, 5e-324, 3.0]
    cases = 0
    for n in range(2, 9 if full else 7):
        base = np.array([strange[k % 7] for k in range(n)])
        for place, value in itertools.product(range(n), strange):
            other = base.copy()
            other[place] = value
            first, second = (
                ArrayPersonTable(x[:, None], ONE).pair_counts(0, -4, 4) for x in (base, other)
            )
            assert first.sum() == second.sum() == n // 2
            assert np.abs(first - second).sum() <= 2
            cases += 1
    return cases


@lemma(
    "stable-histogram", "1", "one replaced person moves two counts by one, an added one moves one"
)
def two_bins(full: bool) -> int:
    numbers = corners()[:: 5 if full else 101].tolist()
    base = ArrayPersonTable(np.array([[1.0], [2.0], [math.nan]]), ONE)
    cases = 0
    for half, origin in ((0.5, 0.0), (1e-300, 0.0), (1e300, 7.0), (0.1, -0.3)):
        plain = base.uniform_counts(0, half, origin)
        for value in numbers:
            more = ArrayPersonTable(np.append(base.values, [[value]], axis=0), ONE)
            counts = more.uniform_counts(0, half, origin)
            moved = {k: counts.get(k, 0) - plain.get(k, 0) for k in {*counts, *plain}}
            assert sum(map(abs, moved.values())) == (not math.isnan(value))
            cases += 1
    return cases


# --- joint releases -------------------------------------------------------------------------------
def persons(steps: int, cap: int | None) -> Iterator[IntervalSums]:
    """The sums of one person, for every value on the grid and every number of records; first those
    of one without a value."""
    yield IntervalSums(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    for z in range(-steps, steps + 1):
        for w in [1] if cap is None else range(1, cap + 1):
            yield IntervalSums(1, 0, 0, z, z * z, w, w * z, w * w, w * w * z, w * w * z * z)
            if abs(z) == steps and cap is None:  # at a limit, and beyond it
                above, below = int(z > 0), int(z < 0)
                yield IntervalSums(1, above, below, z, z * z, 1, z, 1, z, z * z)


def joint(kind: Answers, steps: int) -> tuple[Fraction, int]:
    """The largest l1 cost in scales over all pairs of persons, and the number of pairs."""
    box: Any = SimpleNamespace(steps=steps)
    people = persons(steps, kind.max_records)
    every = [kind.integers(box, sums, nulls=1 - sums.present) for sums in people]
    units = kind.units(steps)
    shares = [
        [
            Fraction(a, unit) / m
            for a, unit, m in zip(answer, units, kind.multiples_at(steps), strict=True)
        ]
        for answer in every
    ]
    whole = math.lcm(*(share.denominator for answer in shares for share in answer))
    table = np.array([[int(share * whole) for share in answer] for answer in shares], dtype=object)
    table = table.astype(np.int64)
    if kind.relation == REPLACE_ONE:
        most = max(int(np.abs(table - row).sum(axis=1).max()) for row in table)
        return Fraction(most, whole), len(table) ** 2
    return Fraction(int(np.abs(table).sum(axis=1).max()), whole), len(table)


@lemma(
    "ratio", "1, 2, 5, 6", "value, square and weight together cost 1, for Laplace scales; reached"
)
def joint_laplace(full: bool) -> int:
    cases = 0
    for relation in (REPLACE_ONE, ADD_REMOVE):
        for cap, steps in ((None, 64 if full else 24), (2, 12), (3, 8), (5, 24 if full else 6)):
            most, pairs = joint(Answers(relation, cap), steps)
            assert most == 1
            cases += pairs
    return cases


@lemma("ratio", "1", "the same where persons without a value stand beside the middle; reached")
def joint_absent(full: bool) -> int:
    cases, steps = 0, 32 if full else 12
    for absent in range(1 - steps, steps):
        at = Fraction(absent, steps)
        most, pairs = joint(Answers(REPLACE_ONE, absent=at), steps)
        assert most == 1
        cases += pairs
    return cases


@lemma("ratio", "7, 8", "with the cross moments the five answers cost at most 1")
def joint_cross(full: bool) -> int:
    cases = 0
    for relation in (REPLACE_ONE, ADD_REMOVE):
        for cap, steps in ((None, 20), (2, 10), (4, 16 if full else 6)):
            most, pairs = joint(Answers(relation, cap, cross=True), steps)
            assert Fraction(9, 10) < most <= 1
            cases += pairs
    return cases


@lemma("intervals", "2", "a tail share comes at the stated scales")
def joint_tail(full: bool) -> int:
    cases = 0
    for steps in (4, 12, 48 if full else 16):
        for jump in (0.25, 0.5, 1.0, 1.7):
            most, pairs = joint(Answers(REPLACE_ONE, None, (jump, jump)), steps)
            assert most <= 1
            cases += pairs
    return cases


@lemma("ratio", "3, 4", "value, square and weight together cost 1 in l2, for Gaussian deviations")
def joint_gaussian(full: bool) -> int:
    cases = 0
    square = Fraction(27725, 10000)
    assert Fraction(LAMBDA) ** 2 <= square * (1 + Fraction(1, 2**50))
    for cap, steps in ((None, 96 if full else 32), (2, 12), (4, 16 if full else 6)):
        kind = Answers(REPLACE_ONE, cap)
        variances = (4, 4 / square, 18) if cap is None else (4, Fraction(8, 3), Fraction(8, 3))
        box: Any = SimpleNamespace(steps=steps)
        every = [kind.integers(box, sums) for sums in persons(steps, cap)]
        units = kind.units(steps)
        for a, b in itertools.combinations(every, 2):
            cost = sum(
                Fraction(x - y, u) ** 2 / v
                for x, y, u, v in zip(a, b, units, variances, strict=True)
            )
            assert cost <= 1
            cases += 1
    for cap, steps in ((None, 40), (4, 10)):
        kind = Answers(ADD_REMOVE, cap)
        box = SimpleNamespace(steps=steps)
        unit = kind.units(steps)[0]
        for sums in persons(steps, cap):
            cells = kind.integers(box, sums)
            assert min(cells) >= 0
            assert sum(cells) <= unit
            cases += 1
    return cases


def vectors(d: int, norm: int) -> list[tuple[int, ...]]:
    grid = itertools.product(range(-norm, norm + 1), repeat=d)
    return [z for z in grid if sum(x * x for x in z) <= norm * norm]


@lemma(
    "many-columns",
    "3",
    "sums of z and of its sizes move together by 2K in l2, as z alone; reached",
)
def sizes_are_free(full: bool) -> int:
    cases, reached = 0, 0
    for d, norm in ((1, 30), (2, 9 if full else 6), (3, 4 if full else 3)):
        table = np.array(vectors(d, norm))
        joined = np.hstack([table, np.abs(table)])
        for row in joined:
            moved = ((joined - row) ** 2).sum(axis=1)
            assert moved.max() <= 4 * norm * norm
            reached += int(moved.max() == 4 * norm * norm)
        cases += len(table) ** 2
    assert reached
    return cases


@lemma("many-columns", "4", "sums of z and of z^2/(2B), sizes up to B, move together by 2K in l2")
def squares_are_free(full: bool) -> int:
    cases = 0
    for d, norm in ((1, 30), (2, 8 if full else 6), (3, 4 if full else 3)):
        for top in range(1, norm + 1):
            table = np.array([z for z in vectors(d, norm) if max(map(abs, z)) <= top])
            joined = np.hstack([2 * top * table, table**2])  # times 2B
            for row in joined:
                assert ((joined - row) ** 2).sum(axis=1).max() <= (2 * norm * 2 * top) ** 2
            cases += len(table) ** 2
    return cases


@lemma("heavy-tails-k-norm", "1", "N(z + s) <= N(z) + S for every integer s of norm at most S")
def norm_rises_by_one_step(full: bool) -> int:
    cases = 0
    for d, norm, reach in ((1, 20, 9), (2, 9 if full else 6, 4), (3, 4 if full else 3, 2)):
        for z in itertools.product(range(-norm, norm + 1), repeat=d):
            for s in vectors(d, reach):
                moved = [a + b for a, b in zip(z, s, strict=True)]
                assert norm_above(moved) <= norm_above(z) + norm_above(s)
                cases += 1
    return cases


# --- choices and thresholds -----------------------------------------------------------------------
def permute_and_flip(scores: tuple[int, ...], flip: Fraction) -> list[Fraction]:
    """The exact law: items in uniform order, accepted with flip^(largest - score)."""
    top, n = max(scores), len(scores)
    law = [Fraction(0)] * n
    for order in itertools.permutations(range(n)):
        left = Fraction(1, math.factorial(n))
        for item in order:
            accepted = flip ** (top - scores[item])
            law[item] += left * accepted
            left *= 1 - accepted
    return law


@lemma(
    "noisy-argmax", "1, 2", "a choice costs the range of the changes over its scale, and no more"
)
def range_of_changes(full: bool) -> int:
    cases = 0
    for flip in (Fraction(1, 2), Fraction(9, 10)):
        grid = list(itertools.product(range(4 if full else 3), repeat=3))
        laws = {scores: permute_and_flip(scores, flip) for scores in grid}
        for a, b in itertools.product(grid, repeat=2):
            changes = [x - y for x, y in zip(a, b, strict=True)]
            limit = (1 / flip) ** (max(changes) - min(changes))
            assert all(p <= limit * q for p, q in zip(laws[a], laws[b], strict=True))
            cases += 1
    return cases


@lemma(
    "stable-histogram",
    "3",
    "one person alone is shown with at most delta; a lower threshold is not",
)
def smallest_threshold(full: bool) -> int:
    cases = 0
    with mpmath.workdps(120):
        for scale in (
            Fraction(1, 3),
            Fraction(1),
            Fraction(7, 2),
            Fraction(40),
            Fraction(10**5, 7),
        ):
            for delta in (0.3, 1e-3, 1e-6, 1e-12, *([1e-30, 2.0**-40] if full else [])):
                threshold = laplace_threshold(scale, delta)
                used = Fraction(double_above(scale))
                a = mpmath.exp(-mpmath.mpf(used.denominator) / used.numerator)
                shown = a ** (threshold - 1) / (1 + a)  # P(1 + noise >= threshold)
                assert shown <= mpmath.mpf(delta)
                exact = laplace_tail(threshold - 1, scale)
                assert mpmath.mpf(exact.numerator) / exact.denominator >= shown
                if threshold > 1:
                    assert a ** (threshold - 2) / (1 + a) > mpmath.mpf(delta) * (
                        1 - mpmath.mpf(10) ** -40
                    )
                cases += 1
    return cases


@lemma(
    "anisotropic",
    "2",
    "keeping odds move by at most 2 in all but the replaced person's own (3 with)",
)
def influence_of_one_person(full: bool) -> int:
    cases = 0
    for n in range(2, 6 if full else 5):
        others = n - 1
        edges = list(itertools.combinations(range(others), 2))
        for chosen in range(1 << len(edges)):
            degrees = np.ones(n, dtype=np.int64)  # everybody is her own friend
            for k, (i, j) in enumerate(edges):
                if chosen >> k & 1:
                    degrees[i] += 1
                    degrees[j] += 1
            odds = []
            for friends in range(1 << others):
                own = degrees.copy()
                for j in range(others):
                    if friends >> j & 1:
                        own[j] += 1
                        own[others] += 1
                top, bottom = keep_odds(own, REPLACE_ONE)
                odds.append([Fraction(int(x), bottom) for x in top])
            for p, q in itertools.combinations(odds, 2):
                rest = sum(abs(x - y) for x, y in zip(p[:-1], q[:-1], strict=True))
                assert rest <= 2
                assert rest + p[-1] + q[-1] <= 3
                cases += 1
    return cases


# --- streams --------------------------------------------------------------------------------------
@lemma("continual", "2", "no pattern of participations and no signs exceed the stated sensitivity")
def worst_pattern(full: bool) -> int:
    cases = 0
    for n in range(2, 8 if full else 7):
        for column in itertools.combinations_with_replacement(range(3, -1, -1), min(n, 4)):
            if not column[0]:
                continue
            matrix = np.zeros((n, n), dtype=np.int64)
            for j in range(n):
                matrix[j : j + len(column), j] = column[: n - j]
            for most, apart in itertools.product((1, 2, 3), (1, 2, 3)):
                try:
                    claimed = sensitivity(np.array(column, float), Participation(most, apart), n)
                except InfeasibleError:
                    continue
                worst = 0
                for steps in patterns(n, most, apart):
                    for signs in itertools.product((1, -1), repeat=len(steps) - 1):
                        moved = matrix[:, steps] @ np.array([1, *signs])
                        worst = max(worst, int(moved @ moved))
                        cases += 1
                assert worst <= claimed**2 * (1 + 1e-12)
                assert math.isclose(worst, claimed**2, rel_tol=1e-9) or n < most * apart + 1
    return cases


def patterns(n: int, most: int, apart: int) -> Iterator[tuple[int, ...]]:
    for size in range(1, most + 1):
        for steps in itertools.combinations(range(n), size):
            if all(b - a >= apart for a, b in itertools.pairwise(steps)):
                yield steps


# --- coins ----------------------------------------------------------------------------------------
@lemma(
    "local-scalar",
    "coins",
    "thresholds of coins keep their ratio at most e^epsilon; one more does not",
)
def coins_keep_their_ratio(full: bool) -> int:
    cases = 0
    with mpmath.workdps(80):
        for k in range(1, 401 if full else 61):
            epsilon = Fraction(k * 16, 400 if full else 60)
            limit = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
            flip = flip_threshold(epsilon)
            assert mpmath.mpf(WORD - flip) / flip <= limit
            assert mpmath.mpf(WORD - flip + 1) / (flip - 1) > limit
            for favoured, other in ((1, 1), (3, 5), (7, 1)):
                inside = odds_threshold(epsilon, favoured, other)
                assert mpmath.mpf(inside) / (WORD - inside) <= limit * favoured / other
                cases += 1
            cases += 1
    return cases
