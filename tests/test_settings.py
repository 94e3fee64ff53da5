"""Every field of every estimator and assumption: a wrong value is an ArgumentError, and early.

Nothing else may come out of making one or of planning with it: no other exception, and nothing that
fails once a budget is charged.
"""

import contextlib
import dataclasses
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import privmean as pm
from privmean.errors import ArgumentError, PrivmeanError
from privmean.estimators.moment_variance import MomentVariance
from statistics_kit import planned

MOMENT = pm.BoundedMoment(order=3, bound=2, range=(0, 10))
ESTIMATORS = [
    pm.DefaultMean(),
    pm.BoundedMean((0, 10)),
    pm.WinsorizedMean(pm.SubGaussian(sd=1)),
    pm.HeavyTailedMean(MOMENT),
    pm.HeavyTailedMean(MOMENT, law="gaussian"),
    pm.AnisotropicMean(),
    pm.AnisotropicMean(1.0),
    pm.GroupMeans(keys=(("a",), ("b",))),
    pm.PrivateScale(),
    pm.FixedDesign((0, 10), cells=5),
    MomentVariance(2.0),
]
ASSUMPTIONS = [
    pm.SubGaussian(sd=1),
    pm.Bounded(0, 1),
    pm.LogSobolev(1.0, records=3),
    pm.BetweenWithin(between_sd=1, within_sd=1, records=2),
    pm.BoundedWithin(1.0, 0.0, 1.0, 2),
    pm.UnknownScale(),
    MOMENT,
    pm.Covariance(1.0),
    pm.WorkingErrors(residual_sd=1.0),
    pm.RandomEffects(group_sd=0.5, person_sd=0.3, within_sd=1.0, records=10, group_sizes=(5,) * 10),
    pm.Exchangeable(0.3),
    pm.AR1(0.3),
    pm.RecordWeights(12),
]
WRONG = [
    0, 7, -3, 10**400, 0.5, 1e300, float("nan"), float("inf"), 1j, True, None, "no", "", b"x",
    (), (1, 2), ("a", 1), [[1, 2], [3, 4]], ((0, 1), (0, 1)), {"a": 1}, {1}, object(), int,
    np.array([1.0, 2.0]), np.array(["x"]),
]  # fmt: skip
BUDGETS = (pm.Budget(epsilon=1.0, delta=1e-6), pm.Budget(rho=0.5))


def cases(instances):
    return [
        pytest.param(item, field.name, id=f"{type(item).__name__}{index}-{field.name}")
        for index, item in enumerate(instances)
        for field in dataclasses.fields(item)
        if field.init
    ]


def made(instance, name, value):
    """The same with another value of one field; None if it is refused."""
    try:
        return dataclasses.replace(instance, **{name: value})
    except ArgumentError:
        return None


@pytest.mark.slow
@pytest.mark.parametrize(("instance", "name"), cases(ESTIMATORS))
def test_a_setting_is_refused_or_planned_with(instance, name):
    for value in WRONG:
        changed = made(instance, name, value)
        if changed is None:
            continue
        for budget in BUDGETS:
            for columns in (1, 2):
                with contextlib.suppress(PrivmeanError):  # ArgumentError or Infeasible
                    if isinstance(changed, pm.FixedDesign):
                        changed.plan(budget, times=np.linspace(0, 1, 500))
                    else:
                        planned(changed, budget, persons=3000, dimension=columns)


@pytest.mark.slow
@pytest.mark.parametrize(("instance", "name"), cases(ASSUMPTIONS))
def test_an_assumption_is_refused_or_planned_with(instance, name):
    for value in WRONG:
        changed = made(instance, name, value)
        if changed is None:
            continue
        for question in questions(changed):
            with contextlib.suppress(PrivmeanError):  # ArgumentError or Infeasible
                pm.plan(question(), n=3000, epsilon=1.0, delta=1e-6)


