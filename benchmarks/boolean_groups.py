"""Shares of a Boolean column by group: coverage and length of intervals beside the sampling error.

A Boolean type gives the bounds 0 and 1. Made tables have 15 groups of 80 to 1500 people, one value
each, at the shares of the table; people of `records` have several records each, so that their
means lie between 0 and 1. The second table is of columns that no setting was chosen on.

    python benchmarks/boolean_groups.py [--runs 60]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import polars as pl

import privmean as pm
from report import few, publish, table

SIZES = np.geomspace(80, 1500, 15).astype(int)
SHARES = (0.98, 0.9, 0.5, 0.02)
RECORDS = (5, 20)
Rows = list[tuple[float, float, float, float]]  # lower, upper, sampling deviation, truth


def made(shares: np.ndarray, rng: np.random.Generator, records: int = 1) -> pl.DataFrame:
    """A table of people with so many records of equal chance, by the share of their group."""
    group = np.repeat(np.arange(len(SIZES)), SIZES).repeat(records)
    who = np.arange(SIZES.sum()).repeat(records)
    return pl.DataFrame({"who": who, "group": group, "yes": rng.random(len(who)) < shares[group]})


def rows_of(frame: pl.DataFrame, keys: list[str], seed: int) -> list[tuple[float, float]]:
    """The ends of every group."""
    release = pm.mean(
        frame, "yes", person="who", by="group", keys=keys, epsilon=1.0,
        noise=pm.SimulatedNoise(seed),
    )  # fmt: skip
    return [(row.lower, row.upper) for row in release.rows()]


def summary(found: Rows) -> list[object]:
    """Coverage, half lengths over 1.96 sampling deviations, and ends beyond 0 and 1."""
    lower, upper, sd, truth = np.array(found).T
    shown = ~np.isnan(lower)
    held = ((lower <= truth) & (truth <= upper))[shown]
    half = ((upper - lower) / 2 / (1.96 * sd))[shown & (sd > 0)]
    beyond = ((lower < 0) | (upper > 1))[shown]
    return [
        f"{held.mean():.3f}", f"{np.median(half):.2f}", f"{np.quantile(half, 0.9):.2f}",
        int(beyond.sum()), f"{shown.mean():.0%}", int(shown.sum()),
    ]  # fmt: skip


def on_shares(
    share: float, records: int, runs: int, first: int, smallest: float | None = None
) -> list[object]:
    """One row of a made table. smallest: the share of the smallest group, which alone is told."""
    found: Rows = []
    keys = [str(j) for j in range(len(SIZES))]
    shares = np.full(len(SIZES), share)
    if smallest is not None:
        shares[0] = smallest
    told = len(SIZES) if smallest is None else 1
    sd = np.sqrt(shares * (1 - shares) / records / SIZES)
    for seed in range(first, first + runs):
        ends = rows_of(made(shares, np.random.default_rng(seed), records), keys, seed)
        found += [(*ends[j], sd[j], shares[j]) for j in range(told)]
    return summary(found)


def on_real(name: str, runs: int) -> list[object]:
    """Persons drawn again; the truth is the share of the whole table."""
    people = REAL[name]()
    names = sorted(people["group"].unique().to_list())
    own = people.group_by("who", "group").agg(pl.col("yes").mean())
    whole = own.group_by("group").agg(
        pl.col("yes").mean().alias("mean"), pl.col("yes").std().alias("sd"), pl.len().alias("n")
    )
    known = {row["group"]: row for row in whole.to_dicts()}
    everybody = people["who"].unique(maintain_order=True)
    found: Rows = []
    for seed in range(runs):
        rng = np.random.default_rng(7000 + seed)
        drawn = everybody.gather(rng.integers(0, len(everybody), len(everybody)))
        again = pl.DataFrame({"who": drawn, "again": np.arange(len(drawn))}).join(people, on="who")
        again = again.drop("who").rename({"again": "who"})
        for key, (low, high) in zip(names, rows_of(again, names, seed), strict=True):
            row = known[key]
            found.append((low, high, row["sd"] / np.sqrt(row["n"]), row["mean"]))
    return summary(found)


def nlswork(column: str) -> pl.DataFrame:
    """Yes or no of women, by industry: the industry of most records."""
    frame = pl.DataFrame(pm.example("nlswork"))
    frame = frame.filter(pl.col(column).is_between(0, 1) & pl.col("ind_code").is_between(1, 12))
    most = frame.group_by("person_id").agg(pl.col("ind_code").mode().sort().first().alias("group"))
    frame = frame.join(most, on="person_id").filter(pl.col("ind_code") == pl.col("group"))
    return frame.select(
        pl.col("person_id").alias("who"), pl.col("group").cast(pl.Int64).cast(pl.String),
        (pl.col(column) == 1).alias("yes"),
    )  # fmt: skip


def ratings() -> pl.DataFrame:
    """Whether a student gives the best mark, by a public part of the ids."""
    frame = pl.DataFrame(pm.example("ratings"))
    return frame.select(
        pl.col("student").alias("who"), (pl.col("student").hash(1) % 12).cast(pl.String)
        .alias("group"), (pl.col("rating") == 5).alias("yes"),
    )  # fmt: skip


REAL: dict[str, Callable[[], pl.DataFrame]] = {
    "union (nlswork, by industry)": lambda: nlswork("union"),
    "south (nlswork, by industry)": lambda: nlswork("south"),
    "best mark (ratings, 12 groups)": ratings,
}
HEAD = ["coverage", "half/1.96 se", "90 % point", "ends beyond", "shown", "rows"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--first", type=int, default=100, help="the first seed")
    runs, first = few(parser.parse_args().runs), parser.parse_args().first
    cases = [(share, 1) for share in SHARES] + [(0.9, many) for many in RECORDS]
    made_rows: list[list[object]] = [
        [f"{share}, {records} a person", *on_shares(share, records, runs, first)]
        for share, records in cases
    ]
    made_rows += [
        [f"{own} of 80 people, {share} elsewhere", *on_shares(share, 1, 5 * runs, first, own)]
        for own, share in ((0.02, 0.5), (0.5, 0.02))
    ]
    real: list[list[object]] = [[name, *on_real(name, few(runs // 2))] for name in REAL]
    publish(
        "boolean-groups",
        "Shares of a Boolean column by group",
        table(["share", *HEAD], made_rows) + "\n\n" + table(["column", *HEAD], real),
        command=f"python benchmarks/boolean_groups.py --runs {runs} --first {first}",
    )


if __name__ == "__main__":
    main()
