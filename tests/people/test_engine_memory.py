"""What our own engine may take of the machine."""

from __future__ import annotations

import re

import duckdb
import numpy as np
import polars as pl
import pytest

import privmean as pm
from privmean.people import progress
from privmean.people.files import DIRECT, STATE, Engine


def threshold(engine, width):
    engine.direct(width)
    (found,) = engine.connection.execute(
        "SELECT current_setting('perfect_ht_threshold')"
    ).fetchone()
    return int(found)


@pytest.mark.parametrize("width", [1, 7, 10_000, 10**9])
def test_directly_indexed_tables_stay_within_their_share(width):
    engine = Engine(threads=2, memory_limit="64GiB")
    bits = threshold(engine, width)
    assert bits == 0 or 2**bits * STATE * width <= DIRECT < 2 ** (bits + 1) * STATE * width
    narrow = Engine(threads=4, memory_limit="1GiB")
    bits = threshold(narrow, width)
    assert bits == 0 or 4 * 2**bits * STATE * width <= 2**30 / 8


@pytest.mark.parametrize("start", [-(2**62), -3, 0, 10**12])
def test_dense_and_scattered_ids_give_the_same_people(tmp_path, start):
    generator = np.random.default_rng(3)
    ids = generator.integers(0, 5000, 20_000)
    x = generator.normal(0, 1, 20_000) * 2.0 ** generator.integers(-50, 50, 20_000)
    x[::97] = np.nan
    scattered = (ids * 2**40) if start == 0 else start + ids
    for name, column in (("dense", ids), ("other", scattered)):
        pl.DataFrame({"who": column, "x": x}).write_parquet(tmp_path / f"{name}.parquet")
    found = [
        pm.read(tmp_path / f"{name}.parquet", person="who", values="x").matrix().tobytes()
        for name in ("dense", "other")
    ]
    assert found[0] == found[1]


def test_the_progress_of_a_real_scan_is_shown_on_a_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")  # what Rich takes for a terminal
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.002)
    path = tmp_path / "t.parquet"
    duckdb.execute(
        f"COPY (SELECT hash(i) % 100000 AS who, random() AS x FROM range(2000000) AS r(i)) "
        f"TO '{path}' (ROW_GROUP_SIZE 20000)"
    )
    people = pm.read(path, person="who", values="x", progress=True, threads=1)
    assert people.size() == 100_000
    out, err = capsys.readouterr()
    shares = {int(item) for item in re.findall(r"(\d+)%", err)}
    assert out == ""
    assert "reading records" in err
    assert max(shares) > 0
    pm.read(path, person="who", values="x")
    assert capsys.readouterr() == ("", "")
