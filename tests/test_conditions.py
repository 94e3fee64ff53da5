"""Every condition of the proofs names tests, and every test that is named exists."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "proofs" / "conditions.md"
ROWS = [
    line.strip("|").split("|")
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and "**" not in line and not line.startswith("| Condition")
]


@lru_cache
def functions(path: Path) -> frozenset[str]:
    found = ast.walk(ast.parse(path.read_text()))
    return frozenset(item.name for item in found if isinstance(item, ast.FunctionDef))


def test_the_table_is_read():
    assert len(ROWS) >= 29
    assert len({condition for condition, _ in ROWS}) == len(ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip()[:50])
def test_every_condition_names_tests_that_exist(row):
    named = re.findall(r"`([^`]+)`", row[1])
    assert named
    for name in named:
        path, _, test = name.partition("::")
        assert test.startswith("test_"), name
        assert test in functions(ROOT / path), name
