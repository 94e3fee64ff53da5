"""From a file to a number, at the engines' boundary: a hundred hostile neighbours in the suite.

benchmarks/file_to_number.py runs a thousand of every home.
"""

from __future__ import annotations

import pytest

from auditing.filed import HOMES, MOST_ROWS, Boundary, audited


@pytest.mark.slow
@pytest.mark.parametrize("home", HOMES)
def test_only_counts_and_sums_leave_and_they_move_as_billed(home, tmp_path):
    found, boundary = audited(home, 25, tmp_path)
    assert found.count == 0, found.violations
    assert found.runs >= 25
    assert all(item.largest <= 1 for item in found.mechanisms.values())
    assert found.mechanisms["SumsOver, laplace"].largest > 0.9  # the neighbours are hostile
    assert boundary.others == []
    assert boundary.answers > 25
    assert boundary.rows <= MOST_ROWS


def test_values_that_leave_an_engine_would_be_seen(tmp_path):
    """The watch itself: rows of persons are no whole numbers."""
    import numpy as np

    import privmean as pm
    from auditing.filed import base, polars
    from privmean.data.engine_table import EnginePersonTable

    people = pm.read(polars(base(np.random.default_rng(0)), tmp_path), person="id", values="x")
    assert isinstance(people, EnginePersonTable)
    boundary = Boundary()
    with boundary.watched():
        people.matrix()
    assert boundary.others


@pytest.mark.slow
def test_a_reader_that_filters_before_it_groups_is_caught(tmp_path, monkeypatch):
    """A twin: records without a value are dropped first, and with them persons."""
    from auditing import filed

    def dropping(rows, folder):
        return filed.polars([row for row in rows if row[1] is not None], folder)

    monkeypatch.setitem(filed.HOMES, "Polars frame", dropping)
    found, _ = audited("Polars frame", 120, tmp_path)
    assert any("roster" in item.what for item in found.violations)
