"""Several values by group: shared counts, and the promise for each of them together."""

import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import privmean as pm
from altered_noise import NoAddedNoise
from estimators.scripted_curator import Scripted
from privmean.data.group_pairs import GroupWeights
from privmean.data.person_table import ClipInterval
from privmean.data.read_pairs import Pairs, read_pairs
from privmean.data.schema import PublicShape, shape_of
from privmean.data.table import Table
from privmean.errors import ArgumentError
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget

KEYS = ["a", "b", "c"]


def records(persons=2400, seed=1):
    """Two values; the second is missing for a fifth of the persons, both for a few."""
    rng = np.random.default_rng(seed)
    rows = []
    for u in range(persons):
        for g in rng.choice(3, rng.integers(1, 3), replace=False):
            x, y = 5 + 0.3 * g + rng.standard_normal(), -g + rng.standard_normal()
            none = u % 5 == 0
            rows.append((u, KEYS[g], None if u % 100 == 0 else x, None if none else y))
    return pl.DataFrame(rows, schema=["who", "key", "x", "y"], orient="row")


WAYS = {
    "pure": {"epsilon": 2.0},
    "split": {"epsilon": 3.0, "max_groups": 2},
    "many": {"epsilon": 6.0, "delta": 1e-6, "max_groups": 3, "keys": KEYS},
    "rho": {"rho": 1.0},
    "public": {"epsilon": 3.0, "membership": "public"},
    "replace": {"epsilon": 3.0, "neighbors": "replace-one"},
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_both_values_are_near_the_truth_under_one_budget(way):
    said = {"person": "who", "by": "key", "keys": KEYS, "contrasts": ["a - b"]} | WAYS[way]
    release = pm.mean(records(), ["x", "y"], **said, noise=SimulatedNoise(1))
    assert isinstance(release, pm.MultiValueRelease)
    assert release.columns == ("x: a", "x: b", "x: c", "y: a", "y: b", "y: c")
    bill = release.guarantee.mechanisms
    shared = 0 if way == "public" else 1
    assert [item.name for item in bill].count("group counts") == shared
    if "rho" in said:
        assert 0.99 < sum(item.rho for item in bill) <= 1.0
    else:
        pure = [item.pure for item in bill if not math.isinf(item.pure)]
        assert sum(pure) <= said["epsilon"]
        assert sum(pure) > 0.98 * said["epsilon"]
    assert release.guarantee.verify()
    for term, shift in (("x", lambda g: 5 + 0.3 * g), ("y", lambda g: -g)):
        table = release[term]
        for g, row in enumerate(table.rows()[:3]):
            assert row.term == term
            assert row.lower - 0.1 < shift(g) < row.upper + 0.1
        assert repr(table.contrast("a - b")) == repr(table.rows()[3])  # NaN is no NaN
    assert len(release.rows()) == 8
    stored = json.loads(json.dumps(release.to_dict(), allow_nan=False))
    assert [item["term"] for item in stored["values"]] == ["x", "y"]
    assert len(stored["values"][1]["groups"]) == 3
    text = str(release)
    assert text.index("x, y by key") < text.index("\nx\na ") < text.index("\ny\na ")
    assert text.index("\ny\na ") < text.index("\nPrivacy: ")
    joint = release.conf_int(simultaneous=True)
    assert np.array_equal(joint[3:], release["y"].conf_int(1 - 0.05 / 6)[:3])
    with pytest.raises(ArgumentError):
        release["z"]


@pytest.mark.slow
@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("weights", [GroupWeights(), GroupWeights(2, True)])
def test_the_same_whole_numbers_in_every_home(weights, public):
    asked = Pairs("x", ("key",), (("a",), ("b",), ("c",)), weights, public=public, more=("y",))
    boxes, found = [ClipInterval(-3.0, 9.0)] * 3, []
    for source in (records(300), records(300).to_arrow()):
        people = read_pairs(asked, Table(source, person="who"))
        inside = people.collect()
        for home in (people, inside):
            found.append(
                [
                    home.columns, home.members(), home.group_weights(),
                    *(home.log_counts(j, 1.0).tolist() for j in (0, 1)),
                    *(home.missing(j) for j in (0, 1)),
                    *(home.count_outside(j, 0.0, 5.0) for j in (0, 1)),
                    *(home.group_sums(boxes, j) for j in (0, 1)),
                ]
            )  # fmt: skip
    assert all(item == found[0] for item in found)
    one, two = found[0][-2:]
    assert sum(item.w for item in two) < sum(item.w for item in one)
    if not public:  # a person without any value has no pair
        assert found[0][1] == 297


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
@pytest.mark.parametrize("weights", [GroupWeights(), GroupWeights(2, True)])
def test_one_person_moves_every_answer_by_what_is_billed(weights, relation):
    frame = records(1500)
    asked = Pairs("x", ("key",), (("a",), ("b",), ("c",)), weights, more=("y",))
    one = read_pairs(asked, Table(frame, person="who")).collect()
    estimator = pm.GroupMeans(one.keys, weights)
    budget = Budget(epsilon=2.0, neighbors=relation)
    plan = estimator.plan(budget, shape_of(one, relation, None))
    assert sum(item.pure for item in plan.events) <= 2
    others = [frame.filter(pl.col("who") != 7)]
    if relation == REPLACE_ONE:
        new = pl.DataFrame(
            {"who": [7] * 3, "key": KEYS, "x": [1e300, None, 4.0], "y": [None, -1e9, 0.0]},
            schema=frame.schema,
        )
        others = [others[0].vstack(new), frame.with_columns(
            pl.when(pl.col("who") != 7).then(pl.col("y")).alias("y"))]  # fmt: skip
    for other in others:
        roster = list(range(1500))
        two = read_pairs(asked, Table(other, person="who", roster=roster)).collect()
        costs = replayed(plan, one, replace(two, n=one.n))
        assert max(costs) <= 1
        assert sum(costs) > 1


def replayed(plan, one, two):
    """What every mechanism of a run on `one` would have cost on `two`, over its bill."""
    first = Scripted(one, noise=NoAddedNoise(1))
    plan.run(first)
    again = Scripted(two, first.seen)
    plan.run(again)
    asked = list(zip(first.seen, again.seen, strict=True))
    assert all(known == mechanism for (known, *_), (mechanism, *_) in asked)
    return [max(known.sensitivity_share(a, b)) for (known, a, _), (_, b, _) in asked]


def test_what_cannot_be_meant_is_refused():
    known = {"person": "who", "by": "key", "epsilon": 1.0}
    for said in (
        {"keys": KEYS, "simultaneous": True}, {"delta": 1e-6}, {"keys": KEYS, "values": ["x", "x"]},
        {"keys": KEYS, "values": ["x", "y*"]}, {"keys": KEYS, "values": []},
    ):  # fmt: skip
        values = said.pop("values", ["x", "y"])
        with pytest.raises(ArgumentError):
            pm.mean(records(50), values, **known, **said)
    with pytest.raises(pm.InfeasibleError):  # public sizes
        pm.mean(records(100), ["x", "y"], keys=KEYS, membership="public", **known)
    plan = pm.GroupMeans((("a",), ("b",))).plan(Budget(epsilon=1.0), PublicShape(("x", "y"), 3000))
    alone = pm.GroupMeans((("a",), ("b",))).plan(Budget(epsilon=1.0), PublicShape(("x",), 3000))
    noise = [item.predict(1.0, 3000)["privacy_noise"] for item in (plan, alone)]
    assert 1.7 < noise[0] / noise[1] < 2.5
