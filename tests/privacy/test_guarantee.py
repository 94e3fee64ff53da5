"""The promise can be checked again from the release alone, and a forged one is found out."""

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privmean.errors import ArgumentError, PrivmeanError
from privmean.plain_data import digest
from privmean.privacy.budget import Budget
from privmean.privacy.compose import Parallel, stated
from privmean.privacy.guarantee import PURPOSE, Guarantee
from privmean.privacy.privacy_events import (
    Approximate,
    Concentrated,
    Gaussian,
    Laplace,
    Pure,
    Selection,
    Threshold,
)
from privmean.privacy.profile_events import (
    FilteredMean,
    ParallelCurve,
    RowsAndProducts,
    ThresholdOfSum,
)
from privmean.privacy.stored_events import KINDS, loss_from_dict
from tampering import resealed

LATTICE = 2.0**20
BILL = stated(
    (
        Laplace("histogram", 2, 8, cells_changed=2),
        Threshold("threshold", 4e-7, 60.0, scale=Fraction(4)),
        Selection("choice", Fraction(1, 10), bounded_range=True),
        Gaussian("sum", 0.1 * LATTICE, LATTICE, 4),
        Approximate("part", Fraction(1, 20), 1e-8),
        Pure("answer", Fraction(1, 30)),
        FilteredMean(
            "filtered mean",
            Fraction(1, 50),
            neighbors="replace-one",
            count_sensitivity=2**20,
            count_scale=1000 * LATTICE,
            threshold=8000 * 2**20,
            mean_mu=0.001,
            mean_scale=2.0**30,
            answers=4,
        ),
        ParallelCurve(
            "halves",
            Fraction(1, 50),
            (
                (Gaussian("one", 0.002 * LATTICE, LATTICE, 1),),
                (Threshold("other", 1e-9, 60.0, scale=Fraction(2)),),
            ),
        ),
        ThresholdOfSum("keys", 1e-9, 100.0, Fraction(2)),
        Parallel("groups", ((Pure("one", Fraction(1, 60)),), (Pure("other", Fraction(1, 70)),))),
        RowsAndProducts(
            "rows", 0.01 * LATTICE, LATTICE, 4, radius=100, rows=1e5, products=2e7, off=2e7
        ),
    ),
    "replace-one",
)
PROMISE = Budget(epsilon=1.0, delta=1e-6)


def stored(guarantee):
    return json.loads(json.dumps(guarantee.to_dict()))


def made():
    return Guarantee.of(PROMISE, "replace-one", BILL, public=("the roster",), note="a note")


def test_a_round_trip_through_json_changes_nothing():
    guarantee = made().require()
    again = Guarantee.from_dict(stored(guarantee))
    assert again == guarantee
    assert again.verify()
    assert again.spent() == guarantee.spent() <= 1.0


@given(
    st.fractions(min_value=Fraction(1, 10**6), max_value=10**9),
    st.fractions(min_value=Fraction(1, 10**6), max_value=10**9),
    st.floats(1e-9, 1e9),
)
@settings(max_examples=50, deadline=None)
def test_every_number_survives_json_exactly(sensitivity, scale, number):
    for loss in (
        Laplace("a", sensitivity, scale),
        Gaussian("b", number, 1 + number, 3),
        Selection("c", sensitivity),
        Approximate("d", scale, min(number, 0.5)),
        Threshold("e", min(number, 0.5), number),
    ):
        assert loss_from_dict(json.loads(json.dumps(loss.to_dict()))) == loss


def test_every_kind_is_in_the_bill_above():
    """But one, which sums of rho alone compose: tests/study has bills of it."""
    assert {type(loss) for loss in BILL} | {Concentrated} == set(KINDS.values())


def test_an_edited_loss_is_recomputed_from_its_parameters():
    values = stored(made())
    for item in values["mechanisms"]:
        item["loss"] = {"epsilon": 0.0}
    assert Guarantee.from_dict(values).spent() == made().spent()
    assert not Guarantee.from_dict(values).verify()
    values.pop("digest")
    values["digest"] = digest(PURPOSE, values)
    (problem,) = Guarantee.from_dict(values).problems()
    assert "does not follow from its numbers" in problem


