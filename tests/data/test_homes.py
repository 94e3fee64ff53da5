"""Every home gives the same integers, for any rows, order and dirt."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import numpy as np
import people_reference as reference
import pytest
import random_tables
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

numbers = st.one_of(
    st.sampled_from(random_tables.ODD),
    st.floats(-10, 10),
    st.floats(allow_nan=True, allow_infinity=True),
)
ints = st.one_of(st.none(), st.integers(0, 9))
words = st.one_of(st.none(), st.sampled_from(["a", "B", "é", "0", "00", " ", "z'\"", "Ω"]))
seeds = st.integers(0, 2**32)
TYPED = ("numpy", "array", "parquet", "polars", "lazy", "arrow", "pandas", "relation")


def rows_of(ids):
    return st.lists(st.tuples(ids, numbers, numbers), min_size=1, max_size=40)


def few(examples):
    """A table costs half a second of every engine: `make fuzz` is where many are tried."""
    return settings(
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


def compare(rows, seed, which, cap=None):
    made = random_tables.of_rows(rows, cap)
    asked = random_tables.questions(made, random.Random(seed))
    with tempfile.TemporaryDirectory() as folder:
        assert random_tables.mismatches(made, asked, Path(folder), which) == []


@pytest.mark.slow
@few(6)
@given(rows_of(ints), seeds)
def test_integer_ids_every_source(rows, seed):
    compare(rows, seed, TYPED)


@pytest.mark.slow
@few(4)
@given(rows_of(words), seeds)
def test_text_ids_every_source(rows, seed):
    compare(rows, seed, TYPED)


@pytest.mark.slow
@few(5)
@given(rows_of(ints), seeds, st.integers(1, 5))
def test_weights_of_the_record_mean(rows, seed, cap):
    compare(rows, seed, ("array", "polars", "relation"), cap)


@pytest.mark.slow
@few(5)
@given(rows_of(ints), seeds)
def test_text_files_agree_with_typed_tables(rows, seed):
    compare(rows, seed, ("csv", "json"))


def read(rows, which, folder):
    ((_, people),) = random_tables.homes(random_tables.of_rows(rows), Path(folder), (which,))
    return people


@pytest.mark.slow
@few(4)
@given(rows_of(ints), seeds, st.randoms(use_true_random=False))
def test_order_and_other_persons_do_not_matter(rows, seed, generator):
    shuffled = rows[:]
    generator.shuffle(shuffled)
    asked = random_tables.questions(random_tables.of_rows(rows), random.Random(seed))
    others = [row for row in rows if row[0] != 3]
    others += [(3, generator.choice(random_tables.ODD), 1.5), (3, 0.1, None)]
    for which in ("parquet", "polars"):
        found = []
        for table in (rows, shuffled, others):
            with tempfile.TemporaryDirectory() as folder:
                people = read(table, which, folder)
                found.append(([one.ask(people) for one in asked], people.collect().values))
        (told, before), (again, _), (_, after) = found
        assert told == again
        ids = sorted({who for who, *_ in rows if who is not None})
        kept = before[[i for i, who in enumerate(ids) if who != 3]]
        ids = sorted({who for who, *_ in others if who is not None})
        same = after[[i for i, who in enumerate(ids) if who != 3]]
        assert kept.tobytes() == same.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("which", ["parquet", "polars"])
def test_many_records_in_any_partition(which, tmp_path):
    """Sums that floats would round: the answer must not move with order, threads or row groups."""
    generator = random.Random(5)
    rows = [
        (
            generator.randrange(40),
            generator.choice([1e9, -1e9, 0.1, 1e-9]) * generator.random(),
            0.1,
        )
        for _ in range(30_000)
    ]
    exact = np.array([v for _, v, _ in reference.group(rows)])
    for order in (rows, sorted(rows), sorted(rows, key=lambda row: -abs(row[1]))):
        assert read(order, which, tmp_path).collect().values.tobytes() == exact.tobytes()
