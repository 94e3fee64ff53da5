"""Groups whose keys are private: what is shown, what hides it, and what nothing may depend on."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import privmean as pm
from altered_noise import NoAddedNoise
from privmean.data.person_table import ClipInterval
from privmean.errors import ArgumentError, InfeasibleError
from privmean.mechanisms.group_cells import KeyCells
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE
from privmean.privacy.profile_events import ThresholdOfSum, scales_needed, three_laplace_tail
from privmean.privacy.stored_events import loss_from_dict
from statistics_kit import assert_rate

STEPS = 2**20 - 1


def step_for(kept=1, most=1, parts=1, delta=1e-6, relation=ADD_REMOVE, shown=()):
    return KeyCells("cells", relation, Fraction(1, 2), delta, shown, STEPS, parts, most, kept)


def lattice_tail(scale: float, steps: int) -> float:
    """P(N >= steps), N the sum of three discrete Laplace noises, by convolution."""
    reach = int(60 * scale)
    k = np.arange(-reach, reach + 1)
    one = np.exp(-np.abs(k) / scale)
    one /= one.sum()
    three = np.convolve(np.convolve(one, one), one)
    return float(three[3 * reach + steps :].sum())


@pytest.mark.slow
def test_the_tail_of_three_noises_is_the_limit_of_the_exact_one():
    for scale in (5.0, 33.0, 200.0):
        for t in (5.0, 9.0, 17.76):
            steps = math.ceil(t * scale)
            exact = lattice_tail(scale, steps)
            # the first lattice point at or above t scales, and the form of docs/proofs/groups.md
            assert exact <= three_laplace_tail((steps - 1) / scale) * (1 + 1 / scale)
            assert exact >= three_laplace_tail(steps / scale)
    draws = 200_000
    noise = np.random.default_rng(1).laplace(size=(draws, 3)).sum(axis=1)
    assert_rate(int((noise > 3.0).sum()), draws, three_laplace_tail(3.0))
    assert scales_needed(5e-7) == pytest.approx(17.76, abs=0.01)
    assert three_laplace_tail(scales_needed(1e-9)) <= 1e-9


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
def test_one_person_moves_common_keys_by_epsilon_and_own_keys_by_those_paid_for(relation):
    step = step_for(kept=16, most=2, parts=256, relation=relation)
    unit = 4 * 256 * STEPS**2
    twice = 2 if relation == REPLACE_ONE else 1

    def person(keys, sign):
        weight = min(256, 256 * 2 // len(keys))
        cell = weight * 4 * STEPS**2
        return {(key,): (cell, 0, 0) if sign > 0 else (0, 0, cell) for key in keys}

    def together(*tables):
        keys = {key for table in tables for key in table}
        return {
            key: tuple(sum(t.get(key, (0, 0, 0))[i] for t in tables) for i in range(3))
            for key in keys
        }

    others = {(f"k{g}",): (9 * unit, unit, 2 * unit) for g in range(16)}
    for count in (1, 2, 3, 16):
        mine = person([f"k{g}" for g in range(count)], 1)
        new = person([f"k{g}" for g in range(count)], -1)
        one = together(others, mine)
        two = others if relation == ADD_REMOVE else together(others, new)
        cost, own = step.sensitivity_share(one, two)
        assert cost <= 1
        assert own == 0
        assert cost > Fraction(99, 100) or count in (1, 3)
        alone = person([f"own{g}" for g in range(count)], 1)
        cost, own = step.sensitivity_share(together(others, alone), others)
        assert (cost, own) == (0, Fraction(count, 16))
        assert max(map(sum, alone.values())) <= unit
    assert step.scale == 2 * twice / step._cells.effective


def test_scales_do_not_depend_on_the_keys_that_are_touched():
    step = step_for(kept=8)
    before = (step.scale, step.threshold, step.events)
    for touched in (10, 11, 500):
        exact = {(f"k{g}",): (0, 0, 0) for g in range(touched)}
        step.draw(exact, SimulatedNoise(1))
        assert (step.scale, step.threshold, step.events) == before


def test_a_key_of_one_person_is_shown_with_probability_at_most_delta():
    step = step_for(delta=0.02)
    unit = 4 * STEPS**2
    draws, noise, hits = 20_000, SimulatedNoise(5), 0
    exact = {(f"{g}",): (unit, 0, 0) for g in range(draws)}
    hits = len(step.draw(exact, noise))
    assert_rate(hits, draws, three_laplace_tail((step.threshold - 1) / float(step.scale)))
    assert hits <= 0.02 * draws + 100


def test_a_shown_key_stays_shown_and_others_are_compared_as_whole_numbers():
    step = step_for(shown=((("z",), 2**19 + 5),))
    unit = 4 * STEPS**2
    need = math.ceil(Fraction(step.threshold) * unit)
    exact = {
        ("a",): (need, 0, 0),
        ("b",): (need - 1, 0, 0),
        ("c",): (0, need // 2, need - need // 2),
    }
    found = step.draw(exact, NoAddedNoise(1))
    assert list(found) == [("a",), ("c",), ("z",)]
    assert found["z",] == (0.0, 0.0, 0.0)


def test_the_bill_of_a_threshold_is_checked_against_three_noises():
    good = dict(name="t", threshold=1 + 17.77 * 2, scale=Fraction(2), neighbors=ADD_REMOVE)
    loss = ThresholdOfSum(delta=5e-7, **good)
    assert loss_from_dict(loss.to_dict()) == loss
    assert loss.added_delta == 5e-7
    one_noise = math.exp(-17.77) / 2  # the tail of one noise is far smaller
    for wrong in (4.9e-7, one_noise, 1.0):
        with pytest.raises(ArgumentError):
            ThresholdOfSum(delta=wrong, **good)
    with pytest.raises(ArgumentError):
        ThresholdOfSum(delta=5e-7, cells=2, **good)
    with pytest.raises(ArgumentError):
        ThresholdOfSum(delta=0.4, **good | {"threshold": 2.0})
    stored = loss.to_dict() | {"mechanism": "threshold of a product"}
    with pytest.raises(ArgumentError, match="kind of loss"):
        loss_from_dict(stored)


def records(rare=("zz", "zz", "zz")):
    """Persons of two large groups, and one for each further key."""
    rng = np.random.default_rng(1)
    keys = [*np.repeat(["big", "mid"], [900, 500]).tolist(), *rare]
    return pl.DataFrame(
        {"who": range(len(keys)), "key": keys, "x": 5 + rng.standard_normal(len(keys))}
    )


def asked(frame, **said):
    known = {"person": "who", "by": "key", "epsilon": 2.0, "delta": 1e-6}
    return pm.mean(frame, "x", **known | said, noise=SimulatedNoise(2))


@pytest.mark.parametrize("said", [{}, {"max_groups": 2}, {"neighbors": "replace-one"}])
def test_groups_of_few_persons_are_hidden(said):
    release = asked(records(), contrasts=["big - mid", "big - zz", "big / zz"], **said)
    assert release.columns == ("big", "mid")
    status = [row.status for row in release.rows()]
    assert status == ["ok", "ok", "ok", "suppressed", "suppressed"]
    assert "their number is not known" in " ".join(str(release).split())
    bill = release.guarantee.mechanisms
    assert sum(item.pure for item in bill) <= 2
    assert sum(item.added_delta for item in bill) <= 1e-6
    assert pm.Guarantee.from_dict(release.guarantee.to_dict()).verify()


def test_nothing_else_depends_on_which_keys_are_hidden():
    ten, eleven = ([f"z{g}" for g in range(8)] + more for more in (["z7"] * 3, ["z8"] * 3))
    one, two = asked(records(ten)), asked(records(eleven))
    assert one.guarantee.mechanisms == two.guarantee.mechanisms  # scales to the last bit
    assert one.columns == two.columns
    assert one.plan.events == two.plan.events


def test_private_keys_need_a_delta_and_texts_that_part_in_one_way():
    for said in ({"delta": 0.0}, {"rho": 0.5, "epsilon": None, "delta": 0.0}):
        with pytest.raises(InfeasibleError):
            asked(records(), **said)
    for wrong in ("big", "a - b - c", 3):
        with pytest.raises(ArgumentError):
            asked(records(), contrasts=[wrong])


@pytest.mark.slow
def test_which_pairs_a_person_keeps_depends_on_that_person_alone():
    from privmean.data.group_pairs import GroupWeights
    from privmean.data.read_pairs import Pairs, read_pairs
    from privmean.data.table import Table

    rows = [(1, f"k{g:02d}", 1.0) for g in range(20)] + [(2, "zz", 1.0), (2, "a", 2.0)]
    weights = GroupWeights(2, True)  # up to 512 groups have a weight

    def kept(rows):
        frame = pl.DataFrame(
            rows, schema={"who": pl.Int64, "key": pl.String, "x": pl.Float64}, orient="row"
        )
        answers = []
        for source in (frame, frame.to_arrow()):
            found = read_pairs(Pairs("x", ("key",), None, weights), Table(source, person="who"))
            weight = dict(zip(found.keys, found.group_weights(), strict=True))
            answers.append((weight, found.group_sums([ClipInterval(-2.0, 4.0)] * len(found.keys))))
        assert answers[0] == answers[1]
        return answers[0][0]

    whole = kept(rows)
    assert kept(rows[::-1]) == whole
    # all of them count, whatever their texts
    assert {w for key, w in whole.items() if key[0].startswith("k")} == {256 * 2 // 20}
    alone = kept(rows[:20])
    assert alone == {key: w for key, w in whole.items() if key[0].startswith("k")}
    most = [(3, f"m{g:03d}", 1.0) for g in range(512)]
    assert {w for key, w in kept(rows + most).items() if key[0].startswith("m")} == {1}
    assert kept([*rows, *most, (3, "one more", 1.0)]) == whole
