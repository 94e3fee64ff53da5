"""Persons without a value: a cell of their own, a firm belief, failures that say why."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import privmean as pm
import statistics_kit
from privmean.central.clipping_region import ClippingRegion
from privmean.central.default_mean import DefaultMean
from privmean.central.default_outliers import missing_step, with_missing
from privmean.central.log_histogram import CELLS, Histogram, HistogramExtent, cells_of, seen_mean
from privmean.data.array_table import ArrayPersonTable
from privmean.data.grids import LOG_CELLS, LOG_ZERO
from privmean.data.person_table import ClipInterval
from privmean.inference.missing_count import FIRM, MissingCount
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from statistics_kit import planned

WHY = "Is the column numeric"


def people(x):
    return ArrayPersonTable(np.asarray(x, float)[:, None], ("v",))


def releases(draw, n, epsilon, runs, relation=REPLACE_ONE, target=None):
    g = np.random.default_rng(3)
    known = n if relation == REPLACE_ONE else None
    budget = Budget(epsilon=epsilon)
    plan = planned(DefaultMean(target=target), budget, persons=known, relation=relation)
    return [plan.release(people(draw(g, n)), SimulatedNoise(g)) for _ in range(runs)]


def counted_in(release):
    """Whether persons without a value count at some place, and do not lower the divisor."""
    return any("people without a value count at" in item for item in release.assumptions)


def missing(share):
    return lambda g, n: np.where(g.random(n) < share, np.nan, g.normal(50, 5, n))


def test_cells_are_disjoint_and_hold_every_person_once():
    values = [math.nan, 0.0, -0.0, 2.0**-41, 1.0, -3.0, math.inf, -math.inf, math.nan, 1e300]
    table = people(values)
    for origin in (0.0, 1.0, -7.5):
        plain = table.log_counts(0, origin)
        cells = cells_of(plain, table.missing(0))
        assert cells.shape == (CELLS,)
        assert cells.sum() == plain.sum() == len(values)
        assert cells[LOG_CELLS] == 2
        assert cells[LOG_ZERO] + cells[LOG_CELLS] == plain[LOG_ZERO]
        assert (np.delete(cells[:LOG_CELLS], LOG_ZERO) == np.delete(plain, LOG_ZERO)).all()
        assert cells.min() >= 0
        for k, value in enumerate(values):  # a person moves two cells, or enters one
            rest = values[:k] + values[k + 1 :]
            less = people(rest)
            without = cells_of(less.log_counts(0, origin), less.missing(0))
            assert np.abs(cells - without).sum() == 1
            other = people([*rest, -value])
            moved = cells_of(other.log_counts(0, origin), other.missing(0))
            assert np.abs(cells - moved).sum() in (0, 2)


def test_the_engine_counts_the_same_persons():
    g = np.random.default_rng(1)
    x = np.where(g.random(900) < 0.3, np.nan, g.normal(size=900))
    engine = pm.read(pl.DataFrame({"p": np.arange(900), "v": x}), person="p", values="v")
    assert engine.missing(0) == people(x).missing(0) == int(np.isnan(x).sum())
    engine.log_counts(0, 1.0)
    again = pm.read(pl.DataFrame({"p": np.arange(900), "v": x}), person="p", values="v")
    again.log_counts(0, 1.0)  # the number comes with the histogram
    assert again.missing(0) == engine.missing(0)


def test_belief_is_firm_continuous_and_at_most_what_was_seen():
    for scale in (0.5, 3.0):
        number = np.linspace(-20 * scale, 40 * scale, 4001)
        believed = np.array([MissingCount(x, scale).believed for x in number])
        assert (believed[number <= FIRM * scale] == 0).all()
        assert (believed <= np.maximum(number, 0) + 1e-12).all()
        assert np.abs(np.diff(believed)).max() <= 2 * (number[1] - number[0]) + 1e-9
        assert (number - believed)[number > 0].max() <= FIRM * scale + 1e-9
        far = number >= 2 * FIRM * scale
        np.testing.assert_allclose(believed[far], number[far])


def test_numbers_are_pooled_by_precision():
    pooled = MissingCount.pooled([(10.0, 2.0), (16.0, 4.0)])
    assert pooled.number == pytest.approx((10 * 4 + 16) / 5)
    assert pooled.scale == pytest.approx((1 / 4 + 1 / 16) ** -0.5)
    assert MissingCount.pooled([]).believed == 0


def test_complete_columns_lose_hardly_anything_by_mistake():
    # exactly, for one number: E[d^2] with d = min(D, 2 (D - 4)) over 4 scales of Laplace noise
    x = np.linspace(FIRM, 60, 2_000_001)
    density = 0.5 * np.exp(-x)
    cost = float(np.trapezoid(np.minimum(x, 2 * (x - FIRM)) ** 2 * density, x))
    hard = float(np.trapezoid(x**2 * density, x))
    assert cost < 0.08
    assert hard > 0.2
    # and end to end: dividing by n would have given the same error
    runs, n = 600, 3000
    found = releases(lambda g, n: g.normal(1.67, 0.38, n), n, 1.0, runs)
    believed = [item for item in found if not counted_in(item)]
    statistics_kit.assert_rate_at_most(len(believed), runs, 0.01)


@pytest.mark.parametrize(("n", "epsilon"), [(300, 0.5), (1200, 0.5), (10_000, 0.5), (10**5, 1.0)])
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
def test_columns_of_nobody_fail_and_say_why(n, epsilon, relation):
    found = releases(lambda g, n: np.full(n, np.nan), n, epsilon, 12, relation)
    for item in found:
        assert item.failed
        assert math.isnan(item.estimate[0])
        assert item.interval().upper == (math.inf,)
        if n * epsilon >= (600 if relation == REPLACE_ONE else 4000):
            assert WHY in item.advice


def test_columns_of_almost_nobody_fail_and_of_some_are_answered():
    cases = ((3000, 0.98, 30, 0), (600, 0.9, 30, 0), (10_000, 0.98, 26, 0), (3000, 0.9, 0, 27))
    for n, share, failed, near in cases:
        found = releases(missing(share), n, 0.5, 30)
        assert sum(item.failed for item in found) >= failed
        good = sum(abs(item.estimate[0] - 50) < 5 for item in found if not item.failed)
        assert good >= near
        assert all(
            "value" in item.advice or "region" in item.advice for item in found if item.failed
        )


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
def test_where_hardly_anybody_is_left_no_release_is_ok(relation):
    """Of 4000 and 10 000 persons about 200 have a value: each release fails or says how few."""
    for n, share in ((4000, 0.95), (10_000, 0.98)):
        found = releases(missing(share), n, 0.4, 30, relation)
        for item in found:
            assert item.status != "ok"
        few = [item for item in found if item.status == "outliers_unchecked"]
        assert all(item.advice.startswith("Most people have no value.") for item in few)
        assert all(item.interval().status == "outliers_unchecked" for item in few)


def test_no_new_start_where_another_look_could_show_nothing():
    """200 persons of 10 000 in one octave far from zero: another look would have 20 noise scales a
    bin, and the sum less than half of what is left now."""
    found = releases(missing(0.98), 10_000, 0.5, 30)
    assert {item.diagnostics["restarts"] for item in found} == {0}
    names = {"mean and square", "unspent"}  # the sum, or what a failure leaves
    assert min(sum(item.shares.get(name, 0.0) for name in names) for item in found) > 0.2
    whole = releases(lambda g, n: g.normal(1000, 1, n), 400, 0.5, 10)
    assert {item.diagnostics["restarts"] for item in whole} == {1}  # where all have a value


def test_an_atom_needs_nearly_everybody_who_has_a_value():
    g = np.random.default_rng(5)
    # 70 % zeros and the rest far too spread to be seen: not an atom
    spread = np.exp(g.uniform(-20, 20, 400)) * g.choice([-1, 1], 400)
    x = np.where(np.arange(400) < 280, 0.0, spread)
    plan = planned(DefaultMean(), Budget(epsilon=0.5), persons=400)
    statuses = [plan.release(people(x), SimulatedNoise(s)).status for s in range(30)]
    zeros = [plan.release(people(np.zeros(400)), SimulatedNoise(s)).status for s in range(30)]
    assert zeros.count("point_mass") == 30
    assert "point_mass" in statuses or "failed" in statuses
    half = np.where(np.arange(3000) < 1500, 0.0, np.nan)
    plan = planned(DefaultMean(), Budget(epsilon=1.0), persons=3000)
    some = [plan.release(people(half), SimulatedNoise(s)) for s in range(10)]
    assert {item.status for item in some} == {"point_mass"}  # half have the value 0, half have none


def test_a_round_does_not_follow_noise_where_hardly_anybody_is():
    for relation in (REPLACE_ONE, ADD_REMOVE):
        found = releases(missing(0.98), 10_000, 0.5, 20, relation)
        assert max(item.diagnostics["rounds"] for item in found) <= 2


def test_the_rest_of_the_budget_counts_who_is_away_from_an_atom():
    x = np.where(np.arange(6000) < 30, 1.0, 0.0)
    plan = planned(DefaultMean(), Budget(epsilon=1.0), persons=6000)
    found = [plan.release(people(x), SimulatedNoise(s)) for s in range(40)]
    counts = [item.diagnostics["people with another value"] for item in found]
    scales = [item.diagnostics["noise scale of that number"] for item in found]
    assert {item.status for item in found} == {"point_mass"}
    assert max(scales) < 4
    statistics_kit.assert_mean(np.array(counts) - 30, 0.0)
    for item in found:
        assert sum((loss.pure for loss in item.guarantee.mechanisms), Fraction(0)) == 1
        assert "bounds" in item.advice
        assert float(item) == 0


@pytest.mark.parametrize("share", [0.003, 0.02])
def test_few_missing_of_a_skewed_column_are_in_the_interval(share):
    def draw(g, n):
        return np.where(g.random(n) < share, np.nan, np.exp(g.normal(size=n)))

    runs, hits = 120, 0
    for item in releases(draw, 3000, 0.5, runs):
        low, high = item.interval().lower[0], item.interval().upper[0]
        hits += low <= math.exp(0.5) <= high
    statistics_kit.assert_rate_at_least(hits, runs, 0.93)


# --- where persons without a value stand ----------------------------------------------------------
PLACE = ClippingRegion("ok", 0.0, 0.0, 10.0, 0, 0, 0, 0.0, 1.0)


def counted(draw, share, n, epsilon, runs, beside=False):
    """Errors around the mean of those with a value, in their standard errors. beside: at the middle
    of the limits."""
    g, plan = np.random.default_rng(5), planned(DefaultMean(), Budget(epsilon=epsilon), persons=n)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        if beside:
            patch.setattr("privmean.central.default_column.missing_step", lambda *_: 0)
        for _ in range(runs):
            x = draw(g, n)
            x[g.random(n) < share] = np.nan
            there = x[~np.isnan(x)]
            release = plan.release(people(x), SimulatedNoise(g))
            found.append((release.estimate[0] - there.mean()) / there.std() * math.sqrt(len(there)))
    return np.array(found)


def test_a_few_persons_without_a_value_hardly_move_the_mean():
    """1 % of 5,000 lognormal values missing at epsilon .5, too few to be seen: the root of the mean
    square of 40 errors is 0.9 standard errors, and 1.9 where they stand at the middle of limits."""

    def draw(g, n):
        return np.exp(g.normal(size=n))

    near, middle = (counted(draw, 0.01, 5000, 0.5, 40, beside) for beside in (False, True))
    assert math.sqrt(np.mean(near**2)) < 0.75 * math.sqrt(np.mean(middle**2))
    assert abs(near.mean()) < 0.75 * abs(middle.mean())


def test_they_stand_next_to_the_mean_of_what_was_seen_and_never_at_a_limit():
    box = ClipInterval(0.0, 10.0)
    assert missing_step(PLACE, box, REPLACE_ONE) == 0  # nothing is known of where the others are
    for typical, z in ((5.0, 0.0), (2.0, -0.6), (9.0, 0.8), (10.0, 15 / 16), (-7.0, -15 / 16)):
        seen = replace(PLACE, typical=typical)
        assert missing_step(seen, box, REPLACE_ONE) / box.steps == pytest.approx(z, abs=1e-5)
        assert missing_step(seen, box, ADD_REMOVE) == 0  # they are in no cell there


def test_sums_with_them_are_those_of_persons_at_that_value():
    box, x = ClipInterval(0.0, 8.0), [1.0, 7.5, math.nan, 100.0, math.nan]
    (sums,) = people(x).interval_sums([box])
    at = missing_step(replace(PLACE, typical=2.0), box, REPLACE_ONE)
    found = with_missing(sums, 2, at)
    (filled,) = people(np.where(np.isnan(x), 2.0, x)).interval_sums([box])
    assert (found.z, found.zz, found.above) == (filled.z, filled.zz, filled.above)
    assert found.present == found.w == 3


def test_the_mean_of_what_was_seen():
    """Bins that stand out from the noise count, within the limits that were read."""
    x = np.array([1.1] * 300 + [-3.1] * 100 + [900.0] * 5 + [0.0] * 200 + [math.nan] * 77)
    table = people(x)
    cells = cells_of(table.log_counts(0, 0.0), table.missing(0))
    reach = HistogramExtent("ok", -8.0, 8.0)
    middles = 1.1 * 300, -3.1 * 100
    found = seen_mean(Histogram.of(cells, 1.0), reach)
    assert found == pytest.approx(sum(middles) / 600, abs=0.2)  # a bin is half an octave wide
    assert (
        seen_mean(Histogram.of(cells, 1.0), HistogramExtent("ok", -8.0, 1000.0)) > 5
    )  # 900 is within
    assert seen_mean(Histogram.of(cells, 60.0), reach) == pytest.approx(1.2 * 300 / 500, abs=0.1)
    assert seen_mean(Histogram.of(0 * cells, 1.0), reach) is None
