"""Two public arms: the effect, its interval and its p-value."""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl
import pytest

import privmean as pm
from privmean.cli.app import run
from privmean.errors import ArgumentError
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import REPLACE_ONE


def trial(persons=1200, effect=0.5, seed=1, nulls=0):
    rng = np.random.default_rng(seed)
    arm = rng.integers(0, 2, persons)
    before = rng.standard_normal(persons)
    after = 3 + before + 0.5 * rng.standard_normal(persons) + effect * arm
    frame = pl.DataFrame({"who": range(persons), "arm": arm, "y": after, "b": before})
    gone = (pl.int_range(pl.len()) < nulls) & (pl.col("arm") == 1)
    return frame.with_columns(y=pl.when(~gone).then(pl.col("y")))


def asked(frame, seed=1, **said):
    known = {"arms": "arm", "membership": "public", "person": "who", "epsilon": 1.0}
    return pm.compare(frame, "y", **known | said, noise=SimulatedNoise(seed))


def test_public_arms_have_an_effect_an_interval_and_a_p_value():
    plain, change = asked(trial()), asked(trial(), baseline="b")
    for release in (plain, change):
        assert release.effect.lower < 0.5 < release.effect.upper
        assert release.p_value < 1e-3
        assert release.status == "ok"
        assert release.guarantee.neighbors == REPLACE_ONE
        assert sum(item.pure for item in release.guarantee.mechanisms) == 1
        stored = json.loads(json.dumps(release.to_dict(), allow_nan=False))
        assert stored["p_value"] == release.p_value
        assert re.search(
            r"^p [<=] \S+ for the null hypothesis of equal distributions", str(release), re.M
        )
        assert "who has records in which group" in release.guarantee.public
    assert change.effect.std_error < 0.7 * plain.effect.std_error
    assert change.term == "y - b"
    treated = int(trial()["arm"].sum())
    assert [row.n for row in plain.rows()[:2]] == pytest.approx([treated, 1200 - treated])


def test_the_p_value_is_where_the_interval_meets_zero():
    release = asked(trial(effect=0.25))
    found = release.p_value
    assert 1e-9 < found < 0.9
    row = release.groups.line(np.array([1.0, -1.0]), 1 - found, clipped=True)
    assert row.lower == pytest.approx(0.0, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("nulls", [150, 600])
def test_persons_without_a_value_are_left_out_and_not_taken_at_the_middle(nulls):
    # means far from the middle of the limits, and values missing in one arm alone
    for seed in range(5):
        release = asked(trial(2400, nulls=nulls), seed, epsilon=4.0)
        assert abs(release.effect.estimate - 0.5) < 0.25
        assert release.effect.lower < 0.5 < release.effect.upper


@pytest.mark.parametrize("sizes", [(40, 40), (3000, 0), (0, 3000)])
def test_public_sizes_that_cannot_work_are_refused_before_the_charge(sizes, tmp_path):
    arm = np.repeat([1, 0], sizes)
    frame = pl.DataFrame({"who": range(len(arm)), "arm": arm, "y": arm + 0.5})
    ledger = pm.Ledger(tmp_path / "ledger", epsilon=5.0)
    with pytest.raises(pm.InfeasibleError):
        asked(frame, ledger=ledger)
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
            asked(trial(50), **said)
    with pytest.raises(ArgumentError):
        pm.compare(
            trial(50), "y", by="arm", pair=["1", "0"], membership="public", person="who", epsilon=1
        )


def test_the_command(tmp_path, capsys):
    path = tmp_path / "t.csv"
    trial().write_csv(path)
    known = ["compare", str(path), "--person", "who", "--value", "y", "--arms", "arm"]
    assert run([*known, "--membership", "public", "--epsilon", "2", "--json"]) == 0
    stored = json.loads(capsys.readouterr().out)
    assert stored["contrasts"][0]["contrast"] == "1 - 0"
    assert stored["p_value"] < 0.01 or stored["status"] == "modified_target"  # noise is real here


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
