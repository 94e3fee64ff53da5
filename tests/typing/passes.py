"""What a user writes: it must pass `mypy --strict` and pyright in strict mode. It is never run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

import privmean as pm
from privmean import local
from privmean.streams import ErrorGoal, StreamPlan
from privmean.streams import plan as plan_stream

rng = np.random.default_rng(1)
values = rng.normal(3, 1, 1000)
frame = pl.DataFrame({"who": [1, 1, 2], "wage": [3.0, 4.0, 5.0]})

# people in memory, files, frames, arrays by name
one: pm.Release = pm.mean([1.0, 2.0, 3.0], epsilon=1.0)
one = pm.mean([1, 2, 3], epsilon=1)
one = pm.mean(((1.0, 2.0), (3.0, 4.0)), rho=0.5)
one = pm.mean(values, epsilon=1.0, delta=1e-6, bounds=(0, 8))
one = pm.mean("panel.parquet", "wage", person="who", epsilon=1.0)
one = pm.mean(Path("panel.csv"), ["wage", "hours"], person="who", epsilon=1.0)
one = pm.mean(frame, "wage", person="who", epsilon=1.0)
one = pm.mean(frame.lazy(), "wage", person="who", epsilon=1.0, neighbors="add-remove", n_guess=9)
one = pm.mean({"who": values, "wage": values}, "wage", person="who", epsilon=1.0)
one = pm.mean(values, person=np.arange(1000), epsilon=1.0)
people = pm.read(frame, person="who", values=["wage"], estimand="records", max_records=5)
one = pm.mean(people, epsilon=1.0, ledger=pm.Ledger(epsilon=3.0), noise=pm.SimulatedNoise(1))
table = pm.Table(
    "panel.csv", person="who", delimiter=";", resources=pm.Resources(memory_limit="4GB")
)
one = pm.mean(table, "wage", epsilon=1.0, level=0.9)

# what accuracy may rest on, and who answers
one = pm.mean(values, epsilon=1.0, assume=(0.0, 8.0))
one = pm.mean(values, epsilon=1.0, assume=[(0.0, 8.0)])
one = pm.mean(values, epsilon=1.0, assume=pm.SubGaussian(sd=1.0))
one = pm.mean(values, epsilon=1.0, assume=pm.BoundedMoment(4, 1.4, range=(-9, 9)))
one = pm.mean(values, epsilon=1.0, assume=pm.Covariance([1.0, 4.0]))
one = pm.mean(values, epsilon=1.0, concentration=pm.UnknownScale(), delta=1e-6)
one = pm.mean(values, epsilon=1.0, covariance=1.0, delta=1e-6, method="anisotropic")
one = pm.mean(values, epsilon=1.0, method=pm.DefaultMean(target="mean"))
one = pm.mean(values, epsilon=1.0, method=pm.WinsorizedMean(pm.SubGaussian(1.0), range=(-9, 9)))
one = pm.mean(values, epsilon=1.0, method=pm.HeavyTailedMean(pm.BoundedMoment(2, 1.0)))
one = pm.mean(values, epsilon=1.0, method=pm.BoundedMean((0, 9)))
one = pm.mean(values, epsilon=1.0, method=pm.AnisotropicMean(1.0))
effects = pm.RandomEffects(group_sd=0.1, within_sd=1.0, records=5, group="school")
one = pm.mean(table, "wage", clustering=effects, epsilon=1.0, delta=1e-6)

# the other questions, and what their releases are
fit: pm.RegressionRelease = pm.regress(
    table,
    "y ~ a + b",
    effect="per_person",
    working=pm.AR1(0.4),
    time="year",
    assume=pm.WorkingErrors(0.3),
    epsilon=1.0,
)
line: pm.CurveRelease = pm.curve(table, "y", time="year", bins=[0, 1, 2], epsilon=1.0)
one = pm.variance(table, "y", clustering=2.0, rho=0.5)
fit = pm.ask(
    table,
    pm.Regression("y ~ a", effect="per_person", threshold=0.05, method=pm.PrivateScale()),
    epsilon=1.0,
)
line = pm.ask(table, pm.Curve("y", "year", (0, 1, 2), assume=(0, 8)), epsilon=1.0)
one = pm.ask(table, pm.Mean("wage", resolution=2.0**-10), epsilon=1.0)
parts: pm.QuantileRelease = pm.quantile(table, "y", [0.25, 0.5], bounds=(0, 8), epsilon=1.0)
parts = pm.ask(table, pm.Quantile("y", (0.5,)), epsilon=1.0)
number: float = float(one)
low: float = one.interval(0.99).lower[0]
text: str = one.summary()
stored = one.to_dict()
found: pm.Verification = pm.verify(stored)
points: tuple[float, ...] = line.at

# before any data
planned = pm.plan(pm.Mean(method="default"), n=1000, columns=3, epsilon=1.0)
error: float = planned.predict(1.0)["rmse"]
bill = planned.events
for question in (pm.Regression("y ~ a"), pm.Curve("y", "year", (0, 1, 2)), pm.Quantile("y")):
    bill = pm.plan(question, n=1000, epsilon=1.0).events
bill = pm.plan(pm.Variance("y"), n=1000, epsilon=1.0).events
bill = pm.plan(pm.Compare("y", arms="treated"), n=1000, epsilon=1.0).events
least: int = pm.required_n(pm.Mean(assume=(0, 8)), target_error=0.1, guess_sd=1.0, epsilon=1.0)
design = pm.FixedDesign((0.0, 1.0), cells=8).plan(pm.Budget(epsilon=1.0), times=values)
stream_plan: StreamPlan = plan_stream(
    rho=0.5, steps=64, max_participations=4, min_separation=1, bounds=(0, 1)
)
goal = ErrorGoal
client = local.Client
pm.curve(table, "y", time="day", bins=["2025-01-01", "2026-01-01"], epsilon=1.0)
