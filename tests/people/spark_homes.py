"""The same comparison on PySpark, as a program: it needs pyspark and a Java runtime.

python tests/people/spark_homes.py
"""

from __future__ import annotations

import random
import sys

import people_tables as tables

import privmean as pm


def number(generator):
    wild = generator.gauss(0, 1) * 10.0 ** generator.randint(-14, 14)
    return generator.choice([generator.choice(tables.SPECIAL), generator.uniform(-10, 10), wild])


def main() -> int:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    generator, wrong = random.Random(4), 0
    for ids, cap in ((range(9), None), (["a", "B", "é", "0", "00"], None), (range(9), 3)):
        rows = [
            (
                generator.choice(ids) if generator.random() > 0.1 else None,
                number(generator),
                number(generator),
            )
            for _ in range(60)
        ]
        kind = "string" if isinstance(ids, list) else "long"
        frame = session.createDataFrame(rows, f"who {kind}, x double, y double")
        options = {} if cap is None else {"estimand": "records", "cap": cap}
        people = pm.read(frame, person="who", values=["x", "y"], **options)
        found, expected = tables.plain(tables.answers(people)), tables.expected(rows, cap)
        differ = [question for question, answer in expected.items() if found[question] != answer]
        print(f"{kind} ids, cap {cap}: {len(expected)} questions, {len(differ)} differ {differ}")
        wrong += len(differ)
        ends = [ids[0], "zz" if kind == "string" else 1000]
        known = pm.read(frame, person="who", values="x", roster=ends, **options)
        wrong += known.size() != 2
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
