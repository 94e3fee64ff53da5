"""Tables of which many persons lie beyond the limits: nothing is told as if the interval stood."""

from __future__ import annotations

import json
import math

import numpy as np
import polars as pl
import pytest

import privmean as pm
from privmean.intervals.tail_check import TAIL_SEEN, TOO_THICK
from privmean.noise.simulated import SimulatedNoise

KEYS = ["k0", "k1", "k2", "k3"]


def shared(kind, persons=6000, part=0.1):
    """Nearly all persons at 5.0 exactly, the others about it or elsewhere."""
    rng = np.random.default_rng(5)
    few = int(part * persons)
    value = np.full(persons, 5.0)
    value[:few] = rng.normal({"about": 5.0, "elsewhere": 10.0}[kind], 1.0, few)
    group = rng.integers(0, 4, persons)
    return pl.DataFrame(
        {"who": range(persons), "key": [f"k{g}" for g in group], "arm": group % 2, "x": value}
    )


WAYS = {
    "public keys": {"keys": KEYS},
    "private keys": {"delta": 1e-6},
    "several groups": {"keys": KEYS, "max_groups": 2},
    "public groups": {"keys": KEYS, "membership": "public", "neighbors": "replace-one"},
    "rho": {"keys": KEYS, "epsilon": None, "rho": 0.5},
}


def truth(frame, key):
    return float(frame.filter(pl.col("key") == key)["x"].mean())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["about", "elsewhere"])
def test_a_value_that_most_persons_share_is_no_answer_for_all(kind, way):
    """The limits hold the others, or the table says that they do not: never a false "ok"."""
    frame = shared(kind)
    found = []
    for seed in range(3):
        said = {"person": "who", "by": "key", "epsilon": 1.0} | WAYS[way]
        release = pm.mean(frame, "x", **said, noise=SimulatedNoise(seed))
        found.append(release.status)
        if release.status == TOO_THICK:
            check_thick(release)
        for row in release.rows():
            if row.status == "ok":
                slack = 0.02 + row.std_error  # a level of 95 %, not a proof
                assert row.lower - slack <= truth(frame, row.group) <= row.upper + slack
    assert TOO_THICK in found


def check_thick(release):
    assert "beyond the limits" in release.advice
    for row in release.rows():
        assert row.status == TOO_THICK
        assert (row.lower, row.upper) == (-math.inf, math.inf)
    assert "too thick" in str(release)
    assert "  k0  " in str(release)  # what was found is shown, with what it is
    stored = json.loads(json.dumps(release.to_dict(), allow_nan=False))
    assert stored["status"] == TOO_THICK
    assert stored["groups"][0]["interval"] == [None, None]
    for said in ("k0 - k1", "k0 - rest", "k0 - overall"):
        line = release.contrast(said)
        assert line.status == TOO_THICK
        assert not math.isfinite(line.lower)
    assert release.ratio("k0 / k1").status == TOO_THICK
    assert {row.status for row in release.pairwise()} == {TOO_THICK}


def test_two_arms_of_such_values_have_no_effect_that_stands():
    for kind in ("about", "elsewhere"):
        found = []
        for seed in range(4):
            release = pm.compare(
                shared(kind), "x", arms="arm", person="who", epsilon=1.0, noise=SimulatedNoise(seed)
            )
            found.append(release.status)
            if release.status == TOO_THICK:
                assert release.effect.status == TOO_THICK
                assert release.p_value == 1.0
        assert TOO_THICK in found


def test_the_same_persons_twice_are_told_as_a_mean_is():
    frame = shared("elsewhere")
    twice = pl.concat(
        [
            frame.with_columns(key=pl.lit("a")),
            frame.with_columns(key=pl.lit("b"), x=pl.lit(0.0)),
        ]
    )
    release = pm.compare(
        twice, "x", by="key", pair=["a", "b"], person="who", epsilon=1.0, noise=SimulatedNoise(1)
    )
    (row,) = release.rows()
    assert row.status != "ok" or row.lower < frame["x"].mean() < row.upper


def test_persons_certainly_beyond_the_limits_are_told():
    release = pm.mean(
        shared("elsewhere", 20_000, 0.03), "x", person="who", by="key", keys=KEYS, epsilon=2.0,
        noise=SimulatedNoise(1),
    )  # fmt: skip
    assert release.status == "ok"
    assert {row.status for row in release.rows()} == {TAIL_SEEN}


def test_tails_that_the_limits_hold_are_no_reason():
    rng = np.random.default_rng(1)
    size = 20_000
    for value in (rng.standard_normal(size), rng.lognormal(size=size), rng.standard_t(5, size)):
        frame = pl.DataFrame({"who": range(size), "key": rng.choice(KEYS, size), "x": value})
        release = pm.mean(
            frame, "x", person="who", by="key", keys=KEYS, epsilon=1.0, noise=SimulatedNoise(1)
        )
        assert release.status == "ok"
        assert {row.status for row in release.rows()} == {"ok"}
