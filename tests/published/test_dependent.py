"""The algorithms of Roth and Avella-Medina (2025): their constants, and what is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest
from published_case import table as people
from scipy import stats
from scipy.signal import lfilter

from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.concentration import Bounded, SubGaussian, UnknownScale
from privmean.local import estimate, mean_round, tally_many, vote_round
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, Budget
from privmean.privacy.compose import total_epsilon
from privmean.published import PriestleyChao, VarianceAsPublished, WinsorizedAsPublished
from privmean.published.dependent import PublishedHistogram, vote_radius_dependent
from statistics_kit import planned

NORMAL = SubGaussian(1.0)


def tau(n, d=1):
    return math.sqrt(2 * math.log(2 * d * n / 0.05))


def plan(n=1000, d=1, epsilon=1.0, delta=1e-6, **settings):
    budget = Budget(epsilon=epsilon, delta=delta)
    return planned(WinsorizedAsPublished(NORMAL, **settings), budget, persons=n, dimension=d)


def test_constants_of_one_column():
    made = plan()
    assert made.half[0] == pytest.approx(tau(1000))
    assert made.radius[0] == pytest.approx(3 * tau(1000))
    assert made.noise[0] == pytest.approx(math.sqrt(2) * 12 * tau(1000) / 1000)
    histogram, threshold, mean = made.events
    assert histogram.pure == mean.pure == Fraction(1, 2)
    assert threshold.threshold == 1 + math.ceil(4 * math.log(2 / 1e-6))
    assert isinstance(made.location, PublishedHistogram)
    assert not isinstance(plan(tight=True).location, PublishedHistogram)


@pytest.mark.parametrize("d", [2, 5, 20])
def test_constants_of_several_columns(d):
    """epsilon/sqrt(8 d ln(1/rho)) a column, which is far less than epsilon in truth."""
    made = plan(n=5000, d=d)
    each = 1 / math.sqrt(8 * d * math.log(2 / 1e-6))
    assert float(sum(loss.pure for loss in made.events)) == pytest.approx(d * each)
    assert made.noise[0] == pytest.approx(math.sqrt(2) * 12 * tau(5000, d) / (5000 * each))
    assert sum(loss.added_delta for loss in made.events) == pytest.approx(0.5e-6)
    spent = total_epsilon(made.events, 1e-6)
    assert 0.1 < spent < 0.3


def test_small_radius_is_biased_at_a_bin_edge():
    """Radius tau with bins of half width tau: the error does not go away with n."""
    made = plan(n=5000, epsilon=0.1, delta=1 / 5000**2, radius=tau(5000))
    rng, noise, half = np.random.default_rng(2), SimulatedNoise(2), made.half[0]
    squares = []
    for _ in range(200):
        center = 21 * half
        release = made.release(people(center + rng.standard_normal(5000)), noise)
        squares.append((release.estimate[0] - center) ** 2)
    assert 0.14 < np.mean(squares) < 0.19


@pytest.mark.parametrize("d", [1, 3])
def test_split_halves_pay_the_larger_step_only(d):
    made = plan(n=4000, d=d, splitting=True)
    each = 1.0 if d == 1 else 1 / math.sqrt(8 * d * math.log(2 / 1e-6))
    assert float(made.events[0].pure) == pytest.approx(each)
    assert made.location.scale == made.sums.epsilon ** (-1) * 2
    # the noise is that of the unsplit algorithm, on half of the people
    assert made.noise[0] == pytest.approx(math.sqrt(2) * 6 * tau(4000, d) / (2000 * each))
    rng = np.random.default_rng(3)
    values = 50 + 0.5 * rng.standard_normal((4000, d))
    values[0::2] += 1.0  # location half
    release = made.release(people(values), SimulatedNoise(3))
    assert release.guarantee.mechanisms == made.events
    assert np.all(np.abs(release.estimate - values[1::2].mean(axis=0)) < 12 * made.noise[0])


def test_releases_carry_the_mark_and_no_interval():
    release = plan().release(people(np.random.default_rng(4).standard_normal(1000)))
    assert "as published, for study" in release.summary()
    assert "as published, for study" in release.to_dict()["estimator"]
    assert release.interval().lower == (-math.inf,)
    with pytest.raises(ArgumentError, match="predict no error"):
        plan().predict(1.0)


def test_a_location_that_is_not_found_fails_its_column_alone():
    rows = np.random.default_rng(5).standard_normal((5000, 2))
    rows[:, 1] = np.nan
    release = plan(n=5000, d=2, epsilon=0.9).release(people(rows), SimulatedNoise(5))
    assert np.isfinite(release.estimate[0])
    assert np.isnan(release.estimate[1])
    assert plan(n=500, epsilon=0.01).release(people(rows[:500, :1]), SimulatedNoise(5)).failed


def test_refused():
    for assumption in (Bounded(0.0, 1.0), UnknownScale()):
        with pytest.raises(ArgumentError, match="paper"):
            WinsorizedAsPublished(assumption)
    with pytest.raises(ArgumentError, match="composition theorem"):
        plan(d=100, epsilon=90.0, delta=0.4)
    with pytest.raises(ArgumentError):
        WinsorizedAsPublished(NORMAL, radius=-1.0)


# --- variances ---------------------------------------------------------------------------------
SMALL, LARGE = math.sqrt(0.1), 100.0


def search(method="coinpress", n=10_000, center=300.0, **settings):
    made = VarianceAsPublished(SMALL, LARGE, center, method, **settings)
    return planned(made, Budget(epsilon=1.0, delta=1 / n**2), persons=n)


@pytest.mark.parametrize("method", ["coinpress", "bisection"])
def test_the_printed_budget(method):
    made = search(method, n=1000)
    assert made.settings.rounds == 17
    assert float(made.each) == pytest.approx(0.0163, abs=5e-5)
    assert len(made.events) == 34
    # calls cost epsilon' and, for the noise doubled in print, epsilon'/2
    assert float(made.events[0].pure / made.events[1].pure) == 2
    assert total_epsilon(made.events, 1e-6) < 0.5


@pytest.mark.parametrize("method", ["coinpress", "bisection"])
def test_constant_data_stop_within_the_rounds(method):
    made = search(method, n=100_000, center=40.0)
    release = made.release(people(np.full(100_000, 40.0)), SimulatedNoise(3))
    assert len(release.guarantee.mechanisms) <= 34
    assert 0 < release.estimate[0] < 0.3
    assert "as published" in str(release)


@pytest.mark.parametrize(
    "budget", [Budget(epsilon=1.0), Budget(rho=1.0), Budget(epsilon=1.0, delta=0.0)]
)
@pytest.mark.parametrize(
    "method", [WinsorizedAsPublished(NORMAL), VarianceAsPublished(SMALL, LARGE, 0.0)]
)
def test_a_method_needs_a_delta_and_replace_one(method, budget):
    with pytest.raises(InfeasibleError):
        planned(method, budget, persons=1000)
    with_delta = Budget(epsilon=1.0, delta=1e-6)
    with pytest.raises(ArgumentError, match="relation"):
        planned(method, with_delta, n_guess=1000, relation=ADD_REMOVE)


def test_variances_refused():
    for bad in ({"smallest": 2.0, "largest": 1.0}, {"method": "pair scale"}, {"gamma": 0.0},
                {"center": math.inf}):  # fmt: skip
        with pytest.raises(ArgumentError):
            VarianceAsPublished(**{"smallest": 1.0, "largest": 2.0, "center": 0.0, **bad})


# --- the curve, and votes ------------------------------------------------------------------------
def test_the_bandwidth_is_that_of_the_corollary():
    budget = Budget(epsilon=1.0, delta=1e-6)
    made = planned(PriestleyChao(0.5, 2.0, 3.0, 1.0), budget, persons=4000)
    assert made.bandwidth == pytest.approx((4 / 4000) ** (1 / 3))
    narrow = Budget(epsilon=0.001, delta=1e-6)
    made = planned(PriestleyChao(0.5, 2.0, 3.0, 1.0), narrow, persons=4000)
    assert made.bandwidth == pytest.approx(math.sqrt(2 / 4))
    said = planned(PriestleyChao(0.5, 2.0, 3.0, 1.0, bandwidth=0.1), budget, persons=4000)
    assert said.bandwidth == 0.1
    assert said.inner.radius[0] == 3 * said.inner.half[0]


@pytest.mark.parametrize("bad", [{"at": 0.0}, {"sd": 0.0}, {"slope": -1.0}, {"bandwidth": 0.0}])
def test_curves_refused(bad):
    with pytest.raises(ArgumentError):
        PriestleyChao(**{"at": 0.5, "sd": 1.0, "slope": 1.0, "size": 1.0, **bad})


def test_missing_and_hostile_responses_move_the_sum_by_no_more_than_a_clipped_one():
    values = np.random.default_rng(6).standard_normal(2000)
    values[1000:1004] = np.nan, np.inf, -np.inf, 1e300
    made = planned(PriestleyChao(0.5, 1.0, 1.0, 1.0), Budget(epsilon=1.0, delta=1e-6), persons=2000)
    assert np.isfinite(made.release(people(values), SimulatedNoise(6)).estimate[0])


def test_votes_of_dependent_people_stay_within_their_radius():
    n, phi = 40_000, 0.9
    votes = vote_round(-9, 9, 5, epsilon=4, persons=n)
    rho, density = (1 + phi) / (1 - phi), 0.4
    limit = vote_radius_dependent(votes, n, rho=rho, density=density)
    assert limit < 0.4
    assert vote_radius_dependent(votes, n, rho=1, density=density) < limit
    edges = np.linspace(-9, 9, 6)
    truth = np.diff(stats.norm.cdf([-np.inf, *edges[1:-1], np.inf]))
    dice = np.random.default_rng(1)
    for k in range(5):
        shocks = dice.standard_normal(n) * math.sqrt(1 - phi**2)
        x = lfilter([1.0], [1.0, -phi], shocks)
        raw = estimate(tally_many(votes, x, epsilon=4.0, noise=SimulatedNoise(k))).raw
        assert abs(raw - truth).max() <= limit
    with pytest.raises(ArgumentError):
        vote_radius_dependent(mean_round(0, 1, epsilon=1, persons=9), 9, rho=1, density=1)
