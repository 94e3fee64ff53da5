"""One regression for all persons: a release is a function of its noisy answers alone."""

import numpy as np
import polars as pl
import pytest

import privmean as pm
from estimators.scripted_curator import Scripted
from privmean.auditing.call_list import plan_of
from privmean.auditing.fixed_noise import Draws
from privmean.data.schema import PublicShape
from privmean.estimators.regression.panel import PanelSums, Weighting
from privmean.estimators.regression.pooled_intervals import times
from privmean.estimators.regression.run_pooled import Pooled
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget

PERSONS = 1500


def table(kind, seed=0):
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 6, PERSONS)
    who = np.repeat(np.arange(PERSONS), size)
    n = len(who)
    a = rng.normal(size=n)
    columns = {
        "fine": (a, rng.normal(size=n)),
        "copy": (a, 2.5 * a),
        "huge": (1e300 * a, a),
        "constant": (np.full(n, 3.0), np.full(n, 1.0)),
        "heavy": (rng.standard_cauchy(n), a),
        "nobody": (np.full(n, np.nan), a),
    }[kind]
    y = rng.normal(size=n) + np.nan_to_num(np.clip(columns[0], -9, 9))
    return pl.DataFrame({"who": who, "a": columns[0], "b": columns[1], "y": y})


@pytest.mark.slow
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("money", [{"epsilon": 6.0}, {"epsilon": 6.0, "delta": 1e-6}])
@pytest.mark.parametrize("kind", ["fine", "copy", "huge", "constant", "heavy", "nobody"])
def test_the_answers_of_one_table_give_the_same_release_with_another(kind, money, relation):
    """Early exits too: status, numbers, words and bill; what is never asked stays unspent."""
    asked = PanelSums("y ~ a + b", False)
    known = (None, PERSONS) if relation == ADD_REMOVE else (PERSONS, None)
    plan = Pooled(asked.design, Weighting()).plan(
        Budget(**money, neighbors=relation), PublicShape(asked.names, *known)
    )
    first = Scripted(asked.reduce(pm.Table(table(kind), person="who")))
    made = plan.run(first)
    other = Scripted(asked.reduce(pm.Table(table("fine", 1), person="who")), first.seen)
    again = plan.run(other)
    assert len(other.seen) == len(first.seen) > 2
    assert other.events == first.events
    planned = [x.to_dict() for x in plan.events]
    for line in [x.to_dict() for x in first.events]:
        planned.remove(line)  # each is a line of the plan
    assert np.array_equal(made.estimate, again.estimate, equal_nan=True)
    assert (made.status, made.advice, made.n) == (again.status, again.advice, again.n)
    assert repr(made.diagnostics) == repr(again.diagnostics)
    assert repr(made.intervals.interval(0.95)) == repr(again.intervals.interval(0.95))
    assert kind != "fine" or np.isfinite(made.estimate).all()


@pytest.mark.slow
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("money", [{"epsilon": 6.0}, {"epsilon": 6.0, "delta": 1e-6}, {"rho": 3.0}])
@pytest.mark.parametrize("kind", ["fine", "huge", "constant", "nobody"])
def test_own_coefficients_are_a_function_of_their_answers(kind, money, relation):
    """With the count behind the sizes, below which nothing else is asked."""
    question = pm.Regression("y ~ 0 + a", effect="per_person")
    known = (None, PERSONS) if relation == ADD_REMOVE else (PERSONS, None)
    budget = Budget(**money, neighbors=relation)
    plan = plan_of(question, budget, PublicShape(("a",), *known))
    first = Scripted(question.summary.reduce(pm.Table(table(kind), person="who")))
    made = plan.run(first)
    people = question.summary.reduce(pm.Table(table("fine", 1), person="who"))
    other = Scripted(people, first.seen)
    again = plan.run(other)
    assert other.events == first.events == plan.events[: len(first.events)]
    assert np.array_equal(made.estimate, again.estimate, equal_nan=True)
    assert (made.status, made.advice) == (again.status, again.advice)
    assert (len(first.events) == 3) == (kind != "fine")


@pytest.mark.parametrize("money", [{"epsilon": 9.0}, {"epsilon": 1.5, "delta": 1e-6}, {"rho": 0.5}])
@pytest.mark.parametrize("formula", ["y ~ a", "y ~ a*b + I(a**2) + I(b**2)"])
def test_permute_and_flip_is_drawn_where_bills_are_pure_alone(money, formula):
    """A choice that is billed as an exponential mechanism is drawn as one."""
    noise = Draws(SimulatedNoise(1))
    release = pm.regress(table("fine"), formula, person="who", noise=noise, **money)
    pure = release.plan.parts.law == "laplace"  # chosen with a delta too, where it is less noise
    assert any(item.law == "argmax" for item in noise.requests) == pure
    assert pure or len(money) > 1 or "rho" in money
    assert not (pure and "rho" in money)


def test_small_products_are_added_in_a_fixed_order():
    """Bit for bit what additions from the first to the last give, whatever library is installed."""
    rng = np.random.default_rng(0)
    for rows, inner, columns in ((1, 1, 1), (3, 7, 2), (12, 12, 12), (2, 30, 5)):
        a, b = rng.normal(size=(rows, inner)), rng.lognormal(0, 9, (inner, columns))
        found = times(a, b)
        for i in range(rows):
            for j in range(columns):
                total = 0.0
                for k in range(inner):
                    total += float(a[i, k]) * float(b[k, j])
                assert found[i, j] == total
