"""Gaussian noise wider than 64 bits: drawn on a coarser lattice, and no change beyond mu."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import privmean as pm
from privmean.errors import InfeasibleError
from privmean.mechanisms.noisy_vector import COARSE, SMALLEST_LOSS, GaussianVector
from privmean.noise.simulated import SimulatedNoise
from statistics_kit import assert_mean


def gaussian(sds, mu: float) -> GaussianVector:
    """Answers in their own steps."""
    return GaussianVector("x", (1,) * len(sds), tuple(sds), mu)


def lattice_changes(mechanism: GaussianVector, a: list[int], b: list[int]) -> float:
    """The square root of sum (change/deviation)^2 on the lattice where noise is drawn."""
    total = Fraction(0)
    places = zip(mechanism.placed(a), mechanism.placed(b), mechanism.scales, strict=True)
    for x, y, sd in places:
        change = x - y
        total += (Fraction(change) / Fraction(sd)) ** 2
    return float(total) ** 0.5


@settings(max_examples=200)
@example([(8.12905634619854e26, 0, 1.2301550849350902e-27)])  # one own step is all of mu
@example([(2.0**99, 0, 2.0**-60)])
@given(
    st.lists(
        st.tuples(st.floats(1.0, 2.0**100), st.integers(-(2**110), 2**110), st.floats(-1, 1)),
        min_size=1,
        max_size=6,
    )
)
def test_no_change_exceeds_mu(answers):
    """Neighbours that use all of mu in the answers' own steps do not exceed it where noise is, and
    hardly more noise is drawn than asked; a mu for which that cannot be is refused when planned."""
    sds = [sd for sd, _, _ in answers]
    a = [start for _, start, _ in answers]
    b = [start + int(part * sd) for sd, start, part in answers]
    exact = math.sqrt(
        sum(((x - y) / Fraction(sd)) ** 2 for x, y, sd in zip(a, b, sds, strict=True))
    )
    if exact == 0:
        return
    if exact < SMALLEST_LOSS:
        with pytest.raises(InfeasibleError, match="larger epsilon"):
            gaussian(sds, exact)
        return
    mechanism = gaussian(sds, exact)
    assert all(2**19 <= sd <= COARSE * 2 for sd in mechanism.scales)
    for asked, bits, sd in zip(sds, mechanism.lattice, mechanism.scales, strict=True):
        assert math.ldexp(sd, -bits) <= asked * (1 + 2.0**-11)
    assert lattice_changes(mechanism, a, b) <= exact * (1 + 1e-12)


def test_a_twin_that_does_not_pay_for_the_rounding_exceeds_mu():
    """All that the least mu allows is 2^13 coarse steps and a quarter; rounding makes one more."""
    sd, mu = 2.0**100 + 2.0**85, SMALLEST_LOSS
    mechanism = gaussian((sd,), mu)
    (drawn,), coarse = mechanism.scales, -mechanism.lattice[0]
    change = int(mu * sd)
    a = (1 << 80) + change % (1 << coarse) - 1
    assert lattice_changes(mechanism, [a], [a - change]) <= mu * (1 + 1e-12)
    moved = (a >> coarse) - ((a - change) >> coarse)
    assert moved / math.ldexp(sd, -coarse) > mu * (1 + 2.0**-14)
    assert drawn > math.ldexp(sd, -coarse)


def test_wide_noise_has_its_deviation_and_no_bias():
    sd, answer = 2.0**80, 3 << 79
    mechanism = gaussian((sd, 5.0), 1.0)
    noise = SimulatedNoise(1)
    draws = np.array([mechanism.draw((answer, 7), noise)[0] for _ in range(2000)], dtype=float)
    assert_mean((draws - answer) / sd, 0.0)
    assert (draws / sd - 1.5).std() == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_many_columns_and_a_large_cap_are_released(neighbors):
    """Squares of weighted values pass 64 bits here: the release must not fail after its charge."""
    rng = np.random.default_rng(1)
    people = pm.read(
        rng.normal(3, 1, (6000, 12)),
        person=np.repeat(np.arange(2000), 3),
        estimand="records",
        max_records=1000,
    )
    options = {} if neighbors == "replace-one" else {"n_guess": 2000}
    release = pm.mean(
        people,
        epsilon=20,
        delta=1e-6,
        concentration=pm.SubGaussian(sd=1),
        neighbors=neighbors,
        noise=SimulatedNoise(2),
        **options,
    )
    assert len(release.estimate) == 12
    # with this cap the noise hides all 2000 persons: a private failure, not an exception
    assert release.failed
    assert np.isnan(release.estimate).all()
