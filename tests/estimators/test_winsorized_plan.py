"""Plans: exact bills, the cheapest way, honest refusals, errors that follow the stated rates."""

import math
import re
from fractions import Fraction

import pytest

from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.concentration import Bounded, SubGaussian, UnknownScale
from privmean.estimators.winsorized import WinsorizedMean
from privmean.estimators.winsorized_run import predicted_failure, shortfall
from privmean.mechanisms.choices import GaussianArgmax, NoisyArgmax
from privmean.mechanisms.histograms import GaussianStableHistogram, StableHistogram
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.privacy.gdp import gaussian_delta
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.privacy_events import Laplace
from statistics_kit import planned

NORMAL = WinsorizedMean(SubGaussian(1.0))
RANGED = WinsorizedMean(SubGaussian(1.0), range=(-50.0, 50.0))
APPROXIMATE = Budget(epsilon=1.0, delta=1e-6)


def plan(estimator=NORMAL, budget=APPROXIMATE, n=5000, d=1, relation=REPLACE_ONE):
    size = {"persons": n} if relation == REPLACE_ONE else {"n_guess": n}
    return planned(estimator, budget, dimension=d, relation=relation, **size)


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 7.0])
@pytest.mark.parametrize(
    ("estimator", "delta"),
    [
        (NORMAL, 1e-6),
        (RANGED, 0.0),
        (RANGED, 1e-9),
        (WinsorizedMean(Bounded(0.0, 1.0)), 0.0),
        (WinsorizedMean(SubGaussian(1.0), share=0.3, recenter=0.0), 1e-6),
        (WinsorizedMean(UnknownScale()), 1e-6),
    ],
)
def test_one_column_spends_epsilon_exactly_by_basic_composition(
    estimator, delta, epsilon, relation
):
    """No advanced composition: the stages' epsilons are rationals that add up to epsilon."""
    if relation == ADD_REMOVE and isinstance(estimator.concentration, UnknownScale):
        with pytest.raises(ArgumentError):
            plan(estimator, relation=relation)
        return
    budget = Budget(epsilon=epsilon, delta=delta)
    made = plan(estimator, budget, 40_000, relation=relation)
    assert sum((loss.pure for loss in made.events), Fraction(0)) == budget.pure_epsilon()
    assert all(loss.mu == 0 for loss in made.events)
    assert sum(loss.added_delta for loss in made.events) in (0.0, delta)
    assert sum(share for _, share in made.stages.shares) == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("d", [2, 5, 8, 30])
@pytest.mark.parametrize("estimator", [NORMAL, RANGED, WinsorizedMean(Bounded(0.0, 9.0))])
def test_several_columns_stay_within_the_budget(estimator, d, relation):
    made = plan(estimator, n=30_000, d=d, relation=relation)
    pure = sum((loss.pure for loss in made.events), Fraction(0))
    mu = math.sqrt(sum(loss.mu**2 for loss in made.events))
    added = sum(loss.added_delta for loss in made.events)
    if made.stages.kind == "gaussian":
        assert pure == 0
        assert gaussian_delta(mu, 1.0) + added <= 1e-6
    elif pure <= 1:
        assert added <= 1e-6
    else:
        # composed noise: an independent path, continuous Laplace laws of dp-accounting
        from dp_accounting.pld import common
        from dp_accounting.pld import privacy_loss_distribution as pld

        assert d <= 24
        total, grid = None, {"value_discretization_interval": 1e-4}
        for loss in made.events:
            if isinstance(loss, Laplace):
                one = pld.from_laplace_mechanism(float(loss.cells_changed / loss.pure), **grid)
                one = one.self_compose(loss.cells_changed)
            elif loss.pure:
                pure_law = common.DifferentialPrivacyParameters(float(loss.pure), 0)
                one = pld.from_privacy_parameters(pure_law, **grid)
            else:
                continue
            total = one if total is None else total.compose(one)
        assert total.get_delta_for_epsilon(1.0) + added <= 1e-6 * 1.02


def test_the_cheapest_composition_depends_on_the_columns():
    basic, composed, gaussian = (plan(n=40_000, d=d) for d in (2, 8, 30))
    assert sum(loss.pure for loss in basic.events) == 1
    assert composed.stages.kind == "laplace"
    assert sum(loss.pure for loss in composed.events) > Fraction(21, 20)
    assert gaussian.stages.kind == "gaussian"
    assert isinstance(gaussian.stages.location, GaussianStableHistogram)


