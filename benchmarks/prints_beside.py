"""Three prints of privmean beside those of statsmodels and marginaleffects, which protect nobody.

    python benchmarks/prints_beside.py

The others get one row per person: means of the person's records. They run in an environment of
their own under `.peers/`, which is made where it is missing.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

import privmean as pm
from peers.environments import STATISTICS, setup
from report import publish

FORMULA = "ln_wage ~ collgrad + ttl_exp + tenure"
TITLES = ("Mean", "Regression", "Difference of two groups")


def ours() -> list[str]:
    table = pm.Table(pm.example("nlswork"), person="person_id")
    noise = pm.SimulatedNoise(1)
    found = (
        pm.mean(table, "ln_wage", epsilon=1, noise=noise),
        pm.regress(table, FORMULA, epsilon=2, noise=noise),
        pm.compare(table, "ln_wage", arms="collgrad", epsilon=1, noise=noise),
    )
    return [str(item).split("\n", 1)[1] for item in found]  # without the mark of simulated noise


def theirs(folder: Path) -> list[str]:
    records = pl.DataFrame(pm.example("nlswork"))
    people = records.group_by("person_id").agg(
        pl.col("ln_wage", "ttl_exp", "tenure").mean(), pl.col("collgrad").max()
    )
    path = folder / "people.csv"
    people.drop_nulls().sort("person_id").write_csv(path)
    ran = subprocess.run(
        [str(STATISTICS.python), str(STATISTICS.adapter), str(path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [text.strip("\n") for text in ran.stdout.split("=== next\n")]


def main() -> int:
    failed = setup((STATISTICS,))
    if failed:
        print("\n".join(failed))
        return 1
    with tempfile.TemporaryDirectory() as folder:
        pairs = zip(TITLES, ours(), theirs(Path(folder)), strict=True)
        parts = [
            f"### {title}\n\nprivmean:\n\n```text\n{own}\n```\n\n"
            f"{STATISTICS.title}, without privacy:\n\n```text\n{other}\n```"
            for title, own, other in pairs
        ]
    text = "\n\n".join(parts)
    publish(
        "prints-beside", "Three prints beside statsmodels and marginaleffects", text,
        command="python benchmarks/prints_beside.py",
    )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
