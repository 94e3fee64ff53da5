"""No release fails after its charge: what cannot be drawn is refused when it is planned."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import privmean as pm
from privmean.api.run_question import within_budget
from privmean.data.array_table import ArrayPersonTable
from privmean.data.person_table import ClipInterval
from privmean.errors import InfeasibleError
from privmean.mechanisms.clipped_sum import ClippedSums
from privmean.mechanisms.noisy_vector import (
    COARSE,
    FINEST,
    LARGEST_DIMENSION,
    SMALLEST_LOSS,
    GaussianVector,
    LaplaceVector,
    lattice_bits,
)
from privmean.mechanisms.weighted_sums import UNIT, JointSums, WeightedSums, WeightSum
from privmean.noise.noise_source import LARGEST_SCALE, ExactNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.privacy.compose import Parallel, stated
from privmean.privacy.privacy_events import Gaussian, Laplace
from statistics_kit import drawn_sums

BELOW = SMALLEST_LOSS * 0.999
ONES, UNIT_BOX = np.ones((2, 2), dtype=np.int64), ClipInterval(0.0, 1.0)


@pytest.mark.parametrize(
    "made",
    [
        lambda loss: GaussianVector("x", (1,), (1.0,), loss),
        lambda loss: LaplaceVector((1,), (1,), Fraction(loss), REPLACE_ONE),
        lambda loss: ClippedSums("x", REPLACE_ONE, 2, mu=loss),
        lambda loss: ClippedSums("x", ADD_REMOVE, 2, epsilon=Fraction(loss)),
        lambda loss: WeightedSums("x", ONES, UNIT_BOX, mu=loss),
        lambda loss: WeightedSums("x", ONES, UNIT_BOX, epsilon=Fraction(loss)),
        lambda loss: WeightSum("gaussian", loss, ADD_REMOVE),
        lambda loss: JointSums("x", "gaussian", 1, (0, UNIT), (0.0, 1.0), loss, REPLACE_ONE),
    ],
)
def test_the_least_loss_is_where_a_mechanism_is_made(made):
    made(SMALLEST_LOSS)
    for loss in (BELOW, 1e-300, 0.0):
        with pytest.raises(InfeasibleError, match="larger epsilon or delta"):
            made(loss)


@given(st.floats(1e-300, 1e300))
@example(2.0**20)
@example(math.nextafter(2.0**20, 0))
@example(5e-324)
def test_the_lattice_is_the_coarsest_of_enough_steps(sd):
    bits = lattice_bits(sd)
    assert math.ldexp(sd, bits) >= FINEST
    assert bits == 0 or math.ldexp(sd, bits - 1) < FINEST


STRENGTHS = st.floats(-40, 8).map(lambda power: 2.0**power)


@settings(max_examples=60)
@given(STRENGTHS, st.lists(st.floats(0, 300).map(lambda k: 2.0**k), min_size=1, max_size=5))
def test_any_gaussian_sums_that_are_made_can_be_drawn_as_billed(mu, sds):
    mechanism = GaussianVector("x", (1,) * len(sds), tuple(sds), mu)
    (loss,) = mechanism.events
    assert loss.drawn <= LARGEST_SCALE
    assert loss.scale == min(mechanism.scales)
    for fine, bits, sd in zip(sds, mechanism.lattice, mechanism.scales, strict=True):
        assert sd <= 2 * COARSE
        assert math.ldexp(sd, -bits) <= fine * (1 + len(sds) ** 0.5 * 2.0**-13 * (1 + 1e-11))
    assert len(mechanism.draw([7] * len(sds), ExactNoise())) == len(sds)


@settings(max_examples=60)
@given(
    STRENGTHS.map(Fraction),
    st.lists(st.tuples(st.integers(1, 2**90), st.integers(1, 2**90)), min_size=1, max_size=5),
)
def test_any_joint_laplace_sums_that_are_made_can_be_drawn(epsilon, answers):
    units, multiples = zip(*answers, strict=True)
    mechanism = LaplaceVector(units, multiples, epsilon, REPLACE_ONE)
    assert mechanism.effective >= epsilon / (1 + Fraction(len(units), 2**13))
    assert len(mechanism.draw([7] * len(units), ExactNoise())) == len(units)


@settings(max_examples=25)
@given(STRENGTHS, st.sampled_from([REPLACE_ONE, ADD_REMOVE]), st.booleans(), st.integers(-300, 300))
def test_clipped_sums_of_any_box_can_be_drawn_as_billed(loss, relation, gaussian, power):
    strength = {"mu": loss} if gaussian else {"epsilon": Fraction(loss)}
    mechanism = ClippedSums("x", relation, 1, **strength)
    assert all(item.drawn <= LARGEST_SCALE for item in mechanism.events)
    box = ClipInterval(-1.0 * 2.0**power, 1.7 * 2.0**power)
    people = ArrayPersonTable(np.array([[0.3], [2.0]]), ("a",))
    (found,) = drawn_sums(mechanism, [box], people.interval_sums([box]), ExactNoise())
    assert math.isfinite(found.value)


@pytest.mark.parametrize("law", ["k-norm", "laplace"])
def test_pure_vector_sums_are_refused_where_they_are_billed(law):
    def made(epsilon: float, dimension: int) -> JointSums:
        strength = Fraction(epsilon)
        return JointSums("rounds", law, dimension, (0, UNIT), (0.0, 1.0), strength, REPLACE_ONE)

    for dimension in (1, 8, LARGEST_DIMENSION):
        for power in range(-40, 8):
            sums = made(2.0**power, dimension)
            try:
                assert sums.events
            except InfeasibleError:
                assert power < -24
                continue
            assert sums.coordinate_scale <= LARGEST_SCALE
            if power in (-28, -26, 7) and dimension < 9:
                sums.draw(([5] * dimension, 3), ExactNoise())


class Plan:
    """A plan of one loss, the noise of which is drawn at the scale on its bill."""

    def __init__(self, *losses):
        self.events = stated(losses, REPLACE_ONE)


@pytest.mark.parametrize("wide", [LARGEST_SCALE, LARGEST_SCALE * 1.01])
@pytest.mark.parametrize(
    "made",
    [
        lambda scale: Gaussian("x", 1.0, scale, 1),
        lambda scale: Laplace("x", Fraction(1), Fraction(scale)),
        lambda scale: Parallel("x", ((Gaussian("x", 1.0, scale, 1),),)),
    ],
)
def test_a_plan_whose_noise_cannot_be_drawn_is_infeasible(made, wide):
    arguments = Plan(made(wide)), Budget(rho=1.0)
    if wide <= LARGEST_SCALE:
        assert within_budget(*arguments) is arguments[0]
        return
    with pytest.raises(InfeasibleError, match="too wide to be drawn exactly"):
        within_budget(*arguments)


def test_noise_with_its_own_lattice_is_no_obstacle():
    joint = Laplace("x", Fraction(1), Fraction(2) ** 80, joint=True)
    assert within_budget(Plan(joint), Budget(rho=1.0))


def test_many_columns_at_the_smallest_pure_budget_are_refused_before_the_charge():
    """A millionth of epsilon=1e-6 a column is a loss that no mechanism draws."""
    with pytest.raises(InfeasibleError):
        pm.plan(pm.Mean(assume=(0, 1)), n=10**6, columns=2 * 10**6, epsilon=1e-6)
