"""Who may import what, read from the syntax trees; and that imports are late."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "privmean"
ENGINES = {"duckdb", "narwhals", "polars", "pandas", "pyarrow", "pyspark"}
LATE = [
    "duckdb", "narwhals", "opendp", "scipy", "polars", "pandas", "pyarrow", "pyspark",
    "matplotlib", "dp_accounting", "typer", "rich", "formulaic",
]  # fmt: skip


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0]


def test_engines_are_imported_in_the_people_room_only():
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 10
    strays = {
        f"{path.relative_to(SOURCE)}: {name}"
        for path in files
        for name in imported(path)
        if name in ENGINES and "people" not in path.relative_to(SOURCE).parts
    }
    assert strays == set()
    users = {name for path in (SOURCE / "people").rglob("*.py") for name in imported(path)}
    assert {"duckdb", "narwhals"} <= users  # the search does find them where they are


def run(code):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )


def test_importing_privmean_loads_no_engine_and_no_noise_library():
    code = f"import sys, privmean; print([n for n in {LATE!r} if n in sys.modules])"
    assert run(code).stdout.strip() == "[]"


def test_people_in_memory_need_no_engine():
    code = (
        "import sys, numpy, privmean; privmean.read(numpy.arange(4.0)).log_counts(0, 0.0); "
        f"print([n for n in {LATE!r} if n in sys.modules])"
    )
    assert run(code).stdout.strip() == "[]"


@pytest.mark.parametrize("last", ["", "del people", "people.part(0, 2).size()", "1/0"])
def test_standard_error_stays_clean_when_the_interpreter_ends(tmp_path, last):
    path = tmp_path / "t.csv"
    path.write_text("who,x\n1,2\n2,3\n")
    code = (
        f"import numpy, privmean; people = privmean.read({str(path)!r}, person='who', values='x')\n"
        f"people.log_counts(0, 0.0)\n{last}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "nanobind" not in done.stderr
    assert (done.stderr == "") == (last != "1/0")
