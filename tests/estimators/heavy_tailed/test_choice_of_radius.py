"""Plans that choose a private radius, say where giving nothing would do better, and what the end
of a search says of those beyond."""

import math
from fractions import Fraction

import numpy as np
import pytest

import privmean as pm
from privmean.auditing.fixed_noise import drawn
from privmean.data.array_table import ArrayPersonTable
from privmean.data.schema import PublicShape
from privmean.estimators.anisotropic.anisotropic_mean import AnisotropicMean
from privmean.estimators.heavy_tailed import clipping_bias as bias
from privmean.estimators.heavy_tailed import heavy_tailed_mean as planning
from privmean.estimators.heavy_tailed.coarse_center import (
    Outside,
    RadiusSearch,
    search_ball,
    search_one_column,
)
from privmean.estimators.means.choose_vector_method import predicted_with_nothing
from privmean.mechanisms.choices import FirstBelow
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE
from statistics_kit import assert_rate_at_most, planned

MIXED = pm.Budget(epsilon=1.0, delta=1e-6)
D, N = 10, 2000
ROOT = 1.4329  # of the centred absolute moment 2.5 of Pareto values (index 3), rounded up


def pareto_moment(**settings):
    return pm.BoundedMoment(2.5, ROOT, **settings)


# --- the choice ----------------------------------------------------------------------------------


def plans_for_pareto():
    """Without a private radius, with one, and what the plan chooses itself."""
    return [
        planned(
            pm.HeavyTailedMean(pareto_moment(), private_radius=it), MIXED, persons=N, dimension=D
        )
        for it in (False, True, None)
    ]


def test_a_plan_says_what_a_private_radius_would_bring():
    without, bought, chosen = plans_for_pareto()
    assert without.search is None
    assert bought.search is not None
    assert bought.usual < 0.9 * without.usual  # a smaller error
    assert bought.half_length_at(1.0) > 1.2 * without.half_length_at(1.0)  # longer intervals
    assert chosen.search is None
    assert chosen.events == without.events
    assert (
        f"private_radius=True is left out: {planning._brought(without, bought)}" in chosen.rationale
    )
    for plan in (without, bought):
        assert f"{plan.usual:.3g}" in chosen.rationale
        assert f"{plan.half_length_at(1.0):.3g}" in chosen.rationale
    assert "left out" not in without.rationale


@pytest.mark.parametrize("radius", [False, True])
def test_predicted_intervals_are_those_of_a_release(radius):
    """Normal values that fill the bound: what is predicted differs by the radius found only."""
    root = (2 * math.sqrt(2 / math.pi)) ** (1 / 3)  # of |x|^3 under a standard normal law
    estimator = pm.HeavyTailedMean(pm.BoundedMoment(3, root, range=(-5, 5)), private_radius=radius)
    plan = planned(estimator, pm.Budget(rho=0.5), persons=2500)
    values = np.random.default_rng(3).normal(0, 1, (2500, 1))
    for seed in range(3):
        release = plan.release(ArrayPersonTable(values, ("x",)), SimulatedNoise(seed))
        ends = release.interval()
        half = (ends.upper[0] - ends.lower[0]) / 2
        room = (0.7, 1.5) if radius else (0.98, 1.02)
        assert room[0] < half / plan.half_length_at(1.0) < room[1]


@pytest.mark.parametrize("law", ["normal", "t"])
def test_rho_gives_intervals_about_as_short_as_a_smaller_pure_budget(law):
    """rho .5 is a larger budget than epsilon 1: its half length was ten times that."""
    rng, lengths = np.random.default_rng(5), {}
    drawn = rng.standard_normal(2500) if law == "normal" else rng.standard_t(3.5, 2500) / 1.53
    values = 3.2 + 0.65 * drawn
    heavy = pm.HeavyTailedMean(pm.BoundedMoment(order=3, bound=2, range=(0, 10)))
    for name, budget in {"rho": {"rho": 0.5}, "pure": {"epsilon": 1.0}}.items():
        halves = []
        for seed in range(3):
            found = pm.mean(values, method=heavy, noise=SimulatedNoise(seed), **budget).interval()
            halves.append((found.upper[0] - found.lower[0]) / 2)
        lengths[name] = np.mean(halves)
    assert lengths["rho"] <= 1.6 * lengths["pure"]


