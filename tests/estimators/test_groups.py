"""Means by group through the front door: bills, statuses, and what nothing may depend on."""

import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import privmean as pm
from altered_noise import NoAddedNoise
from estimators.made_groups import pairs_of, plan_for
from estimators.scripted_curator import Scripted
from privmean.cli.app import run
from privmean.data.group_pairs import ArrayPairTable, GroupWeights
from privmean.errors import ArgumentError
from privmean.estimators.groups.group_release import GroupRelease
from privmean.estimators.groups.group_stages import boxes_of
from privmean.estimators.groups.pooled_tail import GroupBounds
from privmean.mechanisms.private_location import PrivateCenter
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE
from privmean.privacy.guarantee import Guarantee
from statistics_kit import assert_rate

KEYS = ["a", "b", "c", "d"]


def records(persons=1500, seed=1, groups=KEYS, spread=0.3):
    """Persons with two records in a group of their own, whose means differ by `spread`."""
    rng = np.random.default_rng(seed)
    size = np.array([8, 4, 2, 1][: len(groups)])
    group = rng.choice(len(groups), persons, p=size / size.sum())
    value = 5 + spread * group + rng.standard_normal(persons)
    return pl.DataFrame(
        {
            "who": np.repeat(np.arange(persons), 2),
            "key": np.repeat([groups[g] for g in group], 2),
            "x": np.repeat(value, 2) + np.tile([0.5, -0.5], persons),
        }
    )


def asked(frame, seed=2, **said):
    known = {"person": "who", "by": "key", "keys": KEYS, "epsilon": 2.0}
    return pm.mean(frame, "x", **known | said, noise=SimulatedNoise(seed))


# --- what is released -----------------------------------------------------------------------------
def test_the_table_is_near_the_truth_and_says_what_it_rests_on():
    release = asked(records(), contrasts=["a - b", "each - rest"], shrink=True)
    assert isinstance(release, GroupRelease)
    assert release.columns == tuple(KEYS)
    for row in release.rows()[:4]:
        truth = 5 + 0.3 * KEYS.index(row.group)
        assert abs(row.estimate - truth) < 0.5
        assert row.lower < row.noise_lower < row.estimate < row.noise_upper < row.upper
        assert (row.term, row.status) == ("x", "ok")
        assert row.std_error > 0
    assert [row.group for row in release.rows()[4:]] == ["a - b", *(f"{k} - rest" for k in KEYS)]
    assert release.guarantee.neighbors == ADD_REMOVE
    text = " ".join(release.details().split())
    for words in (
        "Each person counts in one group, that of most of their records; see max_groups.",
        "the rows depend on which keys", "twice the overall share of outliers",
        "outliers of a group exceed its clipping bounds", "add-remove", "Clipping bounds: ",
    ):  # fmt: skip
        assert words in text, words


def test_simultaneous_ends_of_groups_are_those_of_all_rows_together():
    release = asked(records())
    alone, joint = release.conf_int(), release.conf_int(simultaneous=True)
    assert np.all(joint[:, 0] < alone[:, 0])
    assert np.all(alone[:, 1] < joint[:, 1])
    assert np.array_equal(joint, release.conf_int(1 - 0.05 / len(KEYS)))
    stored = pm.Release.from_dict(json.loads(json.dumps(release.to_dict())))
    assert str(stored) == str(release)
    with pytest.raises(ArgumentError, match="is not in the stored release"):
        stored.conf_int(simultaneous=True)


def test_comparisons_later_cost_nothing():
    release = asked(records(), contrasts=["a - b"])
    assert repr(release.contrast("a - b")) == repr(release.rows()[4])  # NaN is no NaN
    ratio = release.ratio("a / b")
    assert ratio.lower < ratio.estimate < ratio.upper
    pairs = release.pairwise()
    assert len(pairs) == 6
    assert pairs[0].upper - pairs[0].lower > release.rows()[4].upper - release.rows()[4].lower
    half = release.contrast({"a": 0.5, "b": 0.5})
    assert half.estimate == pytest.approx((release.estimate[0] + release.estimate[1]) / 2)
    for wrong in ("a / b", "all pairs", "a - q"):
        with pytest.raises(ArgumentError):
            release.contrast(wrong)
    with pytest.raises(ArgumentError):
        release.ratio("a - b")


