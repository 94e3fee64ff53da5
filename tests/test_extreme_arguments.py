"""Public numbers of any size: a clear refusal before anything is read, or finite results.

Never an overflow, a division by zero or a loop: those are errors that say nothing to the caller,
and after a charge they would cost a budget for nothing.
"""

import json
import math

import numpy as np
import pytest

import privmean as pm
from privmean.errors import ArgumentError, PrivmeanError
from privmean.estimators.regression.private_scale import PrivateScale
from privmean.local import round_builders as builders
from privmean.local.exact_coins import SimulatedEntropy
from privmean.privacy.budget import Budget
from statistics_kit import planned

ENDS = (1e-308, 1e-160, 1e-120, 1.0, 1e120, 1e160, 1e308)
EXTREME = (
    5e-324, 1e-300, 1e-119, 0.0, -1.0, -1e308, 1e119, 1e300, 1.7976931348623157e308,
    math.inf, math.nan, 10**400, "1.0", None, True,
)  # fmt: skip
PAIRS = (
    (-1e308, 1e308), (-1e308, 1.0), (-1e120, 1e120), (-1e120, 1e-308), (-1e160, 1e120),
    (1e-308, 1e-300), (1e-308, 1e308), (1e-160, 1.0), (1e-120, 1e120), (1e-119, 1e119),
    (1.0, 1e308), (1.0, 1e160), (1.0, 1e119), (1e119, 1e120), (math.nan, 1.0), (0.0, math.inf),
    (0, 10**400),
)  # fmt: skip
WORST = (1e-308, 1e-119, 1e119, 1e308, math.inf, math.nan, 10**400)
LONG = (
    "curve",
    "regression",
    "stream",
    "phi",
    "correlation",
    "threshold",
    "residual",
    "between sd",
    "term",
    "clip",
    "participations",
    "separation",
    "covariance",
    "resolution",
    "coefficients",
    "last edge",
    "max_records",
)  # fmt: skip - these read tables, or plan for long
VALUES = np.linspace(0, 1, 200)
ROWS = np.random.default_rng(1).normal(size=(300, 2))
TABLE = {
    "p": np.repeat(np.arange(150), 4),
    "x": np.tile([0.0, 1.0, 2.0, 3.0], 150),
    "t": np.tile([0.2, 0.4, 0.6, 0.8], 150),
    "y": np.tile([0.0, 1.0, 2.0, 2.5], 150),
}
TIMES = np.arange(1, 201) / 200
UNIT = pm.Mean(assume=(0, 1))


def mean(**settings):
    return pm.mean(VALUES, **{"epsilon": 1.0, "noise": pm.SimulatedNoise(1), **settings})


def rows(**settings):
    given = {"epsilon": 6.0, "delta": 1e-4, "noise": pm.SimulatedNoise(1), **settings}
    return pm.mean(ROWS, **given)


def curve(**settings):
    given = {"bins": [0, 0.5, 1], "epsilon": 4.0, "delta": 1e-6, "noise": pm.SimulatedNoise(1)}
    return pm.curve(TABLE, "y", time="t", person="p", **{**given, **settings})


def asked(**settings):
    terms = {"epsilon": 6.0, "delta": 1e-6, "noise": pm.SimulatedNoise(1)}
    return pm.ask(
        TABLE, pm.Regression("y ~ x", effect="per_person", **settings), person="p", **terms
    )


def regress(**settings):
    noise = pm.SimulatedNoise(1)
    return pm.regress(
        TABLE,
        "y ~ x",
        effect="per_person",
        person="p",
        epsilon=6.0,
        delta=1e-6,
        noise=noise,
        **settings,
    )


def winsorized(assumption=None, **settings):
    known = {"range": (-5, 5)} | settings
    return mean(method=pm.WinsorizedMean(assumption or pm.SubGaussian(sd=1.0), **known))


def groups(**settings):
    given = {"group_sd": 0.1, "within_sd": 1.0, "records": 3, "group_sizes": (20,) * 10}
    effects = pm.RandomEffects(**{**given, **settings})
    noise = pm.SimulatedNoise(1)
    return pm.mean(VALUES, clustering=effects, epsilon=1.0, delta=1e-6, noise=noise)


def fixed(bounds=(0.0, 1.0), **settings):
    design = pm.FixedDesign(bounds, **(settings or {"cells": 3}))
    return design.plan(Budget(epsilon=2.0), times=TIMES).release(VALUES, pm.SimulatedNoise(1))


def stream(**settings):
    given = {"epsilon": 1.0, "delta": 1e-6, "max_participations": 2, "min_separation": 3}
    return pm.MeanStream(**{**given, "steps": 8, **settings})


def moment(**settings):
    given = {"order": 3, "bound": 1.0, "range": (-5, 5)}
    return mean(moment=pm.BoundedMoment(**{**given, **settings}))


