"""A private mean on PySpark against the plain Spark query of the same mean, in one session.

Both group the same Parquet table by person and average the persons' means; they alternate after a
warm-up of each. The session has two local workers.

    python benchmarks/spark.py [--quick] [--records 5e7] [--persons 1e6] [--repeats 3]

Needs PySpark and a Java 17 runtime. `make test-spark` makes an environment that has them
(.venv-spark); without PySpark of its own the script goes on there.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def elsewhere() -> int:
    """Run this script in the environment of `make test-spark`."""
    python = ROOT / ".venv-spark" / "bin" / "python"
    if not python.exists():
        print("no PySpark here and no .venv-spark (make test-spark makes it): left out")
        return 0
    packages = os.pathsep.join([str(ROOT / "src"), sysconfig.get_path("purelib")])
    command = [str(python), *sys.argv]
    return subprocess.run(
        command, env=os.environ | {"PYTHONPATH": packages}, check=False
    ).returncode


def make(path: Path, records: int, persons: int) -> None:
    import duckdb

    duckdb.execute(f"""COPY (
        SELECT (hash(i) % {persons})::BIGINT AS person,
               10 + 3 * sqrt(-2 * ln(random() + 1e-12)) * cos(2 * pi() * random()) AS y
        FROM range({records}) AS r(i)) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 1000000)""")


def session():  # type: ignore[no-untyped-def]
    from pyspark.sql import SparkSession

    made = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "4g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("ERROR")
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--records", type=float)
    parser.add_argument("--persons", type=float)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if find_spec("pyspark") is None:
        return elsewhere()
    records = int(options.records or (5e6 if options.quick else 5e7))
    persons = int(options.persons or (1e5 if options.quick else 1e6))

    import privmean as pm
    from report import publish, table

    spark = session()
    times: dict[str, list[float]] = {"plain": [], "read": [], "private": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parquet"
        make(path, records, persons)
        from pyspark.sql import functions

        for turn in range(options.repeats + 1):
            start = time.perf_counter()
            means = (
                spark.read.parquet(str(path)).groupBy("person").agg(functions.avg("y").alias("m"))
            )
            (row,) = means.agg(functions.avg("m")).collect()
            middle = time.perf_counter()
            people = pm.read(spark.read.parquet(str(path)), person="person", values="y")
            read = time.perf_counter()
            release = pm.mean(people, epsilon=1.0, delta=1e-6)
            stop = time.perf_counter()
            assert abs(float(release) - row[0]) < 0.1
            del people  # its cached table goes
            if turn:  # the first turn warms the virtual machine and the file cache
                for name, seconds in zip(
                    times, (middle - start, read - middle, stop - middle), strict=True
                ):
                    times[name].append(seconds)
        spark.stop()
    ratio = statistics.median(a / b for a, b in zip(times["private"], times["plain"], strict=True))
    base = min(times["plain"])
    rows: list[list[object]] = [
        [name, f"{min(found):.2f}", f"{min(found) / base:.2f}"]
        for name, found in zip(
            ("plain Spark query", "privmean, reading only", "privmean, whole release"),
            times.values(),
            strict=True,
        )
    ]
    text = (
        f"{records:.0e} records of {persons:.0e} persons in Parquet, local[2], least of "
        f"{options.repeats} turns in a warm session, load {os.getloadavg()[0]:.1f}; median ratio "
        f"of neighbouring runs {ratio:.2f}\n\n" + table(["", "wall s", "ratio"], rows)
    )
    publish("spark", "A mean on PySpark", text, command="python benchmarks/spark.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
