"""zCDP conversion: a valid bound for the mechanisms it is stated for, and the best over alpha."""

import exact
import mpmath as mp
import pytest

from privmean.privacy.gdp import rho_delta


@pytest.mark.parametrize("rho", [1e-8, 1e-4, 0.01, 0.5, 5.0])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 8.0])
def test_delta_is_the_minimum_over_alpha(rho, epsilon):
    def at(log_gap):
        gap = mp.exp(log_gap)
        alpha = 1 + gap
        return gap * (alpha * rho - epsilon) + alpha * mp.log(1 - 1 / alpha) - mp.log(gap)

    best = 0.0
    for step in (0.1, 0.002, 0.00004):  # the least value of a convex function, on finer grids
        best = min([best + step * i for i in range(-250, 251)], key=at)
    truth = float(mp.exp(min(at(best), 0)))
    assert rho_delta(rho, epsilon) >= truth * (1 - 1e-7)
    assert rho_delta(rho, epsilon) <= max(truth * (1 + 1e-4), 1e-300)


@pytest.mark.parametrize("mu", [0.05, 0.4, 1.5])
def test_it_bounds_the_gaussian_mechanism(mu):
    for epsilon in (0.01, 0.2, 1.0, 4.0):
        assert rho_delta(mu**2 / 2, epsilon) >= float(exact.gaussian_delta(mu, epsilon))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_it_bounds_pure_mechanisms(epsilon):
    law = exact.product(*[exact.randomized_response_losses(epsilon / 4)] * 8)
    for target in (0.05, 0.5, 1.5):
        assert rho_delta(8 * (epsilon / 4) ** 2 / 2, target) >= exact.delta_of(law, target)


def test_ends():
    assert rho_delta(0.0, 1.0) == 0
    assert rho_delta(1.0, 0.0) == 1
