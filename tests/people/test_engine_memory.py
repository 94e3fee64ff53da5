"""What our own engine may take of the machine."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import privmean as pm
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
