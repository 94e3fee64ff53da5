"""What the caller does to decimal arithmetic changes no threshold and no probability."""

from decimal import Context, Inexact, localcontext
from fractions import Fraction

import pytest

from privmean.mechanisms.histograms import laplace_tail, laplace_threshold

STRANGE = (
    Context(prec=3, Emin=-3, Emax=3, traps=[]),  # small numbers would be rounded to 1e-5
    Context(prec=2, traps=[Inexact]),
    Context(prec=50, rounding="ROUND_UP", clamp=1, traps=[]),
)


@pytest.mark.parametrize("strange", STRANGE)
def test_a_strange_context_changes_nothing(strange):
    def numbers():
        for cached in (laplace_tail, laplace_threshold):
            cached.cache_clear()
        return (
            laplace_tail(40, Fraction(2)),
            laplace_threshold(Fraction(2), 1e-9),
        )

    usual = numbers()
    with localcontext(strange):
        found = numbers()
    assert found == usual
