"""One relation and one unit a bill; disjoint parts cost their dearest part, never nothing."""

import json
import math
from fractions import Fraction

import pytest
from test_guarantee import BILL

from privmean.errors import ArgumentError, BudgetExceededError, PrivmeanError
from privmean.privacy.compose import (
    Parallel,
    holds_under,
    pure_epsilon,
    stated,
    total_epsilon,
    total_rho,
)
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.ledger import Ledger
from privmean.privacy.privacy_events import Gaussian, Laplace, Pure, Threshold
from privmean.privacy.profile_events import FilteredMean, ParallelCurve
from privmean.privacy.stored_events import loss_from_dict
from tampering import resealed

LATTICE = 2.0**20
WEAK = Gaussian("weak", 0.3 * LATTICE, LATTICE, 2)
STRONG = Gaussian("strong", 0.4 * LATTICE, LATTICE, 2)
HALVES = Parallel("halves", ((WEAK,), (STRONG, Threshold("t", 1e-8, 60.0, scale=Fraction(2)))))
FILTER = FilteredMean(
    "filtered mean", Fraction(1, 50), 2**20, 1000 * LATTICE, 8000 * 2**20, 0.001, 2.0**30, 4,
    neighbors="replace-one",
)  # fmt: skip
CURVES = ParallelCurve("curves", Fraction(3), ((WEAK,), (STRONG,)))


def test_gaussian_parts_cost_the_dearest_part():
    """Neither the sum of the parts nor nothing: exactly the part with the most noise removed."""
    plain = Parallel("halves", ((WEAK,), (STRONG,)))
    assert total_rho([plain]) == total_rho([STRONG])
    assert total_epsilon([plain], 1e-6) == total_epsilon([STRONG], 1e-6)
    ledger = Ledger(rho=1.0)
    ledger.charge([plain], "replace-one")
    assert ledger.spent().rho == pytest.approx(Fraction(total_rho([STRONG])))
    mixed = Parallel("mixed", ((WEAK,), (Pure("p", Fraction(3, 5)),)))
    assert total_rho([mixed]) == pytest.approx(0.6**2 / 2)
    assert total_epsilon([mixed], 1e-6) >= total_epsilon([WEAK], 1e-6)
    third = (Pure("p", Fraction(1, 3)),)
    every = Parallel("groups", (third, (WEAK, STRONG), (Threshold("t", 1e-7, 80.0),)))
    assert (every.pure, every.added_delta) == (Fraction(1, 3), 1e-7)
    assert every.mu == pytest.approx(0.5)
    assert every.lattice.epsilon == WEAK.lattice.epsilon + STRONG.lattice.epsilon
    assert pure_epsilon([Parallel("p", (third, third))]) == Fraction(1, 3)
    for nothing in ((), ((), third)):
        with pytest.raises(ArgumentError):
            Parallel("groups", nothing)
    stored = every.to_dict()
    del stored["branches"]
    with pytest.raises(ArgumentError):
        loss_from_dict(stored)


@pytest.mark.parametrize("loss", [HALVES, CURVES, Parallel("nested", ((HALVES,),))])
def test_gaussian_parts_are_never_charged_for_nothing(loss):
    """A part with noise and a threshold has a delta, but not one that covers its noise."""
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    if loss is CURVES:
        with pytest.raises(BudgetExceededError, match="epsilon=3"):
            ledger.charge([loss], "replace-one")
    else:
        with pytest.raises(ArgumentError, match="requires a delta"):
            ledger.charge([loss], "replace-one")
    assert ledger.spent().epsilon == ledger.spent().delta == 0
    with pytest.raises(ArgumentError, match="its own delta"):
        Ledger(rho=1.0).charge([loss], "replace-one")


def test_a_bill_holds_for_the_relation_that_its_entries_name():
    assert holds_under([FILTER, WEAK], "replace-one")
    assert not holds_under([WEAK, FILTER], "add-remove")
    for parts in (HALVES, CURVES, Parallel("nested", ((WEAK,), (CURVES,)))):
        assert holds_under([parts], "replace-one")
        assert holds_under([parts], "zero-out")
        assert not holds_under([parts], "add-remove")
    deep = Parallel("deep", ((WEAK,), (FILTER,)))
    assert holds_under([deep], "replace-one")
    assert not holds_under([deep], "zero-out")


@pytest.mark.parametrize("loss", [FILTER, HALVES, CURVES])
def test_a_stored_guarantee_for_another_relation_is_found_out(loss):
    bill = stated((loss,), "replace-one")
    stored = json.loads(json.dumps(Guarantee("replace-one", bill, 5.0, 1e-5).to_dict()))
    assert Guarantee.from_dict(stored).verify()
    forged = Guarantee.from_dict(resealed({**stored, "neighbors": "add-remove"}))
    assert not forged.verify()
    with pytest.raises(PrivmeanError, match="add-remove neighbors"):
        forged.require()
    for ledger in (Ledger(epsilon=100.0, delta=0.1), Ledger(rho=50.0)):
        with pytest.raises(PrivmeanError, match="neighbors"):
            ledger.charge(forged)
        with pytest.raises(ArgumentError, match="neighbors"):
            ledger.charge([loss], "add-remove")
        assert not ledger.entries


