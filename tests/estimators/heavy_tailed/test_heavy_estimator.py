"""HeavyTailed end to end: plans, bills, refusals, intervals."""

import json
import math
import re
from fractions import Fraction

import numpy as np
import pytest

from privmean.data.array_table import ArrayPersonTable
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.heavy_tailed import (
    BoundedMoment,
    HeavyTailedMean,
    RecordWeights,
)
from privmean.estimators.heavy_tailed.moment_intervals import highest_mean, noise_quantile
from privmean.inference.status import FAILED
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.privacy.compose import within
from privmean.privacy.gdp import gaussian_mu
from statistics_kit import assert_rate_at_least, planned

PURE, WITH_DELTA, ZCDP = Budget(epsilon=1.0), Budget(epsilon=1.0, delta=1e-6), Budget(rho=0.05)
RANGED = BoundedMoment(4, 1.316, 10, range=(-100, 100))
FREE = BoundedMoment(4, 1.316, 10)

CASES = {
    "one column, pure": (HeavyTailedMean(RANGED), PURE, 1, 1000),
    "one column, whole line": (HeavyTailedMean(FREE), WITH_DELTA, 1, 1000),
    "one column, zCDP": (HeavyTailedMean(RANGED), ZCDP, 1, 1000),
    "one column, private radius": (HeavyTailedMean(RANGED, private_radius=True), PURE, 1, 2000),
    "few columns, pure": (HeavyTailedMean(RANGED), PURE, 4, 3000),
    "few columns, Laplace": (HeavyTailedMean(RANGED, law="laplace"), PURE, 4, 3000),
    "columns, Gaussian": (
        HeavyTailedMean(FREE, law="gaussian", private_radius=False), WITH_DELTA, 6, 3000,
    ),
    "columns, Gaussian, radius chosen": (HeavyTailedMean(FREE, law="gaussian"), WITH_DELTA, 6,
    3000),
    "columns, zCDP": (HeavyTailedMean(RANGED), ZCDP, 6, 2000),
    "columns, private radius": (
        HeavyTailedMean(RANGED, law="gaussian", private_radius=True), WITH_DELTA, 6, 4000,
    ),
    "columns, from afar": (HeavyTailedMean(RANGED, start="public"), WITH_DELTA, 20, 4000),
    "weights": (HeavyTailedMean(RANGED, weights=RecordWeights(12, 4.0)), PURE, 2, 3000),
    "weights, Gaussian": (
        HeavyTailedMean(RANGED, law="gaussian", weights=RecordWeights(12)), WITH_DELTA, 2, 4000,
    ),
}  # fmt: skip
BOTH = [
    (name, relation)
    for name, (estimator, *_) in CASES.items()
    for relation in (REPLACE_ONE, ADD_REMOVE)
    if relation == REPLACE_ONE or not estimator.private_radius
]


def plan_of(name, relation=REPLACE_ONE):
    estimator, budget, d, n = CASES[name]
    size = {"persons": n} if relation == REPLACE_ONE else {"n_guess": n}
    return planned(estimator, budget, dimension=d, relation=relation, **size), budget, d, n


def people(n, d, seed=0, center=4.2, records=10):
    rng = np.random.default_rng(seed)
    rows = center + rng.standard_normal((n, d)) / math.sqrt(records)
    counts = np.full((n, d), records)
    return ArrayPersonTable(rows, tuple(f"c{j}" for j in range(d)), counts)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "relation"), BOTH)
