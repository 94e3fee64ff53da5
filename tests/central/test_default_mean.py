"""The default mean: bills on every path, sensitivities, statuses, purity and equivariance."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import privmean as pm
from privmean.central.default_mean import DefaultMean
from privmean.central.find_region import RoundSchedule, find_region
from privmean.central.log_histogram import (
    CELLS,
    FOUND,
    LAPLACE,
    Histogram,
    best_segment,
    read_reach,
)
from privmean.central.pure_budget import PureBudgetSpender, floor_epsilon
from privmean.data.array_table import ArrayPersonTable
from privmean.data.grids import LOG_BINS, LOG_CELLS, LOG_ZERO
from privmean.data.person_table import ClipInterval
from privmean.errors import ArgumentError, InfeasibleError
from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.privacy.compose import pure_epsilon
from privmean.privacy.privacy_events import Selection
from statistics_kit import planned

ONE = ("value",)


def people(x):
    return ArrayPersonTable(np.asarray(x, float)[:, None], ONE)


def draws(seed=0, n=4000):
    return np.random.default_rng(seed).normal(size=n)


class Recorder(SimulatedNoise):
    """Simulated noise that writes down what was asked for."""

    def __init__(self, seed):
        super().__init__(seed)
        self.calls = []

    def laplace(self, size, scale):
        self.calls.append((size, Fraction(scale)))
        return super().laplace(size, scale)

    def argmax(self, scores, scale):
        self.calls.append((CELLS, Fraction(scale)))  # a line of its own, as a histogram is
        return super().argmax(scores, scale)


CONCENTRATED = 1e6 + draws(1)
SPREAD = draws(2) * np.exp(draws(3))
PATHS = {
    "several rounds": (CONCENTRATED, 1.0),
    "one round": (SPREAD, 1.0),
    "no round": (draws(4, 500), 1.0),
    "point_mass": (np.zeros(4000), 1.0),
    "a rare minority": ((np.arange(4000) < 80) * 1.0, 1.0),
    "nothing": (np.exp(40 * (np.random.default_rng(5).random(400) - 0.5)), 0.5),
    "far and few": (1e4 + draws(6), 0.1),
    "far and near": (100 + draws(6, 1000) / 3, 0.5),
    "left behind": (np.repeat([5.0, 4.0, 2.0], [3200, 480, 320]), 0.5),
    "parts at once": (np.repeat([5.0, 4.0, 2.0], [960, 144, 96]), 1.0),
    "step back": (np.append(np.rint(1960 + 15 * draws(9, 3880)), np.full(120, 9999.0)), 1.0),
    "nobody": (np.full(1000, np.nan), 1.0),
    "slow tail": (np.random.default_rng(8).random(4000) ** (-1 / 1.1), 1.0),
}
ANSWERED = (
    "ok", "point_mass", "outliers_clipped", "outliers_unchecked", "modified_target",
    "extreme_outliers",
)  # fmt: skip


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("target", [None, "mean", "clipped"])
@pytest.mark.parametrize("path", PATHS)
def test_bill_is_exact_on_every_path_and_matches_the_noise(path, target, relation):
    x, epsilon = PATHS[path]
    budget = Budget(epsilon=epsilon, delta=1e-6)
    plan = planned(DefaultMean(target=target), budget, persons=len(x), relation=relation)
    for seed in range(4):
        noise = Recorder(seed)
        release = plan.release(people(x), noise)
        bill = release.guarantee.mechanisms
        # one who is added moves scores of parts one way, those of limits both ways
        moved = [
            getattr(
                loss, "sensitivity", 1 if relation == ADD_REMOVE and loss.name == "place" else 2
            )
            for loss in bill
        ]
        scales = [
            change / loss.epsilon if isinstance(loss, Selection) else loss.scale
            for loss, change in zip(bill, moved, strict=True)
        ]
        total = sum((one / two for one, two in zip(moved, scales, strict=True)), Fraction(0))
        assert total == pure_epsilon(bill)
        assert release.guarantee.delta == 0
        if release.failed:
            assert total < budget.pure_epsilon()
        else:
            assert total == budget.pure_epsilon()
            assert release.status in ANSWERED
        # every line is one call (or one joint group of calls) with the scale on the bill
        asked = [scale for _, scale in noise.calls]
        opening = [
            scale for scale, own in zip(asked, _first_of_groups(noise.calls), strict=True) if own
        ]
        outcome = release.diagnostics["outcome"]
        if outcome != "point_mass" and not release.failed and relation == REPLACE_ONE:
            opening[-1] /= 2**20  # drawn on a 2^20 times finer lattice
        assert scales == opening
        assert math.fsum(release.shares.values()) <= 1 + 1e-9


def _first_of_groups(calls):
    """Which calls open a line of the bill: all but those after the last stage's first."""
    flags = [True] * len(calls)
    histograms = [i for i, (size, _) in enumerate(calls) if size == CELLS]
    last = histograms[-1]
    tail = len(calls) - 1 - last
    # after the last histogram: other values | [counts beyond], value, square, present, [tail or
    # far] | [counts beyond], three cells, [far]
    opened = {0: 0, 1: 1, 3: 1, 4: 1}.get(tail, tail - 3)
    for i in range(last + 1 + opened, len(calls)):
        flags[i] = False
    return flags


