"""The jobs of the speed suite do what they say, at small sizes."""

import numpy as np
import pytest

import speed


@pytest.mark.parametrize("name", ["file", "array", "records"])
def test_private_and_plain_job_answer_the_same_question(name, tmp_path):
    private, plain = speed.CASES[name].make(100_000, tmp_path)
    expected = np.ravel(plain())[0]
    # 10 000 or 100 000 persons, epsilon = 1: half a unit is above a hundred noise deviations
    assert abs(float(private()) - expected) < 0.5


@pytest.mark.slow
def test_regression_jobs_fit_the_same_coefficients(tmp_path):
    private, plain = speed.CASES["regress"].make(16_000, tmp_path)
    found = np.asarray(private().estimate, dtype=float)
    assert found.shape == (3,)
    assert np.abs(found - plain()[0]).max() < 0.5


def test_local_jobs_estimate_the_shares_that_the_plain_job_counts(tmp_path):
    private, plain = speed.CASES["items"].make(20_000, tmp_path)
    shares = np.ravel(private().value)
    assert np.abs(shares - plain()).max() < 0.2


def test_a_stream_job_can_be_repeated(tmp_path):
    private, plain = speed.CASES["stream"].make(20, tmp_path)
    assert private() == private() == [1] * 20
    assert len(plain()) == 20


@pytest.mark.slow
def test_both_jobs_of_a_case_are_timed():
    found = speed.least(["array"], "wall", 1000)
    assert set(found) == {("array", "private"), ("array", "plain")}
    assert all(0 < value < 10 for value in found.values())


def test_memory_counts_what_a_job_touches():
    assert speed.memory(lambda: np.ones(2**24).sum()) > 100  # 128 megabytes
    assert speed.memory(lambda: None) < 20
