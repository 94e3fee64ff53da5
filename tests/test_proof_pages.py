"""The proof pages hang together: each is in the index, and what they name is there."""

import re
from pathlib import Path

import pytest

from plain_words import retired_terms

ROOT = Path(__file__).resolve().parent.parent
PROOFS = ROOT / "docs" / "proofs"
PAGES = sorted(page for page in PROOFS.glob("*.md") if page.name != "index.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_is_in_the_index(page):
    assert f"({page.name})" in (PROOFS / "index.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_and_tests_that_a_page_names_are_there(page):
    for name in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", page.read_text()):
        places = [ROOT / name, ROOT / "src" / "privmean" / name]
        assert any(place.exists() for place in places), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_have_no_retired_term(page):
    """Pronouns may stand in them; what stands in code is no prose."""
    terms = retired_terms([(page.stem, re.sub(r"`[^`]+`", "code", page.read_text()))])
    assert [term for term in terms if not term.endswith(": the noun")] == []


def test_pages_that_the_code_names_are_there():
    named = set()
    for path in (ROOT / "src").rglob("*.py"):
        named |= set(re.findall(r"docs/proofs/([a-z-]+\.md)", path.read_text()))
    assert named
    missing = sorted(name for name in named if not (PROOFS / name).exists())
    assert not missing
