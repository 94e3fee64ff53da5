"""The privacy loss of the joint releases, by brute force over all pairs of neighbours.

Each release runs on one person in every possible state with a noise source that draws zeros and
writes down the scales; the loss of a pair of states is the sum of |change|/scale over what was
released, in exact rationals. The worst pair must cost exactly the epsilon on the bill.
"""

import math
from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from privmean.data.person_table import IntervalSums
from privmean.mechanisms.clipped_sum import Answers, ClippedSums
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE

EPSILON = Fraction(3, 7)


class Zero:
    """Draws zeros and remembers the scales asked for."""

    secure = False

    def __init__(self):
        self.scales = []

    def laplace(self, size, scale):
        self.scales += [Fraction(scale)] * size
        return np.zeros(size, dtype=np.int64)

    def gaussian(self, size, scale):
        self.scales += [float(scale)] * size
        return np.zeros(size, dtype=np.int64)


def person(z=0, above=0, below=0, present=1):
    return IntervalSums(present, above, below, z, z * z, present, z, present, z, z * z)


def states(k, slack=1):
    """A null, every inside position, and beyond a limit with z at the edge or just inside it."""
    inside = [person(z) for z in range(-k, k + 1)]
    beyond = [person(k - j, above=1) for j in range(slack + 1)]
    beyond += [person(-k + j, below=1) for j in range(slack + 1)]
    return [person(present=0), *inside, *beyond]


def released(sums, k, jumps=(0.0, 0.0), relation=REPLACE_ONE, absent=None):
    """Integers released for one person, the scales of their noise in steps, and the bill. absent:
    the step at which a person without a value stands."""
    at = None if absent is None else Fraction(absent, k)
    mechanism = ClippedSums("sums", relation, epsilon=EPSILON, jumps=jumps, absent=at)
    noise, box = Zero(), SimpleNamespace(steps=k)
    over = mechanism.over([box])
    (integers,) = over.exact([sums], [1 - sums.present])
    (column,) = over.draw([integers], noise)
    units = mechanism.answers().units(k)
    # small units live on a lattice 2^20 times finer; with noise of zero the integers come back
    scales = [scale / 2**20 for scale in noise.scales]
    back = [column.value, column.square, column.weight, column.extra]
    told = [*column.noise, column.extra_noise]
    for i, (integer, unit) in enumerate(zip(integers, units, strict=True)):
        assert told[i] * unit == pytest.approx(float(scales[i]))
        if relation == REPLACE_ONE or i == 3:
            assert back[i] * unit == pytest.approx(integer)
    return list(integers), scales, mechanism.loss_at(k)


def worst(rows, scales):
    pairs = product(rows, rows)
    return max(
        sum((abs(Fraction(a - b)) / s for a, b, s in zip(x, y, scales, strict=True)), Fraction(0))
        for x, y in pairs
    )


@pytest.mark.parametrize("k", [1, 2, 7, 16])
def test_value_square_and_count_cost_exactly_epsilon(k):
    rows = [released(s, k, (0.0, 0.0)) for s in states(k)]
    scales, loss = rows[0][1], rows[0][2]
    assert worst([row[0] for row in rows], scales) == EPSILON == loss.pure
    # the square is free, and no cheaper: noise below 4K^2/epsilon breaks the bill
    cheap = [scales[0], scales[1] * Fraction(99, 100), scales[2]]
    assert worst([row[0] for row in rows], cheap) > EPSILON
    # so is the number of people with a value at scale 4/epsilon, and not at 3.9/epsilon
    assert scales[2] == 4 / EPSILON
    cheap = [scales[0], scales[1], scales[2] * Fraction(39, 40)]
    assert worst([row[0] for row in rows], cheap) > EPSILON


@pytest.mark.parametrize("jumps", [(0.5, 0.5), (1.0, 0.0), (0.0, 0.8), (0.3, 0.7), (1.5, 1.5)])
@pytest.mark.parametrize("k", [3, 10])
def test_tail_share_beside_value_and_square_costs_exactly_epsilon(k, jumps):
    rows = [released(s, k, jumps) for s in states(k)]
    scales, loss = rows[0][1], rows[0][2]
    cost = worst([row[0] for row in rows], scales)
    assert cost == EPSILON == loss.pure
    for i in range(len(scales)):  # every one of the scales is needed
        cheap = list(scales)
        cheap[i] = cheap[i] * Fraction(9, 10)
        assert worst([row[0] for row in rows], cheap) > EPSILON