def test_paths_are_what_they_are_called():
    def run(name, seed=0):
        x, epsilon = PATHS[name]
        plan = planned(DefaultMean(), Budget(epsilon=epsilon), persons=len(x))
        return plan.release(people(x), SimulatedNoise(seed))

    assert run("several rounds").diagnostics["rounds"] >= 6
    assert run("one round").diagnostics["rounds"] == 1
    assert run("no round").diagnostics["rounds"] == 0
    assert run("point_mass").status == "point_mass"
    assert run("point_mass").diagnostics["looks"] == 2
    assert run("nothing").status == "failed"
    assert run("far and few").diagnostics["restarts"] == 1
    near = run("far and near").diagnostics
    assert (near["restarts"], near["looks"]) == (1, 1)
    assert near["rounds"] >= 1
    assert 90 < near["first limits"][0] < near["first limits"][1] < 110
    assert "second limits" not in near
    slow = [run("slow tail", seed).diagnostics for seed in range(10)]
    assert sum("second limits" in item for item in slow) >= 3
    assert not any("second limits" in run("one round", seed).diagnostics for seed in range(5))
    back = [run("step back", seed) for seed in range(5)]
    assert sum(item.diagnostics.get("limits stepped back", False) for item in back) >= 3
    left = [run("left behind", seed).diagnostics for seed in range(5)]
    assert sum("people left behind" in item for item in left) >= 3
    assert run("nobody").failed
    minority = [run("a rare minority", seed) for seed in range(5)]
    assert any(r.diagnostics["looks"] == 2 and r.status == "ok" for r in minority)


NEIGHBOURS = [
    0.0,
    -0.0,
    1e300,
    -1e300,
    math.inf,
    -math.inf,
    math.nan,
    2.0**-41,
    -(2.0**-40),
    2.0**40,
    5e-324,
    math.sqrt(2),
    math.sqrt(0.5),
    1.0,
    -3.0,
]


def test_replacing_one_person_moves_two_cells_and_one_box():
    base = draws(7, 60)
    start = people(base)
    for origin in (0.0, 1e9, -2.5, 2.0**43):
        before = start.log_counts(0, origin)
        for value in NEIGHBOURS:
            other = base.copy()
            other[17] = value
            after = people(other).log_counts(0, origin)
            assert np.abs(after - before).sum() <= 2
            assert after.sum() == before.sum() == 60
            added = people(np.append(base, value)).log_counts(0, origin)
            assert np.abs(added - before).sum() == 1
    box = ClipInterval(-1.5, 2.25)
    (before,) = start.interval_sums([box])
    for value in NEIGHBOURS:
        other = base.copy()
        other[17] = value
        (after,) = people(other).interval_sums([box])
        assert abs(after.z - before.z) <= 2 * box.steps
        gap = abs(after.z - before.z)
        assert abs(after.zz - before.zz) <= gap * (2 * box.steps - gap)
        beyond = abs(after.above + after.below - before.above - before.below)
        assert beyond <= 1


