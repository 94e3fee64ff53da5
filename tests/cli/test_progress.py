"""On a terminal, a long read shows how far it is: a share of the file, nothing of its records."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from contextlib import contextmanager

import pytest

import privmean as pm
from privmean.cli.app import INTERRUPTED, run
from privmean.data import duckdb_engine

ROWS = 40_123
STUDY = """
[table]
source = "x.csv"
person = "who"
[budget]
epsilon = 4
[questions.pay]
ask = "mean"
values = "x"
"""
COMMANDS = {
    "mean": ["mean", "x.csv", "--person", "who", "--value", "x", "--epsilon", "1"],
    "study": ["study", "run", "study.toml", "--out", "made"],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(duckdb_engine, "PATIENCE", 0.0)  # any read is a long one
    lines = [f"{i // 7},{1 + i % 50}" for i in range(ROWS)]
    (tmp_path / "x.csv").write_text("\n".join(["who,x", *lines]) + "\n")
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


@contextmanager
def terminal(monkeypatch):
    """A pseudo terminal in place of standard error; what it was shown, once all is written."""
    ours, theirs = os.openpty()
    pieces, shown = [], []

    def read():
        try:
            while piece := os.read(ours, 4096):
                pieces.append(piece)
        except OSError:  # the other end is closed
            pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(theirs, "w") as error, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", error)
        yield shown
    reader.join(10)
    os.close(ours)
    shown.append(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(pieces).decode()))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_terminal_sees_the_share_that_is_read_and_no_number_of_rows(command, folder, monkeypatch):
    with terminal(monkeypatch) as shown:
        assert run(COMMANDS[command]) == 0
    assert re.search(r"reading records .*\b\d{1,3}%", shown[0])
    assert not re.search(r"\d{4}|\d,\d", shown[0])


def test_nothing_is_shown_where_nobody_looks(folder, capsys):
    assert run(COMMANDS["mean"]) == 0
    assert capsys.readouterr().err == ""


def test_an_interrupted_read_ends_at_once_and_charges_nothing(folder, monkeypatch):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    ledger = pm.Ledger(folder / "ledger", epsilon=3.0)
    made = duckdb_engine._array_of

    def stopped(*said):
        os.kill(os.getpid(), signal.SIGINT)
        return made(*said)

    monkeypatch.setattr(duckdb_engine, "_array_of", stopped)
    try:
        with terminal(monkeypatch) as shown:
            assert run([*COMMANDS["mean"], "--ledger", str(folder / "ledger")]) == INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, before)
    assert "interrupted" in shown[0]
    assert ledger.entries == ()
