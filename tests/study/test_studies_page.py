"""The tables that the package carries, the demo, and the study file of docs/studies.md (which
test_pages.py runs)."""

from __future__ import annotations

import sys
import tomllib

import pytest

import privmean as pm
from doc_pages import DOCS, blocks
from privmean.cli.app import run
from privmean.study.study_file import study_of


def test_the_demo_runs(capsys, tmp_path, monkeypatch):
    for extra in ("formulaic", "matplotlib", "pandas", "pyarrow", "polars", "sqlalchemy"):
        monkeypatch.setitem(sys.modules, extra, None)  # with the core install alone
    assert run(["demo", "--write", str(tmp_path / "wages.csv")]) == 0
    out = capsys.readouterr().out
    assert "95% confidence interval" in out
    assert "minimum n" in out
    assert (tmp_path / "wages.csv").exists()


@pytest.mark.slow
def test_the_study_of_the_page_shares_one_location_query():
    (text,) = (block.text for block in blocks(DOCS / "studies.md") if block.mark == "file")
    study = study_of(tomllib.loads(text), DOCS)
    study.source = pm.Table(pm.example("nlswork"), person="person_id")
    plan = study.plan()
    users = {part.name for part in plan.parts for look in part.looks if look.column == "ln_wage"}
    assert users == {"level", "college", "quartiles", "returns"}
    assert len([look for look in plan.shared_locations if look.column == "ln_wage"]) == 1
