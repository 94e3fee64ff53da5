"""What a collector's SQLite file is known by: a copy is looked through in full."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from file_copying import copied
from privmean.local.collector import sqlite
from privmean.local.collector.store import Store
from privmean.storage.file_identity import Identity


@pytest.fixture
def looks(monkeypatch):
    """Whether each opening took the file for a copy."""
    found = []
    agrees = sqlite._agrees

    def watched(link, *, copied):
        found.append(copied)
        return agrees(link, copied=copied)

    monkeypatch.setattr(sqlite, "_agrees", watched)
    return found


def opened(path):
    Store(f"sqlite:///{path}").close()


def place_of(path):
    with closing(sqlite3.connect(path)) as link:
        return link.execute("SELECT place FROM privmean_file").fetchone()[0]


def test_a_copy_with_the_same_inode_number_is_a_copy(tmp_path, looks, reused):
    opened(tmp_path / "r.db")
    opened(tmp_path / "r.db")
    copied(tmp_path / "r.db", tmp_path / "copy.db")
    opened(tmp_path / "copy.db")
    opened(tmp_path / "copy.db")
    assert looks == [False, False, True, False]


def test_a_file_of_an_older_version_is_looked_through_once(tmp_path, looks):
    path = tmp_path / "r.db"
    opened(path)
    with closing(sqlite3.connect(path)) as link, link:
        link.execute("UPDATE privmean_file SET place = ?", (path.stat().st_ino,))
    opened(path)
    opened(path)
    assert looks[1:] == [Identity.of(path).born is not None, False]
    assert place_of(path) == Identity.of(path).number


def test_without_a_birth_the_number_tells(tmp_path, looks, unborn):
    path = tmp_path / "r.db"
    opened(path)
    assert place_of(path) == path.stat().st_ino
    copied(path, tmp_path / "copy.db")
    opened(path)
    opened(tmp_path / "copy.db")
    assert looks == [False, False, True]
