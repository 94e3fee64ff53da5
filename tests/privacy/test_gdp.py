"""The analytic Gaussian against 40 digits: never below the truth, and close to it."""

import math

import exact
import pytest

from privmean.privacy.gdp import gaussian_delta, gaussian_mu

PAIRS = [
    (mu, epsilon)
    for mu in (1e-6, 1e-4, 0.01, 0.3, 0.49, 0.51, 1.0, 3.0, 8.0, 40.0)
    for epsilon in (0.0, 1e-6, 1e-3, 0.1, 1.0, 5.0, 50.0)
]


@pytest.mark.parametrize(("mu", "epsilon"), PAIRS)
def test_delta_is_rounded_up_and_tight(mu, epsilon):
    truth = exact.gaussian_delta(mu, epsilon)
    value = gaussian_delta(mu, epsilon)
    assert value >= truth
    if truth > 1e-300:
        assert value <= truth * (1 + 1e-11)


@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-12, 1e-6, 0.01, 0.3])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0])
def test_mu_is_rounded_down_and_tight(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert exact.gaussian_delta(mu, epsilon) <= delta
    assert exact.gaussian_delta(mu * (1 + 1e-10), epsilon) > delta


def test_ends():
    assert gaussian_mu(1.0, 0.0) == 0
    assert gaussian_delta(0.0, 0.5) == 0
    assert gaussian_delta(1e-9, 100.0) > 0  # a Gaussian is never free of delta


def test_published_values():
    """Balle and Wang 2018: sigma of the analytic mechanism; mu = 1 at epsilon = 1 has 0.1269."""
    assert math.isclose(gaussian_delta(1.0, 1.0), 0.12693673750664397, rel_tol=1e-9)
    assert math.isclose(1 / gaussian_mu(1.0, 1e-5), 3.730631634816464, rel_tol=1e-6)
