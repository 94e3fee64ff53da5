"""Responses at public times take the road: a ledger, a level, a bill that the curator writes."""

import numpy as np
import pytest

import privmean as pm
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.ledger import Ledger

TIMES = np.arange(1, 201) / 200
RESPONSES = np.sin(6 * TIMES)
SETTINGS = [{"cells": 5}, {"cells": 5, "bandwidth": 0.1, "at": (0.2,)},
            {"bandwidth": 0.05, "at": (0.3, 0.7)}]  # fmt: skip
BUDGETS = [pm.Budget(epsilon=1.0), pm.Budget(rho=0.3)]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda item: item.describe())
def test_one_charge_one_bill_one_level(settings, budget):
    plan = pm.FixedDesign((-1.0, 1.0), **settings).plan(budget, times=TIMES)
    ledger = Ledger(epsilon=3.0) if budget.rho is None else Ledger(rho=1.0)
    release = plan.release(RESPONSES, SimulatedNoise(1), ledger=ledger, level=0.8)
    (entry,) = ledger.entries
    assert entry.unit == release.guarantee.unit == "response"
    assert release.guarantee.mechanisms == plan.events
    assert release.interval().level == 0.8
    assert release.to_dict()["provenance"]["ledger"]["number"] == 1
    assert len(release.columns) == len(release.rows()) == len(plan.points)
    assert plan.predict(1.0)["rmse"] > 0


def test_nothing_is_charged_for_responses_that_do_not_fit():
    plan = pm.FixedDesign((-1.0, 1.0), cells=5).plan(BUDGETS[0], times=TIMES)
    ledger = Ledger(epsilon=1.0)
    with pytest.raises(pm.ArgumentError, match="responses"):
        plan.release(RESPONSES[1:], ledger=ledger)
    assert list(ledger.entries) == []
    plan.release(RESPONSES, ledger=ledger)
    with pytest.raises(pm.BudgetExceededError):
        plan.release(RESPONSES, ledger=ledger)
