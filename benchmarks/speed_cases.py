"""The main jobs, each with the obvious computation without privacy: what `make bench` times."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

Job = Callable[[], object]
PRIVATE, PLAIN = "private", "plain"


@dataclass(frozen=True)
class Case:
    """A job: `make(size, folder)` gives the private and the plain computation."""

    title: str
    plain: str
    size: int
    make: Callable[[int, Path], tuple[Job, Job]]
    divisible: bool = True

    def size_of(self, part: int) -> int:
        """The size in a run of which the sizes are divided by `part`."""
        return self.size // part if self.divisible else self.size


def _file(size: int, folder: Path, *, scattered: bool = False) -> tuple[Job, Job]:
    """Ids are numbered from 0, or scattered over 63 bits, where none is an index."""
    import duckdb

    import privmean as pm

    path = folder / "records.parquet"
    number = f"hash(i) % {size // 10}"
    person = f"hash({number}) >> 1" if scattered else number
    if not path.exists():
        duckdb.execute(
            f"COPY (SELECT ({person})::BIGINT AS person, 10 + 3 * (random() + "
            f"random() + random()) AS y FROM range({size}) AS r(i)) TO '{path}' (FORMAT parquet)"
        )
    query = f"SELECT avg(m) FROM (SELECT avg(y) AS m FROM '{path}' GROUP BY person) AS t"
    return (
        lambda: pm.mean(pm.read(path, person="person", values="y"), epsilon=1.0),
        lambda: duckdb.connect().execute(query).fetchall(),
    )


TERMS = ("1.0", "a", "b", "c", "y")
PRODUCTS = [f"{x} * {y}" for k, x in enumerate(TERMS) for y in TERMS[k:]]
PEOPLE = "SELECT person, avg(y) AS m FROM '{path}' GROUP BY person"
QUERIES = {
    "quantiles": f"SELECT quantile_cont(m, [0.25, 0.5, 0.75]) FROM ({PEOPLE})",
    "variance": f"SELECT var_samp(m) FROM ({PEOPLE})",
    "curve": "SELECT k, avg(m) FROM (SELECT person, floor(t) AS k, avg(y) AS m FROM '{path}' "
    "GROUP BY person, k) GROUP BY k",
    "regression": f"SELECT {', '.join(f'sum(m{j} / m0)' for j in range(len(PRODUCTS)))} FROM "
    f"(SELECT person, {', '.join(f'sum({x}) AS m{j}' for j, x in enumerate(PRODUCTS))} "
    "FROM '{path}' GROUP BY person)",
}


def _question(size: int, folder: Path, name: str) -> tuple[Job, Job]:
    """A question about records in a Parquet file, whose ids are scattered over 63 bits."""
    import duckdb

    import privmean as pm

    path = folder / "questions.parquet"
    if not path.exists():
        duckdb.execute(
            f"COPY (SELECT (hash(hash(i) % {size // 10}) >> 1)::BIGINT AS person, "
            "10 + 3 * (random() + random() + random()) AS y, 10 * random() AS t, "
            "2 * random() - 1 AS a, 1 + 3 * random() AS b, random() - random() AS c "
            f"FROM range({size}) AS r(i)) TO '{path}' (FORMAT parquet)"
        )
    said = {"person": "person", "epsilon": 3.0}
    private: dict[str, Job] = {
        "quantiles": lambda: pm.quantile(path, "y", [0.25, 0.5, 0.75], **said),
        "variance": lambda: pm.variance(path, "y", **said),
        "curve": lambda: pm.curve(path, "y", time="t", bins=list(range(11)), **said),
        "regression": lambda: pm.regress(path, "y ~ a + b + c", **said),
    }
    query = QUERIES[name].format(path=path)
    return private[name], lambda: duckdb.connect().execute(query).fetchall()


def _array(size: int, _: Path) -> tuple[Job, Job]:
    import numpy as np

    import privmean as pm

    values = np.random.default_rng(1).normal(10, 3, size)
    return lambda: pm.mean(values, epsilon=1.0), lambda: np.mean(values)


def _records(size: int, _: Path) -> tuple[Job, Job]:
    import numpy as np

    import privmean as pm

    rng = np.random.default_rng(2)
    person, values = rng.integers(0, size // 10, size), rng.normal(10, 3, size)

    def plain() -> float:
        return float((np.bincount(person, values) / np.maximum(np.bincount(person), 1)).mean())

    return lambda: pm.mean(pm.read(values, person=person), epsilon=1.0), plain


def _columns(size: int, _: Path) -> tuple[Job, Job]:
    import numpy as np

    import privmean as pm

    rows = np.random.default_rng(3).normal(10, 3, (size, 20))
    return lambda: pm.mean(rows, epsilon=1.0, delta=1e-6), lambda: rows.mean(axis=0)


def _anisotropic(size: int, _: Path) -> tuple[Job, Job]:
    import numpy as np

    import privmean as pm

    d = 500
    sd = np.r_[np.ones(5), np.full(d - 5, 1 / d)]
    rows = np.random.default_rng(4).normal(size=(size, d)) * sd
    return (
        lambda: pm.mean(rows, epsilon=1.0, delta=1e-6, covariance=sd**2),
        lambda: (
            rows @ rows.T
        ),  # all inner products of persons: what a filter by friends must look at
    )


def _stream(size: int, _: Path) -> tuple[Job, Job]:
    import numpy as np

    import privmean as pm

    values = np.random.default_rng(5).random(size)
    fresh = itertools.count()
    stream = pm.MeanStream(
        epsilon=1.0, delta=1e-6, max_participations=16, min_separation=512, bounds=(0, 1),
        history=False, design_steps=1000,
    )  # fmt: skip

    def private() -> object:
        return [len(list(stream.update(next(fresh), value))) for value in values]

    def plain() -> list[float]:
        total, found = 0.0, []
        for count, value in enumerate(values, start=1):
            total += value
            found.append(total / count)
        return found

    return private, plain


def _local_clients(size: int, _: Path) -> tuple[Job, Job]:
    import numpy as np

    from privmean.local.round_builders import items_round
    from privmean.local.vectorized import randomize_many

    items = np.random.default_rng(6).zipf(1.5, size) % 1024
    round_ = items_round(1024, epsilon=1, persons=size, mechanism="hadamard")
    return (
        lambda: randomize_many(round_, items, epsilon=1).to_bytes(),
        lambda: items.astype(np.uint16).tobytes(),
    )


def _local_items(size: int, _: Path, mechanism: str = "hadamard") -> tuple[Job, Job]:
    import numpy as np

    from privmean.local.aggregators.estimate_round import estimate
    from privmean.local.aggregators.tally import tally
    from privmean.local.round_builders import items_round
    from privmean.local.vectorized import randomize_many

    items = np.random.default_rng(7).zipf(1.5, size) % 1024
    round_ = items_round(1024, epsilon=1, persons=size, mechanism=mechanism)
    batch = randomize_many(round_, items, epsilon=1)
    return lambda: estimate(tally(batch)), lambda: np.bincount(items, minlength=1024) / size


def _local_mean(size: int, _: Path) -> tuple[Job, Job]:
    import numpy as np

    from privmean.local.aggregators.estimate_round import estimate
    from privmean.local.aggregators.tally import tally
    from privmean.local.round_builders import mean_round
    from privmean.local.vectorized import randomize_many

    values = np.random.default_rng(8).random(size)
    batch = randomize_many(mean_round(0, 1, epsilon=1, persons=size), values, epsilon=1)
    return lambda: estimate(tally(batch)), lambda: np.mean(values)


def _regress(size: int, _: Path) -> tuple[Job, Job]:
    import numpy as np

    import privmean as pm

    rng = np.random.default_rng(9)
    person = np.repeat(np.arange(size // 8), 8)
    a, b = rng.normal(size=(2, len(person)))
    own = rng.normal(0, 0.3, size // 8)[person]
    y = 1 + own + 0.5 * a - 0.2 * b + rng.normal(0, 0.5, len(person))
    table = {"person": person, "a": a, "b": b, "y": y}
    design = np.column_stack([np.ones(len(person)), a, b])
    return (
        lambda: pm.regress(
            table, "y ~ a + b", effect="per_person", person="person", epsilon=3.0, delta=1e-6
        ),
        lambda: np.linalg.lstsq(design, y, rcond=None),
    )


def _variance(size: int, _: Path) -> tuple[Job, Job]:
    import numpy as np

    import privmean as pm

    values = np.random.default_rng(10).normal(10, 3, size)
    return (
        lambda: pm.variance(values, within=(0.01, 100.0), epsilon=1.0),
        lambda: np.var(values, ddof=1),
    )


CASES = {
    "file": Case("Parquet file to release", "DuckDB: mean of person means", 5_000_000, _file),
    "scattered": Case("Parquet file to release, ids scattered over 63 bits",
                      "DuckDB: mean of person means", 5_000_000,
                      lambda size, folder: _file(size, folder, scattered=True)),
    **{
        f"file-{name}": Case(f"Parquet file to {name}", "DuckDB: the same of person sums",
                             2_000_000, partial(_question, name=name))
        for name in QUERIES
    },
    "array": Case("one column in memory", "numpy.mean", 1_000_000, _array),
    "records": Case(
        "records in memory to release", "NumPy: mean of person means", 1_000_000, _records
    ),
    "columns": Case("20 columns in memory", "numpy.mean by column", 100_000, _columns),
    "anisotropic": Case("filtered mean, 500 columns", "X Xᵀ by NumPy", 4_000, _anisotropic,
                        divisible=False),
    "stream": Case("running mean, one event at a time", "running sum in Python", 2_000, _stream),
    "clients": Case("local reports of 1024 items, a bit each, made", "the items as bytes", 100_000,
                    _local_clients),
    "items": Case("local reports of 1024 items, a bit each, to shares", "numpy.bincount", 200_000,
                  _local_items),
    "sets": Case("local reports of 1024 items, sets of them, to shares", "numpy.bincount", 20_000,
                 lambda size, folder: _local_items(size, folder, "subset")),
    "local-mean": Case("local reports of a number, to a mean", "numpy.mean", 1_000_000,
                       _local_mean),
    "regress": Case("regression on two covariates", "numpy.linalg.lstsq, pooled", 80_000,
                    _regress),
    "variance": Case("variance", "numpy.var", 1_000_000, _variance),
}  # fmt: skip
