"""Curves on real and simulated tables: error, coverage and statuses by bin, also smoothed.

    python benchmarks/curves.py [--runs 30] [--names mdvis,hours]

People are drawn again with replacement in each run. Error: root mean square (and by the median) of
the estimate less the mean of the people drawn, over its standard error without privacy; coverage is
that of the means of the whole table by the 95 % interval of one point, or of all points by the
band. Half: length of the interval over that of 1.96 standard errors on both sides.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from privmean.data.group_pairs import ArrayPairTable, GroupWeights
from privmean.data.schema import PublicShape
from privmean.data.table import Table
from privmean.estimators.curve_release import local_lines
from privmean.noise.noise_source import SimulatedNoise
from privmean.privacy.budget import ADD_REMOVE, REPLACE_ONE, Budget
from privmean.questions.curve import Curve
from report import few, publish, table
from study_laws import DATA

YEARS = (1, 2, 3, 4, 5, 6)
WAVES = (1968, 1971, 1974, 1977, 1980, 1983, 1986, 1989)
QUARTERS, MONTHS = (0, 90, 180, 365, 546), tuple(30.5 * j for j in range(19))
TWELVE, TERMS = (0, 2, 4, 6, 8, 10, 12), (0, 3, 5, 7, 9, 12, 30)
AGES = (18, 35, 45, 55, 65, 75, 100)
# file, column, time, edges, public bounds, bandwidth; the settings were chosen on the first eight
COLUMNS = {
    "mdvis": ("randhie", "mdvis", "year", YEARS, (0, 80), 1.0),
    "amount": ("cdnow", "amount", "time", QUARTERS, (0, 1300), 90.0),
    "amount, monthly": ("cdnow", "amount", "time", MONTHS, (0, 1300), 60.0),
    "hours": ("nlswork", "hours", "year", (1968, 1975, 1982, 1989), (0, 168), 7.0),
    "ln_wage": ("nlswork", "ln_wage", "year", WAVES, (0, 4), 3.0),
    "simulated, 1 to 6 bins": ("", "spread", "", TWELVE, (0, 100), 2.0),
    "simulated, 1 bin": ("", "one", "", TWELVE, (0, 100), 2.0),
    "lognormal": ("", "lognormal", "", TWELVE, (0, 100), 2.0),
    "mhi": ("randhie", "mhi", "year", YEARS, (0, 100), 1.0),
    "meddol": ("randhie", "meddol", "year", YEARS, (0, 10_000), 1.0),
    "tenure": ("nlswork", "tenure", "year", WAVES, (0, 26), 3.0),
    "wks_work": ("nlswork", "wks_work", "year", WAVES, (0, 104), 3.0),
    "rating": ("insteval", "rating", "lecture_age", (1, 2, 3, 4, 5, 6, 7), (1, 5), 1.0),
    "quantity": ("cdnow", "quantity", "time", QUARTERS, (0, 60), 90.0),
    "systolic": ("nafld_labs", "value", "age", AGES, (60, 260), 10.0),
    "delay": ("nycflights", "dep_delay", "time", (5, 8, 11, 14, 17, 20, 24), (-30, 300), 3.0),
    "union": ("nlswork", "union", "year", WAVES, (0, 1), 3.0),
    "union, Boolean": ("nlswork", "union", "year", WAVES, (0, 1), 3.0),
    "near 10^6": ("", "far", "", TWELVE, (9.9e5, 1.01e6), 2.0),
    "t law, trend": ("", "t", "", TWELVE, (-20, 20), 2.0),
    # these chose no setting
    "body mass": ("nafld_labs", "bmi", "age", AGES, (10, 70), 10.0),
    "experience": ("nlswork", "ttl_exp", "year", WAVES, (0, 30), 3.0),
    "weeks without work": ("nlswork", "wks_ue", "year", WAVES, (0, 80), 3.0),
    "hours by age": ("nlswork", "hours", "age", (14, 20, 25, 30, 35, 40, 50), (0, 168), 5.0),
    "outpatient spending": ("randhie", "outpdol", "year", YEARS, (0, 5000), 1.0),
    "drug spending": ("randhie", "drugdol", "year", YEARS, (0, 1000), 1.0),
    "log spending": ("randhie", "lnmeddol", "year", YEARS, (-3, 11), 1.0),
    "family income": ("randhie", "income", "year", YEARS, (0, 30_000), 1.0),
    "rating by semester": ("insteval", "rating", "student_semester", TERMS, (1, 5), 2.0),
    "service by semester": ("insteval", "service", "student_semester", TERMS, (0, 1), 2.0),
}
TYPES = {"union, Boolean": pl.Boolean}  # declared; other columns are numbers of any size


def simulated(name: str) -> pl.DataFrame:
    rng = np.random.default_rng(5 if name in ("spread", "one", "lognormal") else 17)
    n = 4000
    who = np.repeat(np.arange(n), np.ones(n, int) if name == "one" else rng.integers(1, 7, n))
    t = rng.uniform(0, 12, len(who))
    a, b = rng.normal(size=n)[who], rng.normal(size=len(who))
    values = {
        "lognormal": np.exp(1 + 0.05 * t + 0.6 * a + 0.6 * b),
        "far": 1e6 + 100 * t + 300 * a + 200 * b,
        "t": -3 + 0.3 * t + 2 * a + rng.standard_t(4, len(who)),
    }
    return pl.DataFrame(
        {"p": who, "t": t, "x": values.get(name, 50 + 2 * np.sin(t / 2) + 5 * (a + b))}
    )


def records(name: str) -> pl.DataFrame:
    """Person, time and value of a column."""
    file, column, time, *_ = COLUMNS[name]
    if not file:
        return simulated(column)
    frame = pl.read_parquet(DATA / f"{file}.parquet")
    if file == "nafld_labs":
        frame = frame.filter(pl.col("test") == "sbp")
    at = pl.col(time)
    if file == "cdnow":
        at = (at - at.min()).dt.total_seconds() / 86_400
    if file == "nycflights":
        at = at.dt.hour() + at.dt.minute() / 60
    value = pl.col(column).cast(TYPES.get(name, pl.Float64))
    return frame.select(p="person_id", t=at.cast(pl.Float64), x=value)


@dataclass(frozen=True)
class Panel:
    """One mean a person and bin, NaN for none."""

    name: str

    @property
    def edges(self) -> tuple[float, ...]:
        return tuple(float(x) for x in COLUMNS[self.name][3])

    @cached_property
    def means(self) -> np.ndarray:
        rows, bins = records(self.name), len(self.edges) - 1
        place = np.searchsorted(self.edges, rows["t"].fill_null(-np.inf).to_numpy(), "right") - 1
        rows = rows.with_columns(pl.col("x").cast(pl.Float64), g=pl.Series(place))
        rows = rows.filter(pl.col("p").is_not_null())
        who = rows["p"].unique().sort()
        used = (pl.col("g") >= 0) & (pl.col("g") < bins) & pl.col("x").is_finite()
        found = rows.filter(used).group_by("p", "g").agg(pl.col("x").mean())
        made = np.full((len(who), bins), np.nan)
        made[who.search_sorted(found["p"]).to_numpy(), found["g"].to_numpy()] = found[
            "x"
        ].to_numpy()
        return made

    @cached_property
    def declared(self) -> object:
        """What the type of the values says of them where nothing is given."""
        question = Curve("x", "t", self.edges)
        return question.with_public_facts(Table(records(self.name), person="p")).assume

    @cached_property
    def truth(self) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.nanmean(self.means, axis=0)

    def weights(self, bandwidth: float) -> np.ndarray:
        middles = np.array([(a + b) / 2 for a, b in zip(self.edges, self.edges[1:], strict=False)])
        return local_lines(middles, bandwidth, np.isfinite(self.truth))

    def error(self, weights: np.ndarray) -> np.ndarray:
        """Standard errors of weighted sums of means without privacy."""
        there = ~np.isnan(self.means)
        with np.errstate(all="ignore"):
            rows = np.where(there, self.means - self.truth, 0.0) / np.maximum(there.sum(0), 1)
        return np.sqrt(np.diag(weights @ (rows.T @ rows) @ weights.T))


def released(panel: Panel, means: np.ndarray, relation, bounds, bandwidth, seed, delta):
    question = Curve("x", "t", panel.edges, assume=bounds, smooth=bandwidth)
    asked = question.estimator(1, None, Budget(epsilon=1.0))
    person, group = np.nonzero(~np.isnan(means))
    pairs = ArrayPairTable.of(
        person, group, means[person, group], [key for (key,) in asked.keys],
        GroupWeights(asked.weights.max_groups, True), persons=len(means),
    )  # fmt: skip
    shape = PublicShape(pairs.columns, len(means) if relation == REPLACE_ONE else None)
    budget = Budget(epsilon=1.0, delta=delta, neighbors=relation)
    plan = asked.plan(budget, shape)
    return question.to_release(plan.release(pairs, SimulatedNoise(seed)))


def measured(panel: Panel, relation, bounds, bandwidth, runs, delta=0.0) -> dict[str, float]:
    rng, weights = np.random.default_rng(1), panel.weights(bandwidth)
    se = panel.error(weights)
    goal = weights @ np.nan_to_num(panel.truth)
    errors, held, halves, bands, statuses = [], [], [], [], Counter()
    for seed in range(runs):
        means = panel.means[rng.integers(0, len(panel.means), len(panel.means))]
        made = released(panel, means, relation, bounds, bandwidth, seed, delta)
        ends = np.array([(row.lower, row.upper) for row in made.rows()])
        shown = np.isfinite(made.estimate)
        with np.errstate(all="ignore"):
            plain = weights @ np.nan_to_num(np.nanmean(means, axis=0))
            errors.append((made.estimate - plain) / se)
            halves.append((ends[:, 1] - ends[:, 0]) / 3.92 / se)
        inside = (ends[:, 0] <= goal) & (goal <= ends[:, 1])
        held.append(np.where(shown, inside, np.nan))
        band = made.interval()
        within = (np.array(band.lower) <= goal) & (goal <= np.array(band.upper))
        bands.append(bool(within[shown].all()))
        seen = np.flatnonzero(np.isfinite(panel.truth))
        statuses.update(made.statuses[g] for g in seen)
    square = np.array(errors) ** 2
    with np.errstate(all="ignore"):
        return {
            "error": float(np.sqrt(np.nanmean(square))),
            "by median": float(np.sqrt(np.nanmedian(square) / 0.455)),
            "coverage": float(np.nanmean(held)),
            "least": float(np.nanmin(np.nanmean(held, axis=0))),
            "half": float(np.nanmedian(halves)),
            "band": float(np.mean(bands)),
            "ok": statuses["ok"] / max(sum(statuses.values()), 1),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--names", default="")
    options = parser.parse_args()
    runs = few(options.runs)
    names = [name for name in options.names.split(",") if name] or list(COLUMNS)
    rows, data = [], []
    for name in names:
        if COLUMNS[name][0] and not DATA.exists():
            continue
        panel = Panel(name)
        bounds, bandwidth = COLUMNS[name][4:]
        cases = [
            ("nothing", REPLACE_ONE, panel.declared, 0.0), ("bounds", REPLACE_ONE, bounds, 0.0),
            ("nothing", ADD_REMOVE, panel.declared, 0.0),
            ("nothing, smoothed", REPLACE_ONE, panel.declared, bandwidth),
        ]  # fmt: skip
        for given, relation, known, width in cases:
            found = measured(panel, relation, known, width, runs)
            data.append({"column": name, "given": given, "neighbors": relation} | found)
            told = [f"{x:.3f}" if k == "coverage" else f"{x:.2f}" for k, x in found.items()]
            rows.append([name, f"{len(panel.means):,}", len(panel.truth), given, relation, *told])
            print(*rows[-1], flush=True)
    header = ["column", "people", "bins", "given", "neighbors", "error", "error by median",
              "coverage", "least of a point", "half", "band", "ok"]  # fmt: skip
    publish(
        "curves",
        "Curves over private times",
        f"epsilon = 1, {runs} runs a row.\n\n{table(header, rows)}",
        command=f"python benchmarks/curves.py --runs {options.runs}",
        data=data,
    )


if __name__ == "__main__":
    main()
