"""PipelineDP on its local engine: inside its own environment.

person means             one record a person, averaged by NumPy
records, at most 10 each its own bounding of contributions, then the mean of records
means by group           public partitions, one row and one partition a person

Releases are made many at a time, as public partitions with persons of their own: each partition
gets the noise of one query of its own.
"""

import numpy as np
import pipeline_dp
from wire import serve

CAP = 10
ROWS = 1_000_000  # records handed over at once


def _means(person, value, group, groups, epsilon, bounds, cap):
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=0)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    settings = pipeline_dp.AggregateParams(
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        metrics=[pipeline_dp.Metrics.MEAN],
        max_partitions_contributed=1,
        max_contributions_per_partition=cap,
        min_value=bounds[0],
        max_value=bounds[1],
    )
    columns = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    rows = list(zip(person.tolist(), group.tolist(), value.tolist(), strict=True))
    result = engine.aggregate(rows, settings, columns, public_partitions=list(range(groups)))
    accountant.compute_budgets()
    found = dict(result)
    return [found[key].mean for key in range(groups)]


def _copies(person, value, task, cap):
    step = int(np.clip(ROWS // len(value), 1, task.runs))
    size, answers = int(person.max()) + 1, []
    while len(answers) < task.runs:
        groups = min(step, task.runs - len(answers))
        group = np.repeat(np.arange(groups), len(value))
        answers += _means(
            np.tile(person, groups) + group * size,
            np.tile(value, groups),
            group,
            groups,
            task.epsilon,
            (task.lower, task.upper),
            cap,
        )
    return answers


def person_means(task, records):
    means = records.means
    return _copies(np.arange(len(means)), means, task, 1)


def truncated_records(task, records):
    return _copies(records.person, records.value, task, CAP)


def by_group(task, records):
    """One row a person; a query a release. Estimates release by release, by key."""
    size, keys, answers = len(records.value), int(records.group.max()) + 1, []
    for _ in range(task.runs):
        answers += _means(
            np.arange(size),
            records.value,
            records.group,
            keys,
            task.epsilon,
            (task.lower, task.upper),
            1,
        )
    return answers


def whole_job(path):
    import pandas as pd

    means = pd.read_parquet(path).groupby("person", as_index=False).y.mean()
    group = np.zeros(len(means), dtype=int)
    (answer,) = _means(means.person.to_numpy(), means.y.to_numpy(), group, 1, 1.0, (-20.0, 40.0), 1)
    return answer


if __name__ == "__main__":
    serve(
        {
            "person means": person_means,
            "records, at most 10 each": truncated_records,
            "means by group": by_group,
        },
        whole_job,
        ("pipeline-dp", "python-dp"),
    )
