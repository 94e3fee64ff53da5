"""Quantiles: how far off they are by exact reckoning, and how often a choice goes astray."""

import math

import numpy as np
import pytest
from scipy import stats

from privmean.data.array_table import ArrayPersonTable
from privmean.data.schema import PublicShape
from privmean.errors import InfeasibleError
from privmean.estimators.quantile_intervals import Distribution, zero_edges
from privmean.estimators.quantiles import MOST, NEEDED, UNIT, Quantiles
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import Budget

QUARTILES = np.array([0.25, 0.5, 0.75])
LAWS = {
    "normal": stats.norm(100, 1), "lognormal": stats.lognorm(1), "exponential": stats.expon(),
    "t3": stats.t(3), "uniform": stats.uniform(), "gamma 1/2": stats.gamma(0.5),
    "weibull .7": stats.weibull_min(0.7), "pareto 2": stats.pareto(2),
    "beta(1/2, 1/2)": stats.beta(0.5, 0.5), "laplace": stats.laplace(50, 3),
}  # fmt: skip


def counted(plan, law, center, unit):
    """The edges of a layout, and the people in its cells without noise."""
    edges = plan.layout.edges_around(center, unit)
    parts = np.concatenate([[0.0], law.cdf(zero_edges(edges)), [1.0]])
    return edges, np.diff(parts) * plan.n


def reckoned(plan, law):
    """Variance of noise in ranks and mean square of what interpolation alone is off, in sampling
    deviations, a quartile: over medians and spreads that may be chosen."""
    n, q = plan.n, QUARTILES
    truth = law.ppf(q)
    sampling = np.sqrt(q * (1 - q) / n) / law.pdf(truth)
    off, noise = [], []
    for center in law.ppf([0.47, 0.5, 0.53]):
        low, high = 0.0, 1e6
        for _ in range(80):
            middle = (low + high) / 2
            inside = law.cdf(center + middle) - law.cdf(center - middle)
            low, high = (middle, high) if inside < 0.5 else (low, middle)
        for part in (1.0, 1.2, 1.4, 1.7, 2.0):  # the power of two above
            unit = UNIT * high * part
            edges, cells = counted(plan, law, center, unit)
            made = Distribution(
                edges, tuple(cells), 1e-9, 1.0, None, tuple(q), center, plan.layout.side
            )
            off.append((made.estimates() - truth) / sampling)
            below = np.searchsorted(edges, truth) + 0.5
            noise.append((1 - q) ** 2 * below + q**2 * (plan.layout.cells - below))
    return np.mean(noise, axis=0) * plan.noise**2, np.mean(np.square(off), axis=0)


@pytest.mark.parametrize("persons", [500, 1000])
@pytest.mark.parametrize("name", LAWS)
def test_the_error_is_at_most_a_fifth_above_that_of_a_told_range(name, persons):
    """Told: the exponential mechanism on ranks, at a third of epsilon a quartile: two geometric
    tails. The sum of variances stands for the error; the benchmark measures it."""
    plan = Quantiles(tuple(QUARTILES)).plan(Budget(epsilon=1.0), PublicShape.of(1, persons))
    noise, off = reckoned(plan, LAWS[name])
    sampling = persons * QUARTILES * (1 - QUARTILES)
    rate = 1 / 6
    told = 2 * math.exp(-rate) / (1 - math.exp(-rate)) ** 2
    ratio = np.sum(1 + noise / sampling + off) / np.sum(1 + told / sampling)
    assert math.sqrt(ratio) < 1.12, (name, math.sqrt(ratio))
    assert np.all(off < 0.4), off


BOUNDED = {
    "exponential": stats.expon(), "uniform": stats.uniform(), "pareto 2": stats.pareto(2),
    "gamma 2": stats.gamma(2), "to the left": stats.beta(5, 1),
    "poles at both ends": stats.beta(0.5, 0.5), "pole and long tail": stats.gamma(0.5),
}  # fmt: skip


def in_pieces(parts, edges):
    return stats.rv_histogram((np.array(parts), np.array(edges)), density=False)