class Spy:
    """People that answer from a matrix, and count what was asked."""

    def __init__(self, inner, extra=0):
        self.inner, self.extra, self.asked = inner, extra, []
        self.columns, self.max_records = inner.columns, inner.max_records

    def size(self):
        self.asked.append("size")
        return self.inner.size() + self.extra

    def log_counts(self, column, origin):
        self.asked.append("log_counts")
        return self.inner.log_counts(column, origin)

    def missing(self, column):
        return self.inner.missing(column)

    def interval_sums(self, boxes):
        self.asked.append("interval_sums")
        return self.inner.interval_sums(boxes)

    def count_outside(self, column, lower, upper):
        self.asked.append("count_outside")
        return self.inner.count_outside(column, lower, upper)


class Shifted(SimulatedNoise):
    """The first draw is lowered by `by`: what a noisy count sees of more persons."""

    def __init__(self, seed, by):
        super().__init__(seed)
        self.by = by

    def laplace(self, size, scale):
        drawn = super().laplace(size, scale)
        if self.by and size == 1:
            drawn, self.by = drawn - self.by, 0
        return drawn


def test_add_remove_reads_the_number_of_persons_through_one_noisy_count():
    estimator = DefaultMean()
    budget = Budget(epsilon=1.0)
    plans = {
        n: planned(estimator, budget, persons=n, relation=ADD_REMOVE) for n in (None, 3, 10**9)
    }
    assert plans[None] == plans[3] == plans[10**9]
    plan = plans[None]
    inner = people(draws(8))
    spy = Spy(inner)
    one = plan.release(spy, Shifted(5, 0))
    assert spy.asked.count("size") == 1
    two = plan.release(Spy(inner, extra=25), Shifted(5, 25))
    assert np.array_equal(one.estimate, two.estimate)
    assert one.n == two.n
    assert one.n != len(draws(8))
    assert one.to_dict()["diagnostics"] == two.to_dict()["diagnostics"]
    assert one.guarantee.neighbors == ADD_REMOVE
    assert "n" not in one.guarantee.public
    with pytest.raises(ArgumentError, match="n_guess is required"):
        plan.predict(1.0)
    guessed = planned(estimator, budget, persons=None, n_guess=4000, relation=ADD_REMOVE)
    assert guessed.predict(1.0)["rmse"] > 1 / math.sqrt(4000)


def test_each_stage_asks_at_most_two_aggregates():
    plan = planned(DefaultMean(), Budget(epsilon=1.0), persons=4000)
    spy = Spy(people(draws(9)))
    plan.release(spy, SimulatedNoise(1))
    # the count beyond; the sums and the count far beyond
    assert spy.asked.count("interval_sums") == 1
    assert spy.asked.count("count_outside") == 2
    assert spy.asked.count("log_counts") <= 4
    assert set(spy.asked) <= {"size", "log_counts", "interval_sums", "count_outside"}


class Silent(SimulatedNoise):
    """No noise: what remains is the deterministic part."""

    def laplace(self, size, scale):
        return np.zeros(size, dtype=np.int64)


def test_scaling_by_a_power_of_two_scales_the_release():
    x = draws(10) * 3 + 1
    plan = planned(DefaultMean(), Budget(epsilon=1.0), persons=len(x))
    one = plan.release(people(x), Silent(3))
    for k in (-6, 4):
        two = plan.release(people(np.ldexp(x, k)), Silent(3))
        assert float(two) == pytest.approx(float(one) * 2.0**k, rel=1e-12)
        assert two.diagnostics["limits"] == pytest.approx(
            [item * 2.0**k for item in one.diagnostics["limits"]], rel=1e-12
        )


