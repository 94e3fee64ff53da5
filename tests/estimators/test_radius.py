"""Where influences are shortened, and lengths in units that cannot be theirs."""

import numpy as np
import pytest

from privmean.estimators.regression.score_lengths import misread, usual_size

EDGES = np.array([2.0 ** ((j - 14) / 2) for j in range(31)])


def counts(lengths, persons, sd, seed):
    cell = np.searchsorted(EDGES, lengths, side="right")
    return np.bincount(cell, minlength=32) + np.random.default_rng(seed).normal(0, sd, 32)


@pytest.mark.slow
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
        assert not misread(counts(length, 5000, sd, seed), sd, EDGES, 5000, laplace=False)


def test_laplace_noise_is_called_misread_by_chance_as_seldom_as_said():
    """In 1e-4 for each of eight lengths; thresholds of normal noise are passed in .003 or more."""
    rng, sd, calls = np.random.default_rng(8), 60.0, 20_000
    lengths = counts(np.abs(rng.normal(size=5000)), 5000, 0.0, 0)
    noise = rng.laplace(0, sd / np.sqrt(2), (calls, 32))
    alarms = {
        laplace: sum(misread(lengths + draw, sd, EDGES, 5000, laplace=laplace) for draw in noise)
        for laplace in (True, False)
    }
    assert alarms[True] < 8e-4 * calls + 5 * np.sqrt(8e-4 * calls)
    assert alarms[False] > 2e-3 * calls


@pytest.mark.parametrize("part", [0.1, 0.22])
@pytest.mark.parametrize("factor", [1e3, 1e5, 1e9])
def test_a_part_of_the_persons_far_beyond_is_noticed(part, factor):
    """A regressor that few have, in units a power too small."""
    rng = np.random.default_rng(2)
    for seed in range(50):
        z = np.abs(rng.normal(size=5000))
        z[: int(5000 * part)] *= factor
        assert misread(counts(z, 5000, 30.0, seed), 30.0, EDGES, 5000, laplace=False)


@pytest.mark.parametrize("numbers", [1, 3])
@pytest.mark.parametrize("records", [1, 4, 12, 50, 400, 4000])
@pytest.mark.parametrize("sd", [1.0, 30.0])
def test_means_of_many_records_are_short_and_known_as_such(numbers, records, sd):
    """The mean square over the usual size stays where single records have it."""
    rng = np.random.default_rng(3)
    for seed in range(100):
        z = rng.normal(size=(5000, numbers)) / np.sqrt(records)
        noisy = counts(np.sqrt((z**2).mean(axis=1)), 5000, sd, seed)
        usual = usual_size(noisy, sd, EDGES)
        assert usual == 1 if records == 1 else usual < 1 or records == 4
        assert 0.35 < records**-0.5 / usual < 1.5
        assert not misread(noisy, sd, EDGES / usual, 5000, laplace=False)


@pytest.mark.parametrize("scale", [1.0, 1 / 16])
def test_few_long_influences_among_many_short_ones_are_noticed(scale):
    """A regressor that most have next to nothing of, in units that are those of the few."""
    rng = np.random.default_rng(4)
    for seed in range(50):
        z = np.abs(rng.normal(size=5000)) / 100
        z[:600] *= 1000 * scale
        noisy = counts(z, 5000, 10.0, seed)
        usual = usual_size(noisy, 10.0, EDGES)
        assert misread(noisy, 10.0, EDGES / usual, 5000, laplace=False)


def test_noise_alone_does_not_make_influences_short():
    rng = np.random.default_rng(5)
    z = np.abs(rng.normal(size=1500))
    sizes = [usual_size(counts(z, 1500, 80.0, seed), 80.0, EDGES) for seed in range(400)]
    assert np.mean(np.array(sizes) < 1) < 0.05
