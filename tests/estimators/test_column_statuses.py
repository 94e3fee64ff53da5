"""One status of every column: what a release states of it is what its interval states."""

import warnings

import numpy as np
import pytest

import privmean as pm
from plans import planned
from privmean.data.array_table import ArrayPersonTable
from privmean.data.schema import PublicShape
from privmean.errors import ArgumentError, InfeasibleError
from privmean.estimators.concentration import SubGaussian
from privmean.estimators.means.choose_vector_method import ALONE, TOGETHER, WINSORIZED, Cheapest
from privmean.estimators.means.default_mean import DefaultMean
from privmean.estimators.winsorized import WinsorizedMean
from privmean.inference.status import OK, release_status
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget

BUDGETS = (
    {"epsilon": 0.7}, {"epsilon": 8.0}, {"epsilon": 1.0, "delta": 1e-6},
    {"epsilon": 4.0, "delta": 1e-6}, {"rho": 0.3},
)  # fmt: skip
NORMAL = "normal"
WIDTHS = (1, 3, 5, 20)


def table(columns, n=1500):
    """Columns of all kinds: calm, skewed, with a far group, nearly one value, half without one."""
    g = np.random.default_rng(columns)
    kinds = [
        lambda: 5 + g.normal(size=n),
        lambda: np.exp(1.5 * g.normal(size=n)),
        lambda: np.where(g.random(n) < 0.03, 1e4, g.normal(size=n)),
        lambda: np.where(g.random(n) < 0.002, 0.0, 1.0),
        lambda: np.where(g.random(n) < 0.5, np.nan, 50 + g.normal(size=n)),
        lambda: np.full(n, np.nan),
        lambda: (1 - g.random(n)) ** (-1 / 1.2),
    ]
    x = np.array([kinds[(j + columns) % len(kinds)]() for j in range(columns)]).T
    return ArrayPersonTable(x, tuple(f"c{j}" for j in range(columns)))


def plans(budget, columns, n, count):
    """Every way to the means of these columns that the public numbers allow."""
    known = n if budget.neighbors == REPLACE_ONE else None
    shape = PublicShape.of(columns, known, count)
    found = dict(Cheapest().candidates(budget, shape, (ALONE, TOGETHER, WINSORIZED)))
    makers = {
        "target mean": DefaultMean(target="mean"),
        "target clipped": DefaultMean(target="clipped"),
        NORMAL: WinsorizedMean(SubGaussian(2.0), range=(-1e6, 1e6), fallback=0.0),
    }
    for name, maker in makers.items():
        try:
            found[name] = maker.plan(budget, shape)
        except (InfeasibleError, ArgumentError):
            continue
    return found


def agree(release):
    statuses = release.statuses or (release.status,) * len(release.columns)
    each = [release.row_interval(j) for j in range(len(release.columns))]
    assert [item.status for item in each] == list(statuses)
    assert [row.status for row in release.rows()] == list(statuses)
    assert release.interval().status == release.status == release_status(statuses)
    for item in each:
        if item.status == OK and release.plan.describe().get("target") != "clipped":
            assert item.target in ("mean", "mean within bounds")
    stored = release.to_dict()
    assert stored["status"] == stored["interval"]["status"]
    return statuses


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("columns", WIDTHS)
def test_a_release_and_its_intervals_state_the_same(columns, neighbors):
    people, seen, ways = table(columns), set(), set()
    n = people.size()
    for said in BUDGETS:
        budget = Budget(**said, neighbors=neighbors)
        for name, plan in plans(
            budget, columns, n, None if neighbors == REPLACE_ONE else n
        ).items():
            for seed in range(1 if name in (WINSORIZED, NORMAL) else 2):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    release = plan.release(people, SimulatedNoise(seed))
                seen.update(agree(release))
                ways.add(name)
    assert len(seen) > 1
    assert ways


def test_bounded_columns_state_the_same():
    people = table(5)
    bounds = [(0, 10), (0, 1), (0, 10), (1, 2), (0, 100)]
    plan = planned(pm.BoundedMean(bounds), Budget(epsilon=2.0), persons=people.size(), dimension=5)
    statuses = agree(plan.release(people, SimulatedNoise(1)))
    assert len(set(statuses)) > 1