# --- giving nothing ------------------------------------------------------------------------------


def test_a_plan_says_where_giving_nothing_would_do_better():
    plain = pm.HeavyTailedMean(pareto_moment(), private_radius=False)
    plan = planned(plain, MIXED, persons=N, dimension=D)
    nothing = predicted_with_nothing(MIXED, PublicShape.of(D, N), (plan.common.spread,) * D)
    assert plan.nothing == nothing < plan.usual
    words = "giving nothing (method='default') would do better here, though"
    assert words in plan.rationale
    assert f"{nothing:.3g} against {plan.usual:.3g}" in plan.rationale
    assert plan.describe()["predicted error, giving nothing"] == nothing


def test_the_anisotropic_plan_says_it_too():
    shape = {"persons": 2000, "dimension": 10}
    alike = planned(AnisotropicMean(1.0), MIXED, **shape)
    spike = planned(AnisotropicMean(np.array([1.0] + [1e-4] * 9)), MIXED, **shape)
    assert alike.nothing < alike.error
    assert "giving nothing (method='default') would do better here" in alike.rationale
    assert spike.nothing > spike.error
    assert "would do better" not in spike.rationale
    unknown = planned(AnisotropicMean(None), MIXED, persons=3000, dimension=10)
    assert "would do better" in unknown.rationale
    guess = planned(AnisotropicMean(1.0), MIXED, n_guess=2500, dimension=3, relation=ADD_REMOVE)
    assert guess.nothing is None or guess.nothing > 0


def test_what_nothing_does_is_predicted_in_the_units_of_the_columns():
    one = predicted_with_nothing(MIXED, PublicShape.of(D, N), (1.0,) * D)
    other = predicted_with_nothing(MIXED, PublicShape.of(D, N), (3.0,) * D)
    assert other == pytest.approx(3 * one)
    assert predicted_with_nothing(MIXED, PublicShape.of(D), (1.0,) * D) is None


# --- what the end of a search says ---------------------------------------------------------------


def test_the_count_beyond_a_found_radius_is_bounded_as_claimed():
    """The noise part alone may be wrong two thirds of alpha; 2000 searches on falling counts."""
    epsilon, alpha, wrong, draws = Fraction(1, 5), 0.3, 0, 2000
    counts = [1000 - 12 * j for j in range(84)]
    search = RadiusSearch(tuple(float(j + 1) for j in range(84)), 100, epsilon)
    scale = 2 / float(epsilon)
    allowed = 100 + scale * (math.log(3 / alpha) + math.log(3 * 84 / alpha))
    noise = SimulatedNoise(11)
    for _ in range(draws):
        index = search.mechanism.draw(iter(counts), noise)
        wrong += index is not None and counts[index] > allowed
    assert isinstance(search.mechanism, FirstBelow)
    assert_rate_at_most(wrong, draws, 2 / 3 * alpha)


def test_the_share_beyond_is_above_what_can_be_seen_and_falls_with_persons():
    search = RadiusSearch((1.0, 2.0, 4.0), 100, Fraction(3, 20))
    tails = pareto_moment().tails(D)
    shares = [Outside(search, n, tails, 0.1).share(0.005) for n in (250, 2000, 20_000)]
    assert shares[0] == 1.0
    assert 1.0 > shares[1] > shares[2] > 100 / 20_000
    bound = Outside(search, 2000, tails, 0.1)
    assert bound.bias(0.005) <= bound.bias(0.0005)


