"""What a collector's SQLite file is known by: a copy is looked through in full."""

from __future__ import annotations

import shutil

import pytest

from privmean.collector import sqlite
from privmean.collector.store import Store


@pytest.fixture
def looks(monkeypatch):
    """Whether each opening knew the file."""
    found = []
    agrees = sqlite._agrees

    def watched(link, said, *, known):
        found.append(known)
        return agrees(link, said, known=known)

    monkeypatch.setattr(sqlite, "_agrees", watched)
    return found


def opened(path):
    Store(f"sqlite:///{path}").close()


def test_a_file_that_the_witness_does_not_know_is_looked_through_in_full(tmp_path, looks):
    opened(tmp_path / "r.db")
    opened(tmp_path / "r.db")
    shutil.copy(tmp_path / "r.db", tmp_path / "copy.db")
    opened(tmp_path / "copy.db")
    opened(tmp_path / "copy.db")
    assert looks == [False, True, False, True]
