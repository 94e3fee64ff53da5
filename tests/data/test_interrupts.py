"""Ctrl-C while an engine reads: it stops the query and is told as what it is."""

from __future__ import annotations

import gzip
import os
import signal
import threading

import duckdb
import pytest

import privmean as pm
from privmean.data import duckdb_engine as arrowstream
from privmean.data.engines import interruptible


@pytest.fixture(autouse=True)
def usual_handler():
    """What a process in the foreground has: one in the background may ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_query_is_ended_and_the_handler_is_as_before():
    connection, usual = duckdb.connect(), signal.getsignal(signal.SIGINT)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    slow = "SELECT count(DISTINCT hash(a.i + b.i)) FROM range(99999) a(i), range(99999) b(i)"
    with pytest.raises(KeyboardInterrupt), interruptible(connection):
        connection.execute(slow).fetchall()
    assert signal.getsignal(signal.SIGINT) is usual


def test_other_errors_are_left_as_they_are():
    with pytest.raises(RuntimeError, match="something else"), interruptible():
        raise RuntimeError("something else")
    with pytest.raises(KeyboardInterrupt), interruptible():
        raise RuntimeError("Query interrupted")


READS = {
    "means": lambda path: pm.read(path, person="who", values="x"),
    "persons of a plan": lambda path: pm.Table(path, person="who").count_people([("values", "x")]),
    "sizes of groups": lambda path: pm.group_sizes(path, person="who", group="town"),
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "x.csv"
    rows = "".join(f"{i % 99},{i},{i % 9},{i}\n" for i in range(999))
    path.write_text("who,x,town,year\n" + rows)
    return str(path)


@pytest.mark.parametrize("what", READS)
def test_it_is_not_lost_where_a_text_file_is_read(what, path, monkeypatch):
    """The engine calls back to read lines, and what is raised there is printed at most."""
    made = arrowstream._array_of

    def killing(*said):
        os.kill(os.getpid(), signal.SIGINT)
        return made(*said)

    monkeypatch.setattr(arrowstream, "_array_of", killing)
    with pytest.raises(KeyboardInterrupt):
        READS[what](path)


@pytest.mark.parametrize("what", READS)
def test_a_file_that_ends_too_early_is_named(what, path):
    """Not in the words of an engine, which may quote what it read."""
    packed = f"{path}.gz"
    with open(path, "rb") as whole, open(packed, "wb") as part:
        part.write(gzip.compress(whole.read())[:-200])
    with pytest.raises(pm.SchemaError, match="cannot be read to its end"):
        READS[what](packed)