@pytest.mark.parametrize("share", [0.001, 0.05, 0.4])
def test_the_bias_bound_holds_for_two_point_laws(share):
    """One large value of probability `share` with the largest size that the moment allows."""
    tails = pm.BoundedMoment(3, 1.0).tails(1)
    jump = (1.0 / (share * (1 - share) * ((1 - share) ** 2 + share**2))) ** (1 / 3)
    mean = share * jump
    for center in (mean, 0.9 * mean):
        offset = abs(center - mean)
        clipped = center + np.clip(jump - center, -0.1 * jump, 0.1 * jump)
        small = center + np.clip(0.0 - center, -0.1 * jump, 0.1 * jump)
        if abs(0.0 - center) > 0.1 * jump:
            continue  # then everybody is clipped
        moved = abs(share * clipped + (1 - share) * small - mean)
        assert moved <= bias.of_share(tails, share, offset) * (1 + 1e-12)


# --- an assumption that the release contradicts --------------------------------------------------


@pytest.mark.parametrize("dimension", [1, 3])
def test_a_range_that_the_sums_refute_is_said(dimension):
    moment = pm.BoundedMoment(4, 1.4, range=(-9, 9))
    plan = planned(pm.HeavyTailedMean(moment), MIXED, persons=3000, dimension=dimension)
    rows = np.random.default_rng(2).normal(11.0, 1.0, (3000, dimension))
    release = plan.release(
        ArrayPersonTable(rows, tuple(f"c{j}" for j in range(dimension))), SimulatedNoise(2)
    )
    ends = release.interval()
    assert ends.status == "assumption_violated"
    assert "Widen" in ends.advice
    assert ends.lower == (-9.0,) * dimension
    assert ends.upper == (9.0,) * dimension
    assert (np.abs(release.estimate) <= 9).all()
    fine = plan.release(
        ArrayPersonTable(rows - 8, tuple(f"c{j}" for j in range(dimension))), SimulatedNoise(2)
    )
    assert fine.interval().status == "ok"


# --- the exact loss of a search -------------------------------------------------------------------


def laplace(scale, reach):
    k = np.arange(-reach, reach + 1)
    p = np.exp(-np.abs(k) / scale)
    return k, p / p.sum()


def stop_law(counts, level, scale, reach=60):
    """Exact law of where the search stops (last entry: nowhere), discrete Laplace everywhere."""
    k, p = laplace(scale, reach)
    survive = np.cumsum(p[::-1])[::-1]  # P(noise >= k)
    law = np.zeros(len(counts) + 1)
    for noise, mass in zip(k, p, strict=True):
        open_ = mass
        for j, count in enumerate(counts):
            # stops if count + query noise <= level + noise
            start = level + noise - count + 1
            above = 1.0 if start <= -reach else (0.0 if start > reach else survive[start + reach])
            law[j] += open_ * (1 - above)
            open_ *= above
        law[-1] += open_
    return law


def worst_loss(scale):
    worst = 0.0
    for counts in ([3, 2, 1], [5, 2, 0], [4, 4, 4], [6, 1, 1]):
        for drop in range(1, 2 ** len(counts)):
            other = [c + ((drop >> j) & 1) for j, c in enumerate(counts)]
            if sorted(other, reverse=True) != other:
                continue
            a, b = stop_law(counts, 2, scale), stop_law(other, 2, scale)
            worst = max(worst, np.abs(np.log(a / b)).max())
    return worst


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_exact_loss_of_the_search_is_within_epsilon(epsilon):
    # the counts of persons outside growing balls all move the same way, each by at most one
    mechanism = FirstBelow("f", 2, Fraction(epsilon), REPLACE_ONE, "")
    _, asked = drawn(mechanism, [90, 90, 2], SimulatedNoise(0))
    (scale,) = {item.scale for item in asked}  # of the threshold and of every count
    assert worst_loss(float(scale)) <= epsilon + 1e-9
    assert worst_loss(float(scale) / 4) > epsilon


def test_searches_are_capped_and_skipped_by_public_rules():
    assert search_one_column(1.0, 3.0, 5, Fraction(1, 5)) is None
    found = search_one_column(1.0, 3.0, 5000, Fraction(1, 5))
    assert max(found.candidates) < 3.0
    assert found.outside == math.ceil(10 * math.log(72 / 0.05))
    ball = search_ball(10.0, 25.0, 5000, Fraction(1, 5), 300.0)
    assert ball.outside == 300
    assert max(ball.candidates) < 25.0