ASKED = [
    pm.Mean("y"), pm.Mean("y", by="g", keys=("a", "b")), pm.Compare("y", arms="g", baseline="x"),
    pm.Regression("y ~ x"), pm.Curve("y", "t", bins=(0, 1)), pm.Variance("y"), pm.Quantile("y"),
]  # fmt: skip


def numbers(case):
    """Whether the field holds one number. What may be a matrix becomes an array of doubles where it
    is used."""
    instance, name = case.values
    matrix = isinstance(instance, pm.Covariance) or name == "covariance"
    return type(getattr(instance, name)) in (int, float) and not matrix


@pytest.mark.parametrize(
    ("instance", "name"), list(filter(numbers, cases([*ESTIMATORS, *ASSUMPTIONS, *ASKED])))
)
@pytest.mark.parametrize("kind", [Decimal, Fraction, np.float32])
def test_a_number_of_another_kind_is_kept_as_a_plain_one(instance, name, kind):
    """Arithmetic of decimals with doubles failed after the charge."""
    changed = made(instance, name, kind(getattr(instance, name)))
    assert changed is None or type(getattr(changed, name)) in (int, float)


def test_a_guess_may_be_a_decimal():
    asked = {"question": pm.Mean("x"), "epsilon": 1.0, "target_error": 0.1}
    assert pm.required_n(guess_sd=Decimal("1.5"), **asked) == pm.required_n(guess_sd=1.5, **asked)


def questions(assumption):
    """What makes questions that rest on it."""
    own = partial(pm.Regression, "y ~ x", effect="per_person")
    if isinstance(assumption, pm.WorkingErrors):
        return [partial(own, assume=assumption)]
    if isinstance(assumption, pm.RandomEffects):
        return [partial(pm.Mean, "x", clustering=assumption)]
    if isinstance(assumption, pm.Exchangeable | pm.AR1):
        return [partial(own, time="t", working=assumption)]
    if isinstance(assumption, pm.RecordWeights):
        heavy = pm.HeavyTailedMean(MOMENT, weights=assumption)
        return [partial(pm.Mean, "x", estimand="records", max_records=12, method=heavy)]
    return [partial(pm.Mean, columns, assume=assumption) for columns in ("x", ("x", "y"))]


@pytest.mark.parametrize(
    ("estimator", "flags"),
    [
        (pm.HeavyTailedMean(MOMENT), ("wide_buckets", "private_radius")),
        (pm.DefaultMean(), ("complete",)),
        (pm.GroupMeans(keys=(("a",),)), ("simultaneous", "public_groups", "common")),
    ],
)
def test_a_flag_is_true_or_false(estimator, flags):
    for name in flags:
        for value in (1, "yes", (), np.array([1.0, 2.0])):
            with pytest.raises(ArgumentError, match=name):
                dataclasses.replace(estimator, **{name: value})


@pytest.mark.parametrize("wrong", [12, (12,), "max_records:12", True])
def test_record_weights_are_refused_before_anything_is_charged(tmp_path, wrong):
    book = pm.Ledger(tmp_path / "book", epsilon=1.0)
    with pytest.raises(
        ArgumentError,
        match=r"weights.*RecordWeights\(max_records=12\), in texts weights=max_records:12",
    ):
        pm.mean(
            np.arange(3000.0),
            method=pm.HeavyTailedMean(MOMENT, weights=wrong),
            epsilon=1.0,
            ledger=book,
        )
    assert not book.entries


@pytest.mark.parametrize("wrong", [(1.0, 2.0), (), ("a",), "a", float("nan")])
def test_a_fallback_is_checked_before_anything_is_charged(wrong):
    """A fallback of the wrong length used to fail after the noise was drawn."""
    with pytest.raises(ArgumentError, match="fallback"):
        pm.mean(
            np.random.default_rng(1).normal(size=(3000, 3)),
            method=pm.WinsorizedMean(pm.SubGaussian(sd=1), fallback=wrong),
            epsilon=1.0,
            delta=1e-6,
        )
