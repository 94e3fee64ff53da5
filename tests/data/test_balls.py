"""Clipping to a ball: inside for any row, dropped never, alike in every home."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import people_reference as reference
import polars as pl
import pytest
from frame_homes import relation

from privmean.data import array_kernels as balls
from privmean.data.array_kernels import clip_rows_to_ball
from privmean.data.array_table import ArrayPersonTable
from privmean.data.grids import quotient
from privmean.data.person_table import ClippedRows, L2Ball, Standardization
from privmean.data.read import read
from privmean.mechanisms.weighted_sums import UNIT, JointSums
from privmean.privacy.budget import REPLACE_ONE

EXTREMES = [
    math.inf, -math.inf, 1.7e308, -1e300, 2.0**500, 1e200, 1e160, 1e154, 1e30, 1.0, -1.0, 1e-12,
    1e-154, 1e-160, -1e-200, 2.0**-400, 1e-300, 5e-324, 0.0, -0.0, math.nan,
]  # fmt: skip


def directions(generator, count, width):
    """Random, axis-parallel and even directions of unit length."""
    rows = generator.normal(size=(count, width))
    rows[: count // 4] = np.eye(width)[generator.integers(0, width, count // 4)]
    rows[count // 4 : count // 3] = generator.choice([-1.0, 1.0], (count // 3 - count // 4, width))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def real_clip(row, ball):
    """The real-valued clip in lattice steps, to 2^-60 of its length."""
    v = [Fraction(float(np.clip(x - c, -1.7976931348623157e308, 1.7976931348623157e308)))
         for x, c in zip(row, ball.center, strict=True)]  # fmt: skip
    top = max(map(abs, v))
    if not top:
        return [Fraction(0)] * len(v)
    square = sum((x / top) ** 2 for x in v)
    norm = top * Fraction(math.isqrt(int(square * 4**80)), 2**80)
    length = min(norm, Fraction(ball.radius))
    return [x * length / norm / Fraction(ball.step) for x in v]


@pytest.mark.parametrize("ratio", [1.0, 1.999, 3.7, 100.9, 2.0**24 + 0.5, 2.0**25 * 0.7131, 2e9])
@pytest.mark.parametrize("width", [1, 2, 5, 40])
def test_no_clipped_row_is_dropped(ratio, width):
    """Rows far outside: none is zero for want of rounding, none leaves the ball."""
    generator = np.random.default_rng(3)
    step = 0.37 / ratio
    ball = L2Ball((0.0,) * width, 0.37, step)
    rows = directions(generator, 400, width) * generator.uniform(0.37, 50, (400, 1))
    z, _ = clip_rows_to_ball(rows, ball)
    squares = [sum(int(x) ** 2 for x in row) for row in z]
    assert max(squares) <= ball.steps**2
    shortest = ball.steps - math.sqrt(width) - 1
    assert min(math.sqrt(item) for item in squares) >= shortest
    along = np.abs(rows).max(axis=1) == np.linalg.norm(rows, axis=1)
    assert {item for item, axis in zip(squares, along, strict=True) if axis} == {ball.steps**2}


@pytest.mark.parametrize("radius", [1e-310, 1e-160, 0.37, 1e155, 1e300])
@pytest.mark.parametrize("ratio", [1.0, 3.7, 2.0**25 * 0.7131])
def test_a_row_alone_is_clipped_as_among_others(radius, ratio):
    generator = np.random.default_rng(9)
    for width in (1, 2, 3, 8, 9, 100, 1000):
        center = tuple(generator.choice([0.0, -radius / 3, 1.0], width).tolist())
        ball = L2Ball(center, radius, radius / ratio)
        with np.errstate(over="ignore"):
            sizes = radius * 10.0 ** generator.uniform(-2, 2, (60, 1))
            rows = center + directions(generator, 60, width) * sizes
        rows = np.vstack([rows, generator.choice(EXTREMES, (60, width)), [[math.nan] * width]])
        z, present = clip_rows_to_ball(rows, ball)
        alone = [clip_rows_to_ball(rows[i : i + 1], ball) for i in range(len(rows))]
        assert np.vstack([item for item, _ in alone]).tolist() == z.tolist()
        assert [bool(item[0]) for _, item in alone] == present.tolist()
        assert max(int((row * row).sum()) for row in z) <= ball.steps**2


@pytest.mark.parametrize("width", [9, 33, 700])
def test_squares_of_few_wide_rows_are_added_as_those_of_many(width):
    """From the first column to the last, to the last bit; NumPy's own sum would not."""
    generator = np.random.default_rng(6)
    rows = generator.normal(size=(3 * width, width)) * 2.0 ** generator.integers(-9, 9, width)
    rows[:2] = generator.choice([1e200, 2.0**400, 1e-170, 0.0, -1.0], (2, width))
    with np.errstate(all="ignore"):
        many = balls._squares(rows)
        for count in (1, 2, width // 3):
            assert balls._squares(rows[:count]).tolist() == many[:count].tolist()
        assert np.sum(rows * rows, axis=1).tolist() != many.tolist()
    for row, total in zip(rows[2:20].tolist(), many[2:20], strict=True):
        added = 0.0
        for x in row:
            added = added + x * x
        assert added == total


@pytest.mark.parametrize("radius", [1e-310, 1e-200, 3e-9, 0.3, 7.1, 1e12, 1e155, 1e300])
@pytest.mark.parametrize("steps", [2.5, 1000.3, 2.0**25 * 0.9])
def test_close_to_the_real_clip_at_any_radius(radius, steps):
    generator = np.random.default_rng(5)
    ball = L2Ball((0.0, radius / 3, -0.0), radius, radius / steps)
    sizes = 10.0 ** generator.uniform(-3, 3, (60, 1)) * radius
    with np.errstate(over="ignore"):
        rows = np.vstack(
            [directions(generator, 60, 3) * sizes, generator.choice(EXTREMES, (60, 3))]
        )
    rows = rows[~np.isnan(rows).any(axis=1)]
    z, _ = clip_rows_to_ball(rows, ball)
    for row, found in zip(rows, z.tolist(), strict=True):
        gap = [x - y for x, y in zip(real_clip(row, ball), found, strict=True)]
        assert sum(item * item for item in found) <= ball.steps**2
        assert sum(float(item) ** 2 for item in gap) <= (math.sqrt(3) + 1) ** 2


@pytest.mark.slow
def test_the_same_integers_in_every_home():
    """Radii far below and above the values, steps that do not divide them."""
    generator = np.random.default_rng(7)
    values = directions(generator, 300, 3) * 10.0 ** generator.uniform(-14, 13, (300, 1))
    values[generator.random((300, 3)) < 0.05] = np.nan
    values[:5] = 0.0
    table = {"who": np.arange(300), **{f"x{j}": values[:, j] for j in range(3)}}
    names = {"person": "who", "values": ["x0", "x1", "x2"], "resolution": 2.0**-36}
    frame = pl.DataFrame(table).with_columns(pl.col("x0", "x1", "x2").fill_nan(None))
    homes = [
        read(frame, **names),
        read(relation(frame), **names),
        read(values, person=table["who"], resolution=2.0**-36),
    ]
    rows = [
        [None if math.isnan(x) else x for x in row] for row in homes[0].collect().values.tolist()
    ]
    for radius in (1e-300, 1e-170, 1e-18, 3.3e-7, 1.0, 0.1, 9876.5, 1e13, 1e200):
        for ratio in (0.5, 1.0, 2.9, 1000.1, 2.0**24 * 1.37):
            ball = L2Ball((0.0, 1e-13, -radius / 7), radius, radius / ratio)
            expected = reference.ball_sums(rows, ball)
            for people in homes:
                found = people.ball_sums(ball)
                assert (found.z, found.present, found.besides) == expected, (radius, ratio)
        expected = reference.count_in_ball(rows, (0.0, 1e-13, -radius / 7), radius)
        for people in homes:
            assert people.count_in_ball((0.0, 1e-13, -radius / 7), radius) == expected, radius


@pytest.mark.parametrize("records", [1, 2, 3, 7, 10])
def test_weights_by_records_keep_every_clipped_person(records):
    """A weighted row's lattice is no power of two: clipped rows land on it all the same."""
    weights = (0, *(round(UNIT * math.sqrt(m / 10)) for m in range(1, 11)))
    radii = (1.0, *(1.3 / math.sqrt(m) for m in range(1, 11)))
    step = JointSums("s", "gaussian", 4, weights, radii, 0.5, REPLACE_ONE)
    rows = directions(np.random.default_rng(9), 500, 4) * 40
    z, _ = clip_rows_to_ball(rows, step.ball((0.0,) * 4, records))
    lengths = np.linalg.norm(z.astype(float), axis=1)
    assert lengths.max() <= step.reach[records]
    assert lengths.min() >= step.reach[records] - 3


def mixed(generator, count, width, radius):
    """Rows within, at, and beyond a ball, with nulls and extremes among them."""
    rows = (
        directions(generator, count, width) * radius * 2.0 ** generator.uniform(-3, 3, (count, 1))
    )
    rows[:: count // 9 + 1] *= 0.0
    at = generator.random(rows.shape)
    rows[at < 0.002] = math.nan
    odd = generator.random(count) < 0.01
    rows[odd] = generator.choice(EXTREMES, (int(odd.sum()), width))
    return rows


@pytest.mark.parametrize("besides", [None, "sizes", "squares"])
@pytest.mark.parametrize(
    ("count", "width", "radius", "step"),
    [(700, 1, 1.0, 2.0**-20), (5000, 3, 0.37, 1e-5), (40_000, 4, 1e155, 1e149), (900, 20, 3.0, 1.1),
     (30, 400, 1.0, 2.0**-20), (300, 2, 1e-310, 1e-315), (2000, 5, 1.0, 2.0**-30.5)],
)  # fmt: skip
def test_sums_over_a_ball_are_those_of_its_rows(count, width, radius, step, besides):
    """Rows well inside go another way: the same integers, each row as if it came alone."""
    generator = np.random.default_rng(8)
    for center in ((0.0,) * width, tuple(generator.normal(0, radius / 9, width).tolist())):
        rows = mixed(generator, count, width, radius) + center
        ball = L2Ball(center, radius, step)
        found = ArrayPersonTable(rows, tuple(map(str, range(width)))).ball_sums(ball, besides)
        z, there = clip_rows_to_ball(rows, ball)
        whole = z.astype(object)
        assert found.z == tuple(whole.sum(axis=0))
        assert found.present == there.sum()
        again = np.abs(whole) if besides == "sizes" else whole * whole
        assert found.besides == (tuple(again.sum(axis=0)) if besides else ())


def test_rows_at_the_edge_are_settled_in_integers():
    """Norms that doubles cannot tell from K: no row leaves the ball, none inside is changed."""
    generator = np.random.default_rng(2)
    ball = L2Ball((0.0,) * 7, 1.0, 2.0**-20)
    rows = directions(generator, 20_000, 7) * (
        1 + generator.integers(-4, 5, (20_000, 1)) * 2.0**-52
    )
    z, _ = clip_rows_to_ball(rows, ball)
    people = ArrayPersonTable(rows, tuple("abcdefg"))
    assert people.ball_sums(ball, "squares").besides == tuple((z * z).sum(axis=0).tolist())
    assert (z * z).sum(axis=1).max() <= ball.steps**2


def test_shells_and_units_are_those_of_each_row_alone():
    generator = np.random.default_rng(3)
    columns = [Standardization(-3.0, 5.0, 0.3, 1.7), None, Standardization(0.0, 1e-300, 0.0,
    1e-308),
               Standardization(-1e308, 1e308, 1.0, 1e5)]  # fmt: skip
    rows = mixed(generator, 50_000, 4, 2.0)
    people = ArrayPersonTable(rows, tuple("abcd"))
    units = people.standardized(columns)
    assert units.columns == ("a", "c", "d")
    with np.errstate(all="ignore"):
        for k, j in enumerate((0, 2, 3)):
            item, x = columns[j], rows[:, j]
            inside = quotient(np.clip(x, item.lower, item.upper) - item.center, item.scale)
            expected = np.where(np.isnan(x), 0.0, inside)
            assert np.array_equal(units.values[:, k], expected, equal_nan=True)
        edges = [2.0**k for k in range(-6, 9)]
        total = np.zeros(len(rows))
        for x in rows.T:
            total = total + np.where(np.isnan(x), 0.0, x) ** 2
        expected = np.bincount(np.searchsorted(edges, np.sqrt(total)), minlength=16)
    assert people.norm_counts(edges).tolist() == expected.tolist()
    assert people.split(1, 3).norm_counts(edges).sum() == len(rows[1::3])


def test_cut_rows_among_rows_well_inside_are_those_of_the_definition():
    """Rows that nothing happens to go another way: the integers of the rows taken apart."""
    generator = np.random.default_rng(4)
    for width, radius in ((1, 1.0), (3, 2.0), (20, 7.0), (60, 3.0)):
        rows = mixed(generator, 3000 if width < 60 else 40, width, radius)
        rows[~np.isfinite(rows)] = 0.25
        step = 2.0**-18
        three = [L2Ball((0.0,) * width, radius * part, step) for part in (1.0, 1.25, 1 / 3)]
        limits = generator.uniform(radius / 4, radius, width)
        cut = ClippedRows(*three, tuple((-limits).tolist()), tuple((limits * 1.5).tolist()))
        found = ArrayPersonTable(rows, tuple(map(str, range(width)))).clipped_row_sums(cut)
        totals, present = balls._cut_totals(rows, cut)
        assert [list(found.z), list(found.besides), list(found.tails)] == totals
        assert found.present == present == len(rows)
        assert sum(totals[2]) > 0


@pytest.mark.parametrize(("count", "width"), [(600, 1100), (300, 4000), (2500, 70)])
def test_wide_rows_are_those_of_few_at_once(count, width):
    generator = np.random.default_rng(width)
    rows = mixed(generator, count, width, 0.3)
    rows[::3] = generator.normal(0, 0.02, rows[::3].shape)  # well inside
    ball = L2Ball((0.0,) * width, 8.0, 2.0**-17)
    cut = ClippedRows(
        ball, L2Ball(ball.center, 7.0, ball.step), L2Ball(ball.center, 6.0, ball.step),
        (-1.5,) * width, (2.0,) * width,
    )  # fmt: skip
    edges = [0.5, 1.0, 8.0, 64.0]
    units = [Standardization(-2.0, 3.0, 0.1, 0.7)] * width
    names = tuple(map(str, range(width)))

    def answers(values):
        people = ArrayPersonTable(values, names)
        inside = people.standardized(units)
        found = people.ball_sums(ball, "squares"), inside.clipped_row_sums(cut)
        counts = people.norm_counts(edges), inside.norm_counts(edges)
        sums = [part for one in found for part in (one.z, one.besides, one.tails, [one.present])]
        return [np.array(item, dtype=object) for item in (*sums, *counts)]

    parts = [answers(rows[start : start + 20]) for start in range(0, count, 20)]
    for whole, few in zip(answers(rows), zip(*parts, strict=True), strict=True):
        assert whole.tolist() == sum(few).tolist()


def test_columns_of_a_table_in_units_may_be_put_in_units_again():
    """A narrow table reads more rows at once than the wide one that it is made of."""
    count, width, kept = 3000, 1000, 5
    rows = np.random.default_rng(1).normal(size=(count, width))
    unit = Standardization(-2.0, 3.0, 0.1, 0.7)
    wide = ArrayPersonTable(rows, tuple(map(str, range(width)))).standardized([unit] * width)
    narrow = wide.standardized([unit] * kept + [None] * (width - kept))
    alone = ArrayPersonTable(np.array(wide.values[:, :kept]), narrow.columns)
    edges = [0.5, 1.0, 2.0]
    wanted = alone.standardized([unit] * kept).norm_counts(edges)
    assert narrow.norm_counts(edges).tolist() == wanted.tolist()
