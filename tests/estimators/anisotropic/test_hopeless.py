"""Plans that promise less than one person's own row are refused, with numbers that would do."""

import math
import re

import numpy as np
import pytest

from estimators.made_people import people
from privmean.errors import InfeasibleError
from privmean.estimators.anisotropic.anisotropic_mean import AnisotropicMean
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from statistics_kit import planned

BUDGET = Budget(epsilon=1.0, delta=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("covariance", "d", "n", "relation"),
    [
        (1.0, 1000, 90, REPLACE_ONE),
        (4.0, 10, 90, ADD_REMOVE),
        (4.0, 10, 90, REPLACE_ONE),
        (None, 1000, 2000, REPLACE_ONE),
    ],
)
def test_the_numbers_named_would_do_and_little_less_would_not(covariance, d, n, relation):
    estimator = AnisotropicMean(covariance)
    with pytest.raises(InfeasibleError) as refused:
        planned(estimator, BUDGET, count=n, dimension=d, relation=relation)
    remedy = refused.value.remedy
    assert "method='default'" in remedy
    needed = int(re.search(r"about (\d+) people would do", remedy)[1])
    named = re.search(r", or epsilon=([\d.]+)", remedy)  # none beyond what budgets are

    def share(epsilon, persons):
        budget = Budget(epsilon=epsilon, delta=1e-6, neighbors=relation)
        try:
            return estimator._made(budget, persons, d).error_share
        except InfeasibleError:
            return math.inf

    assert share(1.0, needed) < 1 <= share(1.0, int(needed / 1.05))
    if named:
        assert share(float(named[1]) * 1.01, n) < 1 <= share(float(named[1]) / 1.08, n)


@pytest.mark.slow
@pytest.mark.parametrize(("d", "n"), [(1, 2000), (10, 2000), (3, 3000), (100, 3000), (40, 62_000)])
def test_the_promise_is_kept(d, n):
    """Alike columns: the error is the predicted one."""
    plan = planned(AnisotropicMean(), BUDGET, persons=n, dimension=d)
    square = []
    for k in range(2 if d > 3 else 12):
        x = np.random.default_rng(k).standard_normal((n, d))
        release = plan.release(people(x), SimulatedNoise(k))
        assert release.guarantee.verify()
        square.append(np.sum((release.estimate - x.mean(axis=0)) ** 2) / d)
    found = math.sqrt(np.mean(square))
    assert 0.7 < found / plan.noise_share < 1.7
    assert plan.predict(2.0)["rmse"] == pytest.approx(2 * math.sqrt(d) * plan.error_share)


def test_a_release_noisier_than_one_person_says_so():
    """Where columns share a radius, alike columns cost more than the reference: not "ok"."""
    d, n = 400, 2300
    estimator = AnisotropicMean(scale_range=(1e-6, 1e6))
    plan = estimator._made(BUDGET, n, d)
    assert not plan.scale_noise.own
    assert plan.error_share > 1
    x = np.random.default_rng(3).standard_normal((n, d))
    release = plan.release(people(x), SimulatedNoise(2))
    error = np.linalg.norm(release.estimate - x.mean(axis=0)) / math.sqrt(d)
    assert (release.status == "ok") == (error < 1)
    if release.status != "ok":
        assert "single person" in release.advice
