"""A stopped run goes on with what it read, and with nothing else."""

from __future__ import annotations

import os
import shutil
from functools import partial

import numpy as np
import pytest
import stopped_runs
from stopped_runs import stopped

import privmean as pm
from privmean.study.run_folder import run_in

N = 600
ADD_REMOVE = {"neighbors": "add-remove", "n_guess": N}


def write(path, shift=0.0):
    rng = np.random.default_rng(5)
    values = rng.normal(3, 1, 2 * N) + shift
    lines = [f"{k // 2},{k // 2 + 1},{value:.6f}" for k, value in enumerate(values)]
    path.write_text("\n".join(["p,q,x", *lines]) + "\n")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for k in range(2):
        write(tmp_path / "data" / f"{k}.csv", k)
    (tmp_path / "ids").write_text("".join(f"{k}\n" for k in range(N + 1)))
    return tmp_path


def study(source="data/0.csv", budget=None, **table):
    found = pm.Study(pm.Table(source, **{"person": "p", **table}), epsilon=4.0, **(budget or {}))
    return found.add("a", pm.Mean("x", assume=(0, 8))).add("b", pm.Mean("x", assume=(0, 9)))


def refused(made, out, **options):
    stopped_runs.refused("another study|the table changed", run_in, made, out, **options)


IDS = list(range(N))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"budget": ADD_REMOVE}, {"budget": ADD_REMOVE, "person": "q"}),
        ({"roster": IDS}, {"roster": [*IDS[:-1], N]}),
        ({"roster": IDS}, {"roster": np.array([*IDS[:-1], N])}),
        ({"budget": ADD_REMOVE}, {"budget": ADD_REMOVE, "roster": IDS}),
        ({}, {"na_values": ["3.000000"]}),
        ({}, {"encoding": "latin-1"}),
        ({}, {"header": True}),
        ({"source": "data/*.csv"}, {"source": "data/0*.csv"}),
        ({"source": "data"}, {"source": "data/1.csv"}),
    ],
    ids=lambda said: ", ".join(said) or "plain",
)
def test_another_table_is_refused(place, one, other):
    stopped(study(**one), "out")
    refused(study(**other), "out")
    assert run_in(study(**one), "out")


def test_a_file_more_of_a_pattern_is_refused(place):
    stopped(study("data/*.csv"), "out")
    write(place / "data" / "2.csv")
    refused(study("data/*.csv"), "out")


def test_a_run_with_simulated_noise_does_not_go_on_with_other_noise(place):
    simulated = partial(run_in, noise=pm.SimulatedNoise(1))
    stopped(study(), "out", run=simulated)
    refused(study(), "out")
    assert not run_in(study(), "out", noise=pm.SimulatedNoise(2))["secure"]


def test_a_run_does_not_go_on_with_simulated_noise(place):
    stopped(study(), "out")
    refused(study(), "out", noise=pm.SimulatedNoise(1))
    assert run_in(study(), "out")["secure"]


@pytest.mark.slow
@pytest.mark.parametrize("touched", ["chmod", "touch", "hard links", "copies", "moved"])
def test_files_that_hold_the_same_are_the_same(place, touched):
    stopped(study("data/*.csv"), "out")
    source = "data/*.csv"
    for path in sorted((place / "data").iterdir()):
        if touched == "chmod":
            path.chmod(0o600)
        elif touched == "touch":
            os.utime(path, (1e9, 1e9))
        elif touched == "hard links":
            os.link(path, place / path.name)
        elif touched == "copies":
            shutil.copy(path, place / "other")
            os.replace(place / "other", path)
    if touched == "moved":
        os.rename(place / "data", place / "elsewhere")
        source = str(place / "elsewhere" / "*.csv")
    assert run_in(study(source), "out")
