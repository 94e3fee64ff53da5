"""The study file of docs/studies.md, which test_pages.py runs."""

from __future__ import annotations

import tomllib

import pytest

import privmean as pm
from doc_pages import DOCS, blocks
from privmean.study.study_file import study_of


@pytest.mark.slow
def test_the_study_of_the_page_shares_one_location_query():
    (text,) = (block.text for block in blocks(DOCS / "studies.md") if block.mark == "file")
    study = study_of(tomllib.loads(text), DOCS)
    study.source = pm.Table(pm.example("nlswork"), person="person_id")
    plan = study.plan()
    users = {part.name for part in plan.parts for look in part.looks if look.column == "ln_wage"}
    assert users == {"level", "college", "quartiles", "returns"}
    assert len([look for look in plan.shared_locations if look.column == "ln_wage"]) == 1
