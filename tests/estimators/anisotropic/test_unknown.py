"""Unknown covariance: scales from pairs of persons, then the mean."""

import json

import numpy as np
import pytest

import statistics_kit
from altered_noise import NoAddedNoise
from estimators.made_people import people
from privmean.auditing.fixed_noise import drawn
from privmean.errors import InfeasibleError
from privmean.estimators.anisotropic.anisotropic_mean import AnisotropicMean
from privmean.estimators.anisotropic.column_scales import (
    LOG_BIAS,
    SCORE_STEPS,
    denoised,
    log_scores,
    pairs,
    run,
)
from privmean.estimators.anisotropic.unknown_covariance import (
    largest_rho,
    scale_noise,
)
from privmean.mechanisms.curator import TrustedCurator
from privmean.mechanisms.noisy_counts import Counting, NoisyQuantile, RadiusGrid
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.privacy.compose import total_delta, total_rho
from privmean.privacy.guarantee import Guarantee
from statistics_kit import planned

BUDGET = Budget(epsilon=1.0, delta=1e-6)
RANGE = (2.0**-12, 2.0**3)


def decay(d):
    return np.maximum(np.exp(-np.arange(d, dtype=float)), 1e-12)


# --- pieces --------------------------------------------------------------------------------------


def test_rho_of_the_budget():
    assert largest_rho(1.0, 1e-6) == pytest.approx(0.024356, abs=1e-6)


def test_bias_of_a_log_score():
    assert pytest.approx(-0.9163, abs=1e-4) == LOG_BIAS
    x = np.random.default_rng(0).normal(size=(20_000, 1))
    scores = log_scores(pairs(x), -30.0, 5.0) / SCORE_STEPS / 10_000 - 30.0
    statistics_kit.assert_mean(
        np.log2(np.abs(np.random.default_rng(1).normal(size=20_000))), LOG_BIAS, slack=1e-6
    )
    assert scores[0] == pytest.approx(LOG_BIAS, abs=0.08)


def test_one_person_moves_one_pair():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(41, 3))
    before = pairs(x)
    low, high = -12.0, 3.0
    base = log_scores(before, low, high)
    for i in range(41):
        for value in (np.nan, 1e300, 0.0, np.inf):
            y = x.copy()
            y[i] = value
            after = pairs(y)
            assert (after != before).any(axis=1).sum() <= 1
            moved = np.abs(log_scores(after, low, high) - base)
            assert moved.max() <= (high - low) * SCORE_STEPS
    y = np.zeros((2, 1))
    far = log_scores(pairs(np.array([[0.0], [1e9]])), low, high) - log_scores(pairs(y), low, high)
    assert far[0] == (high - low) * SCORE_STEPS  # the bound is attained


def test_bisection_finds_the_quantile_and_never_an_arbitrary_radius():
    """Distances within one cell of the grid, where a quantile by utility ties at all radii."""
    rng = np.random.default_rng(3)
    counting = Counting(rho=0.004)
    for m in (1000, 4000):
        distances = 0.88 * (1 + 0.001 * rng.normal(size=m))
        for seed in range(30):
            found = NoisyQuantile("radius", 0.85, counting).draw(distances, SimulatedNoise(seed))
            assert found == pytest.approx(0.917, abs=0.001)


@pytest.mark.parametrize("target", [0.0, 2.0**-14, 0.3, 7.0, 2.0**15, 2.0**40])
def test_bisection_without_noise(target):
    counting = Counting(0.01, RadiusGrid(8, 127))
    found = NoisyQuantile("radius", 0.85, counting).draw(np.full(100, target), NoAddedNoise(0))
    grid = 2.0 ** (np.arange(-127, 128) / 8)
    within = grid[grid >= target]
    assert found == (within[0] if len(within) else grid[-1])


def test_bisection_charges_every_round():
    counting = Counting(rho=0.02)
    loss = counting.loss("radius")
    assert loss.rho == pytest.approx(0.02, rel=1e-12)
    assert loss.answers == counting.grid.rounds == 8
    _, asked = drawn(NoisyQuantile("radius", 0.85, counting), np.zeros(10), SimulatedNoise(1))
    assert {item.law for item in asked} == {"gaussian"}
    assert [float(item.scale) for item in asked] == [pytest.approx(loss.scale)] * 8


@pytest.mark.parametrize("scale_range", [RANGE, None])
@pytest.mark.parametrize(("m", "d"), [(4000, 1000), (1000, 1000), (700, 57), (3, 50)])
def test_shares_of_the_variance_stage_add_up(scale_range, m, d):
    rho = largest_rho(1.0, 1e-6)
    stage = scale_noise(rho, m, d, scale_range)
    assert total_rho(stage.events) <= rho * (1 + 1e-12)
    assert total_rho(stage.events) >= 0.999 * rho
    assert total_delta(stage.events, 1.0) <= 1.0001e-6


