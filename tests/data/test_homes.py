"""Every home gives the same integers, for any rows, order and dirt."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import numpy as np
import people_tables as tables
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

numbers = st.one_of(
    st.sampled_from(tables.SPECIAL),
    st.floats(-10, 10),
    st.floats(allow_nan=True, allow_infinity=True),
)
ints = st.one_of(st.none(), st.integers(0, 9))
words = st.one_of(st.none(), st.sampled_from(["a", "B", "é", "0", "00", " ", "z'\"", "Ω"]))


def rows_of(ids, size=40):
    return st.lists(st.tuples(ids, numbers, numbers), max_size=size)


def few(examples):
    """A table costs half a second of every engine: `make fuzz` is where many are tried."""
    return settings(
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


TYPED = ("array", "parquet", "polars", "lazy", "arrow", "pandas", "relation")


def compare(rows, which, **options):
    """The first home of an engine is asked everything; of later ones, that the same machine asks,
    the rows are taken into memory and asked there, and one question is put to the machine."""
    with tempfile.TemporaryDirectory() as folder:
        homes = tables.homes(rows, Path(folder), which, **options)
        reference = tables.expected(rows, options.get("cap"))
        engines = set()
        for name, people in homes.items():
            whole = people.engine not in engines
            engines.add(people.engine)
            found = tables.answers(people if whole else people.collect())
            for question, answer in reference.items():
                assert found[question] == answer, (name, question)
            sums = people.interval_sums(list(tables.BOXES))
            assert [vars(item) for item in sums] == reference["boxes"], name


@pytest.mark.slow
@few(6)
@given(rows_of(ints))
def test_integer_ids_every_source(rows):
    compare(rows, TYPED)


@pytest.mark.slow
@few(4)
@given(rows_of(words))
def test_text_ids_every_source(rows):
    compare(rows, TYPED)


@pytest.mark.slow
@few(5)
@given(rows_of(ints), st.integers(1, 5))
def test_weights_of_the_record_mean(rows, cap):
    compare(rows, ("array", "polars", "relation"), estimand="records", max_records=cap)


@pytest.mark.slow
@few(5)
@given(rows_of(ints))
def test_text_files_agree_with_typed_tables(rows):
    compare(rows, ("csv", "json"))


@pytest.mark.slow
@few(4)
@given(rows_of(ints), st.randoms(use_true_random=False))
def test_order_and_other_persons_do_not_matter(rows, generator):
    def read(table, which):
        with tempfile.TemporaryDirectory() as folder:
            return tables.homes(table, Path(folder), (which,))[which]

    shuffled = rows[:]
    generator.shuffle(shuffled)
    for which in ("parquet", "polars"):
        people = read(rows, which)
        assert tables.answers(people) == tables.answers(read(shuffled, which))
        others = [row for row in rows if row[0] != 3]
        others += [(3, generator.choice(tables.SPECIAL), 1.5), (3, 0.1, None)]
        before, after = people.collect().values, read(others, which).collect().values
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
    exact = np.array([v for _, v, _ in tables.reference.group(rows)])
    for order in (rows, sorted(rows), sorted(rows, key=lambda row: -abs(row[1]))):
        people = tables.homes(order, tmp_path, (which,))[which]
        assert people.collect().values.tobytes() == exact.tobytes()