TOO_MUCH = [
    (0, "scale", "1"), (0, "sensitivity", "20"), (1, "delta", 2e-6), (2, "epsilon", "1"),
    (3, "scale", LATTICE / 8), (3, "scale", 0.5), (3, "scale", 1e-300),
    (3, "sensitivity", LATTICE), (3, "answers", 2**38), (4, "delta", 1e-4), (4, "epsilon", "2"),
    (5, "epsilon", "3/2"), (6, "mean_mu", 0.1), (6, "count_scale", 10 * LATTICE),
    (6, "threshold", 2**20), (6, "influence", 20.0),
    (7, "parts", [[stated((Gaussian("x", 1e5, LATTICE, 1),), "replace-one")[0].to_dict()]]),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("index", "field", "value"), TOO_MUCH)
def test_an_edit_that_breaks_the_promise_fails_verify(index, field, value):
    values = stored(made())
    values["mechanisms"][index][field] = value
    forged = Guarantee.from_dict(resealed(values))
    (problem,) = forged.problems()
    assert "composes to more" in problem
    with pytest.raises(PrivmeanError, match="nothing was released"):
        forged.require()


def test_a_promise_made_smaller_fails_verify():
    for edit in ({"epsilon": 0.2}, {"delta": 1e-7}, {"delta": 0.0}):
        forged = Guarantee.from_dict(resealed({**stored(made()), **edit}))
        (problem,) = forged.problems()
        assert "composes to more" in problem


@pytest.mark.parametrize(
    "edit",
    [
        {"rho": "0.1", "epsilon": None, "delta": 0.0},
        {"schema": 4},
        {"schema": "2"},
        {"schema": 2.0},
        {"schema": True},
        {"schema": None},
        {"public": "the roster"},
        {"public": [1]},
        {"note": 3},
        {"rho": 0.1},
        {"mechanisms": None},
        {"mechanisms": ["discrete Laplace"]},
        {"mechanisms": [{"mechanism": "discrete Laplace", "name": "a"}]},
    ],
)
def test_a_promise_without_meaning_is_refused(edit):
    with pytest.raises(ArgumentError):
        Guarantee.from_dict({**stored(made()), **edit})


def test_delta_is_promised_only_if_it_is_used():
    pure = (Laplace("sum", 1, 2),)
    assert Guarantee.of(PROMISE, "replace-one", pure).delta == 0
    assert Guarantee.of(PROMISE, "replace-one", BILL).delta == 1e-6
    assert Guarantee.of(Budget(rho=0.2), "add-remove", pure).rho == 0.2


def test_a_bill_above_its_promise_is_refused_when_made():
    over = (Laplace("sum", 1, Fraction(999, 1000)),)
    with pytest.raises(PrivmeanError, match="internal"):
        Guarantee.of(Budget(epsilon=1.0), "replace-one", over).require()


def test_rho_promises():
    bill = (Gaussian("sum", 0.5 * LATTICE, LATTICE, 2), Laplace("count", 1, 4))
    bill = stated(bill, "replace-one")
    guarantee = Guarantee.of(Budget(rho=0.125 + 1 / 32), "replace-one", bill).require()
    assert math.isclose(guarantee.spent(), 0.125 + 1 / 32)
    assert Guarantee.from_dict(stored(guarantee)) == guarantee
    assert Guarantee.from_dict(stored(guarantee)).verify()
    assert not Guarantee.of(Budget(rho=0.15), "replace-one", bill).verify()


def test_guarantee_text():
    assert made().describe() == "(1, 1e-06)-DP"
    assert Guarantee.of(Budget(epsilon=2.0), "replace-one", (Pure("a", 2),)).describe() == (
        "2-DP (pure)"
    )


# --- what is missing or moved ---------------------------------------------------------------------


def problem_of(values):
    (problem,) = Guarantee.from_dict(values).problems()
    return problem


def test_an_empty_bill_is_no_bill():
    empty = Guarantee("replace-one", (), 1.0)
    assert not empty.verify()
    assert "the accounting is empty" in empty.problems()[0]
    with pytest.raises(PrivmeanError, match="empty"):
        empty.require()
    assert "empty" in problem_of(resealed({**stored(made()), "mechanisms": []}))


