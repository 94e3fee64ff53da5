"""Where epsilon and the values are related: the default sees it, says it, and covers.

Bits are counted straight from their law: two binomial numbers a run instead of 20,000 reports.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from cli_runner import shell
from privmean.errors import ArgumentError
from privmean.local.aggregators.estimate_result import ALARM, MISSED, cochran
from privmean.local.aggregators.estimate_round import estimate, item_oracle
from privmean.local.aggregators.tally import Tally
from privmean.local.exact_coins import signal
from privmean.local.kernel_regression import curve
from privmean.local.round_builders import ball_round, items_round, mean_round
from privmean.local.two_round_mean import WinsorizedRounds
from privmean.local.vectorized import tally_many
from privmean.noise.noise_source import SimulatedNoise
from statistics_kit import assert_rate_at_least, assert_rate_at_most

LEVELS, COUNTS = (0.1, 1.0), (18_000, 2_000)  # 90 % epsilon .1, 10 % epsilon 1
RELATED, TRUTH = (-0.1, 0.5), -0.04  # the mean of each level, and of all


def bits(rng, means, counts=COUNTS, levels=LEVELS, **options):
    """The tally of one-bit reports of values on [-1, 1] with these means a level."""
    round_ = mean_round(-1, 1, epsilon=list(levels), persons=sum(counts), **options)
    result = Tally.empty(round_)
    chances = [(1 + m * signal(e)) / 2 for m, e in zip(means, round_.menu, strict=True)]
    result.counts[:] = counts
    result.sums[:, 0] = 2 * rng.binomial(counts, chances) - np.array(counts)
    return result


def covers(answer, truth):
    band = answer.interval()
    return abs(float(answer) - truth) <= answer.radius, band.lower[0] <= truth <= band.upper[0]


def test_the_default_covers_where_epsilon_and_value_are_related():
    """The test misses it in 4 % of runs and covers in the others; without it nothing covers."""
    rng = np.random.default_rng(1)
    runs, radius, interval, seen, before = 400, 0, 0, 0, 0
    for _ in range(runs):
        counted = bits(rng, RELATED)
        answer = estimate(counted)
        hits = covers(answer, TRUTH)
        radius, interval = radius + hits[0], interval + hits[1]
        seen += answer.used == "uniform"
        before += covers(estimate(counted, weights="minimax"), TRUTH)[0]
    assert before == 0
    assert_rate_at_least(seen, runs, 0.955)
    assert_rate_at_least(radius, runs, 0.95)
    assert_rate_at_least(interval, runs, 0.93)


def test_where_nothing_is_related_the_default_covers_and_is_seldom_alarmed():
    rng = np.random.default_rng(2)
    runs, missed, outside, alarms = 600, 0, 0, 0
    for _ in range(runs):
        answer = estimate(bits(rng, (0.3, 0.3)))
        hits = covers(answer, 0.3)
        missed, outside = missed + (not hits[0]), outside + (not hits[1])
        alarms += answer.used == "uniform"
    assert_rate_at_most(missed, runs, 0.05)
    assert_rate_at_most(outside, runs, 0.05)
    assert_rate_at_most(alarms, runs, 1.1 * ALARM)
    radius = [estimate(bits(rng, (0.3, 0.3)), weights=w).radius for w in ("tested", "minimax")]
    assert radius[0] / radius[1] == pytest.approx(np.sqrt(np.log(80) / np.log(40)))  # the split


@pytest.mark.parametrize("counts", [COUNTS, (500, 40), (3000, 3000)])
def test_a_relation_of_the_size_that_is_named_is_found_nine_times_in_ten(counts):
    rng = np.random.default_rng(3)
    middle = estimate(bits(rng, (0.0, 0.0), counts))
    share, weight = counts[1] / sum(counts), counts[1] * middle.levels[1].weight
    gap = middle.unseen / (weight - share)  # moves the weighted mean by `unseen`
    if gap > 1:
        pytest.skip("beyond the range")
    means = (-share * gap, (1 - share) * gap)
    found = sum(estimate(bits(rng, means, counts)).used == "uniform" for _ in range(600))
    assert_rate_at_least(found, 600, 1 - 1.3 * MISSED)
    assert_rate_at_most(found, 600, 1 - 0.6 * MISSED)


def items_of(rng, own, shares):
    return np.array([rng.choice(len(shares[e]), p=shares[e]) for e in own])


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["hadamard", "subset"])
def test_related_items_are_seen_by_default(mechanism):
    """Also at levels where the sampling of persons outweighs the noise of privacy."""
    rng = np.random.default_rng(4)
    own = np.where(np.arange(4000) < 3000, 1.0, 5.0)
    shares = {1.0: [0.1] * 10, 5.0: [0.46] + [0.06] * 9}
    truth = (0.75 * np.array(shares[1.0])) + 0.25 * np.array(shares[5.0])
    for k in range(8):
        round_ = items_round(10, epsilon=[1, 5], persons=4000, mechanism=mechanism)
        values = items_of(rng, own, shares)
        counted = tally_many(round_, values, epsilon=own, noise=SimulatedNoise(k))
        answer = estimate(counted)
        assert answer.used == "uniform"
        assert abs(answer.value - truth).max() <= answer.radius
        if mechanism == "hadamard":
            oracle = item_oracle(counted)
            assert oracle.agreement(oracle.alone(0)).related
            assert oracle(0) == pytest.approx(answer.raw[0])
            plain = item_oracle(counted, weights="minimax")
            assert oracle(3) == pytest.approx(plain(3)) or oracle.agreement(oracle.alone(3)).related
            assert abs(plain(0) - truth[0]) > 0.06


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["hadamard", "subset", "sketch"])
def test_unrelated_items_are_seldom_suspected(mechanism):
    """Shares depend on each other: two items are one number, and a few rare ones are skewed."""
    rng = np.random.default_rng(5)
    for d in (2, 20):
        p = 1 / np.arange(1, d + 1) ** 2
        alarms = 0
        for k in range(80):
            round_ = items_round(d, epsilon=[1, 6], persons=600, mechanism=mechanism)
            own = rng.choice([1.0, 6.0], 600, p=[0.9, 0.1])
            values = rng.choice(d, 600, p=p / p.sum())
            counted = tally_many(round_, values, epsilon=own, noise=SimulatedNoise(k))
            alarms += estimate(counted).heterogeneity.related
        assert_rate_at_most(alarms, 80, 1.4 * ALARM)


@pytest.mark.slow
def test_related_vectors_are_seen_by_default():
    own = np.where(np.arange(6000) < 5000, 0.5, 4.0)
    values = np.zeros((6000, 5))
    values[:, 0] = np.where(own == 4.0, 0.9, -0.3)
    for k in range(5):
        round_ = ball_round(1, 5, epsilon=[0.5, 4], persons=6000)
        counted = tally_many(round_, values, epsilon=own, noise=SimulatedNoise(k))
        answer = estimate(counted)
        assert answer.used == "uniform"
        truth = values.mean(axis=0)
        assert np.linalg.norm(answer.value - truth) <= answer.radius
        plain = estimate(counted, weights="minimax")
        assert np.linalg.norm(plain.value - truth) > plain.radius


def test_a_related_curve_is_seen_by_default():
    rng = np.random.default_rng(7)
    n = 8000
    x = (np.arange(n) + 0.5) / n
    own = rng.choice([0.5, 4.0], n, p=[0.8, 0.2])
    round_ = mean_round(-1, 1, epsilon=[0.5, 4], persons=n, points=x)
    at = np.array([0.3, 0.6])
    for gap, used in ((1.2, "uniform"), (0.0, "minimax")):
        y = np.where(own == 4.0, gap / 2, -gap / 2) + rng.uniform(-0.1, 0.1, n)
        noise = SimulatedNoise(8)
        counted = tally_many(round_, y, epsilon=own, noise=noise, points=np.arange(n))
        found = curve(counted, at, bandwidth=0.25)
        assert (found.used, found.weights) == (used, "tested")
        truth = -0.6 * gap / 2
        assert (abs(found.value - truth) < 5 * found.spread + 0.02).all()
    plain = curve(counted, at, bandwidth=0.25, weights="minimax")
    assert plain.value == pytest.approx(found.value)
    with pytest.raises(ArgumentError):
        curve(counted, at, bandwidth=0.25, weights="best")


def test_one_level_pays_nothing_for_the_test():
    rng = np.random.default_rng(8)
    counted = bits(rng, (0.2, 0.2), (0, 500))
    answer, plain = estimate(counted), estimate(counted, weights="minimax")
    assert (answer.radius, answer.interval()) == (plain.radius, plain.interval())
    assert (answer.relation, answer.to_dict()["relation"]) == ("", None)
    assert "Epsilon and the values" not in answer.summary()


def test_a_single_heavy_report_is_compared_too():
    """One report of a large epsilon among many of a small one weighs as much as a quarter."""
    counted = bits(np.random.default_rng(9), (0.0, 1.0), (1000, 1), (0.1, 6.0))
    assert estimate(counted).heterogeneity.degrees == 1
    assert estimate(counted).relation


def test_the_choice_is_said_in_words():
    rng = np.random.default_rng(10)
    related, alike = bits(rng, RELATED), bits(rng, (0.1, 0.1))
    said = {
        (name, weights): estimate(counted, weights=weights).relation
        for name, counted in (("related", related), ("alike", alike))
        for weights in ("tested", "minimax", "uniform")
    }
    assert "disagree" in said["related", "tested"]
    assert "every report counts the same" in said["related", "tested"]
    assert "off by far more than its radius" in said["related", "minimax"]
    assert said["related", "uniform"].startswith("every report counts the same, as asked for")
    for weights in ("tested", "minimax"):
        assert "agree (p =" in said["alike", weights]
        assert f"moves the answer by {estimate(alike).unseen:.2g}" in said["alike", weights]
    assert len(set(said.values())) == 5  # of levels that agree, weights are the same either way
    data = estimate(related).to_dict()
    assert (data["weights"], data["weights_used"]) == ("tested", "uniform")
    assert data["relation"]["found"] is True
    assert data["relation"]["words"] == said["related", "tested"]
    assert json.loads(json.dumps(data)) == data


def test_the_command_tests_by_default_and_says_so(tmp_path):
    rng = np.random.default_rng(11)
    counted = bits(rng, RELATED)
    counted.secure = True
    (tmp_path / "tally").write_bytes(counted.to_bytes())
    (tmp_path / "round.json").write_text(counted.round.to_json())

    def run(*more):
        files = ["aggregate", str(tmp_path / "tally"), "--round", str(tmp_path / "round.json")]
        result = shell("collect", *files, *more)
        assert result.exit_code == 0, result.output
        return result.output

    text = run()
    assert "the levels of epsilon disagree" in text
    found = json.loads(run("--json"))
    assert found["weights_used"] == "uniform"
    assert abs(found["value"][0] - TRUTH) <= found["radius"]
    assert "use weights" in run("--weights", "minimax")


def test_two_rounds_pass_on_what_the_vote_showed():
    rng = np.random.default_rng(12)
    n = 3000
    own = rng.choice([1.0, 4.0], n)
    values = np.where(own == 4.0, 8.0, 2.0) + rng.normal(0, 0.1, n)
    protocol = WinsorizedRounds.of(0, 10, tau=0.5, epsilon=[1, 4], persons=n)
    found = protocol.run(values, epsilon=own, noise=SimulatedNoise(13))
    assert any(
        note.startswith("in the vote, the levels of epsilon disagree") for note in found.notes
    )
    one = WinsorizedRounds.of(0, 10, tau=0.5, epsilon=1, persons=n)
    alone = one.run(values, epsilon=1, noise=SimulatedNoise(13))
    assert not any(note.startswith("in the vote") for note in alone.notes)


def test_cochran_by_hand():
    test = cochran(np.array([[0.0], [2.0], [np.nan]]), np.array([[1.0], [1.0], [1.0]]))
    assert (test.statistic, test.degrees, test.numbers) == (2.0, 1, 1)
    assert test.p_value == pytest.approx(0.1573, abs=1e-4)
    assert test.reach == pytest.approx(1.959964 + 1.281552, abs=1e-3)
    assert cochran(np.array([[1.0]]), np.array([[1.0]])).p_value == 1.0
    estimates = np.array([[0.0, 5.0, np.nan], [2.0, 5.0, 1.0]])
    both = cochran(estimates, np.ones((2, 3)))
    assert (both.statistic, both.degrees) == (2.0, 2)
    each = cochran(estimates, np.ones((2, 3)), each=True)
    assert (each.statistic, each.degrees, each.numbers) == (2.0, 1, 2)
    assert each.p_value == pytest.approx(2 * test.p_value)


def test_no_interval_is_longer_than_a_radius_proved_at_its_level():
    """Few reports that weigh much: Bernstein's term alone would pass the proved radius."""
    round_ = mean_round(-1, 1, epsilon=[0.1, 0.5, 1, 6], persons=300, mechanism="piecewise")
    own = np.random.default_rng(14).choice([0.1, 0.5, 1.0, 6.0], 300)
    counted = tally_many(round_, np.zeros(300), epsilon=own, noise=SimulatedNoise(15))
    answer = estimate(counted)
    for level in (0.5, 0.9, 0.95, 0.99, 0.9999):
        proved = estimate(counted, beta=1 - level).raw_radius
        half = (answer.interval(level).upper[0] - answer.interval(level).lower[0]) / 2
        assert half <= proved * (1 + 1e-12)
    half = (answer.interval(0.95).upper[0] - answer.interval(0.95).lower[0]) / 2
    assert half < 0.6 * estimate(counted, beta=0.05).raw_radius