@pytest.mark.slow
def test_comparisons_are_a_frame_of_their_own_and_persons_have_an_interval():
    release = asked(records(), contrasts=["a - b", "b / a"])
    both, apart = release.to_frame("polars"), release.contrasts_frame("polars")
    assert apart.columns == both.columns
    assert apart["group"].to_list() == ["a - b", "b / a"]
    assert both["group"].to_list() == [*KEYS, "a - b", "b / a"]
    held = 0
    frame = records()
    alone = frame.unique("who")
    table = pm.Table(frame, person="who")
    for seed in range(40):
        made = asked(table, seed, person=None)
        for item in made.to_dict()["groups"]:
            low, high = item["n_interval"]
            assert (low, high) == made.n_interval(item["key"])
            held += low <= alone.filter(pl.col("key") == item["key"]).height <= high
    assert_rate(held, 160, 0.95)
    public = asked(frame, membership="public", neighbors="replace-one")
    assert public.n_interval("a") == (public.groups.weight[0],) * 2
    with pytest.raises(ArgumentError):
        release.n_interval("nobody")


def test_rows_come_in_the_order_that_was_asked():
    one, two = asked(records()), asked(records(), keys=KEYS[::-1])
    assert two.columns == tuple(KEYS[::-1])
    assert one.estimate.tolist() == two.estimate.tolist()[::-1]


