"""From a budget to noise: tight, within the budget, and small at any epsilon."""

import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from privmean.privacy.budget import Budget
from privmean.privacy.compose import calibrate, within
from privmean.privacy.privacy_events import Gaussian, Laplace, Threshold

LATTICE = 2.0**20


def mixed(strength):
    """A histogram, its threshold, a Laplace sum and a Gaussian sum."""
    return (
        Laplace("histogram", 2, 20 / Fraction(strength), cells_changed=2),
        Threshold("threshold", 4e-7, 50.0),
        Laplace("sum", 2**21, Fraction(2**21) * 5 / Fraction(strength)),
        Gaussian("final", strength / 4 * LATTICE, LATTICE, 10),
    )


def gaussian(strength):
    return (Gaussian("sum", strength * LATTICE, LATTICE, 1),)


def laplace(strength):
    return (Laplace("sum", 1, 1 / Fraction(strength)), Laplace("again", 1, 2 / Fraction(strength)))


BUDGETS = [
    Budget(epsilon=1.0, delta=1e-6),
    Budget(epsilon=0.01, delta=1e-6),
    Budget(epsilon=20.0, delta=5e-7),
]


@pytest.mark.slow
@pytest.mark.parametrize("bill", [mixed, gaussian, laplace])
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda b: b.describe())
def test_the_answer_fits_and_slightly_more_does_not(bill, budget):
    strength = calibrate(bill, budget)
    assert strength > 0
    assert within(bill(strength), budget)
    assert not within(bill(strength * 1.00001), budget)


@pytest.mark.parametrize("rho", [1e-6, 0.1, 8.0])
def test_zcdp_has_a_closed_form(rho):
    assert math.isclose(calibrate(gaussian, Budget(rho=rho)), math.sqrt(2 * rho), rel_tol=1e-8)
    strength = calibrate(laplace, Budget(rho=rho))  # (t^2 + t^2/4)/2 = rho
    assert math.isclose(strength, math.sqrt(1.6 * rho), rel_tol=1e-8)


def test_pure_budgets_are_met_to_the_last_digit():
    strength = calibrate(laplace, Budget(epsilon=0.3))
    assert math.isclose(strength, 0.2, rel_tol=2e-9)
    assert calibrate(gaussian, Budget(epsilon=1.0)) == 0  # no Gaussian noise is pure


def test_an_impossible_bill_has_strength_zero():
    bill = [Threshold("threshold", 1e-3, 5.0)]
    assert calibrate(lambda t: [*laplace(t), *bill], Budget(epsilon=1.0, delta=1e-6)) == 0


def test_gaussian_mu_of_a_budget_carries_its_own_correction():
    for budget in (*BUDGETS, Budget(epsilon=0.02, delta=1e-9), Budget(epsilon=1e-5, delta=1e-8)):
        for answers in (1, 50, 1000):
            mu = budget.gaussian_mu(answers)
            assert within([Gaussian("g", mu * LATTICE, LATTICE, answers)], budget)
        assert not within(
            [Gaussian("g", budget.gaussian_mu() * 1.00001 * LATTICE, LATTICE, 1)], budget
        )


PROBE = """
import json, re, sys
sys.path.insert(0, sys.argv[1])
from test_calibrate import mixed, within
from privmean.privacy import compose as module
from privmean.privacy.budget import Budget
asked, real = [], module.total_delta
def counted(losses, epsilon, grid=True, **others):
    asked.append(grid)
    return real(losses, epsilon, grid=grid, **others)
module.total_delta = counted
most = [0, 0]
for epsilon in (0.001, 0.01, 1.0, 50.0):
    asked.clear()
    budget = Budget(epsilon=epsilon, delta=1e-6)
    strength = module.calibrate(mixed, budget)
    most = max(most[0], len(asked)), max(most[1], sum(asked))
    assert within(mixed(strength), budget)
# not resource.getrusage: what that says begins with the process that started this one
status = open("/proc/self/status").read()
print(json.dumps({"asked": most, "kilobytes": int(re.search(r"VmHWM:\\s+(\\d+)", status)[1])}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_calibration_from_a_thousandth_to_fifty_asks_little_and_stays_small():
    """A process of its own: few compositions a call, those on grids apart, below half a GB."""
    run = subprocess.run(
        [sys.executable, "-c", PROBE, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    measured = json.loads(run.stdout)
    closed, grids = measured["asked"]
    assert closed <= 150
    assert grids <= 25
    assert measured["kilobytes"] < 500_000


@pytest.mark.slow
def test_a_thousand_columns_gain_by_the_grid():
    """Two thousand Laplace counts in one grid: better than by zCDP."""

    def counts(strength):
        each = Laplace("column", 2, 2000 / Fraction(strength), cells_changed=2)
        return (each,) * 1000

    budget = Budget(epsilon=1.0, delta=1e-6)
    strength = calibrate(counts, budget)
    assert within(counts(strength), budget)
    assert strength > calibrate(counts, budget, grid=False)
