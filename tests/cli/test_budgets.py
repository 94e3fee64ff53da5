"""Budgets at and beyond the ends: a release or words with status 2, for every command."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import privmean as pm
from privmean.cli.app import run

COMMANDS = {
    "mean": ["mean", "TABLE", "--person", "p", "--value", "v"],
    "bounded": ["mean", "TABLE", "--person", "p", "--value", "v", "--bounds", "0", "6"],
    "variance": [
        "variance", "TABLE", "--person", "p", "--value", "v", "--within", "0.01",
        "100",
    ],
    "regress": [
        "regress", "TABLE", "v ~ a", "--effect", "per_person", "--person", "p", "--assume", "-9,9",
    ],
    "curve": [
        "curve", "TABLE", "--person", "p", "--value", "v", "--time", "a", "--bins", "-9,0,9",
        "--bounds", "0", "6",
    ],
    "plan": ["plan", "--n", "1000", "--bounds", "0", "1"],
    "stream": [
        "stream", "--person", "p", "--value", "v", "--max-participations", "1",
        "--min-separation", "1", "--steps", "4", "--bounds", "0", "6", "--format", "jsonl",
    ],
}  # fmt: skip
REFUSED = [
    ["--epsilon", "1e-9"], ["--epsilon", "inf"], ["--epsilon", "1", "--delta", "1"],
    ["--epsilon", "1", "--delta", "nan"], ["--rho", "1e-300"], ["--rho", "1e9"],
]  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("budgets") / "x.csv"
    rng = np.random.default_rng(0)
    rows = [f"{k // 3},{v:.4f},{a:.4f}\n" for k, (v, a) in enumerate(rng.normal(3, 1, (600, 2)))]
    path.write_text("p,v,a\n" + "".join(rows))
    return str(path)


def call(capsys, monkeypatch, words):
    with open("/dev/null") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        status = run(words)
    return status, capsys.readouterr()


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_what_is_no_budget(capsys, monkeypatch, tmp_path, table, command):
    words = [table if word == "TABLE" else word for word in COMMANDS[command]]
    ledger = tmp_path / "ledger"
    pm.Ledger(ledger, epsilon=50).close()
    before = ledger.read_bytes()
    extra = ["--ledger", str(ledger)] if "TABLE" in COMMANDS[command] else []
    for budget in REFUSED:
        status, shown = call(capsys, monkeypatch, [*words, *budget, *extra])
        assert status == 2, (budget, shown.err)
        assert shown.out == ""
        assert budget[-2][2:] in shown.err
    assert ledger.read_bytes() == before
