"""Pages stay short: words per page, outputs left out, and words per sentence."""

from __future__ import annotations

import re

import pytest

from doc_pages import DOCS, ROOT, blocks, gallery, prose

LIMITS = {
    "index": 100,
    "install": 400,
    "tutorial": 900,
    "choose-method": 500,
    "groups": 1000,
    "experiments": 400,
    "regression": 800,
    "trends": 400,
    "quantiles-variance": 400,
    "studies": 800,
    "ledgers": 500,
    "streams": 1200,
    "choose-epsilon": 600,
    "data-sources": 800,
    "guarantee": 600,
    "intervals": 600,
    "pitfalls": 800,
    "glossary": 900,
}
LOCAL = ("local", "collector")
TRUST = ("accuracy", "verification", "limits", "papers")
GUIDES = 15_000  # how-to, concepts, reference and trust
STORY = 450
SENTENCE = 40
CODE = re.compile(r"`[^`]+`")
LINK = re.compile(r"!?\[([^]]*)\]\([^)]*\)")
NEW_LINE = re.compile(r"^(?:\s*[-*] |\s*\d+\. |\||#)", re.MULTILINE)


def size(page):
    """Words of a page as `wc -w` counts them, but for the outputs that it shows."""
    shown = sum(len(block.text.split()) for block in blocks(page) if block.mark == "output")
    return len(page.read_text().split()) - shown


def words(page):
    """Words of a page without the marks of its tables, blocks and headings."""
    shown = "\n".join(block.text for block in blocks(page) if block.mark == "output")
    return sum(
        sign * sum(bool(re.search(r"\w", word)) for word in text.split())
        for sign, text in ((1, page.read_text()), (-1, shown))
    )


def sentences(page):
    """Sentences of the prose; a table cell, a heading and a list item end one."""
    text = LINK.sub(r"\1", CODE.sub("code", prose(page)))
    for paragraph in re.split(r"\n\s*\n", NEW_LINE.sub(r"\n\n", text)):
        for cell in paragraph.split("|"):
            yield from re.split(r"(?<=[.!?:])\s+", " ".join(cell.split()))


@pytest.mark.parametrize("name", LIMITS)
def test_pages_keep_their_word_limit(name):
    assert size(DOCS / f"{name}.md") <= LIMITS[name]


def test_readme_and_local_section_keep_their_word_limits():
    assert size(ROOT / "README.md") <= 345  # 430 with the table that it shows
    assert sum(size(DOCS / f"{name}.md") for name in LOCAL) <= 2500


def test_the_guides_keep_their_word_limit():
    start = {"index", "install", "tutorial"}
    pages = [*LIMITS.keys() - start, "api", "statuses", *TRUST]
    assert sum(words(DOCS / f"{name}.md") for name in pages) <= GUIDES
    assert words(DOCS / "accuracy.md") <= 1050


@pytest.mark.parametrize("page", gallery(), ids=lambda page: page.stem)
def test_stories_are_short(page):
    assert size(page) <= STORY


def test_sentences_end_at_full_stops_cells_and_list_items(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One two\n\nA `b c` d. E\nf.\n\n| g h | i |\n|---|---|\n- j [k](l.md) m\n")
    found = [sentence for sentence in sentences(page) if re.search(r"\w", sentence)]
    assert found == ["One two", "A code d.", "E f.", "g h", "i", "j k m"]
