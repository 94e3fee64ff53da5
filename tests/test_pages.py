"""Every block of the pages that users read runs as it stands, or says why it does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from doc_pages import DOCS, ROOT, RUN, SHOWN, blocks, pages, prose, run_page

PAGES = pages()
SAID = re.compile(r"^    \s*(privmean|pip|make|python|import|>>>|\$) ", re.M)
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_has_a_known_kind_and_illustrations_say_why(page):
    for block in blocks(page):
        assert block.kind in (*RUN, *SHOWN), f"{block.page}:{block.line}: {block.kind!r}"
        if block.mark == "not run":
            assert block.kind in RUN, f"{block.page}:{block.line}: only what could run is marked"
            assert len(block.said) > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_command_hides_in_an_indented_block(page):
    assert not SAID.findall(prose(page))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_page(page) == sum(block.runs for block in blocks(page))


@pytest.mark.parametrize("page", [*PAGES, *DOCS.glob("proofs/*.md")], ids=lambda page: page.stem)
def test_links_lead_to_files_that_are_there(page):
    for link in LINK.findall(prose(page)):
        assert target(page.parent / link).exists(), link


def target(path: Path) -> Path:
    """What a link leads to; the site makes its appendix of the files of benchmarks/results/."""
    if path.parent.name != "appendix":
        return path
    results = ROOT / "benchmarks" / "results"
    return results if path.stem == "index" else results / f"{path.stem}.json"


def test_most_blocks_run():
    found = [block for page in PAGES for block in blocks(page) if block.kind in RUN]
    assert sum(block.runs for block in found) > 60
    assert sum(not block.runs for block in found) < len(found) / 4


def test_the_readme_begins_with_the_install_and_links_its_picture_alone():
    first = blocks(ROOT / "README.md")[0]
    assert first.text.splitlines()[0].startswith("pip install privmean")
    assert LINK.findall(prose(ROOT / "README.md")) == ["docs/pictures/readme.svg"]
