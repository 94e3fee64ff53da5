"""diffprivlib: inside its own environment. It has no person: they are averaged by NumPy.

person means            its `mean` of the person means between the public bounds
private quantiles first a quarter of the budget each for its 1 % and 99 % quantile between the
                        public bounds, half for the mean between them
"""

import numpy as np
from diffprivlib import tools
from wire import serve


def person_means(task, records):
    means, bounds = records.means, (task.lower, task.upper)
    return [tools.mean(means, epsilon=task.epsilon, bounds=bounds) for _ in range(task.runs)]


def quantiles_first(task, records):
    means, bounds, answers = records.means, (task.lower, task.upper), []
    for _ in range(task.runs):
        low, high = sorted(
            tools.quantile(means, q, epsilon=task.epsilon / 4, bounds=bounds) for q in (0.01, 0.99)
        )
        answers.append(tools.mean(means, epsilon=task.epsilon / 2, bounds=(low, high)))
    return answers


def vectors(task, records):
    """Its mean over the persons with bounds a column. Returns relative errors."""
    rows = records.value
    n, d = rows.shape
    bounds = (np.full(d, task.lower), np.full(d, task.upper))
    found = np.array(
        [tools.mean(rows, epsilon=task.epsilon, bounds=bounds, axis=0) for _ in range(task.runs)]
    )
    se = np.sqrt(rows.var(axis=0, ddof=1).sum() / n)
    return np.linalg.norm(found - rows.mean(axis=0), axis=1) / se


def whole_job(path):
    import pandas as pd

    means = pd.read_parquet(path).groupby("person").y.mean().to_numpy()
    return tools.mean(means, epsilon=1.0, bounds=(-20.0, 40.0))


if __name__ == "__main__":
    serve(
        {
            "person means": person_means,
            "private quantiles first": quantiles_first,
            "mean over an axis, bounds a column": vectors,
        },
        whole_job,
        ("diffprivlib", "scikit-learn", "numpy"),
    )
