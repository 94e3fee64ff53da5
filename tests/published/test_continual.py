"""Running means as published: Algorithm 1 with the paper's strategies, its table, its guarantee."""

import numpy as np
import pytest

from privmean import InfeasibleError
from privmean.noise.noise_source import SimulatedNoise
from privmean.published import BandedInverse, running_means
from privmean.published.continual import table_2_strategies
from privmean.streams import MeanToeplitz, Participation

PATTERN = Participation(4, 16)
PEOPLE = [k % 16 for k in range(64)]


def run(values, noise, strategy=None, **more):
    given = {"epsilon": 1.0, "delta": 1e-6, "bounds": (0.0, 1.0), **more}
    return running_means(
        PEOPLE, values, participation=PATTERN, strategy=strategy, noise=noise, **given
    )


def test_the_printed_strategy_is_the_default():
    """D_toep, banded inverse with p = b, and estimates as they are: no clamping."""
    found = run([0.5] * 64, SimulatedNoise(1))
    named = run([0.5] * 64, SimulatedNoise(1), BandedInverse(MeanToeplitz(), 16))
    assert [r.estimate[0] for r in found.releases] == [r.estimate[0] for r in named.releases]
    assert any(not 0 <= r.estimate[0] <= 1 for r in found.releases)


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