def test_bill_error_and_release(name, relation):
    plan, budget, d, n = plan_of(name, relation)
    assert within(plan.events, budget)
    release = plan.release(people(n, d), SimulatedNoise(1))
    assert release.guarantee.verify()
    assert release.guarantee.neighbors == relation
    # a run that did not stop early costs what was planned, entry by entry
    spent, planned = release.guarantee.mechanisms, plan.events
    assert sorted(x.pure for x in spent) == sorted(x.pure for x in planned)
    assert sorted(x.mu for x in spent) == pytest.approx(sorted(x.mu for x in planned), rel=1e-9)
    assert not release.secure
    assert np.linalg.norm(release.estimate - 4.2) < 6 * plan.error
    assert sum(release.shares.values()) == pytest.approx(1.0, abs=1e-9)
    text = " ".join(release.details().split())
    assert "bound on a moment" in text or "lines" in text
    json.dumps(release.to_dict())
    if relation == ADD_REMOVE:
        assert release.n is None or abs(release.n - n) < n / 3
        assert str(n) not in json.dumps(release.to_dict()["guarantee"])


@pytest.mark.parametrize("name", ["one column, pure", "few columns, pure", "columns, Gaussian"])
def test_the_budget_is_used_up(name):
    plan, budget, _, _ = plan_of(name)
    if budget.is_pure:
        assert sum((x.pure for x in plan.events), Fraction(0)) == Fraction(1)
    else:
        mu = math.sqrt(sum(x.mu**2 for x in plan.events))
        left = gaussian_mu(1.0, 0.75e-6)  # a quarter of delta pays for thresholds
        assert mu == pytest.approx(left, rel=1e-6)


def test_a_private_failure_is_a_release():
    estimator = HeavyTailedMean(BoundedMoment(4, 1e-6, 10))
    for d, n in ((1, 1000), (6, 3000)):
        plan = planned(estimator, WITH_DELTA, persons=n, dimension=d)
        release = plan.release(people(n, d), SimulatedNoise(0))
        assert release.status == FAILED
        assert np.isnan(release.estimate).all()
        assert release.guarantee.verify()
        assert release.guarantee.mechanisms
        assert release.interval().status == "failed"
        assert math.isinf(release.interval().lower[0])
        json.dumps(release.to_dict())


def test_too_few_persons_are_refused_with_the_number_that_would_do():
    with pytest.raises(InfeasibleError) as caught:
        planned(HeavyTailedMean(RANGED), Budget(epsilon=0.25), persons=100)
    needed = int(re.search(r"(\d+) people", caught.value.remedy)[1])
    assert needed > 100
    planned(HeavyTailedMean(RANGED), Budget(epsilon=0.25), persons=needed)
    with pytest.raises(InfeasibleError) as caught:
        planned(HeavyTailedMean(FREE), WITH_DELTA, persons=300, dimension=50)
    assert int(re.search(r"(\d+) people", caught.value.remedy)[1]) > 1000
    for budget in (PURE, ZCDP):
        with pytest.raises(InfeasibleError, match="delta"):
            planned(HeavyTailedMean(FREE), budget, persons=1000)


def test_calls_that_cannot_be_are_refused():
    for settings in ({"start": "public"}, {"weights": RecordWeights(3), "private_radius": True}):
        with pytest.raises(ArgumentError):
            HeavyTailedMean(FREE, **settings)
    with pytest.raises(ArgumentError):
        HeavyTailedMean(2.0)
    estimator = HeavyTailedMean(RANGED)
    with pytest.raises(ArgumentError):
        planned(estimator, PURE)
    with pytest.raises(ArgumentError):
        planned(estimator, PURE, persons=100, relation=ADD_REMOVE)
    radius = HeavyTailedMean(RANGED, private_radius=True)
    with pytest.raises(ArgumentError):
        planned(radius, PURE, n_guess=100, relation=ADD_REMOVE)
    with pytest.raises(ArgumentError):
        planned(
            HeavyTailedMean(BoundedMoment(2, 1, range=[(0, 1), (0, 1)])),
            PURE,
            persons=99,
            dimension=3,
        )
    with pytest.raises(ArgumentError):
        RecordWeights(3, least=5)


@pytest.mark.slow
def test_the_law_is_the_cheapest_of_those_allowed():
    few = planned(HeavyTailedMean(RANGED), WITH_DELTA, persons=3000, dimension=3)
    many = planned(HeavyTailedMean(RANGED), WITH_DELTA, persons=6000, dimension=24)
    assert few.schedule.law == "k-norm"
    assert many.schedule.law == "gaussian"
    assert (
        planned(HeavyTailedMean(RANGED), PURE, persons=20_000, dimension=30).schedule.law
        == "laplace"
    )


