"""Two arms and the same persons twice."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import privmean as pm
from privmean.cli.app import run
from privmean.data.group_pairs import ArrayPairTable, GroupWeights
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError
from privmean.estimators.groups.group_means import GroupMeans
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from statistics_kit import assert_rate_at_least, assert_rate_at_most, combined


def trial(persons=2000, effect=0.5, seed=1, nulls=0):
    """Records of a trial: an arm, a value and an earlier one that tells half of it. Values are far
    from 0, and the first `nulls` are missing, in one arm alone."""
    rng = np.random.default_rng(seed)
    arm = rng.integers(0, 2, persons)
    before = rng.standard_normal(persons)
    after = 3 + before + 0.5 * rng.standard_normal(persons) + effect * arm
    frame = pl.DataFrame({"who": range(persons), "arm": arm, "y": after, "b": before})
    gone = (pl.int_range(pl.len()) < nulls) & (pl.col("arm") == 1)
    return frame.with_columns(y=pl.when(~gone).then(pl.col("y")))


def asked(frame, seed=1, **said):
    known = {"arms": "arm", "person": "who", "epsilon": 2.0}
    return pm.compare(frame, "y", **known | said, noise=SimulatedNoise(seed))


MEMBERSHIPS = pytest.mark.parametrize("membership", ["private", "public"])


@MEMBERSHIPS
def test_two_arms_have_an_effect_an_interval_and_a_p_value(membership):
    frame, public = trial(), membership == "public"
    plain, change = (
        asked(frame, membership=membership, **more) for more in ({}, {"baseline": "b"})
    )
    for release in (plain, change):
        effect = release.effect
        assert effect.group == "1 - 0"
        assert effect.lower < 0.5 < effect.upper
        assert release.p_value < 1e-3
        assert release.status == "ok"
        stored = json.loads(json.dumps(release.to_dict(), allow_nan=False))
        assert stored["p_value"] == release.p_value
        assert re.search(
            r"^p [<=] \S+ for the null hypothesis of equal distributions", str(release), re.M
        )
        assert release.guarantee.neighbors == (REPLACE_ONE if public else ADD_REMOVE)
        assert sum(item.pure for item in release.guarantee.mechanisms) == 2
        assert ("who has records in which group" in release.guarantee.public) == public
    assert change.effect.std_error < 0.7 * plain.effect.std_error
    assert change.term == "y - b"
    if public:
        treated = int(frame["arm"].sum())
        assert [row.n for row in plain.rows()[:2]] == pytest.approx([treated, 2000 - treated])


@pytest.mark.slow
def test_arms_are_named_in_any_type_that_a_column_has():
    frame = trial()
    made = {
        "whole": frame,
        "truth": frame.with_columns(pl.col("arm").cast(pl.Boolean)),
        "double": frame.with_columns(pl.col("arm").cast(pl.Float64)),
        "engine": frame.to_arrow(),
    }
    ends = {
        name: pm.compare(
            source, "y", arms="arm", person="who", epsilon=1, noise=SimulatedNoise(4)
        ).effect
        for name, source in made.items()
    }
    assert len({repr(effect) for effect in ends.values()}) == 1  # NaN is no NaN
    words = frame.with_columns(
        pl.when(pl.col("arm") == 1).then(pl.lit("with")).otherwise(pl.lit("none")).alias("arm")
    )
    named = pm.compare(
        words, "y", arms="arm", levels=["with", "none"], person="who", epsilon=1,
        noise=SimulatedNoise(4),
    )  # fmt: skip
    assert named.effect.estimate == ends["whole"].estimate


def test_a_third_arm_and_persons_of_both_arms_are_no_error():
    frame = trial()
    more = frame.vstack(
        pl.DataFrame(
            {"who": [0, 1, 2], "arm": [2, 1, None], "y": [1e9, 0.0, 1.0], "b": [0.0, None, 1.0]},
            schema=frame.schema,
        )
    )
    release = pm.compare(
        more, "y", arms="arm", baseline="b", person="who", epsilon=2, noise=SimulatedNoise(1)
    )
    assert release.effect.status == "ok"


@MEMBERSHIPS
def test_the_p_value_is_where_the_interval_meets_zero(membership):
    release = asked(trial(effect=0.2), membership=membership, epsilon=1.0)
    found = release.p_value
    assert 1e-9 < found < 0.9
    row = combined(release.groups, np.array([1.0, -1.0]), 1 - found, clipped=True)
    near = row.lower if row.estimate > 0 else row.upper
    assert near == pytest.approx(0.0, abs=1e-6)
    if membership == "private":
        assert len(set(release.groups.upper)) == len(set(release.groups.lower)) == 1


@pytest.mark.slow
@MEMBERSHIPS
def test_tails_that_limits_cut_make_no_effect(membership):
    """Arms of very different sizes and one law with a heavy tail: the limits are the same."""
    public = membership == "public"
    question = pm.Compare("y", arms="arm", membership=membership)
    budget = Budget(epsilon=1.0, neighbors=question.default_neighbors)
    plan = question.estimator(1, None, budget).plan(
        budget, PublicShape(("y",), 3000 if public else None)
    )
    rng = np.random.default_rng(8)
    seen, draws = 0, 150
    for i in range(draws):
        arm = (rng.random(3000) < 0.1).astype(int)
        pairs = ArrayPairTable.of(
            np.arange(3000), arm, rng.pareto(2.5, 3000), ["0", "1"], GroupWeights()
        )
        pairs = replace(pairs, columns=("y",))
        seen += question.to_release(plan.release(pairs, SimulatedNoise(i))).p_value < 0.05
    assert_rate_at_most(seen, draws, 0.06)


@pytest.mark.slow
def test_size_and_power_of_two_arms():
    rng = np.random.default_rng(2)
    plan = GroupMeans((("0",), ("1",)), common=True).plan(
        Budget(epsilon=2.0, neighbors=ADD_REMOVE), PublicShape(("x",))
    )
    told = {}
    for effect in (0.0, 0.35):
        hits = 0
        for i in range(120):
            arm = np.repeat([0, 1], 300)
            value = rng.standard_normal(600) + effect * arm
            pairs = ArrayPairTable.of(np.arange(600), arm, value, ["0", "1"], GroupWeights())
            table = plan.release(pairs, SimulatedNoise(i)).intervals
            p = table.p_value(np.array([1.0, -1.0]))
            hits += bool(p < 0.05)
        told[effect] = hits
    assert_rate_at_most(told[0.0], 120, 0.06)
    assert_rate_at_least(told[0.35], 120, 0.6)
    assert 0.8 < plan.power(0.35, {"0": 300, "1": 300}, 1.0) < 1
    assert plan.power(0.0, 600, 1.0) == pytest.approx(0.05)


def twice(persons=1200, seed=3):
    rng = np.random.default_rng(seed)
    own = 5 * rng.standard_normal(persons)
    rows = []
    for u in range(persons):
        rows += [(u, "jul", own[u] + 2.0), (u, "jul", own[u] + 3.0)]
        if u % 5:
            rows.append((u, "oct", own[u] + rng.standard_normal()))
    return pl.DataFrame(rows, schema=["who", "month", "x"], orient="row")


@pytest.mark.slow
def test_the_paired_question_is_the_mean_of_the_differences_to_the_digit():
    frame = twice()
    wide = frame.pivot("month", index="who", values="x", aggregate_function="mean")
    own = wide.with_columns(d=pl.col("jul") - pl.col("oct"))
    for relation in ("replace-one", "add-remove"):
        paired = pm.compare(
            frame, "x", by="month", pair=["jul", "oct"], person="who", epsilon=1,
            neighbors=relation, noise=SimulatedNoise(1),
        )  # fmt: skip
        usual = pm.mean(
            own.select("who", "d"), "d", person="who", epsilon=1, neighbors=relation,
            noise=SimulatedNoise(1),
        )  # fmt: skip
        assert paired.estimate[0] == pytest.approx(usual.estimate[0], abs=1e-9)
        assert paired.interval().lower == pytest.approx(usual.interval().lower, abs=1e-9)
        assert paired.guarantee.mechanisms == usual.guarantee.mechanisms
    assert "both groups" in str(paired)
    assert paired.interval().lower[0] < 2.5 < paired.interval().upper[0]
    other = pm.compare(
        frame.to_arrow(), "x", by="month", pair=["oct", "jul"], person="who", epsilon=1,
        noise=SimulatedNoise(1), neighbors="add-remove",
    )  # fmt: skip
    assert -other.interval().upper[0] < 2.5 < -other.interval().lower[0]


def test_persons_of_a_roster_without_records_stay_as_nulls():
    from privmean.data.read_pairs import Difference, read_differences

    frame = twice(10)
    table = pm.Table(frame, person="who", roster=[1, 2, 5, 99])
    people = read_differences(Difference("x", "month", ("jul", "oct")), table)
    assert people.size() == 4
    assert np.isnan(people.matrix()).sum() == 2


@pytest.mark.parametrize(
    "said",
    [
        {}, {"arms": "arm", "by": "month"}, {"by": "arm"}, {"by": "arm", "pair": ["a"]},
        {"by": "arm", "pair": ["a", "a"]}, {"arms": "arm", "levels": ["a"]},
        {"arms": "arm", "pair": ["a", "b"]}, {"by": "arm", "pair": ["a", "b"], "before": "b"},
        {"arms": "arm", "slope": math.nan}, {"arms": "arm", "levels": "ab"},
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(said):
    with pytest.raises(ArgumentError):
        pm.compare(trial(50), "y", person="who", epsilon=1, **said)


@pytest.mark.slow
def test_the_command(tmp_path, capsys):
    path = tmp_path / "t.csv"
    trial().write_csv(path)
    known = ["compare", str(path), "--person", "who", "--value", "y", "--epsilon", "2", "--json"]
    assert run([*known, "--arms", "arm", "--baseline", "b"]) == 0
    stored = json.loads(capsys.readouterr().out)
    assert stored["contrasts"][0]["contrast"] == "1 - 0"
    assert stored["p_value"] < 0.01
    twice().write_csv(path)
    known = ["compare", str(path), "--person", "who", "--value", "x", "--epsilon", "2", "--json"]
    assert run([*known, "--by", "month", "--pair", "jul", "--pair", "oct"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"] == ["x: jul - oct"]


def test_a_comparison_without_an_effect_is_not_ok():
    frame = trial().with_columns(arm=pl.col("arm") + 1)  # 1 and 2, where 1 and 0 are asked
    release = pm.compare(frame, "y", arms="arm", person="who", epsilon=2, noise=SimulatedNoise(1))
    assert math.isnan(release.effect.estimate)
    assert release.status == release.to_dict()["status"] == "suppressed"
    assert "other keys than 1 and 0" in " ".join(release.summary().split())
    assert pm.verify(pm.compare(frame, "y", arms="arm", person="who", epsilon=2))


# --- public arms ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("nulls", [150, 600])
def test_persons_without_a_value_are_left_out_and_not_taken_at_the_middle(nulls):
    # means far from the middle of the limits, and values missing in one arm alone
    for seed in range(5):
        release = asked(trial(2400, nulls=nulls), seed, epsilon=4.0, membership="public")
        assert abs(release.effect.estimate - 0.5) < 0.25
        assert release.effect.lower < 0.5 < release.effect.upper


@pytest.mark.parametrize("sizes", [(40, 40), (3000, 0), (0, 3000)])
def test_public_sizes_that_cannot_work_are_refused_before_the_charge(sizes, tmp_path):
    arm = np.repeat([1, 0], sizes)
    frame = pl.DataFrame({"who": range(len(arm)), "arm": arm, "y": arm + 0.5})
    ledger = pm.Ledger(tmp_path / "ledger", epsilon=5.0)
    with pytest.raises(pm.InfeasibleError):
        asked(frame, ledger=ledger, membership="public", epsilon=1.0)
    if min(sizes):
        with pytest.raises(pm.InfeasibleError):
            pm.mean(
                frame, "y", person="who", by="arm", keys=[0, 1], membership="public", epsilon=1,
                ledger=ledger,
            )  # fmt: skip
    assert ledger.spent().epsilon == 0


def test_public_arms_are_for_replace_one():
    for said in ({"neighbors": "add-remove"}, {"membership": "secret"}, {"rho": 0.1}):
        with pytest.raises(ArgumentError):
            asked(trial(50), **{"membership": "public"} | said)
    with pytest.raises(ArgumentError):
        pm.compare(
            trial(50), "y", by="arm", pair=["1", "0"], membership="public", person="who", epsilon=1
        )


def test_the_plan_tells_the_chance_to_see_an_effect(capsys):
    known = ["plan", "--n", "1000", "--arms", "treated", "--epsilon", "1", "--json"]
    told = {}
    for membership in ("private", "public"):
        said = ["--group-sizes", "400,600", "--effect", "0.3", "--membership", membership]
        assert run([*known, *said]) == 0
        told[membership] = json.loads(capsys.readouterr().out)
        assert 0.5 < told[membership]["power"] < 1
    question = pm.Compare("value", arms="treated", membership="public")
    plan = pm.plan(question, n=1000, epsilon=1)
    assert plan.power(0.3, {"1": 400, "0": 600}, 1.0) == told["public"]["power"]
    assert plan.difference(1.0, [400, 600]) == told["public"]["predicted"]
    assert plan.power(0.3, 1000, 1.0) > plan.power(0.3, [200, 800], 1.0)
