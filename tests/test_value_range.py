"""Values beyond the largest one that records are read as: refused or said, never taken for it."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import privmean as pm

N = 4000


def column(size: float) -> pm.Table:
    rng = np.random.default_rng(3)
    values = rng.lognormal(0, 1, N) * size
    frame = pl.DataFrame({"p": range(N), "x": values, "t": rng.uniform(0, 10, N)})
    return pm.Table(frame, person="p")


ASKED = {
    "mean": lambda bounds, step: pm.Mean("x", assume=bounds, resolution=step),
    "quantile": lambda bounds, step: pm.Quantile("x", (0.5,), bounds=bounds, resolution=step),
    "curve": lambda bounds, step: pm.Curve("x", "t", (0, 5, 10), assume=bounds, resolution=step),
}


@pytest.mark.parametrize("name", ASKED)
def test_bounds_beyond_what_records_are_read_as_are_refused(name):
    table, bounds = column(2.0**42), (0, 2.0**49)
    with pytest.raises(pm.ArgumentError, match=r"bounds=.*largest value.*resolution=2\*\*-31"):
        pm.ask(table, ASKED[name](bounds, 2.0**-36), epsilon=1)
    made = pm.ask(table, ASKED[name](bounds, 2.0**-31), epsilon=1, noise=pm.SimulatedNoise(1))
    assert np.all(np.isfinite(made.estimate))


def test_each_pair_of_several_is_compared():
    table = pm.Table(pl.DataFrame({"p": range(N), "x": 1.0, "y": 2.0}), person="p")
    with pytest.raises(pm.ArgumentError, match="-1125899906842624.*largest value"):
        pm.ask(table, pm.Mean(("x", "y"), assume=[(0, 1), (-(2.0**50), 1)]), epsilon=1)


@pytest.mark.parametrize("question", [pm.Mean, pm.Variance])
def test_no_step_of_values_makes_the_range_smaller(question):
    """A step of 2^-40 took all values beyond 2^40 for 2^40: a mean was a third too small, "ok"."""
    with pytest.raises(pm.ArgumentError, match=r"resolution=.*2\*\*-36"):
        pm.ask(column(1.0), question("x", resolution=2.0**-40), epsilon=1)


@pytest.mark.parametrize("name", ASKED)
def test_bounds_a_few_steps_apart_are_refused(name):
    """Values about 5e-12 were rounded to 0 and 1.5e-11: a mean of 1e-13, "ok"."""
    table, bounds = column(1e-12), (0.0, 2e-11)
    with pytest.raises(pm.ArgumentError, match=r"bounds=.*16 steps.*Multiply"):
        pm.ask(table, ASKED[name](bounds, 2.0**-36), epsilon=1)
    made = pm.ask(column(1e-9), ASKED[name]((0.0, 2e-8), 2.0**-36), epsilon=1,
                  noise=pm.SimulatedNoise(1))  # fmt: skip
    assert np.all(np.isfinite(made.estimate))


def test_values_that_are_rounded_to_few_are_nearly_constant():
    """Without bounds as well; a unit that steps resolve has its interval."""
    for seed in range(5):
        made = pm.mean(column(1e-12), "x", epsilon=2, noise=pm.SimulatedNoise(seed))
        assert made.status == "point_mass"
        fine = pm.mean(column(1e-9), "x", epsilon=2, noise=pm.SimulatedNoise(seed))
        (row,) = fine.rows()
        assert row.lower <= 1e-9 * np.exp(0.5) <= row.upper
