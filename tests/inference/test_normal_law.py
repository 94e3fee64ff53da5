"""The normal law without SciPy against SciPy, far into both tails."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfcx, ndtr, ndtri

from privmean.inference.laplace_normal import normal_cdf, normal_quantile, scaled_tail


def test_quantiles_are_those_of_scipy():
    for p in (*np.geomspace(1e-300, 0.5, 2001), *(1 - np.geomspace(1e-15, 0.4, 401))):
        assert math.isclose(normal_quantile(float(p)), ndtri(p), rel_tol=1e-14, abs_tol=1e-16)
    assert (normal_quantile(0.0), normal_quantile(1.0)) == (-math.inf, math.inf)


def test_scaled_tails_are_those_of_scipy():
    x = np.concatenate([np.linspace(-26, 60, 200_001), np.geomspace(1e-300, 1e300, 2001)])
    np.testing.assert_allclose(scaled_tail(x), erfcx(x), rtol=1e-12)
    assert scaled_tail(np.array([math.inf])) == 0.0


def test_probabilities_are_those_of_scipy():
    x = np.linspace(-37, 37, 200_001)
    np.testing.assert_allclose(normal_cdf(x), ndtr(x), rtol=1e-12)
    assert normal_cdf(np.array([-math.inf, math.inf])).tolist() == [0.0, 1.0]