def test_interval_covers_what_the_assumption_allows():
    runs, n, level, inside = 100, 600, 0.9, 0
    moment = BoundedMoment(2.5, 1.35, 4, range=(-50, 50))
    plan = planned(HeavyTailedMean(moment), PURE, persons=n)
    rng = np.random.default_rng(11)
    for run in range(runs):
        x = (rng.standard_t(3, (n, 4)) / math.sqrt(3)).mean(axis=1, keepdims=True)
        release = plan.release(ArrayPersonTable(x, ("x",)), SimulatedNoise(run))
        interval = release.interval(level)
        inside += interval.lower[0] <= 0 <= interval.upper[0]
        noise = release.noise_interval(level)
        assert interval.lower[0] < noise.lower[0] < noise.upper[0] < interval.upper[0]
    assert_rate_at_least(inside, runs, level)


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0.02, 0.2])
def test_interval_allows_for_hidden_persons_without_a_value(missing):
    # 2 % of nulls hide in the noise of the number of persons; 20 % do not
    runs, n, inside = 100, 800, 0
    plan = planned(
        HeavyTailedMean(BoundedMoment(2, 1.0, 1, range=(-40, 40))), Budget(epsilon=0.5), persons=n
    )
    rng = np.random.default_rng(5)
    errors = []
    for run in range(runs):
        x = rng.uniform(-1, 1, (n, 1)) * math.sqrt(3) + 0.9
        x[: int(missing * n)] = np.nan
        release = plan.release(ArrayPersonTable(x, ("x",)), SimulatedNoise(run))
        interval = release.interval(0.9)
        inside += interval.lower[0] <= 0.9 <= interval.upper[0]
        errors.append(release.estimate[0] - 0.9)
    assert_rate_at_least(inside, runs, 0.9)
    assert abs(np.mean(errors)) < 4 * plan.error


def test_vector_interval_covers():
    runs, inside = 60, 0
    plan = planned(HeavyTailedMean(FREE), WITH_DELTA, persons=2500, dimension=5)
    for run in range(runs):
        interval = plan.release(people(2500, 5, run), SimulatedNoise(run)).interval(0.9)
        inside += all(a <= 4.2 <= b for a, b in zip(interval.lower, interval.upper, strict=True))
    assert_rate_at_least(inside, runs, 0.9)


def test_the_allowance_for_clipping_is_inverted_correctly():
    tails = FREE.tails(1)
    spread = tails[0].spread
    for gap in (0.5, 2.0, 8.0):
        limit = gap * spread
        top = highest_mean(tails, limit, 0.0)
        # no mean above `top` is compatible with a clipped mean of 0: the excess falls short
        assert 0 < top <= spread**2 / (4 * limit) * (1 + 1e-9)
    assert math.isinf(highest_mean(tails, 1.0, 1.0))


@pytest.mark.parametrize("law", ["gaussian", "laplace", "k-norm"])
def test_box_quantiles(law):
    rng = np.random.default_rng(4)
    d, scale, sd, level, draws = 4, 1.0, 0.7, 0.9, 40_000
    if law == "gaussian":
        noise = scale * rng.standard_normal((draws, d))
    elif law == "laplace":
        noise = rng.laplace(0, scale, (draws, d))
    else:
        u = rng.standard_normal((draws, d))
        u /= np.linalg.norm(u, axis=1)[:, None]
        noise = u * rng.gamma(d, scale, draws)[:, None]
    errors = noise + sd * rng.standard_normal((draws, d))
    half = noise_quantile(law, level, d, scale, sd)
    rate = float((np.abs(errors).max(axis=1) <= half).mean())
    assert rate == pytest.approx(level, abs=5 * math.sqrt(0.09 / draws))