POINT = 1e-6  # the width of a piece that stands for one value
ABOVE = np.linspace(1, 12, 400)
RISE = np.diff(stats.lognorm(0.8).cdf(ABOVE - 1))
NEAR, AWAY = np.linspace(-4, 4, 200), np.linspace(4.5, 5.5, 50)
BULKS = 0.93 * np.diff(stats.norm.cdf(NEAR)), 0.07 * np.diff(stats.norm(5, 0.15).cdf(AWAY))
UNEVEN = {
    "many at the least value": in_pieces([0.08 * RISE.sum(), *RISE], [1 - POINT, *ABOVE]),
    "many at the largest value": in_pieces(
        [*RISE[::-1], 0.08 * RISE.sum()], [*-ABOVE[::-1], POINT - 1]
    ),
    "a second bulk": in_pieces([*BULKS[0], 0.0, *BULKS[1]], [*NEAR, *AWAY]),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "persons"),
    [*((x, n) for x in BOUNDED for n in (1000, 20_000)), *((x, 2500) for x in UNEVEN)],
)
def test_intervals_hold_quantiles_where_a_law_begins_or_ends_inside_of_a_cell(name, persons):
    """Counts without noise: what misses is interpolation. The interval of many persons is the
    shortest beside it."""
    law, points = (BOUNDED | UNEVEN)[name], (0.02, 0.05, 0.1, 0.9, 0.95, 0.98)
    plan = Quantiles(points).plan(Budget(epsilon=1.0), PublicShape.of(1, persons))
    held, truth = [], law.ppf(points)
    for center in law.ppf([0.47, 0.5, 0.53]):
        middle = float(np.median(np.abs(law.ppf((np.arange(2000) + 0.5) / 2000) - center)))
        for part in np.linspace(1.0, 2.0, 9):
            edges, cells = counted(plan, law, center, UNIT * middle * part)
            made = Distribution(
                edges, tuple(cells), 1e-9, 1.0, None, points, center, plan.layout.side
            ).alone(0.95)
            above, below = truth + 3 * POINT, truth - 3 * POINT
            held.append((np.array(made.lower) <= above) & (below <= np.array(made.upper)))
    assert np.mean(held) > 0.97, np.mean(held, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("value", [100.0, 3e-6, 4e8])
def test_the_least_budget_shows_where_values_lie(value):
    """People in one octave: the worst place for a choice, since none beside it is as good."""
    values = value * (1 + np.random.default_rng(0).random(1000) / 4)
    least = sum(NEEDED) / len(values) / MOST
    shape, people = PublicShape.of(1, len(values)), ArrayPersonTable(values[:, None], ("y",))
    plan = Quantiles((0.5,)).plan(Budget(epsilon=float(least) * 1.0001), shape)
    for seed in range(200):
        found = plan.release(people, SimulatedNoise(seed))
        assert found.status == "ok"
        assert abs(found.estimate[0] / np.median(values) - 1) < 0.1
    with pytest.raises(InfeasibleError, match="about"):
        Quantiles((0.5,)).plan(Budget(epsilon=float(least) * 0.99), shape)


@pytest.mark.parametrize("money", [{"epsilon": 1.0}, {"rho": 0.5}])
def test_the_number_that_a_refusal_names_would_do(money):
    for settings in ({}, {"bounds": (0.0, 1.0)}):
        asked = Quantiles((0.5,), **settings)
        with pytest.raises(InfeasibleError) as refused:
            asked.plan(Budget(**money), PublicShape.of(1, 50))
        enough = int(str(refused.value).split("about ")[1].split()[0])
        asked.plan(Budget(**money), PublicShape.of(1, enough))
        with pytest.raises(InfeasibleError):
            asked.plan(Budget(**money), PublicShape.of(1, enough - 2))


def test_quantiles_far_out_keep_their_cells():
    """Few cells are for quantiles near the median; those of a tail have edges there."""
    for persons in (500, 1000):
        near = Quantiles((0.25, 0.75)).plan(Budget(epsilon=1.0), PublicShape.of(1, persons)).layout
        far = Quantiles((0.05, 0.5)).plan(Budget(epsilon=1.0), PublicShape.of(1, persons)).layout
        assert len(near.wider) < len(far.wider)
