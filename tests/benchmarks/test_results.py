"""Results of benchmarks are data: scripts store them, and the site renders them as an appendix."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

import report

ROOT = Path(__file__).resolve().parents[2]
RECORDS = {path.stem: json.loads(path.read_text()) for path in report.RESULTS.glob("*.json")}
RENDERED = {name: record for name, record in RECORDS.items() if "title" in record}


@pytest.fixture(scope="module")
def appendix():
    path = ROOT / "docs" / "site-tools" / "appendix.py"
    specification = importlib.util.spec_from_file_location("appendix", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_results_name_a_command_that_exists():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M)
    assert len(RENDERED) > 80
    for name, record in RENDERED.items():
        program, what = record["command"].removeprefix("OPENBLAS_NUM_THREADS=1 ").split()[:2]
        assert what in targets if program == "make" else (ROOT / what).exists(), name


def test_results_have_one_cell_per_column():
    for name, record in RENDERED.items():
        for part in record["content"]:
            if not isinstance(part, str):
                assert {len(row) for row in part["rows"]} <= {len(part["columns"])}, name


def test_publish_stores_tables_as_rows(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    text = report.table(["a", "|b|"], [[1, ""], ["x", 2.50]])
    command = "python benchmarks/x.py"
    report.publish("x", "Title", f"Words.\n\n{text}\n", command=command, data={"n": 3})
    stored = json.loads((tmp_path / "results" / "x.json").read_text())
    assert stored.pop("machine")
    assert stored == {
        "title": "Title",
        "command": command,
        "content": ["Words.", {"columns": ["a", "|b|"], "rows": [["1", ""], ["x", "2.5"]]}],
        "data": {"n": 3},
    }
    assert f"Words.\n\n{text}" in capsys.readouterr().out


def test_appendix_has_every_table_outside_of_the_search(appendix):
    pages = appendix.pages()
    assert len(pages) == len(RENDERED) + 1
    for name, record in RENDERED.items():
        page = pages[f"appendix/{name}.md"]
        assert f"]({name}.md)" in pages["appendix/index.md"]
        tables = [part for part in record["content"] if not isinstance(part, str)]
        assert page.count("\n|---") == len(tables)
    assert all(page.startswith("---\nsearch:\n  exclude: true\n---\n") for page in pages.values())
    assert "\\|b\\|" in appendix.markdown({"columns": ["|b|"], "rows": []})