def test_reading_a_histogram_is_symmetric_in_sign():
    g = np.random.default_rng(11)
    for _ in range(200):
        up = g.poisson(np.exp(-((np.arange(LOG_BINS) - g.integers(20, 140)) ** 2) / 20) * 900)
        down = g.poisson(np.exp(-((np.arange(LOG_BINS) - g.integers(20, 140)) ** 2) / 9) * 90)
        noise = g.laplace(0, 8, (2, LOG_BINS))
        zero = float(g.integers(0, 200))
        here = read_reach(Histogram(up + noise[0], zero, down + noise[1], 8.0), 1.2)
        there = read_reach(Histogram(down + noise[1], zero, up + noise[0], 8.0), 1.2)
        assert here.outcome == there.outcome
        assert (here.lower, here.upper) == (-there.upper, -there.lower)


def test_best_segment_agrees_with_all_segments():
    g = np.random.default_rng(12)
    for start in (0, 37, 155):
        for _ in range(8):
            counts = g.normal(size=LOG_BINS) * 3 + (g.random(LOG_BINS) < 0.1) * 20
            found = best_segment(counts, 2.0, start)
            scores = {
                (a, b): (counts[a : b + 1] - 2.0).sum()
                for a in range(start, LOG_BINS)
                for b in range(a, LOG_BINS)
            }
            assert found.score == pytest.approx(max(scores.values()))
            assert scores[found.first, found.last] == pytest.approx(found.score)


def test_very_many_persons_are_all_asked_in_every_home():
    """One path for any number of persons: the transcripts of memory and an engine are the same."""
    many = 2**20
    x = np.random.default_rng(15).normal(1000.0, 1.0, many)
    x[1::64] = np.nan
    plan = planned(DefaultMean(), Budget(epsilon=1.0), persons=many)
    table = pl.DataFrame({"p": np.arange(many), "x": x})
    engine = pm.read(table, person="p", values="x")
    found = [plan.release(home, SimulatedNoise(16)).facts() for home in (engine, engine.collect())]
    assert found[0] == found[1]
    assert found[0]["diagnostics"]["rounds"] >= 2
    lower, upper = found[0]["diagnostics"]["limits"]
    assert upper - lower < 100


def test_a_width_lost_in_rounding_is_an_atom_and_never_an_error():
    x = np.concatenate([1e9 + np.zeros(3999), [1e9 + 2.0**-39]])
    plan = planned(DefaultMean(), Budget(epsilon=1.0), persons=4000)
    for seed in range(5):
        release = plan.release(people(x), SimulatedNoise(seed))
        assert release.status in ("ok", "point_mass")
        assert abs(release.estimate[0] - 1e9) < 1

    class Collapsed:
        columns, max_records = ONE, None

        def missing(self, column):
            return 0

        def count_outside(self, column, lower, upper):
            return 0, 0

        def log_counts(self, column, origin):
            counts = np.zeros(LOG_CELLS, dtype=np.int64)
            if abs(origin) < 1e8:
                counts[80 + 60] = 4000  # near 2^30: the origin moves there
            else:
                counts[1] = 4000  # 2^-39 away from it: far below the spacing of doubles
            return counts

    spender = PureBudgetSpender(Fraction(1), "replace-one")
    place = find_region(
        TrustedCurator(Collapsed(), SimulatedNoise(1)),
        0,
        RoundSchedule.of(4000, Fraction(1)),
        1.2,
        spender,
        REPLACE_ONE,
    )
    assert place.outcome == "point_mass"
    assert place.lower == place.upper == place.origin


def test_values_beyond_reach_fail_aloud():
    x = 1e15 * (1 + draws(13, 2000) ** 2)
    release = planned(DefaultMean(), Budget(epsilon=1.0), persons=2000).release(
        people(x), SimulatedNoise(0)
    )
    assert release.failed
    assert release.diagnostics["outcome"] == "beyond range"
    assert "Divide the column" in release.advice
    assert release.interval().upper == (math.inf,)