def test_location_step_follows_the_public_facts():
    assert isinstance(plan().stages.location, StableHistogram)
    assert isinstance(plan(RANGED, Budget(epsilon=1.0)).stages.location, NoisyArgmax)
    assert isinstance(plan(RANGED, Budget(rho=0.05)).stages.location, GaussianArgmax)
    # a few bins against a tiny delta, and a huge range against a large delta
    few = WinsorizedMean(SubGaussian(1.0), range=(-30.0, 30.0))
    many = WinsorizedMean(SubGaussian(1.0), range=(-1e6, 1e6))
    tight = Budget(epsilon=0.1, delta=1e-12)
    loose = Budget(epsilon=0.1, delta=1e-3)
    assert isinstance(plan(few, tight, 2500).stages.location, NoisyArgmax)
    assert isinstance(plan(many, loose, 2500).stages.location, StableHistogram)
    near = WinsorizedMean(SubGaussian(1.0), range=(0.0, 4.0))
    assert plan(near, APPROXIMATE).stages.location is None
    assert plan(WinsorizedMean(Bounded(0.0, 1.0))).stages.location is None


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
def test_share_is_the_smallest_that_meets_the_planning_rule(epsilon):
    n = round(2500 / epsilon)
    made = plan(budget=Budget(epsilon=epsilon, delta=1e-8), n=n)
    share = dict(made.stages.shares)["location"]
    facts, location = made.facts, made.stages.location
    t, scale = location.threshold, float(location.scale)
    needed = t + scale * math.log(1 / (2 * 0.01)) + 2 * math.sqrt(n * 0.4 * 0.6)
    assert needed <= 0.4 * n
    assert shortfall(location, facts) == pytest.approx(needed - 0.4 * n)
    assert 0.1 <= share <= 0.9
    if share > 0.1:
        less = StableHistogram.of(
            made.budget.pure_epsilon()
            * (Fraction(share).limit_denominator(100) - Fraction(1, 100)),
            1e-8,
            REPLACE_ONE,
        )
        assert shortfall(less, facts) > 0
    assert predicted_failure(location, facts) <= 0.02


def test_small_tables_are_refused_with_a_remedy_that_works():
    with pytest.raises(InfeasibleError) as refused:
        plan(budget=Budget(epsilon=0.1, delta=1e-6), n=500)
    enough = int(re.search(r"about (\d+) people", refused.value.remedy).group(1))
    assert plan(budget=Budget(epsilon=0.1, delta=1e-6), n=enough).stages.failure <= 0.02
    for budget in (Budget(epsilon=1.0), Budget(rho=0.5)):
        with pytest.raises(InfeasibleError, match="range"):
            plan(budget=budget)
    with pytest.raises(InfeasibleError):
        plan(d=4, budget=Budget(epsilon=1.0))


@pytest.mark.parametrize("n", [2000, 50_000])
def test_the_plan_clips_closer_where_that_pays(n):
    """Less noise than with the radius that holds everybody, and a bias bound small beside it."""
    usual = plan(WinsorizedMean(SubGaussian(1.0), gamma=0.05), n=n)
    made = plan(n=n)
    assert made.facts.radii.tau[0] < usual.facts.radii.tau[0]
    assert made.noise[0] < 0.97 * usual.noise[0]
    assert made.facts.radii.beyond[0] < 0.2 * made.noise[0]
    assert usual.facts.radii.beyond[0] < 1e-3 * usual.noise[0]
    assert made.predict(1.0)["rmse"] < usual.predict(1.0)["rmse"]


@pytest.mark.parametrize(
    "settings",
    [
        {"gamma": 0.0},
        {"failure": 1.0},
        {"share": 1.5},
        {"share": 0.9, "recenter": 0.1},
        {"recenter": -0.1},
        {"design_effect": 0.0},
    ],
)
def test_refused_settings(settings):
    with pytest.raises(ArgumentError):
        WinsorizedMean(SubGaussian(1.0), **settings)


def test_refused_arguments():
    for sd in (1e150, 1e-150):
        with pytest.raises(ArgumentError, match="Rescale the values"):
            plan(WinsorizedMean(SubGaussian(sd)))
    with pytest.raises(ArgumentError, match="assumption"):
        WinsorizedMean(3.0)
    for public in ({}, {"persons": 100, "relation": ADD_REMOVE}):
        with pytest.raises(ArgumentError, match="n_guess is required"):
            planned(NORMAL, APPROXIMATE, **public)
    for limits, columns in ((((0.0, 1.0), (0.0, 1.0)), 3), ((1.0, 1.0), 1)):
        with pytest.raises(ArgumentError, match="range"):
            plan(WinsorizedMean(SubGaussian(1.0), range=limits), d=columns)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [3, 5, 9])
def test_bills_of_composed_laplace_noise_keep_their_promise(columns):
    budget = Budget(epsilon=1.0, delta=1e-6)
    plan = planned(WinsorizedMean(UnknownScale()), budget, persons=20_000, dimension=columns)
    assert Guarantee.of(budget, "replace-one", plan.events).verify()
