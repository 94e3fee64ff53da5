"""Sums of rows, with sizes, squares or weights of those cut: one loss, that of the rows alone."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import statistics_kit
from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_table import Standardization
from privmean.mechanisms.row_sums import RowSums, TailRows
from privmean.noise.noise_source import SimulatedNoise

UNITS = (
    Standardization(-3.0, 5.0, 1.0, 0.7),
    Standardization(0.0, 4.0, 1.5, 0.01),
    Standardization(-9, 9, 0.0, 40.0),
)
FAR = [math.nan, math.inf, -math.inf, 1e300, -1e300, 0.0, 1.0, 1.5, 4.0, 5e-324, -3.0, 2.9999]
FARTHER = [*FAR, -5.0, 5.0, 5.1, 9.0, -9.5]


@pytest.mark.slow
@pytest.mark.parametrize("besides", ["sizes", "squares"])
@pytest.mark.parametrize("radius", [0.3, 1.0, 6.1, 5e3])
def test_sums_beside_sizes_or_squares_move_by_no_more_than_is_billed(besides, radius):
    g = np.random.default_rng(3)
    rows = g.choice(FAR, size=(150, 3))
    reaches = tuple(unit.reach for unit in UNITS)
    sums = RowSums("rows", radius, reaches, 0.4, besides)
    sds = [Fraction(sd) for sd in sums.vector.sds]
    (loss,) = sums.vector.events
    assert math.isclose(float(loss.sensitivity / loss.scale), 0.4, rel_tol=1e-9)
    assert loss.answers == 6
    found = []
    for row in rows:
        people = ArrayPersonTable(row[None], ("a", "b", "c")).standardized(UNITS)
        exact = people.ball_sums(sums.ball, besides)
        assert all(abs(z) <= top for z, top in zip(exact.z, sums.tops, strict=True))
        found.append((*exact.z, *exact.besides))
    for one, other in itertools.combinations(found, 2):
        lost = sum(((a - b) / sd) ** 2 for a, b, sd in zip(one, other, sds, strict=True))
        assert lost <= Fraction(0.4) ** 2


def tails(radius, part, mu=0.4, units=UNITS):
    opened = tuple(unit.opened.reach for unit in units)
    return TailRows("rows", radius, opened, mu, tuple(unit.ends for unit in units), part)


def exact_of(mechanism, values, units=UNITS):
    names = tuple("abcdefgh"[: len(units)])
    people = ArrayPersonTable(np.atleast_2d(values), names)
    return people.standardized([u.opened for u in units]).clipped_row_sums(mechanism.cut)


@pytest.mark.slow
@pytest.mark.parametrize("part", [0.5, 0.75, 0.95])
@pytest.mark.parametrize("radius", [0.3, 1.0, 6.1, 400.0])
def test_a_replaced_person_moves_the_exact_sums_by_no_more_than_is_billed(radius, part):
    g = np.random.default_rng(3)
    mechanism = tails(radius, part)
    (loss,) = mechanism.events
    assert math.isclose(float(loss.sensitivity / loss.scale), 0.4, rel_tol=1e-9)
    assert loss.answers == 9
    found = [exact_of(mechanism, row) for row in g.choice(FARTHER, size=(120, 3))]
    inner = mechanism.cut.inner.steps
    for item in found:
        assert min(item.tails) >= 0
        assert sum(t * t for t in item.tails) <= inner**2
        slightly = sum(t * t for t in item.tails) < inner**2 / 4
        most = mechanism.cut.middle.steps if slightly else inner
        assert not any(item.tails) or sum(z * z for z in item.z) <= most**2
    shares = [
        mechanism.sensitivity_share(one, two)[0] for one, two in itertools.combinations(found, 2)
    ]
    assert max(shares) <= 1
    assert any(any(item.tails) for item in found)


def test_the_loss_is_reached_and_a_twin_that_does_not_shorten_passes_it():
    units = (Standardization(-2.0, 2.0, 0.0, 1.0), Standardization(-2.0, 2.0, 0.0, 1.0))
    mechanism = tails(1.0, 0.75, units=units)
    opposite = exact_of(mechanism, [-9.0, 0.0], units)
    whole = exact_of(mechanism, [0.999, 0.0], units)
    assert mechanism.sensitivity_share(whole, exact_of(mechanism, [-0.999, 0.0], units))[0] > 0.99

    def unshortened(item):
        longer = Fraction(mechanism.ball.steps, mechanism.cut.inner.steps)
        return tuple(int(z * longer) for z in item.z)

    assert mechanism.sensitivity_share(whole, opposite)[0] <= 1
    twin = replace(opposite, z=unshortened(opposite))
    assert mechanism.sensitivity_share(whole, twin)[0] > 1


def test_weights_count_persons_beyond_and_in_long_rows():
    units = (Standardization(-8.0, 8.0, 0.0, 1.0), Standardization(-1.0, 1.0, 0.0, 1.0))
    mechanism = tails(4.0, 0.9, units=units)
    k = mechanism.cut.inner.steps

    def weights(*values):
        return np.array(exact_of(mechanism, values, units).tails) / k

    assert not weights(3.0, 0.5).any()
    assert not weights(0.0, 1.0).any()  # at the limit nothing is cut
    assert weights(3.0, 1.1) == pytest.approx([0, 1], abs=1e-6)
    assert weights(4.5, 0.0) == pytest.approx([0.975 / 0.9 / 4, 0], abs=1e-5)  # slightly cut
    assert weights(7.0, 0.0) == pytest.approx([1, 0], abs=1e-5)
    assert weights(-7.0, math.nan) == pytest.approx([1, 0], abs=1e-5)
    way = np.array([8 / math.hypot(8, 1) + 1, 1 / math.hypot(8, 1) + 1])
    assert weights(99.0, 5.0) == pytest.approx(way / np.linalg.norm(way), abs=1e-4)


def test_the_noise_is_that_of_the_bill_and_the_sums_come_back():
    units = (Standardization(-8.0, 8.0, 0.0, 1.0), Standardization(-8.0, 8.0, 2.0, 1.0))
    mechanism = tails(4.0, 0.95, mu=1e6, units=units)
    values = np.tile([[1.0, 2.0], [99.0, 2.0]], (500, 1))
    noisy = mechanism.draw(exact_of(mechanism, values, units), SimulatedNoise(1))
    assert np.allclose(noisy.tails, [500, 0], atol=0.01)
    step = mechanism.ball.step
    assert np.allclose(np.array(noisy.sums) * step, [500 * (1 + 0.95 * 4), 0], atol=0.5)
    plain = RowSums("rows", 4.0, mechanism.reaches, 1e6, "squares")
    assert noisy.sd == plain.vector.sds[0]
    # in persons: sqrt(2)/(mu sqrt(1 - part^2))
    assert noisy.tails_sd == pytest.approx(2**0.5 / (1e6 * math.sqrt(1 - 0.95**2)), rel=1e-4)
    small = tails(4.0, 0.95, mu=0.5, units=units)
    nobody = exact_of(small, [0.0, 2.0], units)
    draws = [small.draw(nobody, SimulatedNoise(s)).tails for s in range(300)]
    statistics_kit.assert_variance(np.ravel(draws), noisy.tails_sd**2 * (1e6 / 0.5) ** 2)


@pytest.mark.parametrize("part", [0.5, 0.6, 0.75, 0.9, 0.95, 0.999])
def test_no_kind_of_row_uses_more_than_its_half_of_the_loss(part):
    # in exact fractions: 2||z||^2 + ||t||^2/s^2 <= 2 K^2 for rows cut, and slightly cut
    long = Fraction(1)
    short, middle = Fraction(part), (3 + Fraction(part)) / 4
    inverse = 2 * (long**2 - short**2) / short**2
    assert 2 * short**2 + short**2 * inverse == 2
    assert 2 * middle**2 + middle**2 / 16 * inverse <= 2
    with pytest.raises(ValueError, match="half"):
        tails(1.0, 0.4)
