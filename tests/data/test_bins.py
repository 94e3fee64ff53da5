"""The vector code of the matrix against the definitions, at every edge."""

from __future__ import annotations

import math

import duckdb
import edge_values as edges
import numpy as np
import people_reference as reference
import polars as pl
import pytest

from privmean.auditing.replay import RecordingTable
from privmean.data import array_kernels as kernels
from privmean.data.array_table import ArrayPersonTable
from privmean.data.engine_table import EnginePersonTable, log_cells
from privmean.data.engines import EngineStore, fetch, lazy
from privmean.data.grids import HALF_OCTAVE, LOG_CELLS, LOG_GRID, LOG_ZERO
from privmean.data.person_table import ClipInterval, L2Ball


def hard_values():
    edges = np.concatenate([LOG_GRID.edges(), [2.0**40, 2.0**41]])
    around = [edges, np.nextafter(edges, 0), np.nextafter(edges, math.inf)]
    squares = np.ldexp([HALF_OCTAVE, 1.0], [[k] for k in range(-60, 60)]).ravel()
    around += [squares, np.nextafter(squares, 0), np.nextafter(squares, math.inf)]
    extremes = [0.0, 5e-324, 1e-200, 1e-160, 2.3e-308, 1e154, 1.4e154, 1e200, 1.7e308, math.inf]
    positive = np.concatenate([*around, extremes])
    return np.concatenate([positive, -positive, [math.nan, -math.nan]])


def test_every_edge_of_the_logarithmic_bins():
    for value in hard_values():
        people = ArrayPersonTable(np.array([[value]]), ("x",))
        counts = people.log_counts(0, 0.0)
        assert counts.sum() == 1
        assert counts[reference.log_cell(float(value))] == 1, value


def test_the_bin_map_is_total_and_counts_everybody():
    generator = np.random.default_rng(1)
    bits = generator.integers(0, 2**64, 200_000, dtype=np.uint64, endpoint=False)
    values = np.concatenate(
        [bits.view(np.float64), hard_values()]
    )  # NaN payloads of both signs too
    counts = ArrayPersonTable(values[:, None], ("x",)).log_counts(0, 0.0)
    expected = np.bincount([reference.log_cell(v) for v in values.tolist()], minlength=LOG_CELLS)
    assert counts.tolist() == expected.tolist()
    assert counts[LOG_ZERO] >= np.count_nonzero(np.isnan(values))


def test_every_edge_of_the_logarithmic_bins_in_duckdb():
    """Each value in a group of its own, so that no two errors cancel."""
    values = [None, *(v for v in hard_values().tolist() if not math.isnan(v))]
    rows = ", ".join(f"({i}, '{v!r}'::DOUBLE)" if v is not None else f"({i}, NULL)"
                     for i, v in enumerate(values))  # fmt: skip
    table = duckdb.sql(f"SELECT * FROM (VALUES {rows}) AS t(m, v)")
    found = dict(fetch(log_cells(lazy(table)).select("m", "k")))
    expected = [LOG_ZERO, *(reference.log_cell(v) for v in values[1:])]
    assert [found[i] for i in range(len(values))] == expected


@pytest.mark.slow
@pytest.mark.parametrize("home", ["array", "duckdb", "polars"])
def test_every_edge_of_half_octaves_and_of_parts(home):
    values = edges.edges()
    if home == "array":
        values = [*values, -0.0, math.inf, -math.inf]
        x = np.array([math.nan if v is None else v for v in values])
        people = ArrayPersonTable(x[:, None], ("x",))
    else:
        frame = pl.DataFrame({"p": range(len(values)), "v0": values})
        native = frame.lazy()
        if home == "duckdb":
            native = duckdb.from_arrow(frame.to_arrow())
        people = EnginePersonTable(lazy(native), ("x",), home=EngineStore(native))
    found = edges.edges_told(people)
    for question, answer in edges.edges_expected(values).items():
        assert found[question] == answer, question


def test_a_recording_table_gives_the_numbers_of_the_people_themselves():
    people, heard = ArrayPersonTable(np.array([[1.0], [math.nan]]), ("x",)), []
    counts = RecordingTable(people, heard.append).column_counts(0)
    assert counts.people is people
    assert (counts.present, counts.half_octaves(0.0).sum()) == (1, 1)
    assert [str(item) for item in heard] == ["people.column_counts"]