OF_ONE = {
    "sd": lambda x: mean(delta=1e-6, concentration=pm.SubGaussian(sd=x)),
    "sd in a range": lambda x: winsorized(pm.SubGaussian(sd=x)),
    "log-Sobolev": lambda x: mean(delta=1e-6, concentration=pm.LogSobolev(x, records=3)),
    "between": lambda x: mean(
        delta=1e-6, concentration=pm.BetweenWithin(between_sd=x, within_sd=1.0, records=3)
    ),
    "within": lambda x: mean(
        delta=1e-6, concentration=pm.BetweenWithin(between_sd=1.0, within_sd=x, records=3)
    ),
    "records": lambda x: mean(
        delta=1e-6, concentration=pm.BetweenWithin(between_sd=1.0, within_sd=1.0, records=x)
    ),
    "smallest scale": lambda x: mean(
        delta=1e-6, method=pm.WinsorizedMean(pm.UnknownScale(smallest=x))
    ),
    "largest scale": lambda x: mean(
        delta=1e-6, method=pm.WinsorizedMean(pm.UnknownScale(largest=x))
    ),
    "moment bound": lambda x: moment(bound=x),
    "moment bound, whole line": lambda x: mean(
        delta=1e-6, moment=pm.BoundedMoment(order=3, bound=x)
    ),
    "moment order": lambda x: moment(order=x),
    "moment records": lambda x: moment(records=x),
    "covariance": lambda x: rows(covariance=x),
    "covariances": lambda x: rows(covariance=[1.0, x]),
    "covariance matrix": lambda x: rows(covariance=[[1.0, 0.1], [0.1, x]]),
    "excess": lambda x: mean(method=pm.DefaultMean(excess_ratio=x)),
    "beta": lambda x: mean(
        method=pm.HeavyTailedMean(pm.BoundedMoment(order=3, bound=1.0, range=(-5, 5)), beta=x)
    ),
    "level": lambda x: mean(bounds=(0, 1), level=x),
    "epsilon": lambda x: mean(epsilon=x, bounds=(0, 1)),
    "delta": lambda x: mean(delta=x, bounds=(0, 1)),
    "rho": lambda x: mean(epsilon=None, rho=x, bounds=(0, 1)),
    "n_guess": lambda x: mean(
        neighbors="add-remove", n_guess=x, delta=1e-6, concentration=pm.SubGaussian(sd=1.0)
    ),
    "share": lambda x: winsorized(share=x),
    "recenter": lambda x: winsorized(recenter=x),
    "gamma": lambda x: winsorized(gamma=x),
    "design effect": lambda x: winsorized(design_effect=x),
    "design effect of the default": lambda x: mean(method=pm.DefaultMean(design_effect=x)),
    "wanted error": lambda x: pm.required_n(UNIT, target_error=x, guess_sd=1.0, epsilon=1.0),
    "guessed sd": lambda x: pm.required_n(UNIT, target_error=0.1, guess_sd=x, epsilon=1.0),
    "planned persons": lambda x: pm.plan(UNIT, n=x, epsilon=1.0).describe(),
    "resolution": lambda x: pm.read(np.zeros(6), person=np.arange(6), resolution=x),
    "max_records": lambda x: pm.read(
        np.zeros(6), person=np.arange(6), estimand="records", max_records=x
    ),
    "last edge": lambda x: curve(bins=[0, 0.5, x]),
    "sd of a curve": lambda x: curve(concentration=pm.SubGaussian(sd=x)),
    "design effect of a curve": lambda x: curve(bounds=(0, 1), clustering=x),
    "threshold": lambda x: asked(threshold=x),
    "residual sd": lambda x: regress(assume=pm.WorkingErrors(x)),
    "between sd": lambda x: regress(assume=pm.WorkingErrors(1.0, x)),
    "design effect of a regression": lambda x: regress(clustering=x),
    "excess of a regression": lambda x: regress(method=PrivateScale(target="mean", excess_ratio=x)),
    "scale of a term": lambda x: asked(scales={"x": x}),
    "correlation": lambda x: regress(working=pm.Exchangeable(x)),
    "phi": lambda x: regress(working=pm.AR1(x), time="t"),
    "group sd": lambda x: groups(group_sd=x),
    "within sd of groups": lambda x: groups(within_sd=x),
    "person sd of groups": lambda x: groups(person_sd=x),
    "bandwidth": lambda x: fixed(bandwidth=x, at=(0.3,)),
    "point": lambda x: fixed(bandwidth=0.05, at=(x,)),
    "cells": lambda x: fixed(cells=x),
    "clip radius": lambda x: stream(clip_radius=x),
    "center of a stream": lambda x: stream(clip_radius=1.0, center=x),
    "participations": lambda x: stream(clip_radius=1.0, max_participations=x),
    "separation": lambda x: stream(clip_radius=1.0, min_separation=x),
    "radius of a round": lambda x: builders.ball_round(x, 3, epsilon=1.0, persons=100),
    "epsilon of a round": lambda x: builders.mean_round(0, 1, epsilon=x, persons=100),
    "items": lambda x: builders.items_round(x, epsilon=1.0, persons=100),
    "oversize": lambda x: builders.items_round(
        10**6, epsilon=1.0, persons=100, mechanism="sketch", oversize=x
    ),
    "total of a ledger": lambda x: pm.Ledger(epsilon=x).left().describe(),
}
OF_TWO = {
    "bounds": lambda a, b: mean(bounds=(a, b)),
    "bounds, zCDP": lambda a, b: mean(bounds=(a, b), epsilon=None, rho=0.5),
    "bounds, add-remove": lambda a, b: mean(bounds=(a, b), neighbors="add-remove", n_guess=200),
    "bounded": lambda a, b: mean(concentration=pm.Bounded(a, b)),
    "bounded within": lambda a, b: mean(
        delta=1e-6, concentration=pm.BoundedWithin(1.0, lower=a, upper=b, records=3)
    ),
    "range": lambda a, b: winsorized(range=(a, b)),
    "range of a moment": lambda a, b: moment(range=(a, b)),
    "magnitudes": lambda a, b: planned(PrivateScale(a, b), Budget(epsilon=2.0), persons=200),
    "scales of columns": lambda a, b: rows(method=pm.AnisotropicMean(scale_range=(a, b))),
    "coefficients": lambda a, b: regress(assume=(a, b)),
    "bounds of a curve": lambda a, b: curve(bounds=(a, b)),
    "range of a curve": lambda a, b: curve(
        method=pm.WinsorizedMean(pm.SubGaussian(sd=1.0), range=(a, b))
    ),
    "fixed design": lambda a, b: fixed((a, b)),
    "bounds of a stream": lambda a, b: stream(bounds=(a, b)),
    "bounds of a round": lambda a, b: builders.mean_round(a, b, epsilon=1.0, persons=100),
    "bounds of votes": lambda a, b: builders.vote_round(a, b, 8, epsilon=1.0, persons=100),
}


