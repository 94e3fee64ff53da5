"""What a caller may ask for."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privmean.errors import ArgumentError
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget, exact_fraction, relation_of


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"delta": 1e-6}, "epsilon"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": 1e-7}, "epsilon"),
        ({"epsilon": 101.0}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"epsilon": [1.0]}, "epsilon"),
        ({"epsilon": 1.0, "delta": -1e-9}, "delta"),
        ({"epsilon": 1.0, "delta": 0.5}, "delta"),
        ({"epsilon": 1.0, "delta": math.nan}, "delta"),
        ({"epsilon": 1.0, "delta": None}, "delta"),
        ({"rho": math.inf}, "rho"),
        ({"rho": 5001.0}, "rho"),
        ({"rho": 0.1, "delta": 1e-6}, "delta"),
    ],
)
def test_budgets_that_mean_nothing_are_refused_by_name(arguments, named):
    with pytest.raises(ArgumentError) as caught:
        Budget(**arguments)
    assert caught.value.argument == named
    assert caught.value.remedy


def test_kinds():
    assert Budget(epsilon=1).is_pure
    assert not Budget(epsilon=1, delta=1e-6).is_pure
    assert Budget(rho=0.5).is_zcdp
    assert Budget(epsilon=np.float64(0.5)) == Budget(epsilon=0.5)
    assert Budget(epsilon=Fraction(1, 2)).epsilon == 0.5


def test_a_number_means_the_decimal_that_was_written():
    assert Budget(epsilon=0.1).pure_epsilon() == Fraction(1, 10)
    assert sum([Budget(epsilon=0.1).pure_epsilon()] * 10) == Budget(epsilon=1.0).pure_epsilon()
    assert exact_fraction(1e-6) == Fraction(1, 10**6)


@given(st.floats(1e-12, 5000))
@settings(deadline=None)
def test_the_pure_epsilon_of_rho_is_rounded_down_and_tight(rho):
    epsilon = Budget(rho=rho).pure_epsilon()
    assert epsilon**2 / 2 <= exact_fraction(rho)
    assert (epsilon * (1 + Fraction(1, 10**12))) ** 2 / 2 > exact_fraction(rho)


@given(st.floats(1e-6, 100))
@settings(deadline=None)
def test_the_largest_pure_epsilon_is_within_a_digit_of_the_double(epsilon):
    largest = Budget(epsilon=epsilon).largest_pure_epsilon()
    assert Fraction(epsilon) <= largest <= Fraction(math.nextafter(epsilon, math.inf))


def test_relations_by_name():
    assert relation_of("replace-one") == REPLACE_ONE
    assert relation_of("add-remove") == ADD_REMOVE
    with pytest.raises(ArgumentError, match="neighbors"):
        relation_of("swap")


def test_words_and_dictionaries():
    assert Budget(epsilon=1.0).describe() == "epsilon=1"
    assert Budget(epsilon=1.0, delta=1e-6).describe() == "(epsilon=1, delta=1e-06)"
    assert Budget(rho=0.25).describe() == "rho=0.25"
    for budget in (Budget(epsilon=0.3, delta=1e-7), Budget(rho=0.1)):
        assert Budget(**budget.to_dict()) == budget
