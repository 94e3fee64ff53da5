"""What our own engine may take of the machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest

import privmean as pm
from privmean.data import duckdb_engine as progress
from privmean.data import person_records as totals
from privmean.data.duckdb_engine import DIRECT, STATE, Engine


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_sums_from_an_exported_state_are_those_of_two_aggregates():
    generator = np.random.default_rng(4)
    points = [
        None if small < -55 else round(draw * 2.0**53) << max(0, int(small) + 26)
        for draw, small in zip(
            generator.uniform(-1, 1, 3000), generator.integers(-60, 1, 3000), strict=True
        )
    ] + [2**80, -(2**80), 2**62, -(2**62), 0]
    ids = generator.integers(0, 400, len(points)).tolist()
    ids[:2], points[:2] = [400, 400], [None, None]  # a person without a usable value
    rows = ", ".join(
        f"({who}, {'NULL' if t is None else t}::HUGEINT)"
        for who, t in zip(ids, points, strict=True)
    )
    connection = duckdb.connect()
    relation = connection.sql(f"SELECT p, t AS t0, -t AS t1 FROM (VALUES {rows}) AS v(p, t)")
    expected = {}
    for who, t in zip(ids, points, strict=True):
        total, count = expected.get(who, (0, 0))
        expected[who] = (total, count) if t is None else (total + t, count + 1)
    for sums in (totals.exported_sums, totals.plain_sums):
        found = sums(relation, 2).project("p, coalesce(t0, 0), c0, coalesce(t1, 0), c1")
        assert {row[0]: row[1:] for row in found.fetchall()} == {
            who: (total, count, -total, count) for who, (total, count) in expected.items()
        }


WRONG_STATES = {
    "of other fields": ("STRUCT(count UBIGINT, value HUGEINT)", "STRUCT(n UBIGINT, value HUGEINT)"),
    "of another average": ("avg(t{j})", "avg(t{j} + 1)"),
    "of 64 bits": ("STRUCT(count UBIGINT, value HUGEINT)", "STRUCT(count UBIGINT, value BIGINT)"),
    "of doubles": ("avg(t{j})", "avg(t{j}::DOUBLE)"),
    "of another function": ("avg(t{j}) EXPORT_STATE", "avg(t{j}) NO_SUCH_STATE"),
    "counting nulls": ("avg(t{j})", "avg(coalesce(t{j}, 0))"),
    "without the last sign": ("avg(t{j})", "avg(abs(t{j}))"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", [None, *WRONG_STATES])
def test_a_state_that_is_not_what_it_was_is_noticed_and_not_used(monkeypatch, name):
    """DuckDB does not document it: a known sum is asked of it in every process."""
    monkeypatch.setattr(totals, "_verdicts", [])
    if name is not None:
        old, new = WRONG_STATES[name]
        assert old in totals.STATE
        monkeypatch.setattr(totals, "STATE", totals.STATE.replace(old, new))
    used = []

    def spied(way, sums):
        return lambda points, width, by=totals.ALONE: (
            used.append((way, width)) or sums(points, width, by)
        )

    for way in ("exported_sums", "plain_sums"):
        monkeypatch.setattr(totals, way, spied(way, getattr(totals, way)))
    table = {"who": [1, 1, 2, 2, 3], "x": [2.0**70, 1.0, -(2.0**62), None, 0.5]}
    frame = pl.DataFrame(table).to_arrow()
    for _ in range(2):
        relation = duckdb.connect().from_arrow(frame)
        people = pm.read(relation, person="who", values="x", resolution=1.0)
        rows = sorted(people.log_counts(0, 0.0).tolist())
        assert people.size() == 3
    trusted = "exported_sums" if name is None else "plain_sums"
    assert used == [(trusted, 1), (trusted, 1)]
    assert totals._verdicts == [name is None]
    expected = pm.read(pl.DataFrame(table), person="who", values="x", resolution=1.0)
    assert rows == sorted(expected.log_counts(0, 0.0).tolist())


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="what Linux says of memory")
@pytest.mark.parametrize("threads", [1, 2])
def test_memory_of_a_query_is_given_back(threads):
    def resident():
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1])

    engine = Engine(threads=threads)
    engine.connection.execute(
        "SELECT max(n) FROM (SELECT count(*) AS n FROM range(1000000) AS r(i) GROUP BY hash(i))"
    )
    before = resident()
    engine.rest()
    assert resident() < before - 20_000
    assert engine.connection.execute("SELECT current_setting('threads')").fetchone() == (threads,)


def test_the_progress_of_a_real_scan_is_shown_on_a_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")  # what Rich takes for a terminal
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.002)
    path = tmp_path / "t.parquet"
    duckdb.execute(
        f"COPY (SELECT hash(i) % 100000 AS who, random() AS x FROM range(2000000) AS r(i)) "
        f"TO '{path}' (ROW_GROUP_SIZE 20000)"
    )
    for _ in range(10):  # a busy machine may let a scan end before anyone looks
        people = pm.read(path, person="who", values="x", progress=True, threads=1)
        assert people.size() == 100_000
        out, err = capsys.readouterr()
        assert out == ""
        assert "reading records" in err
        if max(int(item) for item in re.findall(r"(\d+)%", err)) > 0:
            break
    else:
        raise AssertionError("no scan of ten has shown how far it is")
    pm.read(path, person="who", values="x")
    assert capsys.readouterr() == ("", "")


FORKED = """
import gc, os
from pathlib import Path
from privmean.data.duckdb_engine import Engine

engines = [Engine(threads=2, memory_limit="1GB")]
engines[0].connection.execute("SELECT count(*) FROM range(1000000)").fetchone()
folder = Path(engines[0].temp_directory)
child = os.fork()
if not child:
    engines.clear()
    gc.collect()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert folder.is_dir()
assert engines[0].connection.execute("SELECT 7").fetchone() == (7,)
engines.clear()
gc.collect()
assert not folder.exists()
"""


def test_a_fork_leaves_the_engine_to_the_process_that_made_it():
    """Closing it there waits for threads, or reads memory, that a fork does not have."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], check=True, timeout=300)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_blocks_of_text_are_given_back(tmp_path, ending):
    """What DuckDB has released is held no longer, so memory does not grow with the file."""
    path = tmp_path / f"t.{ending}"
    line = "{},1.5\n" if ending == "csv" else '{{"p": {}, "x": 1.5}}\n'
    path.write_text("p,x\n" * (ending == "csv") + "".join(line.format(i) for i in range(20_000)))
    before = len(progress._held)
    assert pm.read(path, person="p", values="x").size() == 20_000
    assert len(progress._held) == before
