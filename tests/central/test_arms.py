"""Two public arms: one signed sum, its interval and its p-value."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import polars as pl
import pytest

import privmean as pm
from privmean.central.groups.two_arms import TwoArms
from privmean.cli.app import run
from privmean.data.array_pairs import ArrayPairTable
from privmean.data.group_pairs import GroupWeights
from privmean.data.public_shape import PublicShape
from privmean.errors import ArgumentError
from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from statistics_kit import assert_rate_at_least, assert_rate_at_most

KEYS = (("t",), ("c",))


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


def pairs_of(treated, control):
    """Pairs of two arms; NaN is a person without a value."""
    value = np.concatenate([treated, control])
    place = np.repeat([1, 0], [len(treated), len(control)])  # "c", "t"
    return ArrayPairTable.of(np.arange(len(value)), place, value, ["c", "t"], GroupWeights())


def plan_for(pairs, epsilon=2.0, **said):
    budget = Budget(epsilon=epsilon, neighbors=REPLACE_ONE)
    return TwoArms(KEYS, **said).plan(budget, PublicShape(pairs.columns, pairs.size()))


def test_an_effect_at_less_noise_than_that_of_two_means():
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
        assert "who is in which arm" in release.guarantee.public
    assert change.effect.std_error < 0.7 * plain.effect.std_error
    assert change.columns == ("y - b: 1 - 0",)
    # of both arms by themselves, with the same part of the budget and the same limits
    (low, high), left = plain.interval().clip_bounds[0], plain.shares["signed sum and squares"]
    sizes = np.array(plain.diagnostics["people by arm"])
    apart = (high - low) / 2 * math.sqrt(8 * (1 / sizes**2).sum()) / left
    assert plain.noise_sd[0] == pytest.approx(apart / math.sqrt(2), rel=0.05)


def test_the_p_value_is_where_the_interval_meets_zero():
    release = asked(trial(effect=0.25))
    found = release.p_value
    assert 1e-9 < found < 0.9
    near = release.interval(1 - found, "clipped")
    assert near.lower[0] == pytest.approx(0.0, abs=1e-6)
    with pytest.raises(ArgumentError):
        release.interval(target="median")


@pytest.mark.parametrize("nulls", [150, 600])
def test_persons_without_a_value_are_left_out_and_not_taken_at_the_middle(nulls):
    # means far from the middle of the limits, and values missing in one arm alone
    for seed in range(5):
        release = asked(trial(2400, nulls=nulls), seed, epsilon=4.0)
        assert abs(release.effect.estimate - 0.5) < 0.25
        assert release.effect.lower < 0.5 < release.effect.upper
    if nulls == 600:
        assert release.guarantee.mechanisms[-1].name == "value, square and number by arm"


def test_size_for_a_law_whose_mean_is_not_the_middle():
    rng = np.random.default_rng(3)
    out, draws = 0, 400
    for i in range(draws):
        values = rng.lognormal(size=700)
        pairs = pairs_of(values[:300], values[300:])
        found = plan_for(pairs, 3.0, target="clipped").release(pairs, SimulatedNoise(i))
        (low,), (high,) = found.interval().lower, found.interval().upper
        out += not low <= 0 <= high
    assert_rate_at_most(out, draws, 0.06)
    assert_rate_at_least(out, draws, 0.03)


def test_what_a_plan_says_of_power_holds():
    rng = np.random.default_rng(4)
    seen, draws = 0, 100
    for i in range(draws):
        pairs = pairs_of(rng.normal(0.3, 1, 400), rng.normal(0, 1, 400))
        plan = plan_for(pairs, 2.0, target="clipped")
        found = plan.release(pairs, SimulatedNoise(i)).interval()
        seen += not found.lower[0] <= 0 <= found.upper[0]
    predicted = plan.power(0.3, (400, 400), 1.0)
    assert 0.8 < predicted < 1
    assert_rate_at_least(seen, draws, predicted - 0.05)
    assert plan.power(0.0, (400, 400), 1.0) == pytest.approx(0.05)


# --- bills and neighbours ---------------------------------------------------------------------
class Zero:
    secure = False

    def laplace(self, size, scale):
        return np.zeros(size, dtype=np.int64)


@pytest.mark.parametrize("nulls", [0, 900])
@pytest.mark.parametrize("new", [1e300, -7.0, math.nan, 3.0])
def test_a_replaced_person_moves_every_answer_by_what_is_billed(new, nulls):
    rng = np.random.default_rng(1)
    values = rng.normal(3, 1, 3000)
    values[1:nulls] = math.nan
    one = pairs_of(values[:1200], values[1200:])
    values[0] = new
    two = pairs_of(values[:1200], values[1200:])
    plan, first, second = plan_for(one), [], []

    class Curator(TrustedCurator):
        def ask(self, mechanism, exact):
            first.append((mechanism, exact))
            return super().ask(mechanism, exact)

    class Replayed:
        people = two
        bill = ()

        def ask(self, mechanism, exact):
            known, answer = first[len(second)]
            assert known == mechanism
            second.append(exact)
            return mechanism.draw(answer, Zero())

    curator = Curator(one, Zero())
    plan.run(curator)
    assert sum(item.pure for item in curator.events) == 2
    assert sum(item.pure for item in plan.events) == 2
    plan.run(Replayed())
    for (mechanism, exact), other in zip(first, second, strict=True):
        assert all(share <= 1 for share in mechanism.sensitivity_share(exact, other))


def test_statuses_without_an_effect():
    rng = np.random.default_rng(2)
    pairs = pairs_of(rng.normal(3, 1, 3000), rng.normal(3, 1, 2))
    release = plan_for(pairs, 1.0).release(pairs, SimulatedNoise(1))
    assert math.isnan(release.estimate[0])
    assert (release.status, release.statuses) == ("failed", ("suppressed",))
    json.dumps(release.to_dict(), allow_nan=False)
    alike = pairs_of(np.zeros(2000), np.zeros(2000))
    release = plan_for(alike).release(alike, SimulatedNoise(1))
    assert release.status == "point_mass"
    rng = np.random.default_rng(2)
    far = pairs_of(rng.normal(3, 1, 2000), np.full(2000, 3.0))
    assert plan_for(far).release(far, SimulatedNoise(1)).status in ("ok", "modified_target")


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
    with pytest.raises(ArgumentError):
        TwoArms(KEYS).plan(Budget(epsilon=1.0, neighbors=ADD_REMOVE), PublicShape(("y",)))


def test_the_command(tmp_path, capsys):
    path = tmp_path / "t.csv"
    trial().write_csv(path)
    known = ["compare", str(path), "--person", "who", "--value", "y", "--arms", "arm"]
    assert run([*known, "--membership", "public", "--epsilon", "2", "--json"]) == 0
    stored = json.loads(capsys.readouterr().out)
    assert stored["columns"] == ["y: 1 - 0"]
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