def test_the_unit_of_a_charge_is_that_of_its_guarantee():
    bill = (Pure("p", "1/10", neighbors="replace-one"),)
    response = Guarantee("replace-one", bill, 0.1, unit="response")
    with pytest.raises(ArgumentError, match="unit"):
        Ledger(epsilon=1.0).charge(response, unit="person")
    ledger = Ledger(epsilon=1.0)
    assert ledger.charge(response).unit == "response"
    with pytest.raises(ArgumentError, match="unit"):
        ledger.charge(Guarantee("replace-one", bill, 0.1))
    with pytest.raises(ArgumentError, match="unit"):
        Guarantee("replace-one", bill, 0.1, unit="")


# --- every field of a stored guarantee -------------------------------------------------------
FULL = Guarantee("replace-one", BILL, total_epsilon(BILL, 1e-6) * 1.001, 1e-6)


def numbers(values, path=()):
    """Paths to every number (also exact ones, stored as text) of a stored guarantee."""
    for key, value in values.items() if isinstance(values, dict) else enumerate(values):
        if key in ("loss", "schema", "digest"):
            continue
        if isinstance(value, dict | list):
            yield from numbers(value, (*path, key))
        elif isinstance(value, bool) or value is None:
            continue
        elif not isinstance(value, str) or value.replace("/", "").isdigit():
            yield (*path, key)


STORED = json.loads(json.dumps(FULL.to_dict()))
PATHS = list(numbers(STORED))


def edited(path, change):
    values = json.loads(json.dumps(STORED))
    place = values
    for key in path[:-1]:
        place = place[key]
    old = place[path[-1]]
    exact = isinstance(old, str) and old.replace("/", "").isdigit()
    place[path[-1]] = change(Fraction(old)) if exact else change(old)
    return json.loads(json.dumps(values, default=str))


def caught(values):
    """Whether an edit is noticed even by one who does not look at the digest."""
    try:
        return not Guarantee.from_dict(resealed(values)).verify()
    except (ArgumentError, ValueError, TypeError):
        return True


def test_the_stored_guarantee_itself_is_right():
    assert not caught(STORED)
    assert len(PATHS) > 25


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ".".join(map(str, path)))
def test_every_number_is_looked_at(path):
    """Made far larger or far smaller, one of the two breaks the promise or is refused."""
    large = edited(path, lambda x: x * 10**12)
    small = edited(path, lambda x: 0 if isinstance(x, int) else x / 10**12)
    assert caught(large) or caught(small), path
    assert caught(edited(path, lambda x: -x))
    for nonsense in (math.nan, math.inf, None, "much", [1], True):
        values = edited(path, lambda _, nonsense=nonsense: nonsense)
        optional = path[-1] in ("slip", "scale", "sd", "delta") and nonsense is None
        assert caught(values) or optional, (path, nonsense)


@pytest.mark.parametrize("field", ["neighbors", "unit", "mechanisms"])
def test_words_that_mean_nothing_are_refused(field):
    for nonsense in (None, "", 7, [], {}):
        if field == "mechanisms" and nonsense == []:
            continue
        assert caught({**STORED, field: nonsense}), nonsense


@pytest.mark.parametrize(
    ("field", "value"),
    [("mechanism", "magic"), ("mechanism", ["discrete Laplace"]), ("mechanism", None), ("name", 3),
     ("joint", "yes"), ("cells_changed", 2.0), ("scale", "1/0"), ("scale", "-8"),
     ("scale", None), ("sensitivity", True)],
)  # fmt: skip
def test_an_entry_that_no_mechanism_makes_is_refused(field, value):
    with pytest.raises(ArgumentError):
        Guarantee.from_dict(edited(("mechanisms", 0, field), lambda _: value))


def test_nothing_can_be_added_for_free():
    more = {**STORED, "mechanisms": [*STORED["mechanisms"], Pure("x", 1).to_dict()]}
    assert caught(more)


def test_parts_of_one_change_are_no_more_than_its_whole_steps():
    """More `cells_changed` would make a bill cheaper: an integer answer moves by a whole step."""
    with pytest.raises(ArgumentError, match="cells_changed"):
        Laplace("histogram", 2, 8, cells_changed=3)
    values = Laplace("histogram", 2, 8, cells_changed=2).to_dict()
    with pytest.raises(ArgumentError, match="cells_changed"):
        loss_from_dict({**values, "cells_changed": 50})
    with pytest.raises(ArgumentError, match="neighbors"):
        loss_from_dict({**FILTER.to_dict(), "neighbors": "none"})
