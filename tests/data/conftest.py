"""Rows stay in engines of our own here, where tests look at them; tables and pairs of every home
are also taken into memory (`people_tables.homes`, `random_tables.homes`, `test_pairs`)."""

from __future__ import annotations

import pytest

from privmean.data import engines


@pytest.fixture(autouse=True)
def _rows_stay(monkeypatch):
    monkeypatch.setattr(engines, "IN_MEMORY", -1)