def test_jumps_rounded_apart_would_break_the_bill():
    # a value rounded after adding the jump moves by one step more than the integer jump P
    k, jumps = 10, (0.34, 0.34)
    rows = [released(s, k, jumps) for s in states(k)]
    scales = rows[0][1]
    apart = [list(row[0]) for row in rows]
    for row, state in zip(apart, states(k), strict=True):
        row[0] += state.above - state.below
    assert worst(apart, scales) > EPSILON


@pytest.mark.parametrize(
    ("absent", "k"), [(0, 1), (0, 8), (1, 2), (-7, 8), (-3, 8), (1, 8), (6, 8)]
)
def test_persons_without_a_value_who_stand_somewhere_cost_exactly_epsilon(absent, k):
    """With the square 1 and without weight."""
    found = [released(s, k, absent=absent) for s in states(k)]
    rows, scales, loss = [item[0] for item in found], found[0][1], found[0][2]
    assert rows[0][:3] == [absent, k * k, 0]
    assert worst(rows, scales) == EPSILON == loss.pure
    at = Fraction(abs(absent), k)
    multiples = [2 * k, 4 * k * k, 2 / (1 - at)]
    assert scales == [item / EPSILON for item in multiples]
    for i in range(len(scales)):  # every one of the scales is needed
        cheap = list(scales)
        cheap[i] = cheap[i] * Fraction(9, 10)
        if i == 1 and k < 8:  # between steps of the grid
            continue
        assert worst(rows, cheap) > EPSILON
    # with the square of where they stand, or 0, the number of people with a value would cost more
    for square in {absent**2, 0}:
        other = [absent, square, *rows[0][2:]]
        assert worst([*rows, other], scales) > EPSILON


def test_persons_without_a_value_who_stand_somewhere_exclude_tails_and_records():
    at = Fraction(1, 2)
    refused = [
        {"absent": Fraction(1)}, {"absent": Fraction(-1)}, {"absent": at, "max_records": 3},
        {"absent": at, "jumps": (0.5, 0.0)}, {"absent": at, "jumps": (0.0, 0.5)},
        {"absent": at, "cross": True}, {"absent": Fraction(0), "cross": True},
    ]  # fmt: skip
    for words in refused:
        with pytest.raises(ValueError, match="stand"):
            Answers(REPLACE_ONE, **words)
    with pytest.raises(ValueError, match="stand"):
        Answers(ADD_REMOVE, absent=at)


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_partition_costs_exactly_epsilon_under_add_remove(k):
    def cells(sums):
        return released(sums, k, relation=ADD_REMOVE)

    base, scales, loss = cells(person(present=0))
    assert base == [0, 0, 0]
    assert loss.pure == EPSILON
    for z in range(-k, k + 1):
        row, _, _ = cells(person(z))
        assert sum(row) == 4 * k * k
        assert min(row) >= 0
        assert worst([row, base], scales) == EPSILON  # adding anyone costs the same
    assert worst([cells(person(k))[0], base], [s * Fraction(9, 10) for s in scales]) > EPSILON


def gaussian_table(columns, k, mu, rows):
    """Integers of every state (the same in all columns) and deviations, in lattice steps."""
    mechanism = ClippedSums("sums", REPLACE_ONE, columns, mu=mu)
    table = []
    for s in rows:
        noise = Zero()
        flat = [item for _ in range(columns) for item in Answers(REPLACE_ONE).integers(None, s)]
        made = mechanism.gaussian(Answers(REPLACE_ONE), [k] * columns)
        table.append(made.placed(flat))
        assert made.draw(flat, noise) == made.read(flat, [0] * len(flat))
    return np.array(table, float), np.array(noise.scales), mechanism.events[0].mu


def spent(table, scales):
    gaps = (table[:, None, :] - table[None, :, :]) / scales
    return math.sqrt((gaps**2).sum(axis=2).max())


@pytest.mark.parametrize("mu", [0.1, 2.5])
def test_gaussian_value_square_and_count_cost_at_most_the_billed_mu(mu):
    table, scales, billed = gaussian_table(1, 40, mu, states(40, slack=0))
    assert billed == pytest.approx(mu)
    assert 0.999 * billed <= spent(table, scales) <= billed * (1 + 1e-12)
    for i in (1, 2):  # a twin with less noise on the square or the count is over the bill
        less = scales.copy()
        less[i] *= 0.97
        assert spent(table, less) > billed


def test_several_gaussian_columns_cost_the_billed_mu_together():
    table, scales, billed = gaussian_table(5, 11, 0.7, [person(z) for z in (-11, 0, 11)])
    assert spent(table, scales) == pytest.approx(billed, rel=1e-11)
