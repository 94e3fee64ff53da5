"""The filter's whole curve, composed with Gaussian mechanisms: bounds against exact laws."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_ndtr

from estimators.anisotropic.kept_counts import kept_count_law, noisy_density
from privmean.estimators.anisotropic.calibrate_filter import calibrate, gaussian_after
from privmean.privacy.amplification import dominating
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.privacy.compose import stated, total_delta, total_epsilon
from privmean.privacy.gdp import gaussian_delta, gaussian_mu
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.privacy_events import Gaussian, Threshold
from privmean.privacy.profile_events import ParallelCurve
from privmean.privacy.stored_events import loss_from_dict

STEPS = 2.0**30


def gaussian(mu, answers=1):
    return Gaussian("sum", mu * STEPS, STEPS, answers)


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_law_of_a_gaussian_curve_composes_like_the_gaussian(mu):
    points = [0.0, *np.linspace(0, mu * (mu / 2 + 8), 400)[1:]]
    law = dominating(lambda x: gaussian_delta(mu, x), points)
    assert law.masses.sum() + law.infinite == pytest.approx(1, abs=1e-9)
    for other in (0.1, 1.0):
        for epsilon in (0.1 * mu, mu, 3 * mu):
            exact = gaussian_delta(math.hypot(mu, other), epsilon)
            bound = law.with_gaussian(other, epsilon)
            assert exact <= bound <= 1.02 * exact + 1e-12
    assert law.with_gaussian(0.0, mu) >= gaussian_delta(mu, mu)


def test_law_against_an_independent_accountant():
    """The same curve by dp-accounting's connect-the-dots distribution and convolution."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld

    made = calibrate(0.5, 5e-7, 2000, REPLACE_ONE)
    (loss,) = made.events
    step = 2e-3
    index = np.arange(-900, 901)

    def curve(x):
        if x > 0:
            return loss.delta_at(x)
        return 1 - math.exp(x) * (1 - loss.delta_at(-x)) if x < 0 else loss.delta_at(1e-4)

    deltas = np.minimum.accumulate([curve(k * step) for k in index])
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, index, deltas)
    whole = pld.PrivacyLossDistribution(pmf).compose(
        pld.from_gaussian_mechanism(1 / 0.2, value_discretization_interval=step)
    )
    ours = loss.profile().with_gaussian(0.2, 1.0)
    assert ours == pytest.approx(whole.get_delta_for_epsilon(1.0), rel=0.03)


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
def test_much_tighter_than_adding_epsilons_and_still_within(relation):
    epsilon, delta = 1.0, 1e-6
    (loss,) = calibrate(0.5, delta / 2, 2000, relation, dimension=50).events
    mu = gaussian_after(loss, epsilon, delta, 50)
    assert mu > 1.5 * gaussian_mu(0.5, delta / 2)
    bill = (loss, gaussian(mu, 50))
    assert total_delta(bill, epsilon) <= delta
    assert total_delta((loss, gaussian(1.05 * mu, 50)), epsilon) > delta
    assert total_epsilon(bill, delta) == pytest.approx(epsilon, rel=1e-4)
    guarantee = Guarantee.of(Budget(epsilon, delta), relation, stated(bill, relation))
    assert guarantee.verify()
    assert Guarantee.from_dict(guarantee.to_dict()).verify()


def joint_delta(first, second, mu, shift, epsilon):
    """delta of (noisy count, Gaussian answer): laws of the count, and an answer moved by `shift`.

    By quadrature over the count and the exact formula in the second answer.
    """
    x = np.linspace(-10 / mu, len(first) + 10 / mu, 20_001)

    p, q = noisy_density(first, mu, x), noisy_density(second, mu, x)
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.clip(np.nan_to_num(epsilon - np.log(p / q)), -700, 700)
    low = np.exp(np.minimum(left + log_ndtr(-shift / 2 - left / shift), 0))
    value = stats.norm.cdf(shift / 2 - left / shift) - low
    return float((p * value).sum() * (x[1] - x[0]))


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
def test_composed_bound_against_the_exact_law_of_the_worst_neighbours(relation):
    """All friends against one stranger; count alone behind the filter, then one Gaussian answer."""
    n, mu, shift, epsilon = 61, 0.35, 0.4, 1.5
    swap = relation == REPLACE_ONE

    before = kept_count_law(np.full(n, n), relation)
    after = kept_count_law(np.r_[np.full(n - swap, n - swap), 1], relation)
    size = max(len(before), len(after))
    before, after = (np.pad(item, (0, size - len(item))) for item in (before, after))
    from privmean.privacy.amplification import delta_ratio, inner_epsilon

    def curve(x):
        if x <= 0:
            return 1.0
        inner = inner_epsilon(x, relation)
        return gaussian_delta(mu, inner) * delta_ratio(x, inner)

    points = [0.0, *np.linspace(0, 8, 1500)[1:]]
    profile = dominating(curve, points)
    bound = profile.with_gaussian(shift, epsilon)
    worst = max(
        joint_delta(before, after, mu, shift, epsilon),
        joint_delta(after, before, mu, shift, epsilon),
    )
    assert 0.01 * bound < worst <= bound
    # half the noise on the count breaks the bound's curve
    broken = max(
        joint_delta(before, after, 2 * mu, shift, epsilon),
        joint_delta(after, before, 2 * mu, shift, epsilon),
    )
    assert broken > bound


def test_parallel_parts_cost_the_larger_one():
    parts = ((gaussian(0.3),), (gaussian(0.2), Threshold("t", 1e-8, 5.0)))
    loss = ParallelCurve("halves", epsilon=1, parts=parts)
    assert loss.added_delta == max(total_delta(part, 1.0) for part in parts)
    again = loss_from_dict(loss.to_dict())
    assert again == loss
    bill = (loss, gaussian(0.1))
    both = gaussian_delta(math.hypot(0.3, 0.1), 1.0)
    assert both <= total_delta(bill, 1.0) <= 1.05 * both + 2e-8


def test_curves_are_not_pure():
    (loss,) = calibrate(0.5, 1e-6, 2000, REPLACE_ONE).events
    assert not Guarantee.of(Budget(epsilon=1.0), REPLACE_ONE, (loss,)).verify()
    assert not Guarantee.of(Budget(rho=10.0), REPLACE_ONE, (loss,)).verify()
