"""Every output that a page shows is what its code prints now, with noise of the stated seed."""

from __future__ import annotations

import pytest

from doc_pages import blocks, pages, with_outputs

PAGES = [page for page in pages() if any(block.mark == "output" for block in blocks(page))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_shown_outputs_are_current(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert page.read_text() == with_outputs(page), "run docs/site-tools/refresh_outputs.py"


def test_shown_outputs_are_few():
    shown = [block for page in PAGES for block in blocks(page) if block.mark == "output"]
    assert 8 <= len(shown) <= 12
