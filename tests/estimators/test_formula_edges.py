"""Formulas that are not arithmetic on one record are refused in words, whatever their shape."""

import pytest

import privmean as pm
from privmean.errors import ArgumentError
from privmean.estimators.regression.formula import read_formula


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ a | b", "y + z ~ a", "~ a", "y ~ .", "", "y ~ I(a); b", "y ~ " + "(" * 3000,
        "y ~ center(a)", "y ~ scale(a)", "y ~ bs(a, df=3)", "y ~ te(a, b)", "y ~ C(a)",
        "C(y) ~ a", "y ~ C(a, Treatment('x'))", "y ~ I(a > a.mean())", "y ~ I(sum(a))",
        "y ~ I(a[0])", "y ~ I([x for x in a])", "y ~ I(lambda: a)", "y ~ I(a if b else c)",
        "y ~ I(__import__('os').system('x'))", "y ~ I(9**8**8**8*a)", "y ~ I(1e400*a)",
        "y ~ I(True*a)", "y ~ I('s')", "y ~ lag(a)", "y ~ hashed(a)", "log(y) ~ a", "y ~ log(a)",
        "y ~ poly(a, 2)", "y ~ np.mean(a)", "y ~ I(a**b)", "y ~ I(a**0.5)", "y ~ I(1 < a < 2)",
        "a + b", "y ~ 0", "y ~ a + (", "1 ~ a", 3, "y ~ C(k, levels=['u', 2])",
        "y ~ C(k, levels=[1])", "y ~ C(k, levels=seen)", "y ~ C(k, levels=['u', 'u'])",
        "y ~ k + C(k, levels=['u', 'v'])",
    ],
    ids=lambda text: str(text)[:30],
)  # fmt: skip
def test_what_may_look_at_all_records_is_refused(formula):
    with pytest.raises(ArgumentError, match="formula"):
        read_formula(formula)


@pytest.mark.parametrize("formula", ["y ~", "y ~ ", "y ~\t"])
def test_nothing_on_the_right_is_refused(formula):
    with pytest.raises(ArgumentError, match="requires a term on the right"):
        read_formula(formula)
    assert read_formula("y ~ 1").names == ("Intercept",)


@pytest.mark.parametrize(
    ("formula", "name"),
    [
        ("y ~ age^2", "age"), ("y ~ x + age**2", "age"), ("y ~ a:b ^ 3", "b"), ("y^2 ~ x", "y"),
        ("y ~ I(x**2) + z**2", "z"),
    ],
)  # fmt: skip
def test_a_square_outside_of_parentheses_is_refused_and_said_how_to_write(formula, name):
    """Crossed with itself a column is itself: the line would have been fitted, and called ok."""
    with pytest.raises(ArgumentError, match=rf"Write I\({name}\*\*2\) for its square"):
        read_formula(formula)


@pytest.mark.parametrize(
    "formula", ["y ~ (a + b)**2", "y ~ (a + b)^2", "y ~ I((a + b)**2) + I(a**2)"]
)
def test_sums_may_be_crossed_and_squares_written_in_parentheses(formula):
    assert len(read_formula(formula).names) in (3, 4)


@pytest.mark.parametrize("right", ["y", "x + y:x", "I(y**2)", "C(y, levels=[1, 2])", "own(y)"])
@pytest.mark.parametrize("effect", ["pooled", "within", "per_person"])
def test_a_response_that_explains_itself_is_refused_before_anything_is_read(right, effect):
    with pytest.raises(ArgumentError, match="formula"):
        pm.regress("no such file.csv", f"y ~ {right}", person="who", epsilon=1.0, effect=effect)
    with pytest.raises(ArgumentError, match="on the right"):
        read_formula(f"y ~ {right}", own=True)
    assert read_formula("I(y - x) ~ x").names == ("Intercept", "x")


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ I(x/0)", "y ~ I(x/(2-2))", "y ~ I(1/(x-x))", "y ~ I(x/(0*z))", "I(y/0) ~ x",
        "y ~ I((x/0.0)**2)", "y ~ I(x*(1e300*1e300))", "y ~ I(x*(1e300)**8)", "y ~ I(x > 1/0)",
        "y ~ z + I(-x/-0.0)",
    ],
)  # fmt: skip
def test_a_formula_without_a_finite_value_is_refused_before_the_charge(formula):
    for effect in ("pooled", "per_person"):
        with pytest.raises(ArgumentError, match="divides by 0 or leaves the range of doubles"):
            pm.Regression(formula, effect=effect)


@pytest.mark.parametrize(
    "formula", ["y ~ I(x/2)", "y ~ I(x/(z-2))", "y ~ I(0/x)", "y ~ I(x/(z-x))", "y ~ I(x/(2-1))"]
)
def test_a_formula_that_some_record_has_a_value_of_is_read(formula):
    assert pm.Regression(formula).formula == formula
