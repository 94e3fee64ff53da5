"""Records in memory are grouped by NumPy where ids are whole numbers: the doubles of an engine."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import polars as pl
import pytest

import privmean as pm
from privmean.data import array_table as arrays
from privmean.data.open_source import read_arrays

MACHINE = {"memory_limit": None, "threads": None, "temp_directory": None, "progress": False}
ODD = [
    math.inf, -math.inf, math.nan, 1.7e308, -1e300, 2.0**40, -(2.0**40), 2.0**39.9, 2.0**22, -0.0,
    2.0**-41, -(2.0**-41), 3 * 2.0**-41, 5e-324, 2.0**14 + 2.0**-38, 0.1, 12345.678,
]  # fmt: skip


def engine_rows(ids, matrix, cap, resolution):
    names = tuple(f"v{j}" for j in range(matrix.shape[1]))
    return read_arrays(ids, matrix, names, cap, resolution, None, MACHINE)


def same(ids, matrix, cap=None, resolution=2.0**-36):
    estimand = {} if cap is None else {"estimand": "records", "max_records": cap}
    found = pm.read(matrix, person=ids, resolution=resolution, **estimand)
    expected = engine_rows(np.asarray(ids), matrix, cap, resolution)
    assert found.engine == "numpy"
    assert found.values.tobytes() == expected.values.tobytes()
    if cap is not None:
        assert found.counts.dtype == np.int64
        assert found.counts.tolist() == expected.counts.tolist()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["i1", "u1", "i4", "i8", "u8"])
@pytest.mark.parametrize("resolution", [2.0**-36, 1.0, 2.0**100])
def test_the_doubles_of_an_engine_for_any_records(kind, resolution):
    generator = np.random.default_rng(5)
    ends = np.iinfo(kind)
    ids = generator.integers(ends.min, ends.max, 3000, dtype=kind, endpoint=True)
    if kind[1] != "1":  # persons of several records, scattered over the whole range
        ids = generator.choice(ids[:500], 3000)
    matrix = generator.normal(0, 1, (3000, 3)) * 2.0 ** generator.integers(-60, 60, (3000, 3))
    matrix[generator.random(matrix.shape) < 0.05] = math.nan
    matrix[:, 2] = generator.choice(ODD, 3000)
    same(ids, matrix, 5, resolution)


@pytest.mark.slow
@pytest.mark.parametrize("start", [-(2**63), -5, 0, 2**62])
def test_ids_close_together_are_places_in_order(start):
    generator = np.random.default_rng(6)
    ids = start + generator.permutation(4000) // 3
    found = same(ids, generator.normal(50_000, 9000, (4000, 1)))
    order = pl.DataFrame({"p": ids, "x": np.arange(4000)}).group_by("p").len().sort("p")
    assert found.size() == len(order)
    ids = np.array([2**64 - 1, 2**64 - 4, 2**64 - 1], dtype=np.uint64)
    assert same(ids, np.array([[1.0], [5.0], [4.0]])).values.tolist() == [[5.0], [2.5]]


@pytest.mark.parametrize("size", [2.0**3, 2.0**13, 2.0**30, 2.0**38, 2.0**60])
def test_totals_of_any_width_are_rounded_once(size):
    """One word, two words and three: against whole numbers, for persons of 1 to 3000 records."""
    generator = np.random.default_rng(7)
    ids = np.repeat(np.arange(9), [1, 2, 3, 10, 100, 1000, 3000, 1, 5])
    x = generator.uniform(-1, 1, len(ids)) * size
    x[ids == 7], x[ids == 8] = size, [size, 2.0**-36, -size, -size, -(2.0**-36)]
    found = same(ids, x[:, None]).values[:, 0]
    limit = 2**80
    for p in range(9):
        points = [
            min(max(math.floor(Fraction(item) * 2**36 + Fraction(1, 2)), -limit), limit)
            if abs(item) * 2.0**36 < 2.0**52
            else min(max(int(item * 2.0**36), -limit), limit)
            for item in x[ids == p].tolist()
        ]
        assert found[p] == float(sum(points)) * 2.0**-36 / len(points)


def test_three_words_are_those_of_one_where_one_is_enough(monkeypatch):
    generator = np.random.default_rng(8)
    ids, x = generator.integers(0, 50, 5000), generator.normal(0, 100, (5000, 1))
    once = pm.read(x, person=ids).values
    for exact in (2.0**30, 0.0):  # nothing is taken for exact
        monkeypatch.setattr(arrays, "EXACT", exact)
        monkeypatch.setattr(arrays, "BATCH", 700)
        assert np.array_equal(pm.read(x, person=ids).values, once)


@pytest.mark.slow
def test_who_groups_follows_from_types_and_arguments_alone():
    ids, x = np.arange(20) % 4, np.full(20, 1e300)
    for values in (x, np.full(20, math.nan), np.zeros(20)):
        assert pm.read(values, person=ids).engine == "numpy"
        assert pm.read(values, person=ids, roster=[1, 2]).engine == "duckdb"
        assert pm.read(values, person=ids, threads=1).engine == "duckdb"
        assert pm.read(values, person=ids.astype(str)).engine == "duckdb"
        assert pm.read(values, person=ids.astype(float)).engine == "duckdb"


def test_nobody_and_nothing():
    empty = pm.read(np.zeros((0, 2)), person=np.zeros(0, dtype=int))
    assert empty.values.shape == (0, 2)
    nulls = pm.read(np.full((3, 1), math.nan), person=[4, 4, 2], estimand="records", max_records=3)
    assert np.isnan(nulls.values).all()
    assert nulls.counts.tolist() == [[0], [0]]
    masked = np.ma.MaskedArray([7, 8, 7], mask=[False, True, False])
    assert pm.read(np.array([1.0, 50.0, 2.0]), person=masked).values.tolist() == [[1.5]]


def _signal(kind):
    """An array with a NaN that signals: bits that only a file can hold."""
    whole, bits = {
        "f2": ("u2", 0x7C01),
        "f4": ("u4", 0x7F800001),
        "f8": ("u8", 0x7FF0000000000001),
    }[kind]
    array = (np.arange(200) % 7).astype(kind)
    array.view(whole)[5] = bits
    return array


def _long():
    array = (np.arange(200) % 7).astype(np.longdouble)
    array[5] = np.nextafter(np.longdouble(np.inf), 0)
    return array


@pytest.mark.parametrize("make", [*(partial(_signal, kind) for kind in ("f2", "f4", "f8")), _long])
def test_no_value_of_an_array_makes_a_warning(make):
    """Neither alone, nor by person, nor in a stream, nor as a response of a fixed design."""
    array, ids = make(), np.arange(200) // 2
    noise = pm.SimulatedNoise(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for values in (array, np.column_stack((array, array))):
            pm.read(values)
            pm.read(values, person=ids)
            pm.read(values, person=ids.astype(str))
        for person in (None, ids):
            pm.mean(array, person=person, bounds=(0, 8), epsilon=1.0, noise=noise)
            pm.quantile(array, person=person, epsilon=40.0, noise=noise)
            pm.variance(array, person=person, epsilon=40.0, noise=noise)
        design = pm.FixedDesign((0.0, 8.0), cells=2)
        times = np.arange(1, 201) / 200
        design.plan(pm.Budget(epsilon=1.0), times=times).release(array, noise)
        stream = pm.MeanStream(
            epsilon=1.0,
            delta=1e-6,
            max_participations=2,
            min_separation=2,
            steps=200,
            bounds=(0, 8),
        )
        stream.update([str(item) for item in range(200)], array)
