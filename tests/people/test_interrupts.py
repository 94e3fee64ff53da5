"""Ctrl-C while an engine reads: it stops the query and is told as what it is."""

from __future__ import annotations

import os
import signal
import threading

import duckdb
import pytest

import privmean as pm
from privmean.people import arrowstream
from privmean.people.engines import interruptible


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


def test_it_is_not_lost_where_a_text_file_is_read(tmp_path, monkeypatch):
    """The engine calls back to read lines, and what is raised there is printed at most."""
    path = tmp_path / "x.csv"
    path.write_text("who,x\n" + "".join(f"{i % 99},{i}\n" for i in range(999)))
    held = arrowstream._hold

    def killing(*said):
        os.kill(os.getpid(), signal.SIGINT)
        held(*said)

    monkeypatch.setattr(arrowstream, "_hold", killing)
    with pytest.raises(KeyboardInterrupt):
        pm.read(str(path), person="who", values="x")
