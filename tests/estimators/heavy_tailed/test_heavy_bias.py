"""Clipping bias: bounds against exact laws, in one dimension and for a ball."""

import math

import numpy as np
import pytest
from heavy_laws import tails, two_point_bias

from privmean.errors import ArgumentError
from privmean.estimators.heavy_tailed import HeavyTailedMean
from privmean.estimators.heavy_tailed import clipping_bias as bias
from privmean.estimators.heavy_tailed.clipping_bias import BoundedMoment
from privmean.privacy.budget import Budget
from statistics_kit import planned

ORDERS = (2.0, 2.5, 3.0, 4.0, 6.0)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_no_two_point_law_exceeds_the_bound(order):
    closest = 0.0
    for records in (1, 10, 100):
        for reach in (0.5, 2.0, 10.0, 50.0):
            radius = reach / math.sqrt(records)
            exact = two_point_bias(order, records, radius, 120)
            bound = float(bias.one_dimension(tails(order, records), radius, 0.0))
            assert exact <= bound * (1 + 1e-3)
            closest = max(closest, exact / bound)
    # the bounds are attained, so they cannot be lowered
    assert closest >= 0.99


@pytest.mark.parametrize("factor", [0.9, 0.97])
def test_a_lower_bound_would_be_caught(factor):
    exact = two_point_bias(4.0, 1, 20.0, 400)
    assert exact > factor * float(bias.one_dimension(tails(4.0), 20.0, 0.0))


def test_order_two_is_the_proved_constant():
    for records, radius in ((1, 3.0), (50, 0.7)):
        bound = float(bias.one_dimension(tails(2.0, records), radius, 0.0))
        assert bound == pytest.approx(1 / (4 * records * radius), rel=1e-12)


def jump_law_bias(d, records, order, radius, offset, rng, draws=1200):
    """The bias of the worst jump law along the offset, by simulation given the jump.

    One record of a person jumps by b in direction (e_1 +- e_2 +- ... )/sqrt(d) with probability
    p = (sqrt(d)/b)^order; the rest is normal with unit variance; the ball is displaced by -offset.
    """
    worst = 0.0
    for b in np.geomspace(0.5, 12, 10) * records * radius:
        p = (math.sqrt(d) / b) ** order
        if records * p > 0.1:
            continue
        signs = rng.choice([-1.0, 1.0], size=(draws, d))
        signs[:, 0] = 1.0
        bulk = rng.standard_normal((draws, d)) / math.sqrt(records)
        away = np.zeros(d)
        away[0] = offset
        calm, jumped = bulk + away, bulk + away + b * signs / math.sqrt(d) / records
        lost = [
            np.mean(y[:, 0] * np.minimum(0, radius / np.linalg.norm(y, axis=1) - 1))
            for y in (calm, jumped)
        ]
        chance = 1 - (1 - p) ** records
        worst = max(worst, abs((1 - chance) * lost[0] + chance * lost[1]))
    return worst


@pytest.mark.slow
@pytest.mark.parametrize("d", [50, 200])
@pytest.mark.parametrize("order", [2.5, 3.0, 4.0])
def test_ball_bound_describes_the_worst_jump(d, order):
    rng = np.random.default_rng(d)
    for records, times, part in ((1, 8, 0.1), (10, 4, 0.0), (10, 2, 0.5), (100, 4, 0.5)):
        radius = times * math.sqrt(d / records)
        offset = part * radius
        measured = jump_law_bias(d, records, order, radius, offset, rng)
        bound = float(bias.ball(tails(order, records, d), [radius], offset)[0])
        # 5 % for the simulation; below, where small jumps are left out
        assert 0.75 * bound <= measured <= 1.05 * bound


def test_ball_limit_for_a_large_radius():
    d, records, order = 100, 10, 3.0
    radius = 1e4
    bound = float(bias.ball(tails(order, records, d), [radius], 0.0)[0])
    limit = bias.jump_constant(order) * (math.sqrt(d) / (records * radius)) ** (order - 1)
    assert bound == pytest.approx(limit, rel=1e-2)  # the grid of jumps


