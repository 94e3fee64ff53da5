"""Smoothed curves over private times and the difference of two, in one budget."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import privmean as pm
from privmean.cli.app import run
from privmean.data.array_table import ArrayPersonTable
from privmean.data.public_shape import PublicShape
from privmean.errors import ArgumentError
from privmean.mechanisms.curator import TrustedCurator
from privmean.models.joint_bins import JointBins, local_lines
from privmean.noise.simulated import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.privacy.calibrate import within
from statistics_kit import assert_rate_at_least, assert_rate_at_most

AT = (0.5, 1.5, 2.5, 3.5, 4.5)
MONEY = [{"epsilon": 3.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.3}]


def bins_of(rng, persons, both=False):
    """Means of bins that share a person's effect, some missing; the second group .3 higher."""
    effect = rng.normal(0, 0.5, persons)

    def one(shift):
        y = 2 + 0.5 * np.sin(np.array(AT)) + shift + effect[:, None]
        y = y + rng.normal(0, 0.4, (persons, len(AT)))
        return np.where(rng.random(y.shape) < 0.6, y, np.nan)

    if not both:
        return one(0.0)
    group = rng.random(persons) < 0.5
    first, second = one(0.0), one(0.3)
    first[group], second[~group] = np.nan, np.nan
    return np.hstack([first, second])


def people(values):
    return ArrayPersonTable(values, tuple(map(str, range(values.shape[1]))))


def plan_of(settings, budget, persons):
    known = persons if budget.neighbors == REPLACE_ONE else None
    return settings.plan(budget, PublicShape(tuple(map(str, range(settings.bins))), known, persons))


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_REMOVE])
@pytest.mark.parametrize("money", MONEY)
def test_one_person_moves_the_release_by_at_most_its_loss(money, relation):
    settings = JointBins((0.0, 4.0), AT, 1.0)
    budget = Budget(**money, neighbors=relation)
    plan = plan_of(settings, budget, 51)
    assert within(plan.events, budget)
    others = bins_of(np.random.default_rng(0), 50)
    odd = [np.full(5, x) for x in (math.nan, math.inf, -math.inf, 1e300, 0.0, 4.0, 2.0, -1e300)] + [
        np.array([4.0, math.nan, 0.0, 4.0, math.inf])
    ]

    class Kept(TrustedCurator):
        def ask(self, mechanism, exact):
            self.asked = mechanism, exact
            return super().ask(mechanism, exact)

    def answer(values):
        curator = Kept(people(values), SimulatedNoise(0))
        plan.run(curator)
        return curator.asked

    first = [answer(np.vstack([others, row])) for row in odd]
    if relation == ADD_REMOVE:
        first.append(answer(others))
    worst = Fraction(0)
    for _, one in first[-1:] if relation == ADD_REMOVE else first:
        for mechanism, two in first:
            worst = max(worst, *mechanism.sensitivity_share(one, two))
    assert worst <= 1
    assert worst > 0.3  # a person in every bin at a limit; counts have one sign


def test_local_lines_reproduce_lines_and_add_up_to_one():
    at = np.array(AT)
    for used in (np.ones(5, bool), np.array([True, False, True, True, False])):
        weights = local_lines(at, 1.0, used)
        assert np.allclose(weights.sum(axis=1), 1)
        assert np.allclose(weights @ (3 - 2 * at), 3 - 2 * at)
        assert not weights[:, ~used].any()


CASES = [(0.0, False), (1.0, False), (0.0, True), (1.0, True)]


@pytest.mark.parametrize(("bandwidth", "both"), CASES)
@pytest.mark.parametrize("money", [{"epsilon": 2.0, "delta": 1e-6}, {"rho": 0.5}])
def test_intervals_and_bands_hold_as_often_as_said(bandwidth, both, money):
    settings = JointBins((0.0, 4.0), AT, bandwidth, both)
    plan = plan_of(settings, Budget(**money), 3000)
    truth = np.nanmean(np.clip(bins_of(np.random.default_rng(9), 300_000, both), 0, 4), axis=0)
    lines = local_lines(np.array(AT), bandwidth, np.ones(5, bool))
    truth = lines @ (truth[5:] - truth[:5]) if both else lines @ truth
    runs, alone, number, band = 40, 0, 0, 0
    for seed in range(runs):
        release = plan.release(
            people(bins_of(np.random.default_rng(100 + seed), 3000, both)), SimulatedNoise(seed)
        )
        made = release.interval()
        low, high = np.array(made.lower), np.array(made.upper)
        band += bool(np.all((low <= truth) & (truth <= high)))
        for j in range(5):
            one = release.intervals.column(j).interval(0.95)
            alone += one.lower[0] <= truth[j] <= one.upper[0]
            number += 1
    assert_rate_at_least(alone, number, 0.95)
    assert_rate_at_least(band, runs, 0.95)
    if "rho" in money:  # where noise is small they are not longer than they need to be
        assert_rate_at_most(alone, number, 0.985)


