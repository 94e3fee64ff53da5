"""Random dirty tables in every home: each answer of `People` against a slow reference.

    python benchmarks/fuzz_homes.py [--tables N] [--seed S] [--first I] [--seconds T] [--workers W]
                                    [--all] [--sql ENGINE ...] [--publish]

Tables I, I+1, .. of seed S: a mismatch is printed with the table that shows it, to be seen again
with --tables 1. A table is read in memory, by DuckDB (arrays, Arrow, a relation or Parquet, in
turn) and by Polars (eager or lazy); rows are compared bit for bit, and a few questions, in turn,
are asked with random numbers. --all: every question in every home, which takes ten times as long.
--sql: also in these SQL engines (datafusion, postgres, clickhouse, or all), which must be there.
--seconds: stop after so long. The exit status is 1 if anything differs. Tables and questions:
tests/data/random_tables.py.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "data"))

import random_tables

from report import publish, table

DUCKDB, OFTEN = ("array", "arrow", "relation", "parquet"), (1, 1, 5, 1)  # by what they cost
POLARS = ("polars", "lazy")
ASKED = 4
SHOWN, AT_ONCE = 20, 20


def chosen(
    made: random_tables.Table, rng: random.Random, *, everything: bool, engines: tuple[str, ...]
) -> tuple[list[random_tables.Question], tuple[str, ...]]:
    """The questions and homes of one table."""
    asked = random_tables.questions(made, rng)
    if everything:
        return asked, (*random_tables.HOMES, *engines)
    rows = [one for one in asked if one.name == "matrix"]
    others = rng.sample([one for one in asked if one.name != "matrix"], ASKED)
    return rows + others, ("numpy", *rng.choices(DUCKDB, OFTEN), rng.choice(POLARS), *engines)


def try_tables(
    seed: int, numbers: range, everything: bool, engines: tuple[str, ...] = ()
) -> tuple[Counter, Counter, list[str]]:
    """Answers and mismatches by (home, question), and the mismatches in words."""
    answers: Counter[tuple[str, str]] = Counter()
    wrong: Counter[tuple[str, str]] = Counter()
    words = []
    warnings.simplefilter("error")  # a warning may depend on a value
    for number in numbers:
        rng = random.Random(f"{seed}, {number}")
        made = random_tables.table(rng)
        asked, which = chosen(made, rng, everything=everything, engines=engines)
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = random_tables.mismatches(made, asked, Path(folder), which)
            except Exception as problem:  # an engine's error is a mismatch too
                found = [random_tables.Mismatch("any", type(problem).__name__, problem, None)]
        which = which[:1] if made.rows_of_persons else which
        answers.update((home, _kind(one.name)) for home in which for one in asked)
        for item in found:
            wrong[item.home, _kind(item.question)] += 1
            shown = f"{item.found!s:.200} instead of {item.expected!s:.200}"
            words.append(f"--seed {seed} --first {number}: {item.home}, {item.question}: {shown}")
    return answers, wrong, words


def run(
    tables: int,
    seed: int,
    first: int,
    seconds: float,
    workers: int,
    *,
    everything: bool,
    engines: tuple[str, ...] = (),
) -> tuple[int, Counter, Counter]:
    """Tables tried; answers and mismatches of all."""
    answers: Counter[tuple[str, str]] = Counter()
    wrong: Counter[tuple[str, str]] = Counter()
    end, tried = time.monotonic() + seconds, 0
    parts = (
        range(start, min(start + AT_ONCE, first + tables))
        for start in range(first, first + tables, AT_ONCE)
    )
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        while time.monotonic() < end and (part := list(islice(parts, workers))):
            tasks = [
                pool.submit(try_tables, seed, numbers, everything, engines) for numbers in part
            ]
            for task in tasks:
                found = task.result()
                answers += found[0]
                wrong += found[1]
                for line in found[2][:SHOWN]:
                    print(line, flush=True)
            tried += sum(map(len, part))
    return tried, answers, wrong


def _kind(question: str) -> str:
    """The method of `People` behind a question."""
    return question.rsplit(", ", maxsplit=1)[-1].split(maxsplit=1)[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", "--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--all", action="store_true", dest="everything")
    parser.add_argument("--publish", action="store_true")
    parser.add_argument("--sql", nargs="*", default=[], choices=(*random_tables.SQL, "all"))
    given = parser.parse_args()
    engines = random_tables.SQL if "all" in given.sql else tuple(given.sql)
    for reason in filter(None, map(random_tables.sql_tables.missing, engines)):
        parser.error(reason)
    tried, answers, wrong = run(
        given.tables,
        given.seed,
        given.first,
        given.seconds,
        given.workers,
        everything=given.everything,
        engines=engines,
    )
    used = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    homes = [
        home for home in (*random_tables.HOMES, *engines) if any(home == key[0] for key in answers)
    ]
    rows = []
    for question in sorted({key[1] for key in answers}):
        counts = [f"{answers[home, question]:,}".replace(",", " ") for home in homes]
        bad = sum(count for key, count in wrong.items() if key[1] == question)
        rows.append([question, *counts, bad])
    bad = sum(wrong.values())
    total = f"{sum(answers.values()):,}".replace(",", " ")
    text = (
        f"{tried} tables of seed {given.seed}, {total} answers, {bad} mismatches, "
        f"{used:.0f} s of processor time. Answers compared, by home:\n\n"
        + table(["question", *homes, "mismatches"], rows)
    )
    command = f"python benchmarks/fuzz_homes.py --tables {given.tables} --seed {given.seed}"
    command += f" --sql {' '.join(given.sql)}" if engines else ""
    if given.publish:
        publish("fuzz-homes", "Random tables in every home", text, command=command)
    else:
        print(text)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
