"""Parallel composition on the bill: the dearest group counts, and a stored bill reads back."""

import json
from fractions import Fraction

import pytest

from privmean.errors import ArgumentError
from privmean.privacy.budget import REPLACE_ONE, Budget
from privmean.privacy.compose import (
    Parallel,
    pure_epsilon,
    stated,
    total_delta,
    total_epsilon,
    total_rho,
)
from privmean.privacy.guarantee import Guarantee
from privmean.privacy.privacy_events import Gaussian, Laplace, Pure, Threshold
from privmean.privacy.stored_events import loss_from_dict

LATTICE = 2.0**20
A = (Laplace("count", 1, 4), Threshold("t", 1e-7, 80.0))
B = (Gaussian("sum", 0.3 * LATTICE, LATTICE, 3), Gaussian("more", 0.4 * LATTICE, LATTICE, 2))
C = (Pure("p", Fraction(1, 3)),)


def test_every_component_is_the_dearest_groups():
    loss = Parallel("groups", (A, B, C))
    assert loss.pure == Fraction(1, 3)
    assert loss.mu == pytest.approx(0.5)
    assert loss.added_delta == 1e-7
    assert loss.rho == pytest.approx(0.125)
    assert loss.lattice.epsilon == sum(item.lattice.epsilon for item in B)


def test_a_group_alone_never_costs_more_than_all_in_parallel():
    whole = [Parallel("groups", (A, B, C))]
    for branch in (A, B, C):
        for epsilon in (0.3, 1.0, 2.0):
            assert total_delta(branch, epsilon) <= total_delta(whole, epsilon) * (1 + 1e-9)
    assert total_rho([Parallel("groups", (B, C))]) < total_rho([*B, *C])
    assert total_epsilon([Parallel("groups", (B,))], 1e-6) == pytest.approx(
        total_epsilon(B, 1e-6), rel=1e-9
    )
    assert pure_epsilon([Parallel("p", (C, C))]) == Fraction(1, 3)


def test_a_stored_bill_reads_back():
    budget = Budget(epsilon=5.0, delta=1e-5)
    bill = stated((Parallel("groups", (A, B)),), REPLACE_ONE)
    guarantee = Guarantee.of(budget, REPLACE_ONE, bill).require()
    stored = json.loads(json.dumps(guarantee.to_dict()))
    again = Guarantee.from_dict(stored)
    assert again.mechanisms == guarantee.mechanisms
    assert again.verify()


def test_broken_bills_are_refused():
    with pytest.raises(ArgumentError):
        Parallel("groups", ())
    with pytest.raises(ArgumentError):
        Parallel("groups", ((), A))
    stored = Parallel("groups", (A,)).to_dict()
    del stored["branches"]
    with pytest.raises(ArgumentError):
        loss_from_dict(stored)
