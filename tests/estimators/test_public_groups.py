"""Groups whose members are public: what a person moves, and weights that never follow values."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import privmean as pm
from privmean.data.group_pairs import GroupWeights, PairSums
from privmean.data.person_table import ClipInterval
from privmean.data.read_pairs import Pairs, read_pairs
from privmean.data.table import Table
from privmean.errors import ArgumentError
from privmean.mechanisms.group_cells import GroupSums
from privmean.noise.noise_source import SimulatedNoise

BOXES = [
    ClipInterval(1.0 - 2.0**20, 2.0**20 - 1),
    ClipInterval(0.0, 1.0),
    ClipInterval(1.0, 1.0 + 2.0**-51),
]


def sums_of(weights, values):
    """The sums of one person with these values (None: a null) in the first groups."""
    w = weights.weight(len(values))
    found = []
    for box, value in zip(BOXES, values, strict=False):
        z = 0 if value is None else {-1: -box.steps, 0: 0, 1: box.steps}[value]
        found.append(PairSums(0 if value is None else w, w * z, w * z * z))
    return found + [PairSums()] * (len(BOXES) - len(values))


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 2, 9])
def test_a_replaced_person_moves_the_sums_by_what_is_billed(most):
    weights = GroupWeights(most, True)
    k = min(most, len(BOXES))
    step = GroupSums("sums", Fraction(1, 2), tuple(box.steps for box in BOXES), weights.parts, k, 9)
    largest = Fraction(0)
    for groups in (1, 2, 3):
        everyone = list(itertools.product((None, -1, 0, 1), repeat=groups))
        for one, two in itertools.product(everyone, everyone):
            a, b = (step.exact(sums_of(weights, item)) for item in (one, two))
            largest = max(largest, step.sensitivity_share(a, b)[0])
    assert Fraction(999, 1000) < largest <= 1
    # weights of usable values instead of public ones: a null moves the other groups
    twin_a = step.exact(sums_of(weights, (1, 1)))
    twin_b = step.exact(sums_of(weights, (-1,)))
    if most == 1:
        assert step.sensitivity_share(twin_a, twin_b)[0] > 1
    assert (
        replace(step, most=1).sensitivity_share(twin_a, twin_b)[0]
        >= step.sensitivity_share(twin_a, twin_b)[0]
    )


def records(nulls=0):
    rng = np.random.default_rng(1)
    rows = []
    for u in range(1600):
        for g in rng.choice(3, rng.integers(1, 3), replace=False):
            rows.append((u, "abc"[g], 5 + 0.3 * g + rng.standard_normal()))
    frame = pl.DataFrame(rows, schema=["who", "key", "x"], orient="row")
    gone = pl.int_range(pl.len()) < nulls
    return frame.with_columns(pl.when(~gone).then(pl.col("x")).alias("x"))


@pytest.mark.slow
def test_a_value_that_becomes_null_changes_no_weight():
    for weights in (GroupWeights(), GroupWeights(2, True)):
        asked = Pairs("x", ("key",), (("a",), ("b",), ("c",)), weights, public=True)
        found = {}
        for nulls in (0, 400):
            for home in ("polars", "arrow"):
                frame = records(nulls)
                source = frame if home == "polars" else frame.to_arrow()
                people = read_pairs(asked, Table(source, person="who"))
                sums = people.group_sums([ClipInterval(0.0, 9.0)] * 3)
                assert sums == people.collect().group_sums([ClipInterval(0.0, 9.0)] * 3)
                log = people.log_counts(0, 1.0).tolist()
                assert log == people.collect().log_counts(0, 1.0).tolist()
                found[nulls, home] = people.group_weights(), sums, log
        assert found[0, "polars"] == found[0, "arrow"]
        assert found[400, "polars"] == found[400, "arrow"]
        assert found[0, "polars"][0] == found[400, "polars"][0]
        before, after = (sum(s.w for s in found[n, "arrow"][1]) for n in (0, 400))
        assert after < before


@pytest.mark.slow
@pytest.mark.parametrize("said", [{}, {"max_groups": 2}])
@pytest.mark.parametrize("nulls", [0, 700])
def test_sizes_are_public_and_noise_is_less(said, nulls):
    known = {"person": "who", "by": "key", "keys": ["a", "b", "c"], "epsilon": 2.0}
    release = pm.mean(
        records(nulls), "x", membership="public", **known, **said, noise=SimulatedNoise(1)
    )
    assert release.guarantee.neighbors == "replace-one"
    assert sum(item.pure for item in release.guarantee.mechanisms) == 2
    assert "group counts" not in {item.name for item in release.guarantee.mechanisms}
    for row, truth in zip(release.rows(), (5.0, 5.3, 5.6), strict=True):
        assert row.lower < truth < row.upper
        assert row.status == "ok"
    private = pm.mean(
        records(nulls), "x", neighbors="replace-one", **known, **said, noise=SimulatedNoise(1)
    )
    if not nulls:
        one, two = (
            np.sqrt((r.groups.scales**2).sum(axis=1))
            / (r.groups.upper - r.groups.lower)
            * r.shares["group sums"]
            for r in (release, private)
        )
        # 2 sqrt(2) against 4, for what is left at the end
        assert np.median(one / two) == pytest.approx(0.71, abs=0.05)
    assert "public" in str(release)


def test_public_groups_are_for_replace_one_and_public_keys():
    known = {"person": "who", "by": "key", "epsilon": 2.0, "membership": "public"}
    with pytest.raises(ArgumentError):
        pm.mean(records(), "x", keys=["a"], neighbors="add-remove", **known)
    with pytest.raises(ArgumentError):
        pm.mean(records(), "x", delta=1e-6, **known)
