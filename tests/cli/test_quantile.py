"""The command that asks for quantiles."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from privmean.cli.app import run


@pytest.mark.slow
def test_quartiles_from_a_file(tmp_path, capsys):
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(4000), 2)
    table = tmp_path / "t.csv"
    pl.DataFrame({"who": who, "y": 5 + rng.normal(size=4000)[who]}).write_csv(table)
    asked = ["quantile", str(table), "--person", "who", "--value", "y"]
    money = ["--epsilon", "2", "--q", "0.25,0.5,0.75"]
    assert run([*asked, *money, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert np.allclose(told["estimate"], 5 + np.array([-0.674, 0, 0.674]), atol=0.3)
    assert told["columns"] == ["y at 0.25", "y at 0.5", "y at 0.75"]
    assert run([*asked, *money, "--bounds", "0", "10"]) == 0
    assert "Quantiles of y (person means)\n" in capsys.readouterr().out
    assert run([*asked, "--epsilon", "1", "--q", "1.5"]) == 2
    assert "must lie between 0 and 1" in capsys.readouterr().err
