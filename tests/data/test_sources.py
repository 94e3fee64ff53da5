"""Files as they come: folders, patterns, damage, text among numbers. Errors are public words."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backports import zstd

import privmean as pm
from privmean.cli.app import run
from privmean.errors import ArgumentError, SchemaError

PERSONS = np.arange(900) // 3
TABLE = pa.table({"p": PERSONS, "v": np.arange(900) % 7 / 2.0})
CSV = "p,v\n" + "".join(f"{p},{k % 7 / 2}\n" for k, p in enumerate(PERSONS))
SECRET = "SECRETVALUE"


def whole(tmp_path):
    path = tmp_path / "whole.parquet"
    pq.write_table(TABLE, path)
    return path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "a[1]", "it's*?", "with space", "ünï"])
def test_a_folder_is_its_parquet_files(tmp_path, name):
    folder = tmp_path / name
    (folder / "deep.parquet").mkdir(parents=True)
    pq.write_table(TABLE.slice(0, 300), folder / "one.parquet")
    pq.write_table(TABLE.slice(300), folder / "deep.parquet" / "[two].parquet")
    (folder / "_SUCCESS").write_text("")
    (folder / "notes.txt").write_text(SECRET)
    people = pm.read(str(folder), person="p", values="v")
    assert people.size() == 300
    assert pm.read(folder, person="p", values="v").size() == 300
    both = pm.read(str(tmp_path / "?*" / "*.parquet"), person="p", values="v")
    assert both.size() == 100


def _files(folder, named):
    folder.mkdir()
    for name, content in named.items():
        (folder / name).write_text(content)


SOURCES = {
    "empty folder": lambda d, raw: (d / "x").mkdir(),
    "folder of other files": lambda d, raw: _files(d / "x", {"a.txt": CSV}),
    "folder of two formats": lambda d, raw: _files(d / "x", {"a.csv": CSV, "b.jsonl": CSV}),
    "folder of Parquet and text": lambda d, raw: (
        _files(d / "x", {"a.csv": CSV}),
        (d / "x" / "b.parquet").write_bytes(raw),
    ),
    "folder of two tables": lambda d, raw: _files(d / "x", {"a.csv": CSV, "b.csv": f"p,{SECRET}"}),
    "folder of folders": lambda d, raw: (d / "x" / "a.parquet").mkdir(parents=True),
    "no such": lambda d, raw: None,
    "truncated.parquet": lambda d, raw: (d / "x.parquet").write_bytes(raw[: len(raw) // 2]),
    "text.parquet": lambda d, raw: (d / "x.parquet").write_text(SECRET),
    "nothing.parquet": lambda d, raw: (d / "x.parquet").write_bytes(b""),
    "a hole.parquet": lambda d, raw: (d / "x.parquet").write_bytes(
        raw[:300] + bytes(400) + raw[700:]
    ),
    "*.parquet": lambda d, raw: None,
    "*.csv": lambda d, raw: (d / "x.tsv").write_text(CSV),
    "a.docx": lambda d, raw: (d / "x.docx").write_text(SECRET),
    "nothing.csv": lambda d, raw: (d / "x.csv").write_text(""),
    "empty lines.csv": lambda d, raw: (d / "x.csv").write_text("\n\n"),
    "no names.csv": lambda d, raw: (d / "x.csv").write_text(",,\n1,2,3\n"),
    "a folder.csv": lambda d, raw: (d / "x.csv").mkdir(),
    "no gzip.csv.gz": lambda d, raw: (d / "x.csv.gz").write_text(SECRET),
    "cut.csv.gz": lambda d, raw: (d / "x.csv.gz").write_bytes(gzip.compress(CSV.encode())[:9]),
    "half.csv.gz": lambda d, raw: (d / "x.csv.gz").write_bytes(gzip.compress(CSV.encode())[:-20]),
    "long.csv": lambda d, raw: (d / "x.csv").write_text(SECRET * 10**6),
    "no zst.csv.zst": lambda d, raw: (d / "x.csv.zst").write_text(SECRET),
    "half.jsonl.zst": lambda d, raw: (d / "x.jsonl.zst").write_bytes(
        zstd.compress((SECRET * 9 + CSV).encode())[:-20]
    ),
}  # fmt: skip


def _path(folder, kind):
    if kind.startswith("*"):
        return str(folder / ("y" + kind if kind == "*.parquet" else kind))
    suffix = kind[kind.index(".") :] if "." in kind else ""
    return str(folder / ("x" + suffix))


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
def test_what_cannot_be_read_is_said_in_public_words(tmp_path, capsys, kind):
    raw = whole(tmp_path)
    SOURCES[kind](tmp_path, raw)
    path = _path(tmp_path, kind)
    with pytest.raises((ArgumentError, SchemaError)) as caught:
        pm.read(path, person="p", values="v").size()
    seen: BaseException | None = caught.value
    while seen is not None:  # what a traceback would show
        if not seen.__suppress_context__ or seen is caught.value:
            assert SECRET not in str(seen)
        seen = None if seen.__suppress_context__ else seen.__context__
    ledger = tmp_path / "ledger"
    pm.Ledger(ledger, epsilon=1).close()
    before = ledger.read_bytes()
    words = ["mean", path, "--person", "p", "--value", "v", "--epsilon", "1"]
    assert run([*words, "--ledger", str(ledger)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert path[-30:] in shown.err or "engine could not read" in shown.err
    assert SECRET not in shown.err
    assert "Traceback" not in shown.err
    assert ledger.read_bytes() == before  # nothing is spent


@pytest.mark.parametrize("path", ["", "\0.csv", "a" * 5000 + ".csv", "/dev/null", "no/such/dir/"])
def test_paths_that_are_none(path):
    with pytest.raises(ArgumentError, match="source"):
        pm.read(path, person="p", values="v")


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_a_file_that_may_not_be_read(tmp_path, monkeypatch, name):
    path = tmp_path / name
    path.write_text(CSV)

    def refuse(*_, **__):  # a root user's own files are never refused
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(SchemaError, match="Permission denied"):
        pm.read(path, person="p", values="v")


def test_files_of_a_folder_with_other_types_do_not_quote_records(tmp_path):
    (tmp_path / "x").mkdir()
    pq.write_table(TABLE, tmp_path / "x" / "a.parquet")
    text = pa.table({"p": PERSONS, "v": [f"{SECRET}{k}" for k in range(900)]})
    pq.write_table(text, tmp_path / "x" / "b.parquet")
    with pytest.raises(SchemaError) as caught:
        pm.read(tmp_path / "x", person="p", values="v").size()
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.slow
def test_text_deep_in_a_column_of_numbers_is_a_missing_record(tmp_path):
    """Whatever one record holds, it neither raises nor changes anybody else."""
    rows = [f"{k // 3},{k % 7}\n" for k in range(100_000)]
    rows[90_000] = f"30000,{SECRET}\n"
    path = tmp_path / "x.csv"
    path.write_text("p,v\n" + "".join(rows))
    people = pm.read(path, person="p", values="v").collect()
    assert people.values.shape == (33_334, 1)
    assert not np.isnan(people.values).any()


def test_an_unexpected_error_keeps_its_words_to_itself(tmp_path, capsys, monkeypatch):
    path = tmp_path / "x.csv"
    path.write_text(CSV)

    def broken(*_, **__):
        raise RuntimeError(f"Conversion Error: could not convert string '{SECRET}' to DOUBLE")

    monkeypatch.setattr("privmean.api.run_question.run_question", broken)
    words = ["mean", str(path), "--person", "p", "--value", "v", "--epsilon", "1"]
    assert run(words) == 1
    shown = capsys.readouterr()
    assert SECRET not in shown.out + shown.err
    assert "RuntimeError at privmean/cli/derive_command.py:" in shown.err
