"""Two-round means, person means, slopes, random effects, curves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privmean.errors import ArgumentError
from privmean.local.aggregators.aggregator import ReportValidator
from privmean.local.aggregators.estimate_round import estimate
from privmean.local.aggregators.tally import tally
from privmean.local.clients.client import Client, Ledger, randomize
from privmean.local.clients.randomizers import person_mean, slope
from privmean.local.kernel_regression import curve
from privmean.local.reports import decode
from privmean.local.round import Round
from privmean.local.round_builders import (
    ball_round,
    items_round,
    mean_round,
    tau_random_effects,
    tau_sub_gaussian,
    vote_round,
)
from privmean.local.two_round_mean import WinsorizedRounds
from privmean.local.vectorized import randomize_many, tally_many
from privmean.noise.noise_source import SimulatedNoise
from statistics_kit import assert_mean, assert_rate_at_most


def test_bins_cover_the_range_and_windows_follow_the_rule():
    """K = max(0, ceil((B - h)/2h)): B = 1.9 h is not one bin."""
    for b, h, bins in ((50, 5.0, 11), (1.9, 1.0, 3), (1.0, 1.0, 3), (3.0, 1.0, 3), (3.1, 1.0, 5)):
        protocol = WinsorizedRounds.of(-b, b, tau=h, epsilon=1, persons=100)
        vote = protocol.vote()
        assert vote.bins == bins
        assert vote.upper[0] >= b
        assert (vote.upper[0] - vote.lower[0]) / bins == pytest.approx(2 * h)
        assert protocol.reach == (3 * h,)
    protocol = WinsorizedRounds.of(0, 10, tau=1, half_width=0.5, epsilon=1, persons=100)
    assert protocol.reach == (2.0,)


@pytest.mark.slow
def test_one_bit_halves_it_and_everybody_twice_is_worse():
    n, runs = 2000, 60
    tau = tau_sub_gaussian(1, n)
    rng = np.random.default_rng(1)

    def mse(**options):
        errors = []
        for k in range(runs):
            mu = rng.uniform(-25, 25)
            protocol = WinsorizedRounds.of(
                -50, 50, tau=tau, epsilon=1, persons=n, unclear="winner", **options
            )
            found = protocol.run(mu + rng.normal(size=n), epsilon=1, noise=SimulatedNoise(k))
            errors.append(float(found.raw[0]) - mu)
        return np.mean(np.square(errors))

    split = mse()
    both = mse(shares=None)
    assert split < 0.85 * 0.99  # the share of clients with Laplace reports has .99
    assert both > 1.5 * split


@pytest.mark.slow
def test_the_radius_of_the_second_round_covers():
    n = 4000
    rng = np.random.default_rng(2)
    misses = wide = 0
    for k in range(40):
        mu = rng.uniform(-9, 9)
        protocol = WinsorizedRounds.of(-10, 10, tau=0.5, epsilon=2, persons=n, beta=0.3)
        found = protocol.run(mu + rng.normal(0, 0.1, n), epsilon=2, noise=SimulatedNoise(k))
        misses += abs(float(found) - mu) > found.radius
        wide += found.radius > 1
        assert found.details["clear"] == [True]
        assert not found.secure
    assert_rate_at_most(misses, 40, 0.3)
    assert wide == 0


def test_an_unclear_vote_measures_on_the_whole_range():
    rng = np.random.default_rng(3)
    values = rng.uniform(-50, 50, 300)
    protocol = WinsorizedRounds.of(-50, 50, tau=1, epsilon=0.5, persons=300)
    found = protocol.run(values, epsilon=0.5, noise=SimulatedNoise(1))
    assert found.details["clear"] == [False]
    assert "not clear" in " ".join(found.notes)
    assert found.target.startswith("mean of the values clipped")
    assert abs(float(found)) <= 50


@pytest.mark.slow
def test_user_level_localisation():
    """T=1000 records on [-1, 1], epsilon 1, n=20 000: RMSE .0155 with one phase, .0026 with two."""
    n = 20_000
    rng = np.random.default_rng(4)
    one, two, unclear = [], [], 0
    for k in range(25):
        theta = rng.uniform(-0.8, 0.8)
        means = theta + rng.normal(0, 0.5 / math.sqrt(1000), n)
        simple = mean_round(-1, 1, epsilon=1, persons=n)
        single = estimate(tally_many(simple, means, epsilon=1, noise=SimulatedNoise(k)))
        one.append(float(single) - theta)
        protocol = WinsorizedRounds.of(
            -1, 1, tau=0.05, half_width=0.05, reach=0.15, epsilon=1, persons=n,
            vote_mechanism="hadamard",
        )  # fmt: skip
        found = protocol.run(means, epsilon=1, noise=SimulatedNoise(k))
        two.append(float(found) - theta)
        unclear += found.details["clear"] != [True]
    assert unclear == 0
    assert_mean(np.square(one), 0.01548**2)
    assert_mean(np.square(two), 0.00259**2)


def test_real_clients_and_a_hostile_second_round():
    """Clients answer one round each; a window far away only costs accuracy."""
    protocol = WinsorizedRounds.of(
        0, 10, tau=1, epsilon=8, persons=400, shares=(30, 70), unclear="winner"
    )
    vote = protocol.vote()
    gate = ReportValidator(vote)
    sent = {}
    for k in range(400):
        client = Client(epsilon=8, ledger=Ledger(":memory:", limit=8), identity=f"p{k}")
        mine = person_mean([7.0, 7.2, None])
        sent[k] = (client, mine, client.report(vote, mine))
    votes = [item[2] for item in sent.values() if item[2]]
    assert 80 < len(votes) < 160
    location = protocol.locate(tally(gate.parse(b"".join(votes)).batch))
    assert abs(float(location.centre[0]) - 7.1) <= 2
    mean = protocol.mean(location)
    answers = [client.report(mean, mine) for client, mine, _ in sent.values()]
    assert sum(item is not None for item in answers) == 400 - len(votes)
    means = tally(ReportValidator(mean).parse(b"".join(a for a in answers if a)).batch)
    assert abs(float(protocol.answer(location, means)) - 7.1) < 1
    assert all(client.ledger.spent() == 8 for client, _, _ in sent.values())


def test_slopes_of_many_people():
    """Each person fits own records; three coordinates, one a client."""
    rng = np.random.default_rng(5)
    n = 12_000
    x = rng.normal(size=(n, 20, 3))
    y = x @ [0.5, -1.0, 2.0] + rng.normal(size=(n, 20))
    fits = np.array([np.linalg.lstsq(a, b)[0] for a, b in zip(x[:500], y[:500], strict=True)])
    assert slope(x[0].tolist(), y[0].tolist()) == pytest.approx(fits[0].tolist())
    fits = np.vstack([fits, [0.5, -1, 2] + rng.normal(size=(n - 500, 3)) * fits.std(axis=0)])
    fits[0] = math.nan  # a person whose slope is not determined still reports
    protocol = WinsorizedRounds.of(
        [-5] * 3, [5] * 3, tau=1.2, epsilon=4, persons=n, mean_mechanism="piecewise"
    )
    found = protocol.run(fits, epsilon=4, noise=SimulatedNoise(6))
    assert found.value.shape == (3,)
    assert found.value == pytest.approx([0.5, -1, 2], abs=0.3)
    assert (abs(found.value - [0.5, -1, 2]) <= 5 * found.spread).all()
    assert (found.spread < 0.06).all()


def test_recipes_for_tau():
    rng = np.random.default_rng(6)
    n = 2000
    for make, tau in (
        (lambda: rng.normal(0, 2, n), tau_sub_gaussian(2, n)),
        (
            lambda: rng.normal(0, 1, n) + rng.normal(0, 3 / math.sqrt(9), n),
            tau_random_effects(1, 3, 9, n),
        ),
    ):
        misses = sum(abs(make()).max() > tau for _ in range(60))
        assert_rate_at_most(misses, 60, 0.05)
    assert tau_random_effects(1, 3, 10**9, n) == pytest.approx(tau_sub_gaussian(1, n), rel=1e-6)
    for wrong in (
        lambda: tau_sub_gaussian(0, 5),
        lambda: tau_random_effects(1, 1, 0, 5),
        lambda: WinsorizedRounds.of(0, 1, tau=0, epsilon=1, persons=5),
        lambda: WinsorizedRounds.of(0, 1e9, tau=1e-3, epsilon=1, persons=5),
        lambda: WinsorizedRounds.of([0, 0], [1, 1], tau=[1, 1, 1], epsilon=1, persons=5),
        lambda: WinsorizedRounds.of(0, 1, tau=1, epsilon=1, persons=5, shares=(0, 1)),
        lambda: WinsorizedRounds.of(0, 1, tau=1, epsilon=1, persons=5, unclear="ask"),
    ):
        with pytest.raises(ArgumentError):
            wrong()


def test_a_curve_from_one_round():
    """Rate: the variance at a point is (sigma^2 + v) * 6/5 / (2 n b) for this kernel."""
    rng = np.random.default_rng(7)
    n, b = 6000, 0.1
    x = (np.arange(n) + 0.5) / n
    round_ = mean_round(-2, 2, epsilon=1, persons=n, points=x)
    values = []
    for k in range(80):
        y = np.sin(2 * math.pi * x) + rng.normal(0, 0.3, n)
        noise = SimulatedNoise(k)
        counted = tally_many(round_, y, epsilon=1, noise=noise, points=np.arange(n))
        found = curve(counted, np.array([0.25, 0.75]), bandwidth=b)
        values.append(found.value)
    values = np.array(values)
    noise = 4 * 4.6828 - 1
    expected = noise * 0.6 / (n * b)
    assert values.var(axis=0) == pytest.approx([expected] * 2, rel=0.75)
    assert found.spread**2 == pytest.approx([expected] * 2, rel=0.1)
    assert (abs(values.mean(axis=0) - [1, -1]) <= 2 * math.pi * b + 5 * found.spread / 9).all()
    assert found.effective == pytest.approx([n * b / 0.6] * 2, rel=0.01)
    assert math.isnan(curve(counted, np.array([9.0]), bandwidth=b).value[0])


def test_every_builder_can_ask_a_client_more_than_once():
    """The share of a message is in the round itself, whichever mechanism it has."""
    options = {"epsilon": [0.25, 0.5, 1], "persons": 9, "messages": 3}
    for round_ in (
        mean_round(0, 1, **options),
        ball_round(1, 4, **options),
        items_round(5, **options),
        vote_round(0, 1, 4, **options),
    ):
        again = Round.from_json(round_.to_json())
        assert again == round_
        assert decode(randomize(again, None, epsilon=1.5)).level == 1
        batch = randomize_many(again, [None] * 2, epsilon=[0.75, 3], noise=SimulatedNoise(1))
        assert batch.levels.tolist() == [0, 2]
        with pytest.raises(ArgumentError, match="in each of 3 messages"):
            Client(epsilon=0.74, ledger=Ledger(":memory:", limit=9)).report(again, 0)
        assert "one of 3 reports" in estimate(tally(batch)).guarantee()["unit"]
    once = mean_round(0, 1, epsilon=1, persons=9)
    assert "messages" not in once.to_dict()
    for wrong in (0, 65, 1.5, True):
        with pytest.raises(ArgumentError):
            mean_round(0, 1, epsilon=1, persons=9, messages=wrong)