@pytest.mark.parametrize("workers", [1, 3])
def test_chunks_and_threads_do_not_show(monkeypatch, workers):
    monkeypatch.setattr(kernels, "_processors", lambda: workers)
    monkeypatch.setattr(kernels, "PARALLEL", 256)
    monkeypatch.setattr(kernels, "CHUNK", 100)
    generator = np.random.default_rng(2)
    values = generator.standard_t(1, (1234, 2)) * 10.0 ** generator.integers(-12, 12, (1234, 2))
    values[generator.random((1234, 2)) < 0.1] = math.nan
    values[0], values[1], values[700] = math.inf, -math.inf, math.nan
    box = ClipInterval(-0.7, 12.3)
    people = ArrayPersonTable(values, ("x", "y"))
    assert people.log_counts(1, 0.25).tolist() == reference.log_counts(values[:, 1].tolist(), 0.25)
    other = values[:, 1].tolist()
    assert people.half_octave_counts(1, 0.25).tolist() == reference.half_octave_counts(other, 0.25)
    found = people.part_counts(1, -1, 0.25, 2, 1000).tolist()
    assert found == reference.part_counts(other, -1, 0.25, 2, 1000)
    plain = [None if math.isnan(v) else v for v in values[:, 0].tolist()]
    fields = reference.interval_sums(plain, [1] * len(plain), None, box)
    assert vars(people.interval_sums([box, None])[0]) == fields
    counts = generator.integers(0, 2**20, (1234, 2))
    weighted = ArrayPersonTable(values, ("x", "y"), counts, 2**20)
    fields = reference.interval_sums(plain, counts[:, 0].tolist(), 2**20, box)
    assert vars(weighted.interval_sums([box, None])[0]) == fields


@pytest.mark.parametrize("first", ["log_counts", "count_outside", "interval_sums", "other column"])
@pytest.mark.parametrize("odd", [None, math.nan, math.inf, -math.inf])
def test_extremes_of_chunks_hide_nobody(monkeypatch, first, odd):
    """One odd value among many inside, in every chunk in turn, whatever was asked first."""
    monkeypatch.setattr(kernels, "PARALLEL", 256)
    monkeypatch.setattr(kernels, "CHUNK", 100)
    monkeypatch.setattr(kernels, "_processors", lambda: 3)
    for place in (0, 99, 100, 383, 384, 511, 512, 549):
        values = np.zeros((550, 2))
        values[:, 1] = 7.0  # outside of everything
        odds = [math.nan if odd is None else odd]
        if odd is None:
            odds = [-5.0, 5.0]
        for value in odds:
            values[place, 0] = value
            people = ArrayPersonTable(values, ("x", "y"))
            if first == "log_counts":
                people.log_counts(0, 1.0)
            elif first == "interval_sums":
                people.interval_sums([ClipInterval(-20.0, 20.0), None])
            elif first == "other column":
                people.log_counts(1, 1.0)
            above, below = int(value > 3), int(value < -2)
            assert people.count_outside(0, -2.0, 3.0) == (below, above)
            (sums, _) = people.interval_sums([ClipInterval(-2.0, 3.0), None])
            known = 550 - math.isnan(value)
            assert (sums.present, sums.below, sums.above) == (known, below, above)


def test_square_sums_are_exact_at_the_largest_grid_points():
    box = ClipInterval(0.0, 1.99999999)  # a widest grid: 2^20 steps to either side
    values = np.where(np.arange(200_000) % 2, 1e9, -1e9)
    sums = ArrayPersonTable(values[:, None], ("x",)).interval_sums([box])[0]
    ends = [reference.on_box(v, box) for v in (-1e9, 1e9)]
    assert ends == [-(2**20), 2**20]
    assert sums.z == 100_000 * sum(ends)
    assert sums.zz == 100_000 * sum(z * z for z in ends)
    assert max(abs(z) for z in ends) <= box.steps <= 2**20 + 1


def test_boxes_of_any_size_keep_the_grid_inside_the_limits():
    generator = np.random.default_rng(3)
    for _ in range(2000):
        lower = generator.normal() * 10.0 ** generator.integers(-30, 30)
        upper = lower + abs(generator.normal()) * 10.0 ** generator.integers(-30, 30)
        if not lower < upper:
            continue
        box = ClipInterval(lower, upper)
        grid = kernels._grid(np.array([lower, upper, -1e300, 1e300]), box, np.empty(4))
        assert np.abs(grid).max() <= box.steps <= 2**20 + 1


def test_balls_whose_squares_would_overflow_are_refused():
    assert L2Ball((0.0,), 1.0, 2.0**-30).steps == 2**30
    with pytest.raises(ValueError, match="64 bits"):
        L2Ball((0.0,), 1.0, 2.0**-31)