def answered(call, *arguments):
    """Whether a call gave a result; it is then finite and has a text."""
    try:
        result = call(*arguments)
    except PrivmeanError:
        return False
    if isinstance(result, pm.Release):
        for row in result.rows():  # what has no number says why
            assert math.isfinite(row.estimate) or row.status != "ok", arguments
        json.dumps(result.to_dict(), allow_nan=False)
        assert str(result)
    return True


CLOSE = ((0.0, 1e-320), (0.0, 5e-324), (-5e-324, 5e-324), (1e-320, 2e-320), (0.0, 1e-130))


@pytest.mark.parametrize("pair", CLOSE)
@pytest.mark.parametrize("name", [name for name in OF_TWO if name.startswith("bounds of ")])
def test_bounds_without_a_width_are_named(name, pair):
    with pytest.raises(ArgumentError) as refused:
        OF_TWO[name](*pair)
    assert refused.value.argument == "bounds"


@pytest.mark.parametrize("pair", CLOSE)
@pytest.mark.parametrize("sd", [None, 1.0])
def test_withheld_values_without_a_width_are_refused(pair, sd):
    with pytest.raises(ArgumentError, match=r"bounds=.*at least 1e-120 apart"):
        pm.WithholdRelease(max_records=2, bounds=pair, epsilon=1, delta=1e-6, sd=sd)


@pytest.mark.parametrize("seed", [-1, 1.5, "seven", [1, -2]])
def test_what_is_no_seed_is_named(seed):
    for noise in (pm.SimulatedNoise, SimulatedEntropy):
        with pytest.raises(ArgumentError) as refused:
            noise(seed)
        assert refused.value.argument == "seed"


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_ONE)
def test_any_number_is_refused_clearly_or_answered(name):
    numbers = WORST if any(word in name for word in LONG) else (*ENDS, *EXTREME)
    results = [answered(OF_ONE[name], x) for x in numbers]
    assert not all(results)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_TWO)
def test_any_pair_is_refused_clearly_or_answered(name):
    pairs = PAIRS[::3] if any(word in name for word in LONG) else PAIRS
    results = [answered(OF_TWO[name], *pair) for pair in pairs]
    assert not all(results)


@pytest.mark.parametrize(
    "settings",
    [
        {"steps": 10**12},
        {"steps": None, "design_steps": 10**12},
        {"window": 10**12},
        {"half_life": 1e-100},
        {"from_step": 10**12},
        {"goal": "times", "times": [10**12]},
        {"max_participations": 10**12},
        {"min_separation": 10**12},
        {"dimension": 10**12, "clip_radius": 1.0, "bounds": None},
    ],
    ids=str,
)
def test_a_stream_that_no_plan_can_hold_is_refused_at_once(settings):
    with pytest.raises(ArgumentError) as refused:
        stream(**{"bounds": (0, 1), **settings})
    assert refused.value.argument in settings


@pytest.mark.parametrize("pair", [(-1e308, 1e308), (0, 1.7976931348623157e308), (-1e121, 0)])
def test_a_width_that_overflows_is_an_argument_error_that_names_it(pair):
    with pytest.raises(ArgumentError, match=r"bounds=.*at most 1e\+120.*Rescale"):
        mean(bounds=pair)
    assert mean(bounds=(-1e120, 1e120)).status == "ok"


def test_text_is_no_number():
    for arguments in ({"epsilon": "1.0"}, {"delta": b"0"}, {"level": "0.9"}):
        with pytest.raises(ArgumentError, match="is not a number"):
            mean(bounds=(0, 1), **arguments)
