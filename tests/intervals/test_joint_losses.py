"""The privacy loss of the joint releases, by brute force over all pairs of neighbours.

Each release runs on one person in every possible state with a noise source that draws zeros and
writes down the scales; the loss of a pair of states is the sum of |change|/scale over what was
released, in exact rationals. The worst pair must cost exactly the epsilon on the bill.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from privmean.intervals.design_effects import group_sensitivity, group_spread
from privmean.intervals.gaussian_sums import COUNT_LATTICE, gaussian_loss, gaussian_sums
from privmean.intervals.joint_sums import joint_sums, partition_sums
from privmean.people.reductions import BoxSums

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
    return BoxSums(present, above, below, z, z * z, present, z, present, z, z * z)


def states(k, slack=1):
    """A null, every inside position, and beyond a limit with z at the edge or just inside it."""
    inside = [person(z) for z in range(-k, k + 1)]
    beyond = [person(k - j, above=1) for j in range(slack + 1)]
    beyond += [person(-k + j, below=1) for j in range(slack + 1)]
    return [person(present=0), *inside, *beyond]


def released(sums, k, jumps):
    """Integers released for one person, their scales, and the bill."""
    noise = Zero()
    joint = joint_sums(sums, SimpleNamespace(steps=k), EPSILON, noise, persons=1, jumps=jumps)
    n = joint.sums.persons
    integers = [
        round(joint.sums.value * k),
        round(joint.sums.square * k * k),
        round(joint.present),
        round(joint.tail * k),
    ]
    assert n == 1
    return integers[: len(noise.scales)], noise.scales, joint.loss


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
    # so is the number of persons with a value at scale 4/epsilon, and not at 3.9/epsilon
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


@pytest.mark.parametrize("k", [1, 2, 7, 16])
def test_number_of_persons_set_apart_is_free_beside_value_square_and_count(k):
    def row(sums, far):
        noise = Zero()
        joint = joint_sums(sums, SimpleNamespace(steps=k), EPSILON, noise, persons=1, far=far)
        item = joint.sums
        integers = [item.value * k, item.square * k * k, joint.present, joint.far]
        return [round(x) for x in integers], noise.scales, joint.loss

    apart = BoxSums(1, 1, 0, 0, k * k, 1, 0, 1, 0, k * k)
    found = [row(s, 0) for s in states(k)] + [row(apart, 1)]
    rows, scales, loss = [item[0] for item in found], found[0][1], found[0][2]
    assert scales[3] == 2 / EPSILON
    assert worst(rows, scales) == EPSILON == loss.pure
    cheap = [*scales[:3], scales[3] * Fraction(39, 40)]
    assert worst(rows, cheap) > EPSILON
    # with the square of the middle, or at the limit itself, the number would cost more
    for other in (person(0, above=1), person(k, above=1)):
        assert worst([*rows[:-1], row(other, 1)[0]], scales) > EPSILON


def test_persons_set_apart_have_a_cell_of_their_own_under_add_remove():
    noise = Zero()
    joint = partition_sums(
        person(present=0), SimpleNamespace(steps=4), EPSILON, noise, far=1
    )  # somebody far joins: nothing else moves
    assert (joint.present, joint.sums.value, joint.far) == (0, 0, 1)
    assert noise.scales[3] == 1 / EPSILON


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_partition_costs_exactly_epsilon_under_add_remove(k):
    def cells(sums):
        noise = Zero()
        joint = partition_sums(sums, SimpleNamespace(steps=k), EPSILON, noise)
        whole = 4 * k * k
        count = joint.present
        # value and square are not divided by the (floored) count
        high_low = joint.sums.value * whole
        ends = (joint.sums.square + count) * whole / 2
        exact = [(ends + high_low) / 2, count * whole - ends, (ends - high_low) / 2]
        rounded = [round(item) for item in exact]
        assert np.allclose(exact, rounded, atol=1e-6)
        return rounded, noise.scales, joint.loss

    nobody = person(present=0)
    base, scales, loss = cells(nobody)
    assert base == [0, 0, 0]
    assert loss.pure == EPSILON
    for z in range(-k, k + 1):
        row, _, _ = cells(person(z))
        assert sum(row) == 4 * k * k
        assert min(row) >= 0
        assert worst([row, base], scales) == EPSILON  # adding anyone costs the same
    assert worst([cells(person(k))[0], base], [s * Fraction(9, 10) for s in scales]) > EPSILON


@pytest.mark.parametrize("sd", [0.7, 25.0])
def test_gaussian_value_square_and_count_cost_at_most_the_billed_mu(sd):
    k = 40
    rows, scales = [], []
    for s in states(k, slack=0):
        noise = Zero()
        items, counts = gaussian_sums([s], [SimpleNamespace(steps=k)], sd, noise, persons=1)
        value, square = items[0].value * k, items[0].square * k * k
        rows.append([round(value), round(square), round(counts[0].present * COUNT_LATTICE)])
        scales = noise.scales
    table = np.array(rows, float)
    gaps = (table[:, None, :] - table[None, :, :]) / np.array(scales)
    mu = math.sqrt((gaps**2).sum(axis=2).max())
    billed = gaussian_loss(1, sd, k).mu
    assert billed == pytest.approx(2 / sd)
    assert mu <= billed * (1 + 1e-12)
    assert mu >= billed * 0.999
    for i in (1, 2):  # a twin with less noise on the square or the count is over the bill
        less = np.array(scales)
        less[i] *= 0.97
        cost = math.sqrt((((table[:, None] - table[None]) / less) ** 2).sum(axis=2).max())
        assert cost > billed


def test_several_gaussian_columns_cost_the_billed_mu_together():
    d, sd, k = 5, 3.0, 11
    rows = []
    for z in (-k, 0, k):
        noise = Zero()
        boxes = [SimpleNamespace(steps=k)] * d
        items, _ = gaussian_sums([person(z)] * d, boxes, sd, noise, persons=1)
        rows.append([round(i.value * k) for i in items] + [round(i.square * k * k) for i in items])
        scales = noise.scales[0::3] + noise.scales[1::3]
    table = np.array(rows, float)
    gaps = (table[:, None] - table[None]) / np.array(scales)
    mu = math.sqrt((gaps**2).sum(axis=2).max())
    assert mu == pytest.approx(gaussian_loss(d, sd, k).mu, rel=1e-12)


def test_matrix_of_second_moments_is_free_beside_a_vector():
    # |y| <= 1: |y - y'|^2 + lambda^2/1 |yy' - y'y''|_F^2 with lambda^2 = 1/2 is at most 4
    g = np.random.default_rng(1)
    largest = 0.0
    for d in (1, 2, 3):
        y = g.normal(size=(400, d))
        y /= np.linalg.norm(y, axis=1, keepdims=True)
        y *= g.choice([1.0, 0.9, 0.5, 0.0], 400)[:, None]
        gram = y @ y.T
        size = np.sum(y**2, axis=1)
        apart = size[:, None] + size[None] - 2 * gram
        frobenius = size[:, None] ** 2 + size[None] ** 2 - 2 * gram**2
        largest = max(largest, float((apart + frobenius / 2).max()))
        assert (apart + 0.51 * frobenius).max() <= 4.01
    assert largest <= 4 + 1e-12
    c = np.linspace(-1, -0.9, 1001)  # on the sphere: 2 - 2c + lambda^2 * 2 (1 - c^2)
    assert (2 - 2 * c + 0.5 * 2 * (1 - c**2)).max() <= 4 + 1e-12
    assert (2 - 2 * c + 0.51 * 2 * (1 - c**2)).max() > 4


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_group_spread_sensitivity_by_brute_force(size):
    k = 6
    reach = k * (size - 1)
    change = max(
        abs((rest + a) ** 2 // size - (rest + b) ** 2 // size)
        for rest in range(-reach, reach + 1)
        for a in range(-k, k + 1)
        for b in range(-k, k + 1)
    )
    allowed = group_sensitivity(k, size)
    assert change <= allowed
    assert change >= 0.9 * (allowed - 2)
    if size == 1:  # 4 - 4/n_g alone would give no noise at all
        assert 4 * k * k - 4 * k * k // size < change


def test_group_spread_pays_its_share():
    noise = Zero()
    sizes = [3] * 20
    spread = group_spread([2] * 20, sizes, steps=5, epsilon=EPSILON, noise=noise)
    assert spread.loss.pure == EPSILON
    assert noise.scales == [spread.loss.sensitivity / EPSILON]
    assert spread.total * 25 == pytest.approx(20 * (4 // 3))