def table(persons=4000):
    rng = np.random.default_rng(1)
    who = np.repeat(np.arange(persons), 3)
    arm = (np.arange(persons) % 2)[who]
    time = rng.uniform(0, 5, len(who))
    y = 2 + 0.2 * time + 0.5 * arm + rng.normal(0, 0.5, len(who))
    return pl.DataFrame(
        {"who": who, "t": time, "y": y, "arm": arm, "name": np.where(arm == 1, "new", "old")}
    )


@pytest.mark.parametrize(("by", "levels"), [("arm", (0, 1)), ("name", ("old", "new"))])
def test_a_difference_of_two_curves(by, levels, tmp_path, capsys):
    said = {"time": "t", "bins": (0, 1, 2, 3, 4, 5), "person": "who", "bounds": (0, 6)}
    made = pm.curve(
        table(), "y", **said, by=by, levels=levels, smooth=1.0, epsilon=4.0, delta=1e-6,
        noise=SimulatedNoise(1),
    )  # fmt: skip
    assert made.at == AT
    assert f"Difference of the mean of y by t, {by} {levels[1]} - {levels[0]}\n" in str(made)
    shown = made.table()
    assert np.all((shown.lower < 0.5) & (shown.upper > 0.5))
    assert np.all(shown.band_upper - shown.band_lower > shown.upper - shown.lower)
    assert np.all(shown.upper - shown.lower < 0.6)
    assert made.guarantee.verify()
    file = tmp_path / "t.csv"
    table().write_csv(file)
    asked = [
        "curve", str(file), "--value", "y", "--time", "t", "--bins", "0,1,2,3,4,5",
        "--person", "who", "--bounds", "0", "6", "--smooth", "1", "--by", by,
        "--arm", str(levels[0]), "--arm", str(levels[1]), "--epsilon", "4", "--json",
    ]  # fmt: skip
    assert run(asked) == 0, capsys.readouterr().err
    assert len(json.loads(capsys.readouterr().out)["curve"]["at"]) == 5


def test_a_bin_that_holds_nobody_is_a_gap_and_does_not_bend_the_others():
    made = pm.curve(
        table(), "y", time="t", bins=(-2, -1, 0, 1, 2, 3, 4, 5), person="who", bounds=(0, 6),
        smooth=0.8, epsilon=4.0, delta=1e-6, noise=SimulatedNoise(1),
    )  # fmt: skip
    statuses = [row.status for row in made.rows()]
    assert statuses[:2] == ["suppressed"] * 2
    assert statuses[2:] == ["ok"] * 5
    assert np.isnan(made.estimate[:2]).all()
    assert np.allclose(made.estimate[2:], 2.25 + 0.2 * np.array(AT), atol=0.2)
    nobody = pm.curve(
        table().with_columns(y=None).cast({"y": pl.Float64}), "y", time="t", bins=(0, 1, 2),
        person="who", bounds=(0, 6), smooth=0.8, epsilon=4.0, noise=SimulatedNoise(1),
    )  # fmt: skip
    assert nobody.failed
    assert nobody.summary()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"smooth": -1.0}, "smooth"),
        ({"smooth": 1.0}, "bounds"),
        ({"by": "arm", "bounds": (0, 4)}, "levels"),
        ({"by": "arm", "levels": (1, 1), "bounds": (0, 4)}, "levels"),
        ({"by": "arm", "levels": (1, "a"), "bounds": (0, 4)}, "levels"),
        ({"levels": (0, 1)}, "levels"),
        ({"smooth": 1.0, "bounds": (0, 4), "bins": range(60)}, "bins"),
    ],
)
def test_arguments_are_checked_before_data(arguments, name):
    said = {"time": "t", "bins": (0, 1, 2), "person": "who", "epsilon": 1.0} | arguments
    with pytest.raises(ArgumentError, match=name):
        pm.curve("no such file.csv", "y", **said)
