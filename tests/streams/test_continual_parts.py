"""Streams that read a folder of Parquet files."""

import os

import duckdb
import pytest
from continual_reference import EVENTS, shown

from cli_runner import shell
from privmean.data.parquet_files import rows_of
from privmean.errors import SchemaError
from privmean.streams import record_sources as sources

BASE = [*EVENTS, "--bounds", "0", "10"]


def part(path, query, when):
    hidden = path.with_name("." + path.name)
    duckdb.sql(query).write_parquet(str(hidden))
    hidden.rename(path)
    os.utime(path, (when, when))


def test_parts_are_read_once_in_the_order_of_their_arrival(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    part(folder / "b.parquet", "SELECT 'u' || i AS p, i * 1.0 AS v FROM range(5) t(i)", 100)
    part(folder / "a.parquet", "SELECT 'w' || i AS p, 2.0 AS v FROM range(4) t(i)", 200)
    (folder / "_temporary.parquet").write_bytes(b"no")
    arguments = [*BASE, "--state", tmp_path / "s", "--parts", folder, "--idle", "0"]
    first = shown(shell(*arguments))
    assert [item["arrivals"] for item in first] == list(range(1, 10))
    part(folder / "0.parquet", "SELECT 'x' AS p, 'high' AS v UNION ALL SELECT NULL, '3'", 50)
    second = shown(shell(*arguments, "--no-replay"))
    assert [item["arrivals"] for item in second] == [10]  # a null id is no event
    assert shown(shell(*arguments, "--no-replay")) == []
    (folder / "b.parquet").unlink()
    assert len(shown(shell(*arguments))) == 10


def test_parts_that_were_read_may_be_removed(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    arguments = [*BASE, "--state", tmp_path / "s", "--parts", folder, "--idle", "0", "--no-replay"]
    query = "SELECT {0} + i AS p, 2.0 AS v FROM range({1}) t(i)"
    part(folder / "a.parquet", query.format(0, 3), 100)
    part(folder / "b.parquet", query.format(10, 5), 200)
    assert len(shown(shell(*arguments))) == 8
    for name in ("a.parquet", "b.parquet"):
        (folder / name).unlink()
    assert shown(shell(*arguments)) == []
    part(folder / "c.parquet", query.format(20, 4), 300)
    assert [item["arrivals"] for item in shown(shell(*arguments))] == [9, 10, 11, 12]


@pytest.mark.parametrize("size", [4, 6, 12, 13])
def test_a_note_says_whether_a_part_was_read_to_its_end(tmp_path, monkeypatch, size):
    monkeypatch.setattr("privmean.data.parquet_files.ROWS", size)
    part(tmp_path / "a.parquet", "SELECT i AS p, i AS v FROM range(12) t(i)", 1)
    source = sources.Parts(tmp_path, ("p", ["v"], []), 0)
    with sources.Interrupts() as interrupts:
        *before, last = [note for _, note in source.batches(interrupts, {})]
        assert [note["rows"] for note in before] == list(range(size, 12, size))
        assert last == {"parts": ["a.parquet"], "rows": 0}
        (tmp_path / "a.parquet").unlink()
        assert not list(source.batches(interrupts, last))
        for note in before:
            with pytest.raises(
                SchemaError,
                match=f"does not exist any more, and {note['rows']} of its rows were read",
            ):
                list(source.batches(interrupts, note))


def test_a_part_that_vanishes_while_the_folder_is_listed(tmp_path, monkeypatch):
    part(tmp_path / "a.parquet", "SELECT 1 AS p, 2 AS v", 1)
    source = sources.Parts(tmp_path, ("p", ["v"], []), 0)
    listed = list(os.scandir(tmp_path))
    (tmp_path / "a.parquet").unlink()
    monkeypatch.setattr(os, "scandir", lambda folder: listed)
    with sources.Interrupts() as interrupts:
        assert not list(source.batches(interrupts, {}))


def test_a_part_goes_on_where_it_was(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    part(folder / "a.parquet", "SELECT i AS p, i AS v, 'g' AS k FROM range(12) t(i)", 1)
    path = folder / "a.parquet"
    whole = [row for block, _ in rows_of(path, "p", ["v"], ["k"]) for row in block]
    assert whole[3] == (3, ([3.0], ("g",)))
    left = rows_of(path, "p", ["v"], ["k"], skip=5)
    assert [row for block, _ in left for row in block] == whole[5:]
    source = sources.Parts(folder, ("p", ["v"], []), 0)
    with sources.Interrupts() as interrupts:
        note = {"parts": ["a.parquet"], "rows": 5}
        ((events, after),) = source.batches(interrupts, note)
    assert [event.person for event in events] == [str(i) for i in range(5, 12)]
    assert after == {"parts": ["a.parquet"], "rows": 0}  # read to its end


def test_what_parts_refuse(tmp_path):
    assert shell(*BASE, "--parts", tmp_path / "none").exit_code == 2
    (tmp_path / "x.parquet").write_bytes(b"half a file")
    result = shell(*BASE, "--parts", tmp_path, "--idle", "0")
    assert result.exit_code == 2
    assert "not a complete Parquet file" in result.stderr
    part(tmp_path / "x.parquet", "SELECT 1 AS p", 1)
    with pytest.raises(SchemaError, match="no column 'v'"):
        list(rows_of(tmp_path / "x.parquet", "p", ["v"], []))


def test_a_part_whose_name_looks_like_a_pattern_is_that_file_alone(tmp_path):
    for name, value in (("a", 1.0), ("b", 2.0), ("[ab]", 9.0)):
        whole = tmp_path / "made.parquet"
        part(whole, f"SELECT 'u' AS p, {value}::DOUBLE AS v", 1)
        whole.rename(tmp_path / f"{name}.parquet")
    ((block, _),) = rows_of(tmp_path / "[ab].parquet", "p", ["v"], [])
    assert block == [("u", ([9.0], ()))]
