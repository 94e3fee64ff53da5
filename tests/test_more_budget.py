"""A larger budget never refuses what a smaller one allows, nor promises a larger error."""

from itertools import pairwise

import pytest

import privmean as pm

EPSILONS = (0.5, 1, 2, 5, 10, 20, 50, 100)
QUESTIONS = {
    "mean": (pm.Mean(), 1),
    "mean within bounds": (pm.Mean(assume=(0, 10)), 1),
    "mean of records": (pm.Mean(estimand="records", max_records=20), 1),
    "columns": (pm.Mean(), 30),
    "Gaussian-like": (pm.Mean(assume=pm.SubGaussian(1.0)), 1),
    "heavy tails": (pm.Mean(assume=pm.BoundedMoment(4, 10.0)), 20),
    "covariance": (pm.Mean(assume=pm.Covariance([1.0] * 20)), 20),
    "unknown covariance": (pm.Mean(method=pm.AnisotropicMean()), 20),
    "groups": (pm.Mean("y", by="g", keys=["a", "b"]), None),
    "curve": (pm.Curve("y", "t", bins=[0, 1, 2]), None),
    "comparison": (pm.Compare("y", arms="g", levels=["a", "b"]), None),
    "regression": (pm.Regression("y ~ x"), None),
    "quantile": (pm.Quantile(), 1),
    "variance": (pm.Variance(), 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("n", [1000, 20_000])
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_larger_budget_is_never_worse(name, n):
    question, columns = QUESTIONS[name]
    errors = []
    for epsilon in EPSILONS:
        try:
            plan = pm.plan(question, n=n, columns=columns, epsilon=epsilon, delta=1e-6)
        except pm.InfeasibleError:
            errors.append(float("inf"))
        else:
            errors.append(plan.predict(1.0)["rmse"])
    assert errors[-1] < float("inf")
    for smaller, larger in pairwise(errors):
        assert larger <= 1.03 * smaller
