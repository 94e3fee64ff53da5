"""What every estimator owes, whatever it computes: tried on each entry of the registry."""

import dataclasses
import inspect
import json
import math
import warnings
from functools import cache

import numpy as np
import pytest

from privmean.auditing.fixed_noise import ADDITIVE, Draws
from privmean.errors import ArgumentError
from privmean.inference.status import (
    FAILED,
    MODIFIED_TARGET,
    OK,
    OUTLIERS_CLIPPED,
    OUTLIERS_UNCHECKED,
)
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE
from privmean.privacy.compose import within
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.privacy_events import Gaussian, Laplace, PrivacyProfile, Selection, Threshold
from registry import REGISTRY, Entry

PERSONS = 600
CASES = [
    (entry, budget, relation, dimension)
    for entry in REGISTRY
    for budget in entry.budgets
    for relation in entry.relations
    for dimension in entry.dimensions
]


def named(case):
    entry, budget, relation, dimension = case
    return f"{entry.name}-{budget.describe()}-{relation}-{dimension}"


every_case = pytest.mark.parametrize("case", CASES, ids=map(named, CASES))


def rows(dimension, seed=0):
    return np.random.default_rng(seed).normal(3.0, 1.0, (PERSONS, dimension))


@cache
def plan_of(case, unit=1.0, persons=PERSONS):
    """Made once: a plan is frozen, and the tests release from it again and again."""
    return fresh_plan_of(case, unit, persons)


def fresh_plan_of(case, unit=1.0, persons=PERSONS):
    entry, budget, relation, dimension = case
    return entry.plan(budget, relation, dimension, persons, unit)


def released(case, values, seed=2, unit=1.0):
    return plan_of(case, unit, len(values)).release(case[0].table(values), SimulatedNoise(seed))


@cache
def usual(case):
    """The release of `rows`, to compare with."""
    return released(case, rows(case[3]))


# --- before any data -----------------------------------------------------------------------------


@pytest.mark.slow
@every_case
def test_a_plan_is_made_of_public_numbers_alone(case):
    entry = case[0]
    names = set(inspect.signature(entry.make(1.0).plan).parameters)
    assert names == {"budget", "shape"}
    first, second = plan_of(case), fresh_plan_of(case)
    assert first == second
    assert dataclasses.is_dataclass(first)
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.budget = None
    assert first.estimator
    assert first.rationale
    assert first.describe()


@every_case
def test_the_worst_bill_is_within_the_budget(case):
    _, budget, relation, _ = case
    plan = plan_of(case)
    assert plan.events
    assert within(plan.events, budget)
    assert Guarantee.of(budget, relation, plan.events).verify()


def distribution_of(curve, value_discretization_interval):
    """A curve as dp-accounting's connect-the-dots distribution of its convex minorant.

    That is the curve whose slopes are the weighted isotonic regression of the given slopes.
    """
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld
    from scipy.optimize import isotonic_regression

    points = curve.points()  # and 31 more between any two
    at = np.interp(np.arange(32, 32 * len(points) - 31) / 32, np.arange(len(points)), points)
    bounds = np.minimum.accumulate([curve.delta_at(x) for x in at])
    alpha = np.concatenate((np.exp(-at[::-1]), np.exp(at)))
    delta = np.concatenate((1 - np.exp(-at[::-1]) * (1 - bounds[::-1]), bounds))
    width = np.diff(alpha)
    slopes = isotonic_regression(np.diff(delta) / width, weights=width).x
    hull = delta[-1] - np.append(np.cumsum((slopes * width)[::-1])[::-1], 0.0)
    index = np.arange(-math.ceil(at[-1] / value_discretization_interval) + 1, 0)
    index = np.concatenate((index, [0], -index[::-1]))
    deltas = np.interp(np.exp(index * value_discretization_interval), alpha, hull)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(value_discretization_interval, index, deltas)
    return pld.PrivacyLossDistribution(pmf)


