"""A known covariance: in which units errors count, and the choice between methods."""

import numpy as np
import pytest

import privmean as pm
from privmean.api.parse_question import assumption_of, method_of
from privmean.errors import ArgumentError
from privmean.estimators.anisotropic.anisotropic_mean import AnisotropicMean
from privmean.estimators.anisotropic.spectrum import NORMS, spectrum_of
from privmean.estimators.means.choose_vector_method import KNOWN
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget
from statistics_kit import planned

BUDGET = Budget(epsilon=1.0, delta=1e-6)
SD, MEAN, N = np.array([0.5, 10.0, 1e4]), np.array([3.0, 40.0, 3e4]), 3000
ROTATED = np.array([[1.0, 0.6, 0.2], [0.6, 1.0, -0.3], [0.2, -0.3, 1.0]])
MATRIX = ROTATED * np.outer(SD, SD)


@pytest.mark.parametrize("scales", NORMS)
@pytest.mark.parametrize("covariance", [2.0, SD**2, MATRIX], ids=["one", "columns", "matrix"])
def test_scaling_rows_and_back_changes_nothing(scales, covariance):
    spectrum = spectrum_of(covariance, 3, scales)
    rows = MEAN + np.random.default_rng(1).normal(size=(40, 3)) * SD
    along = spectrum.along(rows)
    assert spectrum.columns(along.mean(axis=0)) == pytest.approx(rows.mean(axis=0), rel=1e-9)
    variances = np.diag(covariance) if np.ndim(covariance) == 2 else np.broadcast_to(covariance, 3)
    assert spectrum.column_variances(spectrum.deviations**2) == pytest.approx(variances, rel=1e-5)
    alone = [spectrum.along(row[None, :])[0] for row in rows]
    assert (np.array(alone) == along).all()  # each row by itself, whatever the others


def test_equal_noise_in_the_norm_that_is_minimised():
    noise = 0.01 * SD  # of each column
    rng = np.random.default_rng(3)
    drawn = rng.normal(size=(100_000, 3)) * noise
    spectrum = spectrum_of(MATRIX, 3, "mahalanobis")
    squares = (drawn @ np.linalg.inv(MATRIX) * drawn).sum(axis=1)
    assert squares.mean() / 0.01**2 == pytest.approx(spectrum.inverse_trace, rel=0.02)
    assert spectrum_of(MATRIX, 3, "sd").inverse_trace == 3


@pytest.mark.slow
@pytest.mark.parametrize("units", [1.0, 1e3])
def test_units_do_not_matter(units):
    """Columns in other units: the same plan, and the same release in these units."""
    factors = np.array([1.0, units, 1 / units])
    rows = MEAN + np.random.default_rng(4).normal(size=(N, 3)) * SD
    releases = []
    for scale in (np.ones(3), factors):
        estimator = AnisotropicMean((SD * scale) ** 2, scales="sd")
        plan = planned(estimator, BUDGET, persons=N, dimension=3)
        found = pm.mean(
            rows * scale, method=estimator, epsilon=1.0, delta=1e-6, noise=SimulatedNoise(1)
        )
        releases.append((plan.error, np.array(found.estimate) / scale))
    assert releases[0][0] == pytest.approx(releases[1][0], rel=1e-9)
    assert releases[0][1] == pytest.approx(releases[1][1], rel=1e-6)


@pytest.mark.slow
def test_it_is_chosen_where_it_is_better():
    d = 10
    spread = np.r_[1.0, np.full(d - 1, 1e-3)]
    for scales, better in (("same", True), ("sd", False)):
        plan = pm.plan(
            pm.Mean(tuple(f"c{j}" for j in range(d)), assume=pm.Covariance(spread**2, scales)),
            n=N, epsilon=1.0, delta=1e-6,
        )  # fmt: skip
        assert KNOWN in plan.predicted
        assert (plan.name == KNOWN) == better, plan.rationale


def test_what_others_cost_is_compared_in_the_same_norm():
    """Correlated columns: noise of each column weighs more in Mahalanobis' norm."""
    columns = tuple(f"c{j}" for j in range(20))
    near = 0.2 * np.eye(20) + 0.8
    predicted = {}
    for scales in ("sd", "mahalanobis"):
        plan = pm.plan(pm.Mean(columns, assume=pm.Covariance(near, scales=scales)),
                       n=30_000, epsilon=1.0, delta=1e-6)  # fmt: skip
        predicted[scales] = plan.predicted
    others = set(predicted["sd"]) - {KNOWN}
    assert all(predicted["mahalanobis"][name] > predicted["sd"][name] for name in others)


def test_without_a_delta_the_others_answer():
    plan = pm.plan(pm.Mean(("a", "b"), assume=pm.Covariance(1.0)), n=N, epsilon=1.0)
    assert KNOWN not in plan.predicted
    assert "the covariance given is not used" in plan.rationale


def test_texts_name_the_scales():
    given = assumption_of("--assume", "covariance 1,4,9 scales=same")
    assert given == pm.Covariance(np.array([1.0, 4.0, 9.0]), scales="same")
    assert given != assumption_of("--assume", "covariance 1,4,9")
    method, assume = method_of("--method", "anisotropic beta=.1", given)
    assert (method.scales, method.beta, assume) == ("same", 0.1, None)
    method, _ = method_of("--method", "anisotropic scales=mahalanobis", given)
    assert method.scales == "mahalanobis"
    for wrong in ("covariance 1,4 scales=own", "covariance 1,4 scales="):
        with pytest.raises(ArgumentError, match="scales|covariance"):
            assumption_of("--assume", wrong)
    with pytest.raises(ArgumentError, match="known covariance"):
        pm.AnisotropicMean(scales="sd")
