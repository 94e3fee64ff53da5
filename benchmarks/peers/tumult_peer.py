"""Tumult Analytics on local Spark: inside its own environment.

person means     one record a person, averaged by NumPy, then its average of a table with ids
means by group   its groupby over a public key set, one row a person

Releases are made many at a time, as groups of a public key set with persons of their own: each
group gets the noise of one query of its own.
"""

import os
import sys
import tempfile

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddRowsWithID,
    ColumnType,
    KeySet,
    MaxRowsPerID,
    PureDPBudget,
    QueryBuilder,
    Session,
)
from wire import serve

SCRATCH = tempfile.mkdtemp(dir=sys.prefix)


def _spark():
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "6g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", SCRATCH)
        .config("spark.local.dir", SCRATCH)
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.executor.heartbeatInterval", "300s")
        .config("spark.network.timeout", "1200s")
        .getOrCreate()
    )


def _session(frame, epsilon):
    return Session.from_dataframe(
        privacy_budget=PureDPBudget(epsilon),
        source_id="records",
        dataframe=frame,
        protected_change=AddRowsWithID("person"),
    )


def person_means(task, records):
    means, runs = records.means, task.runs
    table = pd.DataFrame(
        {
            "person": np.arange(len(means) * runs),
            "release": np.repeat(np.arange(runs), len(means)),
            "value": np.tile(means, runs),
        }
    )
    session = _session(_spark().createDataFrame(table), task.epsilon)
    query = (
        QueryBuilder("records")
        .enforce(MaxRowsPerID(1))
        .groupby(KeySet.from_dict({"release": list(range(runs))}))
        .average("value", task.lower, task.upper)
    )
    answer = session.evaluate(query, PureDPBudget(task.epsilon)).toPandas()
    return answer["value_average"].to_numpy(float)


def by_group(task, records):
    """One row a person; releases are groups too, with persons of their own. Estimates release by
    release, by key."""
    runs, size, keys = task.runs, len(records.value), int(records.group.max()) + 1
    table = pd.DataFrame(
        {
            "person": np.arange(size * runs),
            "release": np.repeat(np.arange(runs), size),
            "key": np.tile(records.group, runs),
            "value": np.tile(records.value, runs),
        }
    )
    session = _session(_spark().createDataFrame(table), task.epsilon)
    both = {"release": list(range(runs)), "key": list(range(keys))}
    query = (
        QueryBuilder("records")
        .enforce(MaxRowsPerID(1))
        .groupby(KeySet.from_dict(both))
        .average("value", task.lower, task.upper)
    )
    answer = session.evaluate(query, PureDPBudget(task.epsilon)).toPandas()
    return answer.sort_values(["release", "key"])["value_average"].to_numpy(float)


def whole_job(path):
    session = _session(_spark().read.parquet(path), 1.0)
    query = (
        QueryBuilder("records")
        .flat_map_by_id(
            lambda rows: [{"mean": sum(row["y"] for row in rows) / len(rows)}],
            new_column_types={"mean": ColumnType.DECIMAL},
        )
        .enforce(MaxRowsPerID(1))
        .average("mean", -20.0, 40.0)
    )
    return session.evaluate(query, PureDPBudget(1.0)).toPandas()["mean_average"][0]


if __name__ == "__main__":
    serve(
        {"person means": person_means, "means by group": by_group},
        whole_job,
        ("tmlt.analytics", "tmlt.core", "pyspark"),
    )