def delta_by_dp_accounting(bill, epsilon):
    """delta of a bill from dp-accounting alone, by laws that this test chooses itself."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    step = {"value_discretization_interval": 1e-4}
    total, added = pld.identity(**step), 0.0
    for loss in bill:
        if isinstance(loss, Gaussian):
            piece = pld.from_gaussian_mechanism(loss.scale / loss.sensitivity, **step)
        elif isinstance(loss, Threshold):
            added += loss.delta
            continue
        elif isinstance(loss, PrivacyProfile):
            piece = distribution_of(loss, **step)
        elif isinstance(loss, Laplace) and not loss.joint:
            shift = int(loss.sensitivity / loss.spread)
            one = pld.from_discrete_laplace_mechanism(float(1 / loss.scale), shift, **step)
            piece = one.self_compose(loss.spread)
        else:
            known = common.DifferentialPrivacyParameters(float(loss.pure), 0)
            piece = pld.from_privacy_parameters(known, **step)
        total = total.compose(piece)
    return added + total.get_delta_for_epsilon(epsilon)


@pytest.mark.slow
@every_case
def test_the_bill_recomputed_by_other_means(case):
    """Pure bills by a sum of ratios, rho by a sum of squares, the rest by dp-accounting."""
    _, budget, _, _ = case
    bill = plan_of(case).events
    pure = [loss.pure for loss in bill]
    # a choice whose loss has range epsilon has a quarter of the zCDP of epsilon (its exact law)
    half = [
        float(p) / 2 if isinstance(loss, Selection) and loss.bounded_range else float(p)
        for p, loss in zip(pure, bill, strict=True)
    ]
    if budget.rho is not None:
        assert sum(p**2 + loss.mu**2 for p, loss in zip(half, bill, strict=True)) / 2 <= (
            budget.rho * (1 + 1e-9)
        )
    elif not any(isinstance(loss, Gaussian) for loss in bill):
        added = sum(loss.delta for loss in bill if isinstance(loss, Threshold))
        summed = sum(pure) <= budget.pure_epsilon() and added <= budget.delta * (1 + 1e-9)
        assert summed or delta_by_dp_accounting(bill, budget.epsilon) <= budget.delta * (1 + 1e-3)
    else:
        assert delta_by_dp_accounting(bill, budget.epsilon) <= budget.delta * (1 + 1e-3)


@every_case
def test_predicted_errors_are_numbers(case):
    predicted = plan_of(case).predict(1.0)
    assert predicted["rmse"] > 0
    assert math.isfinite(predicted["rmse"])


# --- the release ---------------------------------------------------------------------------------


@every_case
def test_the_estimate_is_near_the_mean(case):
    """A loose check that the suite tries an estimator that works: within half a deviation."""
    values = rows(case[3])
    release = usual(case)
    assert release.status != FAILED
    assert np.all(np.abs(release.estimate - values.mean(axis=0)) < 0.5)
    assert release.estimate.shape == (case[3],)


@every_case
def test_the_promise_can_be_checked_from_the_release_alone(case):
    _, budget, relation, _ = case
    release = usual(case)
    stored = json.loads(json.dumps(release.to_dict(), allow_nan=False))
    again = Guarantee.from_dict(stored["guarantee"])
    assert again == release.guarantee
    assert again.verify()
    assert again.neighbors == relation
    assert within(again.mechanisms, budget)
    assert again.mechanisms
    assert again.spent() <= (budget.epsilon or budget.rho) * (1 + 1e-12)
    assert stored["secure"] is False
    assert "not private" in stored["warning"]
    assert "SIMULATED" in str(release)


UNORDERED = [case for case in CASES if not case[0].ordered]
ADDED_OR_REMOVED = [case for case in CASES if case[2] == ADD_REMOVE]


@pytest.mark.parametrize("case", UNORDERED, ids=map(named, UNORDERED))
def test_the_order_of_persons_does_not_matter(case):
    values = rows(case[3])
    shuffled = values[np.random.default_rng(5).permutation(PERSONS)]
    first, second = usual(case), released(case, shuffled)
    assert np.array_equal(first.estimate, second.estimate)
    assert first.interval().to_dict() == second.interval().to_dict()


@pytest.mark.slow
@every_case
@pytest.mark.parametrize("power", [-7, 20])
def test_scaling_by_a_power_of_two_scales_the_answer(case, power):
    """Exactly, for the same noise; nearly, where the values meet other draws of the noise."""
    unit = 2.0**power
    values = rows(case[3])
    first, second = usual(case), released(case, values * unit, unit=unit)
    difference = second.estimate / unit - first.estimate
    assert np.all(np.abs(difference) <= (0.5 if case[0].octaves else 0.0))
    # of other draws a tail may be seen once and not again
    tails = {OK, OUTLIERS_UNCHECKED, OUTLIERS_CLIPPED, MODIFIED_TARGET}
    assert first.status == second.status or {first.status, second.status} <= tails
    assert first.status == second.status or case[0].octaves


@every_case
def test_the_array_of_people_is_not_written_to(case):
    values = rows(case[3])
    values.setflags(write=False)
    before = values.tobytes()
    released(case, values)
    assert values.tobytes() == before


# --- persons that do not fit ---------------------------------------------------------------------

STRANGE = {
    "null": math.nan,
    "infinite": math.inf,
    "minus infinite": -math.inf,
    "huge": 1e308,
    "minus huge": -1e308,
    "tiny": 5e-324,
    "minus zero": -0.0,
}


@every_case
@pytest.mark.parametrize("kind", STRANGE)
def test_one_strange_person_changes_little_and_raises_nothing(case, kind):
    """The neighbour's answer moves by at most its clipping region over n, with the same noise."""
    values = rows(case[3])
    other = values.copy()
    other[17] = STRANGE[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = usual(case), released(case, other)
    assert second.status != FAILED
    assert np.all(np.abs(first.estimate - second.estimate) < 1.0)
    if case[2] == REPLACE_ONE:
        assert first.n == second.n == PERSONS


@every_case
@pytest.mark.parametrize("kind", STRANGE)
def test_a_table_of_nothing_but_strange_persons_raises_nothing(case, kind):
    values = np.full((PERSONS, case[3]), STRANGE[kind])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release = released(case, values)
        json.dumps(release.to_dict(), allow_nan=False)
        assert str(release)
    assert release.guarantee.verify()


@every_case
def test_half_of_the_persons_null(case):
    values = rows(case[3])
    values[::2] = np.nan
    release = released(case, values)
    # pairs with a null count as pairs without a spread: there a private failure is the answer
    assert release.status != FAILED or case[0].ordered
    if case[2] == REPLACE_ONE:
        assert release.n == PERSONS


@pytest.mark.parametrize("entry", REGISTRY, ids=lambda entry: entry.name)
def test_a_plan_for_another_number_of_persons_is_refused(entry):
    case = (entry, entry.budgets[0], REPLACE_ONE, entry.dimensions[0])
    with pytest.raises(ArgumentError):
        plan_of(case, persons=PERSONS + 1).release(case[0].table(rows(case[3])), SimulatedNoise(1))


# --- neighbours ----------------------------------------------------------------------------------


def first_noise(noise):
    """The law and the scale of what was asked for first; a histogram of nothing may need none."""
    named = (*ADDITIVE, "argmax")
    return [(item.law, item.scale) for item in noise.requests if item.law in named][:1]


@every_case
def test_the_first_noise_is_the_same_for_any_data(case):
    """Nothing is known of the data before the first noisy answer: its scale is in the plan."""
    asked = []
    for values in (rows(case[3]), np.full((PERSONS, case[3]), np.nan), 1e6 * rows(case[3], 2)):
        noise = Draws(SimulatedNoise(1))
        plan_of(case).release(case[0].table(values), noise)
        asked.append(first_noise(noise))
    assert asked[0] == asked[2]
    assert asked[1] in ([], asked[0])


@pytest.mark.parametrize("case", ADDED_OR_REMOVED, ids=map(named, ADDED_OR_REMOVED))
def test_under_add_remove_the_number_of_persons_is_not_read(case):
    """One person more: the plan, the first noise and what is public are the same."""
    values = rows(case[3])
    asked = []
    for table in (values, np.vstack([values, values[:1]])):
        noise = Draws(SimulatedNoise(1))
        release = plan_of(case).release(case[0].table(table), noise)
        asked.append((*first_noise(noise), release.guarantee.public, release.n))
    assert asked[0][:2] == asked[1][:2]
    assert "persons" not in " ".join(asked[0][1])


def test_the_registry_has_no_two_entries_of_one_name():
    names = [entry.name for entry in REGISTRY]
    assert len(set(names)) == len(names)
    assert all(isinstance(entry, Entry) for entry in REGISTRY)
