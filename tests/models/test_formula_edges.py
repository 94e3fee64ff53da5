"""Formulas that are not arithmetic on one record are refused in words, whatever their shape."""

from __future__ import annotations

import pytest

from privmean.errors import ArgumentError
from privmean.models.formula import read_formula


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ a | b", "y + z ~ a", "~ a", "y ~ .", "", "y ~ I(a); b", "y ~ " + "(" * 3000,
        "y ~ center(a)", "y ~ scale(a)", "y ~ bs(a, df=3)", "y ~ te(a, b)", "y ~ C(a)",
        "C(y) ~ a", "y ~ C(a, Treatment('x'))", "y ~ I(a > a.mean())", "y ~ I(sum(a))",
        "y ~ I(a[0])", "y ~ I([x for x in a])", "y ~ I(lambda: a)", "y ~ I(a if b else c)",
        "y ~ I(__import__('os').system('x'))", "y ~ I(9**8**8**8*a)", "y ~ I(1e400*a)",
        "y ~ I(True*a)", "y ~ I('s')", "y ~ lag(a)", "y ~ hashed(a)", "log(y) ~ a",
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_what_may_look_at_all_records_is_refused(formula):
    with pytest.raises(ArgumentError, match="formula"):
        read_formula(formula)


@pytest.mark.parametrize("formula", ["y ~", "y ~ ", "y ~\t"])
def test_nothing_on_the_right_is_refused(formula):
    with pytest.raises(ArgumentError, match="nothing on the right"):
        read_formula(formula)
    assert read_formula("y ~ 1").names == ("Intercept",)