@pytest.mark.parametrize(
    "said",
    [
        {"keys": None, "other": True},
        {"keys": "a"}, {"keys": []}, {"keys": ["a", "a"]}, {"keys": [1, "1"]},
        {"max_groups": 0}, {"rule": "first"}, {"rule": "most_frequent", "max_groups": 2},
        {"contrasts": ["a - q"]}, {"by": []}, {"by": ["key", "key"]}, {"estimand": "records"},
        {"bounds": (0, 1)}, {"method": "winsorized"}, {"clustering": 2.0}, {"membership": "secret"},
        {"other": "yes"}, {"shrink": 1}, {"keys": [*KEYS, "other"], "other": True},
        {"max_groups": 2, "by": None}, {"by": "nothing"}, {"by": "who"},
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_before_anything_is_read(said):
    class Untouched:
        def laplace(self, *_):
            raise AssertionError("noise was drawn")

        secure = False

    with pytest.raises((ArgumentError, pm.SchemaError)):
        pm.mean(
            records(40), "x", **{"person": "who", "by": "key", "keys": KEYS, "epsilon": 1.0} | said,
            noise=Untouched(),
        )  # fmt: skip


# --- private failures are answers -----------------------------------------------------------------
def test_too_few_persons_are_an_answer_and_cost_the_counts_alone(tmp_path):
    ledger = pm.Ledger(tmp_path / "ledger", epsilon=5.0)
    release = asked(records(30), epsilon=0.5, contrasts=["a - b", "a / b"], ledger=ledger)
    assert release.failed
    assert np.isnan(release.estimate).all()
    assert {row.status for row in release.rows()} == {"suppressed"}
    assert "too few people to find the values" in " ".join(str(release).split()).lower()
    assert ledger.spent().epsilon == pytest.approx(0.02)
    json.dumps(release.to_dict(), allow_nan=False)


def test_an_atom_is_not_shown_as_the_mean_of_a_group():
    pairs = pairs_of(2000)
    release = plan_for(pairs).release(pairs_like(pairs, 0.0), SimulatedNoise(1))
    assert release.status == "point_mass"
    assert np.isnan(release.estimate).all()
    assert "the value 0," in release.advice
    # one value away from 0 as well, where rounds go on to its last digits
    release = plan_for(pairs_of(2000)).release(pairs_like(pairs, 3.0), SimulatedNoise(1))
    assert release.status == "point_mass"
    assert np.isnan(release.estimate).all()
    assert "the value 3" in release.advice


def pairs_like(pairs, value):
    """The same pairs, all with one value."""
    alike = np.full(len(pairs.group), value)
    return replace(pairs, values=(alike,), _cache={})


def test_small_and_far_groups_are_marked():
    pairs = pairs_of(4000, 4)
    group, value = pairs.group.copy(), pairs.values[0].copy()
    few = np.flatnonzero(group == 3)
    group[few[3:]] = 2
    far = np.flatnonzero(group == 1)
    group[far[60:]] = 0
    value[far[:60]] += 12.0
    moved = ArrayPairTable.of(np.arange(4000), group, value, list("abcd"), pairs.weights)
    release = plan_for(moved).release(moved, SimulatedNoise(4))
    table = release.intervals
    assert table.status[3] == "suppressed"
    assert math.isnan(release.estimate[3])
    assert table.rows(0.95)[1].status in ("at_bound", "ok")
    if table.status[1] == "at_bound":
        assert table.rows(0.95)[1].upper == math.inf
    else:
        assert table.rows(0.95)[1].upper > 11.0


# --- bills ----------------------------------------------------------------------------------------
PATHS = {
    "usual": {},
    "heavy": {"groups": 1},
    "split": {"weights": GroupWeights(2, True), "most": 3},
    "one vote": {"weights": GroupWeights(1, True), "most": 3},
    "many groups": {"groups": 20},
    "recentred": {"spread": 40.0, "groups": 6},
}


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
@pytest.mark.parametrize("path", PATHS)
def test_the_bill_of_every_path_is_epsilon_exactly_or_less(path, relation):
    pairs = pairs_of(**PATHS[path])
    plan = plan_for(pairs, relation=relation)
    worst = Guarantee.of(plan.budget, relation, plan.events)
    assert sum(item.pure for item in worst.mechanisms) == 2
    release = plan.release(pairs, SimulatedNoise(3))
    bill = release.guarantee.mechanisms
    assert sum(item.pure for item in bill) == 2
    assert all(item.neighbors == relation for item in bill)
    names = [item.name for item in bill]
    assert ("values about their groups" in names) == (path == "recentred")
    assert names.count("count of people") == (path in ("split", "one vote", "many groups"))
    assert pm.Guarantee.from_dict(release.guarantee.to_dict()).verify()
    k = min(pairs.weights.max_groups, len(pairs.keys))
    twice = 2 if relation == REPLACE_ONE else 1
    counts = bill[names.index("group counts")]
    assert counts.sensitivity == k * pairs.weights.parts * twice
    tails = bill[names.index("tail histogram")]
    assert tails.sensitivity == pairs.weights.mass * twice


# --- what nothing may depend on -------------------------------------------------------------------
@pytest.mark.parametrize("path", ["usual", "split", "one vote", "recentred"])
def test_one_person_moves_every_answer_by_what_is_billed(path):
    # the same questions are asked of neighbours: a person is taken out, in the path of the table
    pairs = pairs_of(**PATHS[path])
    first = Scripted(pairs, noise=NoAddedNoise(1))
    plan_for(pairs).run(first)
    again = Scripted(pairs_without_the_first(pairs), first.seen)
    plan_for(pairs).run(again)
    costs = []
    for (mechanism, exact, _), (other_mechanism, other, _) in zip(
        first.seen, again.seen, strict=True
    ):
        assert other_mechanism == mechanism
        (loss,) = mechanism.events
        if hasattr(mechanism, "steps") or isinstance(mechanism, PrivateCenter):
            cost = mechanism.sensitivity_share(exact, other)[0] * loss.pure
        else:
            moved = int(np.abs(np.asarray(exact) - np.asarray(other)).sum())
            cost = moved / loss.scale
        assert cost <= loss.pure
        costs.append(cost)
    assert sum(costs) <= 2
    assert sum(costs) > 0.5  # most of the budget is used by a person in full


def pairs_without_the_first(pairs):
    """The pairs of `pairs_of` without its first person."""
    groups = pairs.weights.mass // int(pairs.mass[0]) if pairs.weights.split else 1
    rows = slice(groups, None)
    return ArrayPairTable(
        pairs.columns, pairs.keys, pairs.weights, pairs.group[rows], (pairs.values[0][rows],),
        pairs.weight[rows], pairs.mass[rows], pairs.n - 1, pairs.known - 1,
    )  # fmt: skip


@pytest.mark.parametrize("max_groups", [1, 2])
def test_unlisted_keys_empty_groups_and_several_keys_change_nothing_but_their_own(max_groups):
    frame = records(1500)
    more = frame.vstack(
        pl.DataFrame(
            {"who": [0, 1, 2, 2], "key": ["zz", None, "yy", "zz"], "x": [1e9, 3.0, None, 7.0]},
            schema=frame.schema,
        )
    )
    one, two = (asked(f, max_groups=max_groups).to_dict() for f in (frame, more))
    assert one["groups"] == two["groups"]
    assert one["status"] == two["status"]


def test_margins_of_crossed_columns_are_sums_of_their_cells():
    rng = np.random.default_rng(4)
    size = 6000
    a, b = rng.integers(0, 2, size), rng.integers(0, 3, size)
    frame = pl.DataFrame(
        {
            "who": range(size),
            "a": [["x", "y"][i] for i in a],
            "b": b,
            "x": 3 + a + 0.5 * b + rng.standard_normal(size),
        }
    )
    keys = [(u, v) for u in ("x", "y") for v in (0, 1, 2)]
    release = asked(frame, by=["a", "b"], keys=keys)
    assert release.columns[:2] == ("x, 0", "x, 1")
    margin = release.margin("a")
    assert [row.group for row in margin] == ["x", "y"]
    for row, truth in zip(margin, (3.5, 4.5), strict=True):
        assert row.lower < truth < row.upper
        assert row.noise_lower < row.estimate < row.noise_upper
    cells = release.groups
    part = cells.divisor[:3] / cells.divisor[:3].sum()
    assert margin[0].estimate == pytest.approx(float(part @ release.estimate[:3]))
    assert len(release.to_dict()["margins"]["b"]) == 3
    with pytest.raises(ArgumentError):
        release.margin("c")
    with pytest.raises(ArgumentError):
        asked(records()).margin("key")


@pytest.mark.slow
def test_many_groups_share_few_scales_of_noise():
    rng = np.random.default_rng(1)
    limits = GroupBounds(rng.standard_normal(500), 5 + rng.exponential(3, 500))
    boxes = boxes_of(limits)
    assert len({box.steps for box in boxes}) <= 65
    for box, low, high in zip(boxes, limits.lower, limits.upper, strict=True):
        assert box.lower <= low < high <= box.upper
        assert box.upper - box.lower <= 1.017 * (high - low)
    few = GroupBounds(limits.lower[:64], limits.upper[:64])
    assert [box.lower for box in boxes_of(few)] == few.lower.tolist()
    pairs = pairs_of(60_000, 3000)
    release = plan_for(pairs).release(pairs)  # exact noise, thousands of keys
    assert release.guarantee.verify()
    assert np.isfinite(release.estimate).sum() > 1000


@pytest.mark.slow
def test_the_plot_has_both_intervals_of_every_group_in_order():
    release = asked(records(), contrasts=["all pairs"], keys=[*KEYS, "nobody"])
    axes = release.plot()
    shown = [label.get_text() for label in axes.get_yticklabels()]
    by_size = sorted(KEYS, key=lambda k: -release.estimate[KEYS.index(k)])
    assert shown in ([*by_size, "nobody"], ["nobody", *by_size[::-1]])


@pytest.mark.slow
def test_groups_that_have_one_of_two_values_are_both_within_the_limits():
    """A center between two values may be next to one of them, on either side."""
    value = np.arange(4000) % 2 * 1.0
    table = pm.Table({"who": np.arange(4000), "v": value, "arm": value}, person="who")
    for seed in range(40):
        noise = pm.SimulatedNoise(seed)
        found = pm.compare(table, "v", arms="arm", levels=[0, 1], epsilon=20, noise=noise)
        assert abs(abs(found.effect.estimate) - 1) < 0.01
        assert found.status in ("ok", "outliers_clipped")


# --- predicted errors, and the least epsilon ------------------------------------------------------


QUESTION = pm.Mean(("x",), by=("key",), keys=("a", "b", "c", "d"))
SIZES = {"a": 2000, "b": 700, "c": 250, "d": 90}


def test_predicted_noise_is_near_that_of_releases():
    group = np.repeat(np.arange(4), list(SIZES.values()))
    value = np.random.default_rng(1).standard_normal(len(group))
    pairs = ArrayPairTable.of(np.arange(len(group)), group, value, list(SIZES), GroupWeights())
    plan = pm.plan(QUESTION, n=len(group), epsilon=1.0)
    made = [plan.release(pairs, SimulatedNoise(i)).intervals.scales for i in range(15)]
    noise = np.median([np.sqrt(2 * (scales**2).sum(axis=1)) for scales in made], axis=0)
    for line, seen in zip(plan.forecast(SIZES, 1.0), noise, strict=True):
        assert 0.7 < line.privacy_noise / seen < 1.4
        assert line.rmse == pytest.approx(np.hypot(line.privacy_noise, line.sampling))
        assert line.status == "ok"


def test_small_groups_are_told_before():
    plan = pm.plan(QUESTION, n=3000, epsilon=1.0)
    lines = plan.forecast({**SIZES, "c": 40, "d": 5}, 1.0)
    assert [item.status for item in lines] == ["ok", "ok", "low_precision", "suppressed"]
    few = pm.plan(QUESTION, n=500, epsilon=0.5).forecast(500, 1.0)
    assert {item.status for item in few} == {"outliers_unchecked"}
    even = plan.forecast(400, 1.0)
    assert {item.n for item in even} == {100}
    assert plan.forecast([1, 2, 3, 4], 1.0)[3].n == 4
    for wrong in ({"a": 1}, {**SIZES, "q": 1}, [1, 2], 0, [1, 2, 3, -1]):
        with pytest.raises(ArgumentError):
            plan.forecast(wrong, 1.0)


def test_the_least_epsilon_is_enough_and_no_more():
    least = pm.required_epsilon(QUESTION, group_sizes=SIZES, target_error=0.15, guess_sd=1.0)

    def worst(epsilon):
        return max(
            item.rmse for item in pm.plan(QUESTION, n=9, epsilon=epsilon).forecast(SIZES, 1.0)
        )

    assert worst(least) <= 0.15 < worst(least * 0.97)
    with pytest.raises(ArgumentError, match="any epsilon"):
        pm.required_epsilon(QUESTION, group_sizes=SIZES, target_error=0.01, guess_sd=1.0)
    with pytest.raises(ArgumentError, match="by group"):
        pm.required_epsilon(pm.Mean(("x",)), group_sizes=SIZES, target_error=1.0, guess_sd=1.0)


def test_the_command_tells_every_group(capsys):
    known = ["plan", "--n", "3040", "--by", "key", "--keys", "a,b,c,d", "--epsilon", "1"]
    assert (
        run([*known, "--group-sizes", "2000,700,250,90", "--target-error", "0.15", "--json"]) == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert [item["key"] for item in told["groups"]] == ["a", "b", "c", "d"]
    assert told["required_epsilon"] == pm.required_epsilon(
        QUESTION, group_sizes=[2000, 700, 250, 90], target_error=0.15, guess_sd=1.0
    )
    assert run([*known, "--group-sizes", "2000,700,40,5"]) == 0
    assert "suppressed" in capsys.readouterr().out
    assert run([*known, "--group-sizes", "a lot"]) == 2
