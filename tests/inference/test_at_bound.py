"""Bounds that nobody reaches are said, without an end there; rare values keep their interval."""

import math

import numpy as np
import polars as pl
import pytest

import privmean as pm
import statistics_kit
from privmean.inference.clipped_intervals import bound_reached, opened
from privmean.inference.status import AT_BOUND
from privmean.noise.noise_source import SimulatedNoise

WRONG, RIGHT = (1000.0, 2000.0), (0.0, 100.0)
TOLD = "The estimate is at or near a bound."


def table(size=1500):
    g = np.random.default_rng(5)
    return pl.DataFrame({
        "who": np.repeat(np.arange(size), 2), "v": g.normal(50, 10, 2 * size),
        "t": np.tile([0.5, 1.5], size), "side": np.repeat(["a", "b"], size),
    })  # fmt: skip


QUESTIONS = {
    "mean": (pm.mean, {}),
    "mean, private n": (pm.mean, {"neighbors": "add-remove", "n_guess": 1000}),
    "mean over records": (pm.mean, {"estimand": "records", "max_records": 2}),
    "mean, rho": (pm.mean, {"rho": 0.2}),
    "curve": (pm.curve, {"time": "t", "bins": [0, 1, 2]}),
    "smoothed curve": (pm.curve, {"time": "t", "bins": [0, 1, 2], "smooth": 0.5}),
    "difference of curves": (
        pm.curve, {"time": "t", "bins": [0, 1, 2], "by": "side", "levels": ("a", "b")}
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_bounds_that_nobody_reaches_have_a_status_and_no_interval(name):
    ask, said = QUESTIONS[name]
    budget = {} if "rho" in said else {"epsilon": 1.0}
    for seed in range(5):
        release = ask(
            table(), "v", person="who", bounds=WRONG, noise=SimulatedNoise(seed), **budget, **said
        )
        assert release.status == AT_BOUND
        assert TOLD in " ".join(str(release).split())
        assert "Check the units" in str(release)
        assert not release.answered
        for row in release.rows():
            assert row.status == AT_BOUND
            assert row.lower == -math.inf
            assert row.noise_lower <= row.estimate <= row.noise_upper
        again = pm.Release.from_dict(release.to_dict())
        assert not again.answered
        right = ask(
            table(), "v", person="who", bounds=RIGHT, noise=SimulatedNoise(seed), **budget, **said
        )
        assert right.status == "ok"
        assert right.answered
        assert all(math.isfinite(row.upper - row.lower) for row in right.rows())


def test_one_column_of_several_is_named():
    g = np.random.default_rng(2)
    x = g.normal(50, 10, (2000, 2))
    release = pm.mean(x, bounds=[WRONG, RIGHT], epsilon=2.0, noise=SimulatedNoise(3))
    assert release.statuses == (AT_BOUND, "ok")
    assert release.status == AT_BOUND
    assert release.answered
    assert release.advice.startswith("value_0: ")
    (low, high), (other, _) = release.conf_int()
    assert (low, math.isfinite(high), math.isfinite(other)) == (-math.inf, True, True)


@pytest.mark.slow
def test_rare_ones_keep_their_interval():
    """k ones of 5,000 at epsilon 1 are told from none unless noise hides them: of twelve in
    0.5 exp(-7) of releases, of thirty never."""
    runs = 400
    for ones, alarm in ((12, 0.5 * math.exp(-7)), (30, 1e-9)):
        x = (np.arange(5000) < ones)[:, None] * 1.0
        told = covered = 0
        for seed in range(runs):
            release = pm.mean(x, bounds=(0, 1), epsilon=1.0, noise=SimulatedNoise(seed))
            told += release.status == AT_BOUND
            low, high = release.conf_int()[0]
            covered += low <= ones / 5000 <= high
        statistics_kit.assert_rate_at_most(told, runs, alarm)
        statistics_kit.assert_rate_at_least(covered, runs, 0.95)


@pytest.mark.slow
def test_the_rate_of_the_status_is_what_the_page_says():
    """The sum of ones and minus ones has a noise of scale 2/epsilon: k ones are called none with
    probability .5 exp(5 - k epsilon) from k epsilon = 5 on."""
    draws, g = 200_000, np.random.default_rng(4)
    for ones in (5, 7, 9):
        noisy = 2.0 * ones - 5000 + g.laplace(0, 2.0, draws)
        square = (5000 + g.laplace(0, 2.0, draws)).tolist()
        both = zip(noisy.tolist(), square, strict=True)
        told = sum(bound_reached(v, s, 5000.0, (2.0,), 2.0) != 0 for v, s in both)
        # the squares say "between" in .5 exp(-5 sqrt(2)) of releases, by their own noise
        quiet = 0.5 * math.exp(-5 * math.sqrt(2))
        statistics_kit.assert_rate(told, draws, 0.5 * math.exp(5 - ones) * (1 - quiet))


def test_an_open_side_is_that_of_the_bound():
    assert bound_reached(-99.0, 100.0, 100.0, (2.0,), 2.0) == -1
    assert bound_reached(99.0, 100.0, 100.0, (2.0,), 2.0) == 1
    assert bound_reached(89.0, 100.0, 100.0, (2.0,), 2.0) == 0  # eleven at the other bound, say
    assert bound_reached(99.0, 85.0, 100.0, (2.0,), 2.0) == 0  # values between the bounds
    assert opened((1.0, 2.0), -1) == (-math.inf, 2.0)
    assert opened((1.0, 2.0), 1) == (1.0, math.inf)
    assert opened((1.0, 2.0), 0) == (1.0, 2.0)


def test_an_estimate_lies_within_its_noise_interval():
    """A noisy sum beyond the bound: the estimate is the bound, and both intervals hold it."""
    for seed in range(60):
        x = np.zeros((300, 1))
        release = pm.mean(x, bounds=(0, 1), epsilon=0.5, noise=SimulatedNoise(seed))
        (row,) = release.rows()
        assert 0 <= row.noise_lower <= row.estimate <= row.noise_upper <= 1
        assert row.lower <= row.estimate <= row.upper <= 1
