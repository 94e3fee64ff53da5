"""Time and memory of every main job against the obvious computation without privacy, in one run.

Each job has a process of its own in which the two alternate; the ratio of their least times is
what counts. Memory is what a job needs beyond its input, in a fresh process each.

    python benchmarks/speed.py [--quick] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
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


def _file(size: int, folder: Path) -> tuple[Job, Job]:
    import duckdb

    import privmean as pm

    path = folder / "records.parquet"
    if not path.exists():
        duckdb.execute(
            f"COPY (SELECT (hash(i) % {size // 10})::BIGINT AS person, 10 + 3 * (random() + "
            f"random() + random()) AS y FROM range({size}) AS r(i)) TO '{path}' (FORMAT parquet)"
        )
    query = f"SELECT avg(m) FROM (SELECT avg(y) AS m FROM '{path}' GROUP BY person) AS t"
    return (
        lambda: pm.mean(pm.read(path, person="person", values="y"), epsilon=1.0),
        lambda: duckdb.connect().execute(query).fetchall(),
    )


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

    from privmean.local.builders import items_round
    from privmean.local.many import randomize_many

    items = np.random.default_rng(6).zipf(1.5, size) % 1024
    round_ = items_round(1024, epsilon=1, persons=size)
    return (
        lambda: randomize_many(round_, items, epsilon=1).to_bytes(),
        lambda: items.astype(np.uint16).tobytes(),
    )


def _local_items(size: int, _: Path) -> tuple[Job, Job]:
    import numpy as np

    from privmean.local.aggregators.batch import tally
    from privmean.local.aggregators.estimates import estimate
    from privmean.local.builders import items_round
    from privmean.local.many import randomize_many

    items = np.random.default_rng(7).zipf(1.5, size) % 1024
    batch = randomize_many(items_round(1024, epsilon=1, persons=size), items, epsilon=1)
    return lambda: estimate(tally(batch)), lambda: np.bincount(items, minlength=1024) / size


def _local_mean(size: int, _: Path) -> tuple[Job, Job]:
    import numpy as np

    from privmean.local.aggregators.batch import tally
    from privmean.local.aggregators.estimates import estimate
    from privmean.local.builders import mean_round
    from privmean.local.many import randomize_many

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
        lambda: pm.regress(table, "y ~ a + b", person="person", epsilon=3.0, delta=1e-6),
        lambda: np.linalg.lstsq(design, y, rcond=None),
    )


def _variance(size: int, _: Path) -> tuple[Job, Job]:
    import numpy as np

    import privmean as pm

    values = np.random.default_rng(10).normal(10, 3, size)
    return (
        lambda: pm.variance(values, smallest=0.01, largest=100.0, epsilon=1.0),
        lambda: np.var(values, ddof=1),
    )


CASES = {
    "file": Case("Parquet file to release", "DuckDB: mean of person means", 5_000_000, _file),
    "array": Case("one column in memory", "numpy.mean", 1_000_000, _array),
    "records": Case(
        "records in memory to release", "NumPy: mean of person means", 1_000_000, _records
    ),
    "columns": Case("20 columns in memory", "numpy.mean by column", 100_000, _columns),
    "anisotropic": Case("filtered mean, 500 columns", "X Xᵀ by NumPy", 4_000, _anisotropic),
    "stream": Case("running mean, one event at a time", "running sum in Python", 2_000, _stream),
    "clients": Case("local reports of 1024 items, made", "the items as bytes", 100_000,
                    _local_clients),
    "items": Case("local reports of 1024 items, to shares", "numpy.bincount", 200_000,
                  _local_items),
    "local-mean": Case("local reports of a number, to a mean", "numpy.mean", 1_000_000,
                       _local_mean),
    "regress": Case("regression on two covariates", "numpy.linalg.lstsq, pooled", 80_000,
                    _regress),
    "variance": Case("variance", "numpy.var", 1_000_000, _variance),
}  # fmt: skip


def alternate(jobs: tuple[Job, Job], seconds: float) -> dict[str, list[float]]:
    """Least wall and processor seconds of both jobs, alternating for about `seconds`."""
    least = {PRIVATE: [float("inf")] * 2, PLAIN: [float("inf")] * 2}
    for job in jobs:
        job()  # imports, file cache, the first draw of noise
    end, turns = time.perf_counter() + seconds, 0
    while turns < 3 or time.perf_counter() < end:
        turns += 1
        for name, job in zip((PRIVATE, PLAIN), jobs, strict=True):
            wall, cpu = time.perf_counter(), time.process_time()
            job()
            spent = (time.perf_counter() - wall, time.process_time() - cpu)
            least[name] = [min(pair) for pair in zip(least[name], spent, strict=True)]
    return least


def _status(field: str) -> float:
    """Megabytes of a line of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def memory(job: Job) -> float:
    """Peak megabytes of a job beyond what the process holds before it."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = _status("VmRSS")
    job()
    return _status("VmHWM") - before


def inside(name: str, size: int, folder: Path, part: str, seconds: float) -> None:
    jobs = CASES[name].make(size, folder)
    if part:
        print(json.dumps(memory(jobs[0 if part == PRIVATE else 1])))
    else:
        print(json.dumps(alternate(jobs, seconds)))


def _child(name: str, size: int, folder: str, part: str, seconds: float) -> object:
    command = [sys.executable, __file__, "--inside", name, str(size), folder, part, str(seconds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--inside", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        name, size, folder, part, seconds = options.inside
        inside(name, int(size), Path(folder), part, float(seconds))
        return
    from report import publish, table

    rows: list[list[object]] = []
    for name in options.only:
        case = CASES[name]
        size = case.size // 10 if options.quick and name != "anisotropic" else case.size
        with tempfile.TemporaryDirectory() as folder:
            least = _child(name, size, folder, "", 1.0 if options.quick else 4.0)
            peaks = {part: _child(name, size, folder, part, 0.0) for part in (PRIVATE, PLAIN)}
        mine, plain = least[PRIVATE], least[PLAIN]
        rows.append([
            case.title, f"{size:.0e}", case.plain, f"{1000 * mine[0]:.3g}",
            f"{1000 * plain[0]:.3g}", f"**{mine[0] / plain[0]:.3g}**", f"{mine[1] / plain[1]:.3g}",
            f"{peaks[PRIVATE]:.0f}", f"{peaks[PLAIN]:.0f}",
        ])  # fmt: skip
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    head = [
        "job", "size", "without privacy", "privmean, ms", "plain, ms", "ratio", "of processor time",
        "privmean, MB", "plain, MB",
    ]  # fmt: skip
    text = (
        "Least of the runs of one process in which both alternate, at load "
        f"{os.getloadavg()[0]:.1f}. Memory: beyond the input, a fresh process each (a first run: "
        "libraries loaded late count). Where the plain job takes microseconds, the ratio says "
        "little: read the milliseconds.\n\n" + table(head, rows)
    )
    publish("speed", "Speed of the main jobs", text, command="make bench")


if __name__ == "__main__":
    main()