def test_denoised_scales_keep_few_large_ones_and_agree_on_the_rest():
    rng = np.random.default_rng(4)
    truth = np.r_[np.zeros(5), np.full(995, -10.0)]
    noise = 2.0
    noisy = truth + noise * rng.normal(size=1000)
    found = denoised(noisy, noise)
    assert np.abs(found[5:] + 10).mean() < 0.5 * np.abs(noisy[5:] + 10).mean()
    assert np.abs(found[:5]).max() < 3
    assert (denoised(noisy[:4], noise) == noisy[:4]).all()
    cost = lambda level: (4.0 ** (truth - level) * 2.0**level).sum() * (2.0**level).sum()  # noqa: E731
    assert cost(found) < 0.3 * cost(noisy)


def test_scales_of_the_columns_without_noise():
    d = 12
    sigma = decay(d)
    x = np.random.default_rng(5).normal(size=(6000, d)) * sigma + 100
    stage = scale_noise(largest_rho(8.0, 1e-6), 3000, d, RANGE)
    found = run(stage, x, TrustedCurator(people(x), NoAddedNoise(0)), RANGE, 1.5)
    assert found.unit == 8.0
    level = np.log2(found.deviations * found.unit)
    shown = np.maximum(np.log2(sigma), -12)
    assert np.abs(level[:8] - shown[:8]).max() < 0.5


# --- the whole -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize(("persons", "dimension"), [(16_000, 1000), (4601, 57), (9000, 3)])
def test_worst_bill_is_within_the_budget(epsilon, persons, dimension):
    budget = Budget(epsilon, 1e-6)
    plan = planned(AnisotropicMean(), budget, persons=persons, dimension=dimension)
    guarantee = Guarantee.of(budget, REPLACE_ONE, plan.events)
    assert guarantee.verify()
    assert Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))).verify()
    json.dumps(plan.describe())
    assert "unknown covariance" in plan.rationale


@pytest.mark.slow
def test_unknown_covariance_needs_a_public_roster():
    with pytest.raises(InfeasibleError, match="replace-one"):
        planned(AnisotropicMean(), BUDGET, n_guess=9000, dimension=5, relation=ADD_REMOVE)
    with pytest.raises(InfeasibleError, match="people"):
        planned(AnisotropicMean(), BUDGET, persons=300, dimension=5)


@pytest.mark.slow
@pytest.mark.parametrize("scale_range", [RANGE, None])
def test_error_for_an_unknown_covariance(scale_range):
    d, n = 60, 9000
    sigma = decay(d)
    plan = planned(AnisotropicMean(scale_range=scale_range), BUDGET, persons=n, dimension=d)
    known = planned(AnisotropicMean(sigma**2), BUDGET, persons=n, dimension=d)
    rng = np.random.default_rng(6)
    sizes = []
    for k in range(4):
        order = rng.permutation(d)
        release = plan.release(
            people(rng.normal(size=(n, d)) * sigma[order] + 5), SimulatedNoise(k)
        )
        assert not release.failed
        assert release.guarantee.verify()
        sizes.append(np.linalg.norm(release.estimate - 5))
    assert np.mean(sizes) < 3 * known.error


@pytest.mark.slow
def test_noise_and_intervals_of_an_unknown_covariance():
    d, n = 12, 5000
    plan = planned(AnisotropicMean(scale_range=RANGE), Budget(3.0, 1e-6), persons=n, dimension=d)
    rng = np.random.default_rng(7)
    x = rng.normal(size=(n, d)) * decay(d)
    inside = 0
    for k in range(15):
        release = plan.release(people(x), SimulatedNoise(k))
        box = release.interval(0.9)
        inside += bool(((np.array(box.lower) <= 0) & (np.array(box.upper) >= 0)).all())
    statistics_kit.assert_rate_at_least(inside, 15, 0.9)
    assert len(release.diagnostics["scales"]) == d


def test_few_persons_and_many_columns_share_one_radius():
    stage = scale_noise(0.02, 300, 9000, RANGE)
    assert not stage.own
    assert [loss.name for loss in stage.events] == ["radius of the other columns"]
    with pytest.raises(InfeasibleError):
        planned(AnisotropicMean(scale_range=RANGE), BUDGET, persons=8000, dimension=60_000)


def test_failure_keeps_the_bill_of_both_halves():
    """Half one shows tiny scales, half two is spread out: no friends."""
    n = 6000
    rng = np.random.default_rng(9)
    x = rng.normal(size=(n, 4)) * 1e-3
    x[1::2] = rng.normal(size=(n // 2, 4)) * 100
    plan = planned(AnisotropicMean(scale_range=RANGE), BUDGET, persons=n, dimension=4)
    release = plan.release(people(x), SimulatedNoise(1))
    assert release.failed
    assert release.guarantee.verify()
    assert release.guarantee.mechanisms[0].kind == "parallel curve"
    assert len(release.guarantee.mechanisms) == 1
    assert "\nfailed: No estimate was found" in release.summary()


def test_strange_data_are_no_error():
    n, d = 4000, 5
    plan = planned(AnisotropicMean(), Budget(2.0, 1e-6), persons=n, dimension=d)
    rng = np.random.default_rng(10)
    tables = [np.zeros((n, d)), np.full((n, d), np.nan), np.full((n, d), 1e300)]
    mixed = rng.standard_cauchy(size=(n, d)) * 1e100
    mixed[::5] = np.inf
    tables.append(mixed)
    for table in tables:
        release = plan.release(people(table), SimulatedNoise(1))
        assert release.guarantee.verify()
