"""Statuses of the tail: what a noisy count says, how often it is wrong, and that what it may have
missed is printed."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

import privmean as pm
import statistics_kit
from privmean.data.array_table import ArrayPersonTable
from privmean.estimators.means.default_mean import DefaultMean
from privmean.inference.clipped_intervals import (
    CONVINCED,
    ColumnIntervals,
    HiddenPeople,
    OutlierCheck,
)
from privmean.inference.interval import CLIPPED, MEAN
from privmean.inference.mean_interval import ClippingBiasBound, NoisySums
from privmean.inference.status import MODIFIED_TARGET, OUTLIERS_CLIPPED, OUTLIERS_UNCHECKED
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.release.formatting import assumption_text
from privmean.release.release import Release
from statistics_kit import planned


@pytest.mark.slow
@pytest.mark.parametrize(("persons", "scale"), [(5000, 3.6), (5000, 7.8), (20000, 3.2)])
def test_false_alarms_and_hidden_groups_are_what_they_are_said_to_be(persons, scale):
    draws = 100_000
    noise = np.random.default_rng(1).laplace(0, scale, draws)

    def statuses(group):
        return sum(OutlierCheck(persons, x, scale).beyond_seen for x in group + noise)

    statistics_kit.assert_rate(statuses(0), draws, 0.5 * math.exp(-3))
    hidden = OutlierCheck(persons, 0.0, scale).hidden
    statistics_kit.assert_rate(draws - statuses(hidden), draws, 0.1)


def test_order_of_the_statuses():
    def status(beyond, persons=10_000):
        return OutlierCheck(persons, beyond, 6.0).status

    assert status(0.0) == "ok"
    assert status(17.9) == "ok"
    assert status(18.1) == OUTLIERS_CLIPPED
    assert status(600.0) == MODIFIED_TARGET
    assert status(0.0, persons=690) == OUTLIERS_UNCHECKED
    assert status(0.0, persons=150) == OUTLIERS_UNCHECKED


@pytest.mark.parametrize(("beyond", "told"), [(0.0, False), (18.1, True)])
def test_how_far_outliers_may_lie_is_printed_where_some_are_seen(beyond, told):
    sums, allowance = NoisySums(1000.0, 2000.0, 5000, 4.0, 8.0), ClippingBiasBound(beyond, 6.0, 1.0)
    check = OutlierCheck(5000, beyond, 6.0)
    made = ColumnIntervals(sums, allowance=allowance, check=check, reach=1.25).interval(0.95, MEAN)
    reach = "outliers exceed the clipping bounds by at most 1.25 on average"
    assert (reach in made.short_assumption) == told
    assert reach in made.assumption
    assert "could go undetected" in made.short_assumption


@pytest.mark.parametrize("beyond", [0.0, 18.1, 600.0])
def test_a_clipped_mean_that_was_asked_for_depends_on_no_count_of_outliers(beyond):
    sums = NoisySums(1000.0, 2000.0, 5000, 4.0, 8.0)
    check = OutlierCheck(5000, beyond, 6.0)
    made = ColumnIntervals(sums, allowance=ClippingBiasBound(beyond, 6.0, 1.0), check=check)
    assert made.standing() == (check.status, check.advice)
    for asked, default in (("clipped", MEAN), (None, CLIPPED)):
        made = replace(made, default=default)
        assert made.standing(asked) == ("ok", "")
        assert made.interval(0.95, asked).status == "ok"


@pytest.mark.parametrize(("scale", "seen"), [(6.0, OUTLIERS_CLIPPED), (30.0, MODIFIED_TARGET)])
def test_an_interval_for_something_else_says_so(scale, seen):
    """Where the mean needs a sharper count than there is, the status is one of the target."""
    check = OutlierCheck(5000, 4 * scale, scale, unchecked_part=0.01, checked=True)
    made = ColumnIntervals(
        NoisySums(1000.0, 2000.0, 5000, 4.0, 8.0),
        allowance=ClippingBiasBound(4 * scale, scale, 1.0),
        check=check,
    )
    interval = made.interval(0.95, None)
    assert interval.status == made.standing()[0] == seen
    assert interval.target == ("mean" if seen == OUTLIERS_CLIPPED else "clipped mean")
    assert ("could go undetected" in interval.advice) == (seen == MODIFIED_TARGET)


def test_thick_advice_tells_people_from_noise():
    seen, hidden = OutlierCheck(2000, 300.0, 60.0), OutlierCheck(2000, 100.0, 60.0)
    assert seen.status == hidden.status == MODIFIED_TARGET
    assert seen.advice == ""
    assert hidden.advice.startswith("The noise hides whether more than 5% of the people lie beyond")


def test_the_plan_knows_below_what_the_tail_goes_unchecked():
    def described(persons, epsilon):
        return planned(DefaultMean(), Budget(epsilon=epsilon), persons=persons).describe()

    assert described(200, 1.0)["tail check"] == OUTLIERS_UNCHECKED
    assert described(700, 1.0)["tail check"] == OUTLIERS_UNCHECKED
    assert described(7000, 0.1)["tail check"] == OUTLIERS_UNCHECKED
    assert described(1200, 1.0)["tail check"] == "ok"
    words = "people outside the limits who may go undetected"
    assert described(5000, 0.5)[words] > 1.8 * described(5000, 1.0)[words]


def statuses(values, epsilon, runs, relation=REPLACE_ONE):
    public = {"persons": len(values)} if relation == REPLACE_ONE else {"persons": None}
    plan = planned(DefaultMean(), Budget(epsilon=epsilon), relation=relation, **public)
    people, noise = ArrayPersonTable(values[:, None], ("v",)), SimulatedNoise(4)
    return [plan.release(people, noise).interval() for _ in range(runs)]


@pytest.mark.slow
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
def test_a_group_beyond_the_limits_is_seen_and_nobody_is_not(relation):
    g, runs = np.random.default_rng(8), 40
    quiet = g.normal(size=6000)
    loud = np.where(np.arange(6000) < 40, 300.0, quiet)
    seen = [item.status for item in statuses(loud, 1.0, runs, relation)]
    statistics_kit.assert_rate_at_least(sum(item != "ok" for item in seen), runs, 0.8)
    calm = [item.status for item in statuses(quiet, 1.0, runs, relation)]
    statistics_kit.assert_rate_at_most(sum(item != "ok" for item in calm), runs, 0.3)


DEMANDED, CHOICE, COUNT, VALUE, SQUARE = 91.0, 7.6, 7.4, 4.2, 8.4  # 1000 people at epsilon 1


def hidden_people(at, above, below, off, noise=(0.0, 0.0, 0.0)):
    """Sums of people at z = 1 and -1 (from beyond the limits), at these z, and at the center."""
    z = np.concatenate([np.ones(above), -np.ones(below), off])
    others = 1000 - len(z)
    value = z.sum() + others * at + noise[1]
    square = (z**2).sum() + others * at**2 + noise[2]
    sums = NoisySums(value, square, 1000.0, VALUE, SQUARE)
    return HiddenPeople(sums, at, above + below + noise[0], COUNT, DEMANDED, CHOICE)


@pytest.mark.slow
@pytest.mark.parametrize("at", [-1.0, 0.2])
def test_the_surprise_is_the_least_over_all_numbers_of_people(at):
    g = np.random.default_rng(5)
    for _ in range(50):
        noise = (g.laplace(-20, COUNT), g.laplace(0, VALUE), g.laplace(0, SQUARE))
        found = hidden_people(at, 50, 0, g.uniform(-1, 1, 30), noise)
        grid = [found.surprise_of(k) for k in np.arange(0, 400, 0.05)]
        assert found.surprise <= min(grid) + 1e-9
        assert found.surprise == pytest.approx(min(grid), abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("at", "above", "below"), [(-1.0, 60, 0), (-0.2, 30, 30), (0.0, 0, 45)])
def test_such_limits_are_taken_for_others_as_rarely_as_the_page_says(at, above, below):
    """Three Laplace noises in units of their scales are three exponential variables."""
    draws, g = 20_000, np.random.default_rng(8)
    noise = g.laplace(0, (COUNT, VALUE, SQUARE), (draws, 3)).tolist()
    wrong = sum(
        hidden_people(at, above, below, np.array([]), row).surprise >= CONVINCED for row in noise
    )
    left = CONVINCED - (DEMANDED - above - below) / CHOICE
    bound = math.exp(-left) * (1 + left + left**2 / 2)
    statistics_kit.assert_rate_at_most(wrong, draws, bound)


def test_numbers_that_fit_people_far_beyond_are_not_ok():
    check = OutlierCheck(5000, 10.0, 6.0, surprise=CONVINCED - 0.1)
    assert check.status == OUTLIERS_UNCHECKED
    assert "share one value" in check.advice
    assert OutlierCheck(5000, 10.0, 6.0, surprise=CONVINCED).status == "ok"
    assert OutlierCheck(5000, 18.1, 6.0, surprise=0.0).status == OUTLIERS_CLIPPED


N = 4000


def records():
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(N), 3)
    z = rng.normal(size=who.size)
    x = np.repeat(rng.normal(50, 8, N), 3) + z
    arm = np.repeat(rng.integers(0, 2, N), 3)
    return {"who": who, "x": x, "z": z, "arm": arm, "t": rng.uniform(0, 3, who.size)}


TABLE = pm.Table(records(), person="who")
NOISE = {"noise": SimulatedNoise(0)}
ASKED = {
    "mean": lambda: pm.mean(TABLE, "x", epsilon=1.0, noise=SimulatedNoise(2)),
    "columns": lambda: pm.mean(TABLE, ["x", "z"], epsilon=2.0, **NOISE),
    "variance": lambda: pm.variance(TABLE, "x", epsilon=1.0, **NOISE),
    "pooled": lambda: pm.regress(TABLE, "x ~ z", epsilon=4.0, **NOISE),
    "own": lambda: pm.regress(TABLE, "x ~ z", effect="per_person", epsilon=4.0, **NOISE),
    "groups": lambda: pm.mean(TABLE, "x", by="arm", keys=[0, 1], epsilon=1.0, **NOISE),
    "arms": lambda: pm.compare(TABLE, "x", arms="arm", epsilon=1.0, **NOISE),
    "public": lambda: pm.compare(
        TABLE, "x", arms="arm", membership="public", epsilon=1.0, **NOISE
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_the_print_says_how_many_may_be_unseen(name):
    found = ASKED[name]()
    assert not found.failed
    number = re.search(r"fewer than about (\d+) people", found.interval().assumption)[1]
    for release in (found, Release.from_dict(found.to_dict())):
        text = " ".join(str(release).split())
        assert text.count(f"no outliers were missed (fewer than about {number} people") == 1
        assert "could go undetected)" in text.partition("Intervals: ")[2]


@pytest.mark.parametrize(
    "asked",
    [
        lambda: pm.quantile(TABLE, "x", 0.5, epsilon=1.0, **NOISE),
        lambda: pm.mean(TABLE, "x", assume=(0, 100), epsilon=1.0, **NOISE),
    ],
)
def test_where_nobody_was_counted_no_number_is_made_up(asked):
    assert "undetected" not in assumption_text(asked())
