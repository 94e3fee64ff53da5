"""Running means as published: Algorithm 1 with the paper's strategies, its table, its guarantee."""

from __future__ import annotations

import numpy as np
import pytest

import privmean.streams
from privmean import InfeasibleError
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.gdp import gaussian_mu
from privmean.published import BandedInverse, Decaying, running_means
from privmean.published.continual import table_2_strategies
from privmean.streams import Banded, Identity, MeanToeplitz, Participation, PrefixRoot
from statistics_kit import assert_mean

PATTERN = Participation(4, 16)
PEOPLE = [k % 16 for k in range(64)]
STRATEGIES = [
    None,
    Identity(),
    PrefixRoot(),
    Banded(PrefixRoot(), 4),
    Banded(MeanToeplitz(), 16),
    BandedInverse(PrefixRoot(), 4),
    MeanToeplitz(),
    Decaying(0.06),
]


def run(values, noise, strategy=None, **more):
    given = {"epsilon": 1.0, "delta": 1e-6, "bounds": (0.0, 1.0), **more}
    return running_means(
        PEOPLE, values, participation=PATTERN, strategy=strategy, noise=noise, **given
    )


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda item: item.name if item else "printed")
def test_the_noise_of_the_last_step_is_the_strategys(strategy):
    """Zero-out in [0, 1]: a record moves a row by 1/2."""
    used = strategy or BandedInverse(MeanToeplitz(), 16)
    unit = 0.5 / gaussian_mu(1.0, 1e-6) * used.sensitivity(PATTERN, 64)
    sd = unit * np.sqrt(used.variances(64)[-1]) / 64
    last = []
    for seed in range(120):
        found = run([0.5] * 64, SimulatedNoise(seed), strategy)
        release = found.releases[-1]
        assert release.noise_sd == pytest.approx(sd, rel=2e-3)
        last.append(float(release.estimate[0]) - 0.5)
    assert_mean(np.square(last) / sd**2, 1.0, slack=0.01)
    assert len(found.releases) == 64


def test_all_releases_together_have_one_guarantee():
    found = run([0.2] * 64, SimulatedNoise(1))
    assert found.guarantee.verify()
    assert found.guarantee.neighbors == "zero-out"
    assert found.guarantee.epsilon <= 1.0


class Wavy(MeanToeplitz):
    """An inverse with a positive entry: its column increases."""

    def inverse(self, n):
        return np.array([1.0, -0.9, 0.5, *np.zeros(max(n - 3, 0))])[:n]


def test_what_the_printed_sensitivity_does_not_hold_for_is_refused():
    with pytest.raises(InfeasibleError, match="increasing entries"):
        run([0.2] * 64, SimulatedNoise(1), BandedInverse(Wavy(), 3))


def test_the_table_has_the_papers_names():
    found = table_2_strategies(Participation(4, 2048), 8192)
    errors = [strategy.rmse(Participation(4, 2048), 8192) for strategy in found.values()]
    printed = [0.068, 0.073, 0.042, 0.043, 0.046, 0.042, 0.045, 0.042]  # two cells corrected
    assert [round(error, 3) for error in errors] == printed


@pytest.mark.parametrize("name", ["BandedInverse", "Decaying", "DampedToeplitz"])
def test_strategies_that_left_the_main_road_are_named(name):
    with pytest.raises(AttributeError, match="Use privmean"):
        getattr(privmean.streams, name)
