"""The tables that the package carries, the demo, and what studies say."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import privmean as pm
from privmean.cli.app import run

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wages", "ratings", "nlswork"])
def test_examples_are_the_same_everywhere(name, tmp_path):
    one, other = pm.example(name), pm.example(name)
    for key in one:
        np.testing.assert_array_equal(one[key], other[key])
    path = pm.example(name, tmp_path / "t.csv")
    person, value = next(iter(one)), list(one)[-1]
    arrays = pm.read(one, person=person, values=value)
    file = pm.read(path, person=person, values=value)
    assert arrays.size() == file.size() == len(np.unique(one[person]))
    a, b = (pm.mean(x, epsilon=1.0, noise=pm.SimulatedNoise(1)) for x in (arrays, file))
    assert a.estimate == pytest.approx(b.estimate)
    assert a.status == "ok"
    with pytest.raises(pm.ArgumentError, match="is not an example"):
        pm.example("salaries")


def test_the_demo_runs(capsys, tmp_path, monkeypatch):
    for extra in ("formulaic", "matplotlib", "pandas", "pyarrow", "polars", "sqlalchemy"):
        monkeypatch.setitem(sys.modules, extra, None)  # with the core install alone
    assert run(["demo", "--write", str(tmp_path / "wages.csv")]) == 0
    out = capsys.readouterr().out
    assert "95% confidence interval" in out
    assert "minimum n" in out
    assert (tmp_path / "wages.csv").exists()
