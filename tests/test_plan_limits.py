"""Plans at odd public numbers: a plan whose bill keeps the budget, ArgumentError or Infeasible.

Few persons, odd epsilons, every estimator and setting; `make fuzz` goes on with fresh seeds.
"""

import random
import traceback
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privmean as pm
from privmean.api.run_question import within_budget
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.anisotropic.anisotropic_mean import AnisotropicMean
from privmean.estimators.concentration import LogSobolev
from privmean.estimators.means.choose_vector_method import Cheapest
from privmean.estimators.moment_variance import MomentVariance
from privmean.estimators.regression.private_scale import PrivateScale
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE
from privmean.published import AnisotropicAsPublished, PureCover, ThreadedMean
from statistics_kit import planned
from test_search import limit

ODD = (1e-3, 0.05, 0.3, 0.7123, 1.0, 1.649, 3.0, 8.1, 25.0, 100.0)
FEW = (1, 2, 3, 4, 7, 12, 23, 40, 41, 97, 230, 601, 1999)
LONG = 60  # seconds that one plan may take


def pick(g, *choices):
    return g.choice(choices)


def concentration(g):
    sd = pick(g, 1e-9, 0.5, 2.0, 1e6)
    return pick(
        g,
        pm.SubGaussian(sd=sd),
        LogSobolev(sd**2, records=pick(g, 1, 30)),
        pm.BetweenWithin(between_sd=sd, within_sd=2 * sd, records=pick(g, 1, 7)),
        pm.UnknownScale(),
        pm.Bounded(-sd, 2 * sd),
    )


def winsorized(g, d):
    return pm.WinsorizedMean(
        concentration(g),
        range=pick(g, None, (-100, 100), (0.0, 1e-3), (-1e9, 1e9)),
        gamma=pick(g, None, 0.05, 0.4),
        failure=pick(g, 0.01, 1e-6, 0.5),
        share=pick(g, None, 0.05, 0.5, 0.8),
        recenter=pick(g, None, 0.0, 0.15),
        fallback=pick(g, None, 0.0),
        design_effect=pick(g, 1.0, 30.0),
    )


def heavy(g, d):
    moment = pm.BoundedMoment(
        pick(g, 2, 2.5, 3, 6),
        pick(g, 1e-6, 1.5, 1e4),
        records=pick(g, 1, 10, 500),
        between_sd=pick(g, 0.0, 0.3),
        range=pick(g, None, (-10, 10), (0, 1e6)),
    )
    if pick(g, False, False, False, True):
        return pick(g, PureCover, ThreadedMean)(moment, beta=pick(g, 0.01, 0.3))
    return pm.HeavyTailedMean(
        moment,
        law=pick(g, "auto", "gaussian", "laplace", "k-norm"),
        rounds=pick(g, None, 1, 3),
        start=pick(g, "auto", "histogram"),
        private_radius=pick(g, None, None, False, True),
        beta=pick(g, 0.01, 0.3),
    )


def anisotropic(g, d):
    known = pick(g, False, True)
    if pick(g, False, False, False, True):
        return AnisotropicAsPublished(1.0 if known else None, pick(g, 0.05, 0.4))
    return AnisotropicMean(
        pick(g, 1.0, 1e-12, 1e12) if known else None,
        method=pick(g, "auto", "average", "two-phase") if known else "auto",
        beta=pick(g, 0.05, 0.4),
        scale_range=None if known or pick(g, False, True) else (1e-3, 10.0),
    )


def made(g, d):
    """An estimator at odd settings; one that settings forbid is drawn again."""
    kinds = (
        winsorized,
        winsorized,
        heavy,
        anisotropic,
        lambda g, d: Cheapest(),
        lambda g, d: pm.DefaultMean(target=pick(g, None, "mean", "clipped")),
        lambda g, d: pm.BoundedMean((-1.0, pick(g, -0.999, 3.0, 1e100))),
        lambda g, d: MomentVariance(),
        lambda g, d: PrivateScale(),
    )
    while True:
        try:
            return g.choice(kinds)(g, d)
        except ArgumentError:
            continue


def tried(seed):
    """One case; returns what broke, or None."""
    g = random.Random(seed)
    d = pick(g, 1, 1, 2, 3, 10, 40)
    estimator = made(g, d)
    relation = pick(g, REPLACE_ONE, ADD_REMOVE)
    n = pick(g, *FEW)
    epsilon = pick(g, *ODD)
    budget = pick(
        g,
        pm.Budget(epsilon=epsilon),
        pm.Budget(epsilon=epsilon, delta=pick(g, 1e-12, 1e-6, 0.01)),
        pm.Budget(rho=epsilon),
    )
    public = {"persons": n} if relation == REPLACE_ONE else {"persons": None, "n_guess": n}
    case = f"seed {seed}: {estimator!r}, {budget}, n={n}, d={d}, {relation}"

    with limit(LONG):
        try:
            plan = planned(estimator, budget, dimension=d, relation=relation, **public)
            within_budget(plan, replace(budget, neighbors=relation))
        except (ArgumentError, InfeasibleError):
            return None
        except Exception:
            return f"{case}\n{traceback.format_exc()}"
    return None


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(0, 2**64))
def test_only_words_come_out(seed):
    broken = tried(seed)
    assert broken is None, broken


@pytest.mark.parametrize("epsilon", [1.649, 0.7])
@pytest.mark.parametrize("recenter", [0.05, 0.15, 0.5])
def test_shares_that_leave_nothing_for_the_mean(epsilon, recenter):
    estimator = pm.WinsorizedMean(pm.SubGaussian(sd=2), range=(-100, 100), recenter=recenter)
    for n in (10, 20, 40, 60, 100):
        problem = ""
        try:
            planned(estimator, pm.Budget(epsilon=epsilon), persons=n)
        except InfeasibleError as error:
            problem = str(error)
        assert not problem or "would do" in problem
