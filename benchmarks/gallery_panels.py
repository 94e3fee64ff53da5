"""Two stories of the gallery on the real panels that their simulated tables stand for.

Visits in the RAND Health Insurance Experiment (randhie) and blood pressure of a laboratory cohort
(nafld_labs), whose licences do not let privmean ship them: the questions of the pages, beside the
answers without privacy. Reads ../shared/data.

    python benchmarks/gallery_panels.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

import privmean as pm
from privmean.noise.noise_source import SimulatedNoise
from privmean.release.stored_release import Row
from report import publish, table

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
AGES = ("under 45", "45-64", "65 and over")


def mean(rows: pl.DataFrame, value: str, *given: pl.Expr) -> float:
    """The mean of person means, without privacy."""
    kept = rows.filter(*given) if given else rows
    return float(kept.group_by("person_id").agg(pl.col(value).mean())[value].mean())


def insurance() -> list[list[object]]:
    rows = pl.read_parquet(DATA / "randhie.parquet").select("person_id", "coins", "mdvis")
    # the plan of a person's first year, as in the release
    first = rows.group_by("person_id", maintain_order=True).agg(pl.col("coins").first())
    rows = rows.drop("coins").join(first, on="person_id")
    rows = rows.with_columns((pl.col("coins") == 0).alias("free"), pl.col("mdvis").alias("visits"))
    rows = rows.with_columns((pl.col("visits") > 0).alias("any_visit"))
    study = pm.Study(pm.Table(rows, person="person_id"), epsilon=2)
    arms = {"arms": "free", "membership": "public"}
    study.add("effect", pm.Compare("visits", **arms), weight=2)
    study.add("any visit", pm.Compare("any_visit", **arms))
    found = study.release(noise=SimulatedNoise(1))
    free, paying = pl.col("free"), ~pl.col("free")
    numbers = rows.with_columns(pl.col("any_visit").cast(pl.Float64))
    made = []
    for name, value in (("effect", "visits"), ("any visit", "any_visit")):
        truth = mean(numbers, value, free) - mean(numbers, value, paying)
        made.append(line(f"{name}: free care minus the others", found[name].rows()[-1], truth))
    return made


def pressure() -> list[list[object]]:
    rows = pl.read_parquet(DATA / "nafld_labs.parquet").filter(pl.col("test") == "sbp")
    group = np.digitize(rows["age"].to_numpy(), [45, 65])
    rows = rows.with_columns(
        pl.Series("group", np.array(AGES)[group]), (pl.col("value") >= 140).alias("high")
    )
    study = pm.Study(pm.Table(rows, person="person_id"), epsilon=1)
    study.add("by age", pm.Mean("value", by="group", keys=list(AGES)))
    study.add("high", pm.Mean("high"))
    study.add("median", pm.Quantile("value", (0.5,)))
    found = study.release(noise=SimulatedNoise(1))
    real = pl.col("value").is_between(40, 300)
    made = []
    for row in found["by age"].rows()[: len(AGES)]:
        truth = mean(rows, "value", pl.col("group") == row.group, real)
        made.append(line(f"mean pressure, age {row.group}", row, truth))
    numbers = rows.with_columns(pl.col("high").cast(pl.Float64))
    made.append(line("share of values from 140", found["high"].rows()[0], mean(numbers, "high")))
    median = rows.group_by("person_id").agg(pl.col("value").mean())["value"].median()
    made.append(line("median of patient means", found["median"].rows()[0], float(median)))
    return made


def line(name: str, row: Row, truth: float) -> list[object]:
    interval = f"{row.lower:.3f} to {row.upper:.3f}"
    return [name, f"{truth:.3f}", f"{row.estimate:.3f}", interval, row.status]


def main() -> None:
    if not DATA.exists():
        print(f"{DATA}: the development tables are not there")
        return
    head = ["question", "without privacy", "estimate", "95 % interval", "status"]
    publish(
        "gallery-panels",
        "Stories of the gallery on real panels",
        "One release with simulated noise. Visits: randhie, 5,912 people, epsilon 2. "
        "Pressure: nafld_labs, 7,484 patients, epsilon 1; without privacy, "
        "recording errors outside 40 to 300 are left out of means by age.\n\n"
        + table(head, [*insurance(), *pressure()]),
        command="python benchmarks/gallery_panels.py",
    )


if __name__ == "__main__":
    main()
