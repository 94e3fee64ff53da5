"""The second count of the default mean: what a person costs, a twin, and what the interval says."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import statistics_kit
from privmean.central.clipping_region import ClippingRegion
from privmean.central.default_bounds import (
    AGAIN,
    PARTS,
    SNUG,
    OutsideCount,
    WidenedBounds,
    _count_again,
    counted_from,
    falls_slowly,
    first_step,
    widened,
)
from privmean.central.default_mean import DefaultMean
from privmean.central.pure_budget import PureBudgetSpender
from privmean.data.array_table import ArrayPersonTable
from privmean.inference.outlier_check import OutlierCheck
from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.privacy.compose import pure_epsilon
from statistics_kit import planned

PLACE = ClippingRegion("ok", 0.0, -1.0, 10.0, 1, 1, 0, 0.0, 5.0, before=(100.0, 200.0))
LIMITS = (-1.0, 30.0)
SLOW = np.random.default_rng(8).random(4000) ** (-1 / 1.1)  # a Pareto tail of index 1.1


def people(x):
    return ArrayPersonTable(np.asarray(x, float)[:, None], ("x",))


class Silent(SimulatedNoise):
    """No noise, and the scale it would have had."""

    def laplace(self, size, scale):
        self.scale = Fraction(scale)
        return np.zeros(size, dtype=np.int64)


def exact(x):
    """The integer that is counted again, and its price and scale."""
    spender, noise = PureBudgetSpender(Fraction(1), "replace-one"), Silent(0)
    curator = TrustedCurator(people(x), noise)
    count = _count_again(curator, 0, PLACE, LIMITS, spender)
    assert count.scale == float(noise.scale) / PARTS
    (line,) = curator.events
    assert (line.scale, line.sensitivity) == (noise.scale, PARTS)
    assert spender.left + line.sensitivity / line.scale == 1  # exact
    assert spender.left == pytest.approx(1 - AGAIN)
    return round(count.n * PARTS), count


def test_one_person_moves_the_second_count_by_at_most_its_sensitivity():
    rest = [0.0, 5.0, 29.0, 31.0, -2.0, math.nan]
    values = [0.0, -1.0, -1.1, 30.0, 30.1, 1e300, -1e300, math.inf, -math.inf, math.nan]
    counted = [exact([*rest, value])[0] for value in values]
    without = exact(rest)[0]
    assert max(counted) - min(counted) == PARTS  # replaced: reached, from inside to above
    assert max(abs(item - without) for item in counted) == PARTS  # added
    _, count = exact(rest)
    # a person below counts as much as its excess can be worth, and is in the count
    assert count.weight == math.ceil(PARTS * 6 / 30) / PARTS
    assert count.n == 1 + count.weight


def test_the_second_count_stays_below_its_price_and_a_twin_does_not():
    def draws(x, twin):
        noise = SimulatedNoise(5)
        found = []
        for _ in range(3000):
            spender = PureBudgetSpender(Fraction(5, 2), "replace-one")
            if twin:  # noise for a person who counts 1 instead of 16

                class Cheap(SimulatedNoise):
                    def laplace(self, size, scale):
                        return super().laplace(size, scale / PARTS)

                source = Cheap(noise._generator)
            else:
                source = noise
            curator = TrustedCurator(people(x), source)
            found.append(_count_again(curator, 0, PLACE, LIMITS, spender).n)
        return np.array(found), float(Fraction(5, 2) - spender.left)

    near = [0.0] * 20
    far = [0.0] * 19 + [1e9]
    for twin in (False, True):
        (one, price), (two, _) = draws(near, twin), draws(far, twin)
        hits = (int((item >= 1).sum()) for item in (two, one))
        bound = statistics_kit.epsilon_lower_bound(*hits, len(one))
        assert (bound > price) == twin, (twin, bound, price)


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
def test_over_records_the_bill_is_exact_and_the_interval_uses_the_second_count(relation):
    table = people(SLOW)
    capped = ArrayPersonTable(table.matrix(), ("x",), np.full((len(SLOW), 1), 3, dtype=np.int64), 3)
    # under add-remove the first limits lie farther out: a smaller epsilon leaves more beyond them
    budget = Budget(epsilon=1.0 if relation == REPLACE_ONE else 0.7)
    plan = planned(DefaultMean(), budget, persons=len(SLOW), relation=relation)
    again = 0
    for data in (table, capped):
        for seed in range(8 if relation == REPLACE_ONE else 30):
            release = plan.release(data, SimulatedNoise(seed))
            bill = release.guarantee.mechanisms
            assert pure_epsilon(bill) == budget.pure_epsilon()
            found = release.diagnostics
            names = [line.name for line in bill]
            assert ("beyond again" in names) == ("second limits" in found)
            maker = release.intervals
            if "second limits" not in found:
                assert maker.counted_at == tuple(found["first limits"])
                assert maker.nearer is None
                continue
            again += 1
            assert maker.counted_at == tuple(found["second limits"])
            assert maker.check.beyond == found["people beyond the second limits"]
            assert found["limits"][1] >= found["second limits"][1] > found["first limits"][1]
            interval = release.interval(target="mean")
            assert interval.status in ("outliers_clipped", "extreme_outliers", "modified_target")
            words = interval.assumption
            assert f"by at most {maker.reach:.4g} on average" in words
            assert f"(by {maker.nearer:.4g} on the nearer side)" in words
    assert again >= (4 if relation == REPLACE_ONE else 1)


def test_the_counted_persons_bound_the_bias_wherever_the_assumption_holds():
    # two tails of index exactly 2: the mean excess over a limit is its distance from the centre
    g = np.random.default_rng(1)
    for _ in range(200):
        center = g.normal()
        down, up = g.uniform(0.05, 0.3), g.uniform(1.0, 2.0)
        first = (center - down, center + up)
        limits = (first[0], center + up * g.uniform(1.0, 6.0))
        share = {"below": g.uniform(0, 0.05), "above": g.uniform(0, 0.05)}
        weight = math.ceil(PARTS * 6 * down / up) / PARTS
        wide = WidenedBounds(limits, (OutsideCount(first, 0.0, 1.0, min(weight, 1.0)),))
        reach, nearer = wide.reaches(center, 1.0)
        arms = center - limits[0], limits[1] - center
        # expected excess over the last limits: share * arm^2 / (last arm)
        above = share["above"] * up * (up / arms[1])
        below = share["below"] * down
        assert nearer == pytest.approx(down)
        bound = reach * (share["above"] + min(weight, 1.0) * share["below"])
        assert above + below <= bound * (1 + 1e-12)
        # and a twin that forgets the weight would not be a bound where the lower tail is alone
        alone = share["below"] * down
        short = up * (up / arms[1]) * weight * share["below"]
        assert (short < alone) == (up * (up / arms[1]) * weight < down)


def test_one_side_is_counted_from_its_edge():
    def place(lower, upper, origin=0.0, **facts):
        return ClippingRegion("ok", origin, lower, upper, 1, 1, 0, 0.0, 5.0)

    far = 8 * SNUG
    assert counted_from(place(0.0, far)) == pytest.approx((0.0, 8.0))
    assert counted_from(place(-far, 0.0)) == pytest.approx((-8.0, 0.0))
    assert counted_from(place(3 - far, 3.0, 3.0)) == pytest.approx((-5.0, 3.0))
    assert counted_from(place(4.0, far)) == pytest.approx((4.0, 8.0))  # an inner limit stays
    assert counted_from(place(-1.0, far)) == (-1.0, far)  # both sides were seen
    assert counted_from(place(7.0, 7.0, 7.0)) == (7.0, 7.0)
    # a tail of index 2 is allowed what it was, with less noise; and that is what its excess is
    near, limits = OutsideCount((0.0, 8.0), 100 * math.sqrt(2), 5.0, between=5.0), (0.0, far)
    wide = [
        WidenedBounds(limits, place(*limits), (count,))
        for count in (OutsideCount(limits, 100, 5.0), near)
    ]
    old, new = (item.reaches(0.0, 1.0)[0] for item in wide)
    assert new * near.n == pytest.approx(old * 100)
    assert new * near.scale == pytest.approx(old * 5.0 / math.sqrt(2))


def test_persons_before_the_limits_are_taken_off_where_these_move():
    # 24 between the edge of what was seen and the limit, 3 beyond both; without noise
    x = np.concatenate([np.linspace(0.2, 7.9, 4473), np.linspace(8.1, 9.4, 24), [20.0] * 3])
    place = ClippingRegion("ok", 0.0, 0.0, 8 * SNUG, 1, 1, 0, 0.0, 28.0, before=(1e3, 2e3))
    spender = PureBudgetSpender(Fraction(1), "replace-one")
    curator = TrustedCurator(people(x), Silent(0))
    wide = widened(curator, 0, place, spender, 0.2, False, 2900.0)
    (count,) = wide.counts
    assert (count.n, count.beyond) == (27, 6)
    assert wide.limits[1] == pytest.approx(8 * SNUG)  # 6 - 5: not worth a step
    assert first_step(place, 27 - 5, spender.left)[1] > 20  # and a twin that forgets them moves
    many = widened(
        curator, 0, place, PureBudgetSpender(Fraction(1), "replace-one"), 0.2, False, 3100.0
    )
    assert many.counts[0].limits == many.limits  # from 3000 on they are counted there
    assert many.counts[0].beyond == 3
    check = OutlierCheck(4500.0, 27.0, 5.0, 0.0, 2.5, between=21.0)
    assert (check.status, check.leans) == ("ok", False)
    assert OutlierCheck(4500.0, 27.0, 5.0, 0.0, 2.5).leans


def test_a_second_count_needs_a_tail_of_small_index_on_a_seen_side():
    def slow(persons=30.0, before=(100.0, 200.0), lower=-1.0, scale=5.0):
        place = ClippingRegion("ok", 0.0, lower, 10.0, 1, 1, 0, 0.0, 5.0, before=before)
        return falls_slowly(place, OutsideCount((lower, 10.0), persons, scale))

    assert slow()
    assert not slow(lower=0.0)  # the other side was not seen
    assert not slow(lower=-4.0)  # or may hold those beyond
    assert not slow(scale=11.0)  # hardly anybody beyond
    assert not slow(before=(300.0, 1000.0))  # a tail that ends soon
    assert not slow(before=(100.0, 100.0))  # more beyond than a tail leaves: they are elsewhere


def test_a_slow_tail_is_followed(monkeypatch):
    # one person in fifty log-uniform up to 1100: fixed seeds
    g = np.random.default_rng(9)
    x = np.concatenate([2.3 * np.exp(0.5 * g.normal(size=4500)), np.exp(g.uniform(2, 7, 100))])
    plan = planned(DefaultMean(), Budget(epsilon=1.0), persons=len(x))

    def errors():
        releases = [plan.release(people(x), SimulatedNoise(seed)) for seed in range(30)]
        twice = sum("second limits" in item.diagnostics for item in releases)
        return math.sqrt(np.mean([(float(item) - x.mean()) ** 2 for item in releases])), twice

    followed, twice = errors()
    assert twice >= 8
    monkeypatch.setattr("privmean.central.default_bounds.falls_slowly", lambda *_: False)
    left, none = errors()
    assert none == 0
    assert followed < 0.9 * left


def test_split_columns_run_by_their_own_share_of_epsilon():
    # two columns at epsilon 1 take the steps of one column at epsilon 1/2, each at its own price
    both = planned(DefaultMean(), Budget(epsilon=1.0), persons=4000, dimension=2)
    half = planned(DefaultMean(), Budget(epsilon=0.5), persons=4000)
    assert both.schedule(4000) == half.schedule(4000)
    x = np.random.default_rng(3).normal(5, 1, (4000, 2))
    release = both.release(ArrayPersonTable(x, ("a", "b")), SimulatedNoise(1))
    assert pure_epsilon(release.guarantee.mechanisms) == 1
    alone = half.release(ArrayPersonTable(x[:, :1], ("a",)), SimulatedNoise(1))
    assert release.diagnostics["a"]["rounds"] == alone.diagnostics["rounds"]
