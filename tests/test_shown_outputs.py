"""Every output and picture that a page shows is what its code gives now, with noise of the stated
seed, and the notebooks of the gallery are made from their pages."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

from doc_pages import DOCS, SHOWN_MARKS, blocks, gallery, pages, with_outputs

PAGES = [page for page in pages() if any(block.mark in SHOWN_MARKS for block in blocks(page))]
STORIES = [page for page in gallery() if blocks(page)]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_shown_outputs_are_current(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path, text in with_outputs(page).items():
        assert path.read_text() == text, f"{path.name}: run docs/site-tools/refresh_outputs.py"


def test_shown_outputs_are_few():
    shown = [block for page in PAGES for block in blocks(page) if block.mark == "output"]
    assert 8 <= len([block for block in shown if block.page not in {p.name for p in STORIES}]) <= 12
    assert len(shown) <= 20


def test_the_gallery_tells_six_stories_that_end_in_a_report():
    assert len(STORIES) == 6
    for page in STORIES:
        text = page.read_text()
        assert f"({page.stem}.md)" in (page.parent / "index.md").read_text()
        assert any(block.mark == "picture" for block in blocks(page))
        assert "report(" in text or "--html" in text


@pytest.mark.parametrize("page", STORIES, ids=lambda page: page.stem)
def test_a_notebook_holds_the_code_of_its_page(page):
    cells = json.loads(page.with_suffix(".ipynb").read_text())["cells"]
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    for block in blocks(page):
        if block.mark != "output":
            assert any(block.text in source for source in code)
    for source in code:
        if not source.startswith("%%sh"):
            ast.parse(source)
    prose = "\n".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
    assert "<!--" not in prose
    assert "```" not in prose


@pytest.mark.slow
def test_notebooks_are_made_from_their_pages_by_the_script(tmp_path):
    stored = {page: page.with_suffix(".ipynb").read_text() for page in STORIES}
    command = [sys.executable, "-c", NOTEBOOKS, str(DOCS / "site-tools")]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(made) == {page.stem: text for page, text in stored.items()}


NOTEBOOKS = """
import json, sys
sys.path.insert(0, sys.argv[1])
from notebooks import notebooks
print(json.dumps({path.stem: text for path, text in notebooks().items()}))
"""
