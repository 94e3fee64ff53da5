"""The coarse centre: what it needs, what it costs, where it works and when it fails."""

import math
from fractions import Fraction

import numpy as np
import pytest

from privmean.data.array_table import ArrayPersonTable
from privmean.estimators.heavy_tailed.coarse_center import Coarse, CoarseNeeds
from privmean.mechanisms.curator import TrustedCurator
from privmean.mechanisms.histograms import laplace_tail
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE
from privmean.privacy.privacy_events import Threshold
from statistics_kit import assert_rate_at_least, assert_rate_at_most

FORMS = ("selection", "stable", "gaussian", "gaussian stable")


def found_by(coarse, people, noise):
    return coarse.find(TrustedCurator(people, noise), people)


def needs(n=1000, d=1, spread=1.0, half=100.0, relation=REPLACE_ONE, wide=False):
    return CoarseNeeds(d, n, spread, ((-half, half),) * d, relation, 0.01, wide)


def make(form, n=1000, d=1, **settings):
    facts = needs(n, d, **settings)
    if form == "selection":
        return facts.selection()
    if form == "stable":
        return facts.stable(1e-6)
    return facts.gaussian() if form == "gaussian" else facts.gaussian_stable(2.5e-7)


def people(n, d, seed, center=3.3):
    rng = np.random.default_rng(seed)
    return ArrayPersonTable(rng.standard_normal((n, d)) + center, tuple(f"c{j}" for j in range(d)))


def success(coarse, n, d, runs, seed=0):
    hits = 0
    for run in range(runs):
        found = found_by(coarse, people(n, d, seed + run), SimulatedNoise(run))
        hits += found is not None and math.dist(found, (3.3,) * d) <= coarse.offset
    return hits


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("n", "d"), [(300, 1), (1500, 1), (1500, 5)])
def test_the_planned_budget_is_enough(form, n, d):
    assert_rate_at_least(success(make(form, n, d), n, d, 150), 150, 0.95)


def test_half_the_persons_with_a_seventh_of_the_budget_fail():
    # the rule is a phase transition: far below it, the step does not work
    planned = make("selection", 300)
    starved = Coarse("selection", 1, 2.0, 1.5, epsilon=planned.epsilon / 7, ranges=planned.ranges)
    assert_rate_at_most(success(starved, 300, 1, 150), 150, 0.7)
    hidden = make("gaussian stable", 1500, 5)
    weak = Coarse("gaussian stable", 5, 2.0, hidden.offset, mu=hidden.mu / 6, delta=2.5e-7)
    assert_rate_at_most(success(weak, 1500, 5, 60), 60, 0.2)


def test_a_failure_is_an_outcome_and_costs_the_same():
    coarse = make("stable", 1000)
    spread_out = ArrayPersonTable(np.linspace(-1e6, 1e6, 1000)[:, None], ("c0",))
    assert found_by(coarse, spread_out, SimulatedNoise(0)) is None
    assert coarse.pure > 0


@pytest.mark.parametrize("form", FORMS)
def test_bills_follow_the_form(form):
    coarse = make(form, 2000, 3)
    losses = coarse.events
    if form == "selection":
        assert len(losses) == 3
        assert coarse.pure == 3 * coarse.epsilon
    if "stable" in form:
        assert math.fsum(loss.added_delta for loss in losses) == pytest.approx(coarse.delta)
    if "gaussian" in form:
        mu = math.sqrt(sum(loss.mu**2 for loss in losses))
        assert mu == pytest.approx(coarse.mu, rel=1e-9)
    assert all(loss.mu or loss.pure or isinstance(loss, Threshold) for loss in losses)


def test_budget_by_need():
    cells = 100
    expected = 2 * math.log(cells / 0.01) / (0.3 * 1000)
    assert float(make("selection").epsilon) == pytest.approx(expected, rel=1e-9)
    assert make("selection", relation=ADD_REMOVE).epsilon < make("selection").epsilon
    assert make("selection", 10_000).epsilon < make("selection").epsilon
    assert make("selection", wide=True).width == 3 * make("selection").width
    assert make("stable", half=1.0).ranges is None


def test_no_dense_histogram_beyond_the_limit():
    assert needs(half=1e9).selection() is None
    assert needs(half=1e9).gaussian() is None
    assert needs(half=1e9).stable(1e-6) is not None
    assert CoarseNeeds(1, 1000, 1.0, None).public() is None


def test_values_outside_the_range_count_at_its_ends():
    coarse = make("selection", half=2.0)
    far = ArrayPersonTable(np.full((1000, 1), 1e30), ("c0",))
    assert found_by(coarse, far, SimulatedNoise(1))[0] == pytest.approx(1.0)


def test_the_middle_of_the_range_needs_no_data():
    coarse = needs(d=2, half=3.0).public()
    assert coarse.events == ()
    assert found_by(coarse, None, SimulatedNoise(0)) == (0.0, 0.0)
    assert coarse.offset == pytest.approx(3 * math.sqrt(2))


def test_a_lone_person_shows_with_probability_delta_at_most():
    coarse = make("stable", 1000)
    threshold = next(loss for loss in coarse.events if isinstance(loss, Threshold))
    shown = laplace_tail(int(threshold.threshold) - 1, 2 / coarse.epsilon)
    assert shown <= Fraction(threshold.delta)
    # and the threshold is not needlessly high
    assert laplace_tail(int(threshold.threshold) - 2, 2 / coarse.epsilon) > Fraction(
        threshold.delta
    )
