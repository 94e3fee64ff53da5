"""Every row of the page of papers names what there is, and its results exist."""

from __future__ import annotations

import inspect
import json
import re
from importlib import import_module

import pytest

from doc_pages import DOCS
from privmean import published

PAGE = (DOCS / "papers.md").read_text()
HEAD = "| algorithm, theorem, figure | public name | status | results | erratum |"
TERMS = "| the field says | privmean says |"
NAME = re.compile(r"`((?:pm|local|published|streams)(?:\.\w+)+)")
CALL = re.compile(NAME.pattern + r"\(([^)]*)\)")  # with its options


def rows(width):
    """The cells of every row of the tables that have so many columns."""
    for line in PAGE.splitlines():
        if line.startswith("| ") and line not in (HEAD, TERMS):
            cells = [cell.strip() for cell in line.strip()[1:-1].split("|")]
            if len(cells) == width:
                yield cells


ROWS = list(rows(5))
NAMES = sorted({name for row in [*ROWS, *rows(2)] for name in NAME.findall(row[1])})


def found(name):
    """The object of a dotted name: an attribute, or else a module."""
    first, *rest = name.split(".")
    path = "privmean" if first == "pm" else f"privmean.{first}"
    made = import_module(path)
    for part in rest:
        path = f"{path}.{part}"
        made = getattr(made, part, None) or import_module(path)
    return made


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_page_is_there(name):
    assert found(name) is not None


def test_options_that_a_row_names_are_those_of_its_name():
    said = [(name, options) for row in ROWS for name, options in CALL.findall(row[1])]
    assert len(said) > 5
    for name, options in said:
        taken = set(inspect.signature(found(name)).parameters)
        assert "settings" in taken or set(re.findall(r"(\w+)=", options)) <= taken, name


def test_every_line_of_a_table_is_a_row():
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    heads = [line for line in lines if line in (HEAD, TERMS)]
    assert len(lines) == len(ROWS) + len(list(rows(2))) + len(heads)
    assert len(heads) == 6
    assert len(ROWS) > 70


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_that_runs_names_what_is_called(row):
    title, names, status, results, _ = row
    assert re.fullmatch("yes|no|part: .+", status), status
    if status == "no":
        assert names == "none"
        assert results == ""
        return
    assert NAME.findall(names) or title.startswith("printed weights") or status == ONLY
    if re.match("Figure|Table", title) or status == ONLY:
        assert results


ONLY = "part: results only"


def test_results_come_from_a_script_that_exists():
    linked = re.findall(r"\(appendix/([a-z0-9-]+)\.md\)", PAGE)
    assert len(set(linked)) > 25
    benchmarks = DOCS.parent / "benchmarks"
    for name in linked:
        record = json.loads((benchmarks / "results" / f"{name}.json").read_text())
        assert (DOCS.parent / re.search(r"benchmarks/\w+\.py", record["command"])[0]).exists()


def test_the_papers_are_cited():
    cited = (DOCS.parent / "CITATION.cff").read_text().split("  - type: article\n")[1:]
    heads = re.findall(r"^## .*\(([\w-]+).*(20\d\d)\)$", PAGE, re.MULTILINE)
    found = [re.search(r'year: (\d+).*?family-names: "([^"]+)"', item, re.DOTALL) for item in cited]
    assert [(item[2], item[1]) for item in found] == heads


def test_every_published_name_is_on_the_page():
    assert {f"published.{name}" for name in published.__all__} <= set(NAMES)
