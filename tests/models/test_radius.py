"""Where influences are shortened, and lengths in units that cannot be theirs."""

from __future__ import annotations

import numpy as np
import pytest

from privmean.models.radius import FARTHEST, misread, overrun, strayed

EDGES = np.array([2.0 ** ((j - 14) / 2) for j in range(31)])


def counts(lengths, persons, sd, seed):
    cell = np.searchsorted(EDGES, lengths, side="right")
    return np.bincount(cell, minlength=32) + np.random.default_rng(seed).normal(0, sd, 32)


@pytest.mark.parametrize("law", ["normal", "t3", "lognormal"])
@pytest.mark.parametrize("sd", [1.0, 30.0])
def test_influences_in_their_own_units_are_not_called_misread(law, sd):
    rng = np.random.default_rng(1)
    for seed in range(200):
        z = {
            "normal": rng.normal(size=(5000, 3)),
            "t3": rng.standard_t(3, (5000, 3)) / np.sqrt(3),
            "lognormal": rng.normal(size=(5000, 3)) * np.exp(rng.normal(0, 0.7, (5000, 1)) - 0.49),
        }[law]
        length = np.sqrt((z**2).mean(axis=1))
        assert not misread(counts(length, 5000, sd, seed), sd, EDGES, 5000)
        for wide in (0.5, 1.0, 1.4, 2.0, 4.0):
            assert not overrun(float((length > wide).sum()), sd, 5000, wide, 3)


@pytest.mark.parametrize("part", [0.1, 0.22])
@pytest.mark.parametrize("factor", [1e3, 1e5, 1e9])
def test_a_part_of_the_persons_far_beyond_is_noticed(part, factor):
    """A regressor that few have, in units a power too small."""
    rng = np.random.default_rng(2)
    for seed in range(50):
        z = np.abs(rng.normal(size=5000))
        z[: int(5000 * part)] *= factor
        assert misread(counts(z, 5000, 30.0, seed), 30.0, EDGES, 5000)
        assert overrun(float((z > 3).sum()), 30.0, 5000, 3.0, 3)


def test_units_that_are_far_too_large_are_noticed():
    z = np.abs(np.random.default_rng(3).normal(size=5000)) / 100
    assert misread(counts(z, 5000, 30.0, 1), 30.0, EDGES, 5000)


def test_a_step_is_long_by_more_than_its_noise_and_never_longer_than_the_farthest():
    noise = np.array([0.0, 0.1])
    assert not strayed(np.array([0.4, -0.75]), noise)
    assert strayed(np.array([-0.6, 0.0]), noise)
    assert strayed(np.array([0.0, 0.85]), noise)
    assert strayed(np.full(2, 1.01 * FARTHEST), np.full(2, 10.0))
