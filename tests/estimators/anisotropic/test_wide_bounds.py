"""Covariance bounds of any width stay bounds, and values of any size are right or refused."""

import numpy as np
import pytest

import privmean as pm
from privmean.estimators.anisotropic.spectrum import spectrum_of
from privmean.mechanisms.filtered_mean import rotate

BUDGET = dict(epsilon=1.0, delta=1e-6)
ALONE = "anisotropic"  # not the cheapest of all methods


def rotation(d, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]


@pytest.mark.parametrize("ratio", [1.0, 20_000.0, 4e4, 1e6, 1e9, 1e14])
@pytest.mark.parametrize("d", [2, 4, 40])
def test_a_matrix_is_never_lowered(ratio, d):
    """The bound used lies above the given one in every direction, and little above a diagonal's."""
    sd = np.r_[ratio, np.ones(d - 1)]
    turn = rotation(d, d)
    given = (turn * sd**2) @ turn.T
    used = spectrum_of((given + given.T) / 2, d)
    bound = (used.axes * used.deviations**2) @ used.axes.T
    # along every true axis: what the bound says of it, against the truth
    along = np.einsum("ij,ik,kj->j", turn, bound, turn)
    assert (along >= sd**2 * (1 - 1e-9) - 1e-15 * ratio**2).all()
    assert used.deviations.min() >= 1 - 1e-9
    floor = spectrum_of(sd**2, d).deviations
    assert (np.sort(used.deviations) <= np.sort(floor) + 1e-6 * ratio).all()


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [2e4, 4e4, 3e5])
@pytest.mark.parametrize("turned", [False, True])
def test_wide_spectra_find_a_centre(ratio, turned):
    sd = np.array([ratio, 1.0, 1.0, 1.0])
    turn = rotation(4, 1) if turned else np.linalg.cholesky(np.eye(4) + 0.1 * (1 - np.eye(4)))
    x = (np.random.default_rng(2).standard_normal((3000, 4)) * sd) @ turn.T
    covariance = (turn * sd**2) @ turn.T
    release = pm.mean(x, **BUDGET, covariance=covariance, method=ALONE, noise=pm.SimulatedNoise(1))
    assert release.status == "ok"
    error = release.estimate - x.mean(axis=0)
    assert np.linalg.norm(error) < 0.2 * np.linalg.norm(sd)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sd", "mean"), [((1, 1e5), (3, 1e11)), ((1e-3, 100), (0.5, 2e8)), ((1, 1e5), (-1e11, 2e11))]
)
@pytest.mark.parametrize("form", ["matrix", "diagonal"])
def test_far_values_are_right_however_the_covariance_is_given(sd, mean, form):
    sd, mean = np.array(sd, dtype=float), np.array(mean, dtype=float)
    correlation = np.array([[1, 0.1], [0.1, 1]])
    x = mean + sd * (
        np.random.default_rng(3).standard_normal((3000, 2)) @ np.linalg.cholesky(correlation).T
    )
    covariance = correlation * np.outer(sd, sd) if form == "matrix" else sd**2
    release = pm.mean(x, **BUDGET, covariance=covariance, method=ALONE, noise=pm.SimulatedNoise(2))
    assert release.status == "ok"
    noise = release.noise_interval(0.999)
    sample = x.mean(axis=0)
    assert (np.array(noise.lower) <= sample).all()
    assert (sample <= np.array(noise.upper)).all()
    assert abs(release.estimate[1] - sample[1]) < 0.1 * sd[1]


@pytest.mark.parametrize("covariance", [1.0, [[1.0, 0.5], [0.5, 1.0]], None])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_beyond_the_range_nothing_is_said(covariance, neighbors):
    """Persons clamped at the end of the lattice would all be friends, at a place nobody is at."""
    if covariance is None and neighbors == "add-remove":
        pytest.skip("an unknown covariance is estimated under replace-one only")
    x = 1e15 + np.random.default_rng(4).standard_normal((4000, 2))
    design = {} if neighbors == "replace-one" else {"n_guess": 4000}
    release = pm.mean(
        x, **BUDGET, neighbors=neighbors, noise=pm.SimulatedNoise(3), **design,
        method=pm.AnisotropicMean(covariance, scale_range=(0.1,
        10.0) if covariance is None else None),
    )  # fmt: skip
    assert release.status == "failed"
    assert np.isnan(release.estimate).all()
    assert "range" in release.advice
    assert release.interval().lower == (-np.inf, -np.inf)


def test_nulls_do_not_pull_a_rotated_mean_to_zero():
    covariance = np.array([[1.0, 0.5], [0.5, 1.0]])
    g = np.random.default_rng(5)
    x = 1000 + g.standard_normal((4000, 2)) @ np.linalg.cholesky(covariance).T
    x[g.random(4000) < 0.2, 0] = np.nan
    release = pm.mean(x, **BUDGET, covariance=covariance, method=ALONE, noise=pm.SimulatedNoise(4))
    assert release.status == "ok"
    assert np.abs(release.estimate - 1000).max() < 0.5


def test_rotations_are_exact_to_the_last_digits_of_far_rows():
    """Against rational arithmetic; and a row with a null or an endless number is a null."""
    from fractions import Fraction

    used = spectrum_of(np.array([[1.0, 0.3], [0.3, 2.0]]), 2)
    x = np.array([[1e11, -3.7], [2.0**50 + 0.25, 1e-3], [np.nan, 1.0], [1.0, -np.inf], [1e300, 0]])
    found = rotate(x, used.axes, used.step)
    for row, got in zip(x[:2], found[:2], strict=True):
        for axis in (0, 1):
            true = sum(
                Fraction(a) * Fraction(b) for a, b in zip(row, used.axes[:, axis], strict=True)
            )
            assert abs(float(Fraction(got[axis]) - true)) <= 1e-15 * abs(row).max() + used.step
    assert np.isnan(found[2:]).all()
    back = used.columns(found[0])
    assert np.abs(back - x[0]).max() <= 1e-4
