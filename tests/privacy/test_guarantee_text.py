"""What is said of a promise: a delta that is none."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import privmean as pm
from privmean.cli.app import run


def test_a_delta_that_is_no_promise_is_said_before_the_charge(tmp_path, capsys):
    rows = np.random.default_rng(1).normal(10, 2, 2000)
    ledger = pm.Ledger(epsilon=100, delta=0.4)
    with pytest.warns(pm.PrivmeanWarning, match="not below 1/n"):
        pm.mean(rows, epsilon=1, delta=1 / 2000, assume=pm.SubGaussian(sd=2.0), ledger=ledger)
    for fine in ({"delta": 4e-4, "assume": pm.SubGaussian(sd=2.0)}, {"delta": 0.1}, {}):
        pm.mean(rows, epsilon=1, **fine)  # small enough; a pure bill, which spends no delta
    study = pm.Study(pm.Table({"who": np.arange(2000), "x": rows}, person="who"), rho=0.1)
    study.add("x", pm.Mean("x"))
    study.release()
    path = tmp_path / "rows.csv"
    path.write_text("who,x\n" + "\n".join(f"{i},{x}" for i, x in enumerate(rows)))
    said = ["mean", str(path), "--person", "who", "--value", "x", "--epsilon", "1"]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run([*said, "--delta", "0.01", "--sd", "2"]) == 0
    assert "privmean: delta=0.01 is not below" in capsys.readouterr().err