def test_dirty_values_change_nothing_visible():
    x = draws(14)
    plan = planned(DefaultMean(), Budget(epsilon=1.0), persons=len(x))
    clean = plan.release(people(x), SimulatedNoise(2))
    for bad in (math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324):
        dirty = x.copy()
        dirty[5] = bad
        release = plan.release(people(dirty), SimulatedNoise(2))
        assert release.status == "ok"
        assert abs(float(release) - float(clean)) < 0.02
    nobody = plan.release(people(np.full(len(x), np.nan)), SimulatedNoise(2))
    assert nobody.failed
    assert "Is the column numeric" in nobody.advice


def test_nulls_are_left_out_when_seen_and_count_next_to_the_others_when_few():
    g = np.random.default_rng(15)
    x = 5 + g.normal(size=6000)
    x[:2400] = np.nan
    plan = planned(DefaultMean(), Budget(epsilon=2.0), persons=6000)
    errors = []
    for seed in range(12):
        release = plan.release(people(x), SimulatedNoise(seed))
        errors.append(float(release) - np.nanmean(x))
        assert not any("without a value" in item for item in release.assumptions)
        low, high = release.interval().lower[0], release.interval().upper[0]
        assert low < float(release) < high
    assert abs(np.mean(errors)) < 0.1
    y = x.copy()
    y[3:2400] = 5.0
    few = plan.release(people(y), SimulatedNoise(1))
    (place,) = (item for item in few.assumptions if "without a value" in item)
    assert place.endswith("about the mean of what was seen")
    assert abs(float(place.split("count at ")[1].split(",")[0]) - 5) < 0.5


def test_plans_read_public_numbers_only_and_refuse_by_them():
    estimator = DefaultMean()
    plan = planned(estimator, Budget(epsilon=1.0, delta=1e-6), persons=4000)
    assert sum((loss.pure for loss in plan.events), Fraction(0)) == 1
    assert plan.describe()["rounds at most"] == 8
    assert "epsilon a choice after a new start" not in plan.describe()
    words = "share of a second count beyond, if a tail falls off slowly"
    assert plan.describe()[words] == 0.3
    short = planned(estimator, Budget(epsilon=0.1), persons=4000).describe()
    assert short["epsilon a choice after a new start"] == pytest.approx(0.0125)
    between = planned(DefaultMean(), Budget(epsilon=0.5), persons=2600).describe()
    assert between["epsilon a choice after the first round"] == pytest.approx(50 / 2600, rel=1e-6)
    assert "epsilon a choice after a new start" not in between
    assert words not in short
    with pytest.raises(InfeasibleError, match="at least 1500 people"):
        planned(estimator, Budget(epsilon=0.1), persons=1000)
    with pytest.raises(InfeasibleError, match="is too small to divide"):
        planned(estimator, Budget(epsilon=1e-6), persons=10**10, dimension=3)
    tiny = planned(estimator, Budget(epsilon=1e-5), persons=10**9)
    assert sum((loss.pure for loss in tiny.events), Fraction(0)) == tiny.budget.pure_epsilon()
    with pytest.raises(ArgumentError, match="Plan again"):
        plan.release(people(draws(1, 3999)), SimulatedNoise(0))
    with pytest.raises(ArgumentError):
        DefaultMean(target="median")
    with pytest.raises(ArgumentError):
        DefaultMean(excess_ratio=0)
    few = planned(estimator, Budget(epsilon=1.0), persons=300)
    assert any(
        "400" in item for item in few.release(people(draws(2, 300)), SimulatedNoise(1)).assumptions
    )