def test_several_facts_are_all_used():
    both = BoundedMoment((2, 4), (1.0, 3.0), 10).tails(1)
    radii = np.geomspace(0.3, 50, 40)
    one = [BoundedMoment(k, b, 10).tails(1) for k, b in ((2, 1.0), (4, 3.0))]
    together = bias.one_dimension(both, radii, 0.0)
    apart = np.minimum(*(bias.one_dimension(item, radii, 0.0) for item in one))
    assert (together <= apart * (1 + 1e-12)).all()


def test_correlated_records_count_for_less():
    plain, correlated = (BoundedMoment(3, 1.0, 50, icc=icc) for icc in (0.0, 0.2))
    assert correlated.effective_records == pytest.approx(50 / (1 + 49 * 0.2))
    assert correlated.tails(1)[0].spread > plain.tails(1)[0].spread
    between = BoundedMoment(3, 1.0, 50, between_sd=0.5).tails(1)[0]
    assert between.spread == pytest.approx(math.hypot(1 / math.sqrt(50), 0.5))
    assert between.jump**3 == pytest.approx(50**-2.0 + 0.5**3)


def test_arrays_and_lists_are_read_alike():
    listed = BoundedMoment([2, 4], [1.0, 1.3], range=[[0, 1], [2, 3]], norm_bound=[3.0, 4.0])
    arrays = BoundedMoment(
        np.array([2, 4]),
        np.array([1.0, 1.3]),
        range=np.array([[0, 1], [2, 3]]),
        norm_bound=np.array([3.0, 4.0]),
    )
    assert listed == arrays
    assert listed.ranges(2) == ((0.0, 1.0), (2.0, 3.0))
    assert BoundedMoment(2, 1.0, range=np.array([0, 1])).ranges(2) == ((0.0, 1.0),) * 2


def test_norm_bound_lowers_the_dimension():
    few = BoundedMoment(4, 1.0, 10, norm_bound=math.sqrt(5)).tails(1000)[0]
    assert few.dimension == pytest.approx(5)
    assert BoundedMoment(4, 1.0, 10, norm_bound=1e6).tails(7)[0].dimension == 7


RESCALE = "other units|Rescale the values"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"order": 1.5, "bound": 1}, "."),
        ({"order": (2, 3), "bound": (1,)}, "."),
        ({"order": 2, "bound": 0}, "."),
        ({"order": 2, "bound": 1, "records": 0.5}, "."),
        ({"order": 2, "bound": 1, "icc": 1.5}, "."),
        ({"order": 2, "bound": 1, "range": (3, 3)}, "."),
        ({"order": 2, "bound": 1, "norm_bound": 0.5}, "."),
        ({"order": 3, "bound": 1e200}, RESCALE),
        ({"order": 3, "bound": 1e-200}, RESCALE),
        ({"order": 64, "bound": 1e4}, RESCALE),
        ({"order": 4, "bound": 1.0, "between_sd": 1e100}, RESCALE),
        ({"order": 4, "bound": 1.0, "norm_bound": 1e100}, RESCALE),
        ({"order": 2, "bound": 1.0, "range": (-1e250, 1e250)}, RESCALE),
    ],
)
def test_impossible_assumptions_and_units_beyond_the_doubles_are_refused(settings, words):
    with pytest.raises(ArgumentError, match=words):
        BoundedMoment(**settings)


@pytest.mark.slow
@pytest.mark.parametrize(("order", "bound"), [(2, 1e120), (2, 1e-120), (8, 1e29), (64, 5e3)])
def test_units_at_the_end_of_the_reach_can_be_planned(order, bound):
    moment = BoundedMoment(order=order, bound=bound, range=(-bound / 2, bound / 2))
    for dimension in (1, 2):
        plan = planned(
            HeavyTailedMean(moment),
            Budget(epsilon=1.0, delta=1e-6),
            persons=5000,
            dimension=dimension,
        )
        assert 0 < plan.error < math.inf
