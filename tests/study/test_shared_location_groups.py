"""Several tables of means by group, and other questions, from one look at their column."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import privmean as pm
from privmean.data.group_pairs import ArrayPairTable, GroupWeights
from privmean.data.schema import PublicShape
from privmean.estimators.groups.group_means import SHARED, GroupMeans, RegionGroupMeans
from privmean.estimators.means.region_mean import SharedLocationQuery
from privmean.mechanisms.curator import TrustedCurator
from privmean.noise.noise_source import SimulatedNoise
from privmean.pipeline import run_step
from privmean.privacy.budget import REPLACE_ONE, Budget

N = 4000
KEYS, SEXES = ["a", "b", "c"], ["f", "m"]


def records(seed=1):
    rng = np.random.default_rng(seed)
    key, sex = rng.choice(3, N, p=[0.6, 0.3, 0.1]), rng.integers(0, 2, N)
    x = 20 + key - sex + 3 * rng.standard_normal(N)
    return {
        "who": np.repeat(np.arange(N), 2), "key": np.repeat(np.array(KEYS)[key], 2),
        "sex": np.repeat(np.array(SEXES)[sex], 2),
        "x": np.repeat(x, 2) + np.tile([0.5, -0.5], N),
    }  # fmt: skip


def study(values=None, **said):
    table = pm.Table(records() if values is None else values, person="who")
    made = pm.Study(table, epsilon=4.0, neighbors=REPLACE_ONE, noise=SimulatedNoise(1))
    made.add("all", pm.Mean("x"))
    made.add("keys", pm.Mean("x", by="key", keys=KEYS, contrasts=["a - b"], **said))
    made.add("both", pm.Mean("x", by=["key", "sex"], keys=[(k, s) for k in KEYS for s in SEXES]))
    return made


def test_one_look_serves_the_mean_and_tables_by_group():
    made = study()
    plan = made.plan()
    (look,) = plan.shared_locations
    assert [part.name for part in plan.parts if part.looks] == ["all", "keys", "both"]
    found = made.release()
    names = [line.name for line in found.guarantee.mechanisms]
    assert names.count("look: x: tail histogram") == 1  # once on the bill of all
    for name in ("keys", "both"):
        release = found[name]
        own = [line.name for line in release.guarantee.mechanisms]
        assert own.count("look: x: tail histogram") == 1
        assert "tail histogram" not in own
        assert "location" not in own
        assert release.guarantee.verify()
        assert SHARED in release.assumptions
        assert {"ok"} <= set(release.groups.status)
    assert found["keys"].contrast("a - b").lower < -1.0 < found["keys"].contrast("a - b").upper
    total = look.pure + sum(Fraction(str(part.own.epsilon)) for part in plan.parts)
    assert total <= 4


@pytest.mark.parametrize(
    "said", [{"max_groups": 2}, {"group_rule": "split"}, {"keys": None}, {"resolution": 2.0**-20},
             {"method": pm.DefaultMean(target="clipped")}],
)  # fmt: skip
def test_what_is_no_one_mean_a_person_looks_for_itself(said):
    asked = pm.Mean("x", by="key", **{"keys": KEYS} | said)
    assert asked.shareable_columns == ()
    assert pm.Mean("x", by="key", keys=KEYS).shareable_columns == ("x",)
    assert pm.Mean(["x", "y"], by="key", keys=KEYS).shareable_columns == ()


def test_a_look_that_finds_nothing_leaves_the_tables_unanswered():
    values = records()
    found = study({**values, "x": np.full(values["x"].size, np.nan)}).release()
    assert [a.stated[0] for a in found.answers] == ["failed", "failed", "failed"]
    assert found.guarantee.verify()


class Frozen:
    """Answers with what another table was answered; writes down its own exact answers."""

    def __init__(self, people, asked):
        self.people, self.asked, self.other = people, asked, []
        self.events = ()

    def ask(self, mechanism, exact):
        known, _, noisy = self.asked[len(self.other)]
        assert known == mechanism
        self.other.append(exact)
        self.events += mechanism.events
        return noisy


@pytest.mark.parametrize("far", [0.0, 1e6])
def test_a_replaced_person_moves_the_answers_after_a_look_by_what_is_billed(far):
    rng = np.random.default_rng(3)
    place, value = rng.integers(0, 3, N), rng.standard_normal(N)
    pairs = ArrayPairTable.of(np.arange(N), place, value, KEYS, GroupWeights())
    look = SharedLocationQuery.of("x", N, Fraction(1))
    where = run_step(look.run, look.events, pm.read(value), noise=SimulatedNoise(1))
    estimator = RegionGroupMeans(GroupMeans(pairs.keys))
    plan = estimator.plan(Budget(1.5, neighbors=REPLACE_ONE), PublicShape(("x",), N)).after(
        (where,)
    )
    seen = []

    class Kept(TrustedCurator):
        def ask(self, mechanism, exact):
            noisy = super().ask(mechanism, exact)
            seen.append((mechanism, exact, noisy))
            return noisy

    plan.run(Kept(pairs, SimulatedNoise(2)))
    for person in range(3):
        group, values = place.copy(), value.copy()
        group[person], values[person] = (place[person] + 1) % 3, far
        other = replace(pairs, group=group, values=(values,), _cache={})
        frozen = Frozen(other, seen)
        plan.run(frozen)
        cost = Fraction(0)
        for (mechanism, exact, _), moved in zip(seen, frozen.other, strict=True):
            shares = mechanism.sensitivity_share(exact, moved)
            for loss, part in zip(mechanism.events, shares, strict=True):
                assert part <= 1
                cost += Fraction(loss.pure) * part
        assert cost <= Fraction(3, 2)
    assert sum(loss.pure for loss in frozen.events) <= Fraction(3, 2)