def test_schedule_constants():
    schedule = RoundSchedule.of(4000, Fraction(1))
    assert schedule.rounds == 8
    assert schedule.share == pytest.approx(0.3)
    assert float(schedule.price) == pytest.approx(80 / 4000)
    assert schedule.price.denominator <= 2**40
    assert RoundSchedule.of(500, Fraction(1)).rounds == 0
    assert RoundSchedule.of(600, Fraction(1)).rounds == 3
    assert RoundSchedule.of(10**6, Fraction(1)).share == pytest.approx(0.1)
    assert floor_epsilon(Fraction(1, 3)) <= Fraction(1, 3)
    with pytest.raises(AssertionError):
        PureBudgetSpender(Fraction(1), "replace-one").spend(Fraction(2))


def test_rho_runs_at_the_pure_epsilon_inside_it():
    plan = planned(DefaultMean(), Budget(rho=0.5), persons=4000)
    release = plan.release(people(draws(16)), SimulatedNoise(0))
    assert release.guarantee.rho == 0.5
    assert release.guarantee.verify()
    assert pure_epsilon(release.guarantee.mechanisms) <= 1
    assert float(pure_epsilon(release.guarantee.mechanisms)) == pytest.approx(1, abs=1e-9)


def test_prediction_is_near_the_truth():
    plan = planned(DefaultMean(), Budget(epsilon=1.0), persons=3000)
    g = np.random.default_rng(17)
    errors = []
    for seed in range(150):
        x = g.normal(10, 2, 3000)
        errors.append(float(plan.release(people(x), SimulatedNoise(seed))) - 10)
    rmse = math.sqrt(np.mean(np.square(errors)))
    assert 0.75 < plan.predicted(2.0) / rmse < 1.4


def test_release_is_complete_and_marked():
    plan = planned(DefaultMean(), Budget(epsilon=1.0), persons=4000)
    release = plan.release(people(draws(18)), SimulatedNoise(0))
    assert not release.secure
    assert release.interval().target == "mean"
    assert release.interval(target="clipped").target == "clipped mean"
    assert "outliers exceed the clipping bounds by at most" in release.interval().assumption
    values = release.to_dict()
    assert values["diagnostics"]["outcome"] == FOUND
    assert set(values["budget_shares"]) == {"location", "count outside bounds", "mean and square"}
    assert "clipped" not in values["diagnostics"]
    assert replace(plan, shape=plan.shape) == plan
    exact = plan.release(people(draws(18)))
    assert exact.secure
    assert LAPLACE.price == 2.5
    assert LOG_ZERO == LOG_BINS


def test_two_columns_share_epsilon_and_many_share_mu():
    g = np.random.default_rng(19)
    x = g.normal([0, 50], [1, 3], (4000, 2))
    matrix = ArrayPersonTable(x, ("a", "b"))
    release = planned(DefaultMean(), Budget(epsilon=1.0), persons=4000, dimension=2).release(
        matrix, SimulatedNoise(0)
    )
    assert pure_epsilon(release.guarantee.mechanisms) == 1
    assert np.abs(release.estimate - x.mean(axis=0)).max() < 0.8
    box = release.interval(0.95)
    assert all(a < m < b for a, m, b in zip(box.lower, x.mean(axis=0), box.upper, strict=True))
    many = ArrayPersonTable(np.column_stack([x, np.zeros(4000), x, x]), tuple("abcdefg"))
    plan = planned(DefaultMean(), Budget(epsilon=1.0, delta=1e-6), persons=4000, dimension=7)
    release = plan.release(many, SimulatedNoise(0))
    assert release.guarantee.verify()
    assert (release.status, release.statuses[2]) == ("point_mass", "point_mass")
    assert release.estimate[2] == 0
    assert abs(release.estimate[0]) < 0.5
    assert np.isinf(release.interval().upper[2])
    assert np.isfinite(release.interval().upper[0])
    with pytest.raises(InfeasibleError, match="delta"):
        planned(DefaultMean(), Budget(epsilon=1.0), persons=4000, dimension=7)
    with pytest.raises(InfeasibleError, match="requires n="):
        planned(DefaultMean(), Budget(epsilon=0.2, delta=1e-6), persons=900, dimension=50)
