"""Values at the ends of what there is: nothing raises after the charge, nothing false is told."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import privmean as pm
from estimators.made_groups import plan_for, released
from privmean.data.group_pairs import ArrayPairTable, GroupWeights
from privmean.data.schema import shape_of
from privmean.estimators.groups.group_means import GroupMeans
from privmean.estimators.groups.group_release import group_release
from privmean.inference.contrasts import contrasts_of
from privmean.inference.status import LOW_PRECISION
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from statistics_kit import assert_rate_at_least

SIZE = 3000
HOSTILE = {
    "alike": lambda rng, g: np.full(SIZE, 7.25),
    "alike in each group": lambda rng, g: 100.0 * g,
    "alike in each group, far apart": lambda rng, g: 10.0 ** (3 * g),
    "zero": lambda rng, g: np.zeros(SIZE),
    "largest": lambda rng, g: np.where(rng.random(SIZE) < 0.5, 1e308, -1e308),
    "tiny": lambda rng, g: rng.choice([5e-324, -5e-324, 2.0**-1070], SIZE),
    "two values": lambda rng, g: rng.choice([0.0, 1.0], SIZE),
    "all octaves": lambda rng, g: 2.0 ** rng.integers(-60, 60, SIZE),
    "one far group": lambda rng, g: rng.standard_normal(SIZE) + np.where(g == 2, 1e9, 0.0),
}


def pairs_of(kind, groups=3, weights=GroupWeights(), value=None):  # noqa: B008
    rng = np.random.default_rng(3)
    g = rng.integers(0, groups, SIZE)
    x = HOSTILE[kind](rng, g) if value is None else value
    keys = [chr(97 + k) for k in range(groups)]
    return ArrayPairTable.of(np.arange(SIZE), g, x, keys, weights)


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("way", ["public keys", "private keys", "public groups", "arms", "rho"])
def test_nothing_raises_after_the_charge(kind, way):
    pairs = pairs_of(kind, 2 if way == "arms" else 3)
    relation = REPLACE_ONE if way in ("public groups", "arms") else ADD_REMOVE
    budget = Budget(epsilon=2.0, neighbors=relation)
    if way == "private keys":
        budget = Budget(epsilon=2.0, delta=1e-6, neighbors=relation)
    if way == "rho":
        budget = Budget(rho=1.0, neighbors=relation)
    made = {
        "private keys": GroupMeans(None),
        "public groups": GroupMeans(pairs.keys, public_groups=True),
        "arms": GroupMeans(pairs.keys, public_groups=True, common=True),
    }.get(way, GroupMeans(pairs.keys))
    for seed in range(3):
        plan = made.plan(budget, shape_of(pairs, relation, None))
        release = plan.release(pairs, SimulatedNoise(seed))
        keys = None if way == "private keys" else [key for (key,) in pairs.keys]
        release = group_release(
            release, term="x", by=["key"], keys=keys, contrasts=(), later=["a - b"], shrink=True
        )
        str(release)
        json.dumps(release.to_dict(), allow_nan=False)
        for row in release.rows():
            assert math.isfinite(row.estimate) or row.status != "ok"


@pytest.mark.parametrize("kind", ["alike in each group", "one far group"])
def test_groups_are_recentred_in_finite_units_alone(kind, monkeypatch):
    units = []
    usual = ArrayPairTable.centered_counts

    def kept(self, asked, column=0):
        units.append(asked)
        return usual(self, asked, column)

    monkeypatch.setattr(ArrayPairTable, "centered_counts", kept)
    rng = np.random.default_rng(1)
    spread = 1e-12 if kind == "alike in each group" else 1.0
    g = rng.integers(0, 3, SIZE)
    value = 50.0 * g + spread * rng.standard_normal(SIZE)
    for seed in range(8):
        released(g, value, seed, 8.0)
    assert units
    for item in units:
        assert all(math.isfinite(x) for x in item.centers)
        assert all(math.isfinite(x) and x > 0 for x in item.factors)


def test_a_ratio_without_two_ends_is_told_with_nulls_and_a_status():
    rng = np.random.default_rng(2)
    pairs = pairs_of("alike", 2, value=rng.standard_normal(SIZE))
    release = group_release(
        plan_for(pairs).release(pairs, SimulatedNoise(1)), term="x", by=["key"], keys=["a", "b"],
        contrasts=contrasts_of(["a / b"], ["a", "b"]), shrink=False,
    )  # fmt: skip
    (row,) = release.rows()[2:]
    assert row.status == LOW_PRECISION
    (told,) = json.loads(json.dumps(release.to_dict(), allow_nan=False))["contrasts"]
    assert told["status"] == row.status
    assert told["interval"] == [None, None]
    assert row.status in str(release)


def test_levels_that_hold_together_count_rows_that_are_shown_and_closed():
    pairs = pairs_of("alike", 3, value=np.random.default_rng(2).standard_normal(SIZE))
    table = plan_for(pairs, simultaneous=True).release(pairs, SimulatedNoise(1)).intervals
    assert table.own_level(0.95) == pytest.approx(1 - 0.05 / 3)
    part = replace(table, open_above=np.array([True, False, False]))
    assert part.own_level(0.95) == pytest.approx(1 - 0.05 / 2)
    hidden = replace(part, estimate=np.array([0.0, np.nan, 0.0]))
    assert hidden.own_level(0.95) == 0.95


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 3])
def test_a_release_says_what_one_person_moves_and_what_its_rows_rest_on(most):
    rng = np.random.default_rng(4)
    who = np.repeat(np.arange(900), 2)
    group = np.array(["a", "b", "c"])[rng.integers(0, 3, len(who))]
    frame = {"who": who, "key": group, "x": rng.standard_normal(len(who))}
    release = pm.mean(
        frame, "x", person="who", by="key", keys=["a", "b", "c"], max_groups=most, epsilon=2.0,
        contrasts=["a - b"], noise=SimulatedNoise(1),
    )  # fmt: skip
    words = " ".join(release.assumptions)
    if most == 1:
        assert "Each person counts in one group" in words
        assert "the rows depend on which keys are asked" in words
    else:
        assert f"at most {most} groups fully; see max_groups." in words
        assert "another list of keys changes the rows" in words
        assert "hold for any dependence within people" in words
    rests = release.interval().assumption
    for part in ("people are independent", "twice the overall share", "imprecise", "not measured"):
        assert part in rests
    told = json.loads(json.dumps(release.to_dict(), allow_nan=False))
    assert "Each person counts in" in json.dumps(told)


@pytest.mark.slow
@pytest.mark.parametrize("said", [{}, {"max_groups": 2}, {"contrasts": ["1 - 0", "each - rest"]}])
@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_groups_that_are_all_hidden_are_a_status_with_advice(said, neighbors):
    """Private keys of two persons each: no row, and nothing that could pass for an answer."""
    rng = np.random.default_rng(0)
    who = np.arange(4000)
    table = {"who": who, "x": rng.standard_normal(4000), "g": who // 2}
    release = pm.mean(
        table, "x", person="who", by="g", epsilon=1.0, delta=1e-9, neighbors=neighbors,
        noise=SimulatedNoise(1), **said,
    )  # fmt: skip
    assert release.failed
    assert len(release.columns) == 0
    assert "No group of more than about" in release.advice
    assert "keys=" in release.advice
    for text in (str(release), release.details()):
        assert "\nfailed: No estimate was found; the budget was charged." in text
        assert release.advice[1:] in " ".join(text.split())
    assert json.loads(json.dumps(release.to_dict(), allow_nan=False))["status"] == "failed"
    assert "keys of the groups" not in release.guarantee.public
    (problem,) = pm.verify(release).problems
    assert "simulated" in problem


@pytest.mark.slow
def test_few_persons_whose_values_lie_far_from_zero():
    """A new start of the look at all of them: 300 persons, epsilon 1."""
    covered, rows = 0, 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        columns = {
            "p": np.arange(300),
            "g": rng.choice(["a", "b"], 300),
            "y": rng.normal(100, 1, 300),
        }
        release = pm.mean(
            pm.Table(columns, person="p"), "y", by="g", keys=["a", "b"], epsilon=1.0,
            noise=pm.SimulatedNoise(seed),
        )  # fmt: skip
        for row in release.rows():
            rows += 1
            covered += row.lower <= 100 <= row.upper
    assert_rate_at_least(covered, rows, 0.93)
