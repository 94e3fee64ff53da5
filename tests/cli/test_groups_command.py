"""Means by group on the command line and in a file of questions: the same as in Python."""

from __future__ import annotations

import json

import polars as pl
import pytest

import privmean as pm
from privmean.cli.app import run
from privmean.study.study_file import read_study


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    size = 900
    pl.DataFrame(
        {
            "who": range(size),
            "key": ["north, far", "south"] * (size // 2),
            "x": [1.0 + (i % 7) + (i % 2) for i in range(size)],
        }
    ).write_csv(path)
    return path


@pytest.mark.slow
def test_a_command_gives_groups_and_contrasts_as_json(table, tmp_path, capsys):
    keys = tmp_path / "keys.txt"
    keys.write_text("north, far\nsouth\n")
    known = ["mean", str(table), "--person", "who", "--value", "x", "--by", "key", "--json"]
    said = [
        "--keys-file",
        str(keys),
        "--contrast",
        "north, far - south",
        "--contrast",
        "each - rest",
    ]
    assert run([*known, *said, "--epsilon", "3"]) == 0
    stored = json.loads(capsys.readouterr().out)
    assert [item["key"] for item in stored["groups"]] == ["north, far", "south"]
    assert len(stored["contrasts"]) == 3
    assert stored["guarantee"]["neighbors"] == "add-remove"
    assert pm.verify(stored)
    assert run([*known, "--keys", "south,west", "--max-groups", "2", "--epsilon", "3"]) in (0, 3)
    stored = json.loads(capsys.readouterr().out)
    assert [item["key"] for item in stored["groups"]] == ["south", "west"]
    # nobody is in the west: noise of the number passes the threshold in 7 of 10^5 releases
    assert stored["groups"][1]["status"] in ("suppressed", "failed")


def test_what_is_wrong_is_said_in_words(table, capsys):
    known = ["mean", str(table), "--person", "who", "--value", "x", "--epsilon", "1"]
    for more, words in (
        (["--by", "key"], "keys"),
        (["--keys", "a,b"], "requires --by"),
        (
            ["--by", "key", "--keys", "a,b", "--contrast", "a - c"],
            "is not a comparison of listed keys",
        ),
        (
            ["--by", "key", "--keys", "a", "--keys-file", "nothing"],
            "cannot be combined with --keys",
        ),
        (["--by", "key", "--keys-file", "/nothing"], "cannot be read"),
    ):
        assert run([*known, *more]) == 2
        assert words in capsys.readouterr().err


def test_a_file_of_questions_says_the_same(table, tmp_path):
    path = tmp_path / "q.toml"
    path.write_text(
        f"""
[table]
source = "{table}"
person = "who"
[budget]
epsilon = 1.0
neighbors = "add-remove"
n_guess = 900
[questions.one]
ask = "mean"
values = ["x"]
by = "key"
keys = ["north, far", "south"]
max_groups = 2
contrasts = ["all pairs"]
simultaneous = true
"""
    )
    question = read_study(str(path)).questions["one"].question
    assert question == pm.Mean(
        ("x",), by=("key",), keys=("north, far", "south"), max_groups=2, contrasts=("all pairs",),
        simultaneous=True,
    )  # fmt: skip
    assert question.default_neighbors == "add-remove"


@pytest.mark.slow
def test_one_ledger_takes_means_and_means_by_group_where_both_say_one_relation(
    table, tmp_path, capsys
):
    """Groups ask for add-remove where nothing is said, means for replace-one."""
    ledger = str(tmp_path / "t.ledger")
    pm.Ledger(ledger, epsilon=3.0).close()
    mean = ["mean", str(table), "--person", "who", "--value", "x", "--epsilon", "1"]
    groups = [*mean, "--by", "key", "--keys-file", str(tmp_path / "keys.txt")]
    (tmp_path / "keys.txt").write_text("north, far\nsouth\n")
    assert run([*mean, "--ledger", ledger]) == 0
    capsys.readouterr()
    assert run([*groups, "--ledger", ledger]) == 2
    said = capsys.readouterr().err
    assert "Use --neighbors replace-one, or another ledger" in said
    assert "use one ledger per" not in said
    assert run([*groups, "--ledger", ledger, "--neighbors", "replace-one"]) == 0
    assert len(pm.Ledger.open(ledger).entries) == 2