@pytest.mark.parametrize("index", range(len(BILL)))
def test_an_entry_removed_repeated_or_moved_is_noticed(index):
    values = stored(made())
    whole = values["mechanisms"]
    for changed in (
        whole[:index] + whole[index + 1 :],
        [*whole, whole[index]],
        [*whole[index + 1 :], *whole[: index + 1]],
    ):
        if changed != whole:
            assert "digest does not fit" in problem_of({**values, "mechanisms": changed})


@pytest.mark.parametrize("made_for", ["replace-one", "add-remove"])
def test_a_bill_relabelled_for_other_neighbours_is_noticed(made_for):
    """An add-remove bill that is called replace-one would hide half of the loss."""
    other = {"replace-one": "add-remove", "add-remove": "replace-one"}[made_for]
    bill = stated((Laplace("sum", 1, 2), Gaussian("count", 0.1 * LATTICE, LATTICE, 1)), made_for)
    values = stored(Guarantee.of(PROMISE, made_for, bill).require())
    relabelled = {**values, "neighbors": other}
    assert "digest does not fit" in str(Guarantee.from_dict(relabelled).problems())
    assert f"does not hold for {other} neighbors" in problem_of(resealed(relabelled))
    for index in range(2):
        half = json.loads(json.dumps(relabelled))
        half["mechanisms"][index]["neighbors"] = other
        assert "does not hold" in problem_of(resealed(half))


def test_entries_that_name_no_neighbours_stand_on_no_bill():
    for bill in ((Pure("nameless", 1),), (Parallel("p", ((Pure("nameless", 1),),)),)):
        guarantee = Guarantee("replace-one", bill, 1.0)
        assert "'nameless'" in guarantee.problems()[0]
    values = stored(made())
    values["mechanisms"][0]["neighbors"] = None
    assert "no neighbors are named for 'histogram'" in problem_of(resealed(values))
    values["mechanisms"][0]["neighbors"] = "neighbours"
    with pytest.raises(ArgumentError, match="neighboring relation"):
        Guarantee.from_dict(values)


def test_a_unit_that_is_not_protected_is_found_out():
    values = {**stored(made()), "unit": "record"}
    assert "digest does not fit" in str(Guarantee.from_dict(values).problems())
    assert "the unit 'record'" in problem_of(resealed(values))


def test_a_guarantee_of_an_older_privmean_is_read_but_not_verified():
    """Stored before entries named their neighbours: composed as ever, and said to be so."""
    old = {
        "unit": "person", "relation": "replace-one", "epsilon": 1.0, "delta": 0.0,
        "mechanisms": [
            {"name": "sum", "sensitivity": "1", "scale": "2", "spread": 1, "joint": False,
             "mechanism": "discrete Laplace", "loss": {"epsilon": 0.5}},
            {"name": "parts", "branches": [[{"name": "a", "epsilon": "1/2", "mechanism": "pure",
             "loss": {"epsilon": 0.5}}]], "mechanism": "parallel", "loss": {"epsilon": 0.5}},
        ],
        "public": [],
    }  # fmt: skip
    guarantee = Guarantee.from_dict(old)
    assert guarantee.spent() == 1.0
    assert not guarantee.verify()
    assert "an older privmean" in guarantee.problems()[0]
    assert "no neighbors are named for 'sum', 'parts', 'a'" in guarantee.problems()[1]


def test_a_doubtful_guarantee_is_not_made_good_by_storing_it_again():
    values = stored(made())
    values["mechanisms"].pop()
    again = Guarantee.from_dict(values).to_dict()
    assert again["digest"] is None
    assert not Guarantee.from_dict(again).verify()


def test_what_moved_is_told_from_the_numbers_and_kept_where_it_is_said():
    for loss in BILL:
        assert loss.to_dict()["sensitivity_text"]
        assert loss_from_dict(stored(made())["mechanisms"][BILL.index(loss)]) == loss
    assert Laplace("h", 2, 8, cells_changed=2).to_dict()["sensitivity_text"] == (
        "2 of the answers, 2 steps in all (l1), at most 1 each"
    )
    said = Selection("choice", Fraction(1), sensitivity_text="two counts, by one each")
    assert loss_from_dict(said.to_dict()) == said
