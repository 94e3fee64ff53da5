"""Rounds that follow a value which most persons share, and what they leave behind."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import statistics_kit
from privmean.central.default_mean import DefaultMean
from privmean.central.log_histogram import LAPLACE, Histogram, Window, bin_edge, read_reach
from privmean.central.overlooked_group import (
    AWAY,
    CERTAIN,
    DEVIATION,
    MORE_CERTAIN,
    OverlookedGroupCheck,
    find_overlooked,
)
from privmean.central.pure_budget import PureBudgetSpender
from privmean.data.array_table import ArrayPersonTable
from privmean.data.grids import LOG_BINS
from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from statistics_kit import planned

SD = 10 * DEVIATION


def people(x):
    return ArrayPersonTable(np.asarray(x, float)[:, None], ("v",))


class Silent(SimulatedNoise):
    """No noise."""

    def laplace(self, size, scale):
        return np.zeros(size, dtype=np.int64)


def histogram(up=(), down=(), scale=10.0):
    sides = np.zeros(LOG_BINS), np.zeros(LOG_BINS)
    for side, cells in zip(sides, (up, down), strict=True):
        for cell, count in cells:
            side[cell] = count
    return Histogram(sides[0], 0.0, sides[1], scale)


def test_what_rounds_say_that_they_miss():
    assert find_overlooked([], 10.0) is None
    assert find_overlooked([4 * SD], 10.0) is None  # one round is not enough
    assert find_overlooked([0.0, 0.0, 0.0], 10.0) is None
    assert find_overlooked([1.5 * SD, 1.4 * SD], 10.0) is not None
    assert find_overlooked([1.4 * SD, 1.3 * SD], 10.0) is None
    assert find_overlooked([1.2 * SD] * 3, 10.0) is not None
    assert find_overlooked([1.1 * SD] * 3, 10.0) is None
    found = find_overlooked([3 * SD] * 3, 10.0)
    assert (found.rounds, found.certain) == (0, CERTAIN)
    assert found.n == pytest.approx(3 * SD - SD / math.sqrt(3))
    # the first two held everybody: those missed were beside the value then
    assert find_overlooked([0.0, 0.0, 5 * SD, 5 * SD], 10.0).rounds == 2
    assert find_overlooked([0.0, 0.0, 5 * SD], 10.0) is None  # wait for another round
    assert find_overlooked([0.0, 2.5 * SD, 2.5 * SD], 10.0) is None  # in doubt where they were
    assert find_overlooked([0.0, 2.5 * SD, 2.5 * SD], 10.0, least=50.0).rounds == 0
    last = find_overlooked([0.0, 0.0], 10.0, least=50.0)
    assert (last.n, last.rounds, last.certain) == (50.0, 0, MORE_CERTAIN)


def passed(x, rounds=3, noise=None):
    """Rounds that lost 8 persons' worth of deviations each, around values at 1."""
    curator = TrustedCurator(people(x), noise or Silent(0))
    done = OverlookedGroupCheck(curator, 0, PureBudgetSpender(Fraction(1), REPLACE_ONE))
    cell = 80
    for _ in range(rounds):
        around = histogram([(cell, 1000.0)])
        window = Window(1000.0, 1000.0, 0.0, 1.0, cell - 1, cell)
        done.moved(around, window, 1.0, 1000.0 + 8 * SD, 0.0)
        cell -= 12
    return done, curator, bin_edge(cell + 12 - 1 + 4)


def test_one_person_moves_the_question_by_one_and_it_is_asked_once():
    def away(value):
        done, curator, edge = passed([1.0] * 400 + [0.0] * 150 + [value])
        start = done.start(1.0, 0.0, sees=10.0)
        (line,) = curator.events
        assert (line.name, line.sensitivity) == ("count far from coarse location", 1)
        assert done.away[1] == float(line.scale)
        assert done.spender.left + line.sensitivity / line.scale == 1  # exact
        again = done.start(1.0, 0.0, sees=10.0)
        assert again is None
        assert len(curator.events) == 1
        return done.away[0], start, edge

    inside, start, edge = away(1.0)
    assert start == 1.0  # where the first round was looked from
    values = [0.0, math.inf, -math.inf, math.nan, 1 + AWAY * edge, 1.0001 + AWAY * edge]
    for value in values:
        assert away(value)[0] - inside in (0, 1)
    assert {away(value)[0] - inside for value in values} == {0, 1}


def test_nobody_far_away_and_nothing_is_gone_back_to():
    done, curator, _ = passed([1.0] * 550)
    assert done.start(1.0, 0.0, sees=10.0) is None
    assert len(curator.events) == 1
    large, curator, _ = passed([1.0] * 400 + [0.0] * 150)
    assert large.start(1.0, 0.0, sees=0.1) == 1.0  # the next look shows them from here
    assert not curator.events
    early, curator, _ = passed([1.0] * 400 + [0.0] * 150, rounds=2)
    assert early.start(1.0, 0.0, sees=10.0) is None
    assert not curator.events


def ones(g, n):
    return (g.random(n) < 0.93) * 1.0


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
def test_few_others_beside_a_value_that_most_share_are_in_the_mean(relation):
    g, n, runs, squares, back = np.random.default_rng(4), 4000, 40, [], 0
    known = n if relation == REPLACE_ONE else None
    plan = planned(DefaultMean(), Budget(epsilon=0.5), persons=known, relation=relation)
    for _ in range(runs):
        x = ones(g, n)
        release = plan.release(people(x), SimulatedNoise(g))
        squares.append((release.estimate[0] - x.mean()) ** 2 * n / (0.93 * 0.07))
        back += release.diagnostics["origin"] == 0 and "people left behind" in release.diagnostics
    statistics_kit.assert_rate_at_least(back, runs, 0.6)
    assert np.median(squares) < 3**2  # 15 where the zeros are left out


@pytest.mark.parametrize("offset", [1990.0, 1e6])
def test_nothing_is_left_behind_by_rounds_towards_one_far_place(offset):
    g, asked, runs = np.random.default_rng(5), 0, 60
    plan = planned(DefaultMean(), Budget(epsilon=0.5), persons=4000)
    for _ in range(runs):
        x = g.normal(offset, 10, 4000)
        facts = plan.release(people(x), SimulatedNoise(g)).diagnostics
        asked += "people left behind" in facts
        assert facts["origin"] > offset / 2
    statistics_kit.assert_rate_at_most(asked, runs, 0.15)


def test_a_side_is_searched_as_far_as_the_other_one_reaches():
    """Beside a value that most share: of those on either side fewer are needed on the second."""
    atom, far = (40, 8000.0), [(k, 200.0) for k in range(82, 90)]
    enough = 10 * (LAPLACE.price + 1.01 * LAPLACE.other)
    both = read_reach(histogram([atom, (86, enough)], far), 1.0)
    assert (both.lower, both.upper) == (-bin_edge(90), bin_edge(87))
    one = read_reach(histogram([atom, (86, enough - 1)], far), 1.0)
    assert (one.lower, one.upper) == (-bin_edge(90), bin_edge(41))
    beyond = read_reach(histogram([atom, (92, enough)], far), 1.0)
    assert beyond.upper == bin_edge(41)
    # what is thinly spread on the short side tells where uncounted persons are likelier to be
    thin = [(k, 20.0) for k in range(80, 90)]
    assert read_reach(histogram([atom, *thin], far), 1.0).hidden == 200.0
    assert read_reach(histogram(thin, [atom, *far]), 1.0).hidden == 200.0
    assert read_reach(histogram([atom], [(44, 900.0)]), 1.0).hidden == 0.0
