"""A question is a module and a line of `QUESTIONS`: every door then knows it."""

from __future__ import annotations

import numpy as np
import pytest

import privmean as pm
from entry_points import Refused, by_file, by_question, by_shell
from privmean.api.parse_question import QUESTIONS
from privmean.cli import app as shell
from privmean.noise.noise_source import SimulatedNoise


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(1)
    rows = [f"{who},{rng.integers(1, 7)}" for who in range(400) for _ in range(3)]
    path = tmp_path / "grades.csv"
    path.write_text("\n".join(["who,x", *rows]))
    return str(path)


def test_one_line_opens_every_door_to_a_question(monkeypatch, capsys, tmp_path, table):
    said = ("grade", {"value": "x"}, {"epsilon": 1.0})
    with pytest.raises(Refused, match="is not a kind of question"):
        by_question(table, *said)
    monkeypatch.setitem(QUESTIONS, "grade", "minimal_question:Grade")
    monkeypatch.setattr(shell.app, "registered_commands", [*shell.app.registered_commands])
    monkeypatch.setattr("privmean.pipeline.ExactNoise", lambda: SimulatedNoise(3))
    found = [
        by_question(table, *said),
        by_file(tmp_path / "study.toml", table, *said),
        by_shell(capsys, table, *said),
    ]
    for release in found:
        assert pm.Guarantee.from_dict(release["guarantee"]).verify()
        del release["provenance"]
    assert found[0] == found[1] == found[2]
    assert abs(found[0]["estimate"][0] - 3.5) < 0.5
    with pytest.raises(Refused, match="value"):
        by_question("nowhere.csv", "grade", {}, {"epsilon": 1.0})
