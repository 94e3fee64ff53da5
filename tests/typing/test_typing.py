"""The public faces as mypy and pyright see them: `passes.py` has no error, `fails.py` all it marks.

A line of `fails.py` ends in the rule of mypy and that of pyright by which its mistake is reported;
other lines have none.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).resolve().parent
HOUSE = HERE.parent.parent
SOURCES = HOUSE / "src" / "privmean"
MARK = re.compile(r"# E: ([a-z-]+) \| (\w+)$")
Found = dict[int, set[str]]


def by_mypy(name: str) -> Found:
    """Strictly, as the project's settings say, and with the same cache as `make types`."""
    settings = ["--config-file", f"{HOUSE}/pyproject.toml", "--cache-dir", f"{HOUSE}/.mypy_cache"]
    out, problem, _ = api.run([*settings, "--strict", str(HERE / name)])
    assert not problem
    assert "(checked 1 source file)" in out or "no issues found in 1 source file" in out
    found = defaultdict(set)
    for path, line, rule in re.findall(r"^(.*?):(\d+): error: .*\[([a-z-]+)\]$", out, re.MULTILINE):
        assert Path(path).name == name
        found[int(line)].add(rule)
    return found


def by_pyright(name: str) -> Found:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, "--project", str(HERE), str(HERE / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    found = defaultdict(set)
    for item in report["generalDiagnostics"]:
        found[item["range"]["start"]["line"] + 1].add(item["rule"])
    return found


def marked(place: int) -> dict[int, str]:
    lines = enumerate((HERE / "fails.py").read_text().splitlines(), 1)
    return {number: mark[place] for number, line in lines if (mark := MARK.search(line))}


CHECKERS = [(by_mypy, 1), (by_pyright, 2)]
both = pytest.mark.parametrize(("checked", "place"), CHECKERS, ids=["mypy", "pyright"])


@pytest.mark.slow
@both
def test_what_users_write_passes(checked, place):
    assert not checked("passes.py")


@pytest.mark.slow
@both
def test_mistakes_are_seen(checked, place):
    found, wanted = checked("fails.py"), marked(place)
    assert len(wanted) > 40
    assert set(found) == set(wanted)
    assert {line for line, rule in wanted.items() if rule not in found[line]} == set()


@pytest.mark.slow
def test_any_is_rare_in_signatures():
    """Parameters and results that are `Any` tell a reader nothing: for engines, and little else."""
    found = []
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = node.args
                listed = [*given.posonlyargs, *given.args, *given.kwonlyargs]
                listed += [item for item in (given.vararg, given.kwarg) if item]
                said = [item.annotation for item in listed] + [node.returns]
                found += [
                    path.name for one in said if isinstance(one, ast.Name) and one.id == "Any"
                ]
    assert len(found) < 120, found
