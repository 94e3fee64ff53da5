"""What docs/proofs/discrete-gaussian.md claims, by exact sums over the lattice."""

import math
from itertools import product as pairs

import exact
import numpy as np
import pytest
from scipy.special import logsumexp

from privmean.privacy.compose import total_delta
from privmean.privacy.privacy_events import Gaussian


@pytest.mark.parametrize("sd", [5, 8, 12, 20, 50])
def test_the_corrected_continuous_curve_bounds_the_discrete_one(sd):
    """One coordinate, shifts of 1 to 4 sd, epsilons up to where delta is 1e-11."""
    tightest, cases = 0.0, 0
    for shift in sorted({1, 2, 3, 5, sd // 2, sd, 2 * sd, 4 * sd}):
        law = exact.discrete_gaussian_losses(sd, shift)
        loss = Gaussian("g", float(shift), float(sd), 1)
        for epsilon in (0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0):
            curve = float(exact.gaussian_delta(loss.mu, epsilon))
            bound = curve * loss.lattice.factor + loss.lattice.tail
            truth = exact.delta_of(law, epsilon + loss.lattice.epsilon)
            if truth > 1e-11:
                tightest, cases = max(tightest, truth / bound), cases + 1
    assert cases >= 10
    assert tightest <= 1


@pytest.mark.parametrize("sd", [6.0, 15.0])
def test_two_coordinates_together(sd):
    """A person moves two answers: the product of both laws, against the joint bound."""
    for first, second in ((1, 1), (3, 4), (int(sd), 2 * int(sd))):
        law = exact.product(
            exact.discrete_gaussian_losses(sd, first), exact.discrete_gaussian_losses(sd, second)
        )
        loss = Gaussian("g", math.hypot(first, second), sd, 2)
        for epsilon in (0.1, 0.5, 1.0, 3.0):
            curve = float(exact.gaussian_delta(loss.mu, epsilon))
            truth = exact.delta_of(law, epsilon + loss.lattice.epsilon)
            assert truth <= curve * loss.lattice.factor + loss.lattice.tail + 1e-13


def test_the_composed_bound_holds_for_the_noise_that_is_drawn():
    for sd, shift in ((12, 8), (20, 30)):
        law = exact.product(*[exact.discrete_gaussian_losses(sd, shift)] * 2)
        bill = [Gaussian("g", float(shift), float(sd), 1)] * 2
        for epsilon in (0.5, 1.0, 2.0, 5.0):
            assert exact.delta_of(law, epsilon) <= total_delta(bill, epsilon)


@pytest.mark.parametrize("sd", [0.4, 1.0, 2.0, 7.0])
def test_zcdp_holds_on_any_lattice_without_correction(sd):
    """Renyi divergences of order alpha are at most alpha mu^2/2, with equality at best."""
    for shift, alpha in pairs((1, 2, 5), (1.1, 2.0, 5.0, 20.0)):
        reach = int(alpha * shift + 40 * sd + 40)
        k = np.arange(-reach, reach + 1)
        law = -((k / sd) ** 2) / 2
        losses = ((k - shift) ** 2 - k**2) / (2 * sd**2)
        moment = logsumexp(law + (alpha - 1) * losses) - logsumexp(law)
        divergence = moment / (alpha - 1)
        assert divergence <= alpha * (shift / sd) ** 2 / 2 * (1 + 1e-9)


def test_the_pointwise_ratios_of_the_proof():
    """Rounded continuous over discrete: at least e^(-1/24s^2), at most e^(k^2/24s^4)."""
    from scipy import stats

    for sd in (1.0, 2.0, 5.0, 20.0):
        k = np.arange(0, int(12 * sd) + 1)
        rounded = stats.norm.sf(k - 0.5, scale=sd) - stats.norm.sf(k + 0.5, scale=sd)
        density = np.exp(-((k / sd) ** 2) / 2) / (sd * math.sqrt(2 * math.pi))
        ratio = np.log(rounded / density)
        assert np.all(ratio >= -1 / (24 * sd**2) - 1e-12)
        assert np.all(ratio <= k**2 / (24 * sd**4) + 1e-12)


def test_the_far_tail_is_below_its_charge():
    for sd in (1.0, 1.5, 3.0, 10.0, 1000.0):
        k = np.arange(math.floor(12 * sd) + 1, math.floor(12 * sd) + 1 + int(40 * sd))
        tail = 2 * np.exp(-((k / sd) ** 2) / 2).sum() / (sd * math.sqrt(2 * math.pi))
        assert tail <= Gaussian("g", 1.0, sd, 1).lattice.tail


def test_at_the_lattice_in_use_the_correction_is_invisible():
    loss = Gaussian("g", 2.0**20, 2.0**20, 100)
    assert loss.lattice.epsilon < 2e-9
    assert loss.lattice.factor < 1 + 1e-10
    assert loss.lattice.tail < 1e-29
