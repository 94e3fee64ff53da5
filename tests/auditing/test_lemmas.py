"""Every lemma holds at small widths, and the page it is for names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditing.lemmas import LEMMAS

PROOFS = Path(__file__).resolve().parent.parent.parent / "docs" / "proofs"


@pytest.mark.slow
@pytest.mark.parametrize("lemma", LEMMAS, ids=lambda lemma: lemma.name)
def test_a_lemma_holds_at_small_widths(lemma):
    assert lemma.check(False) > 10


@pytest.mark.parametrize("lemma", LEMMAS, ids=lambda lemma: lemma.name)
def test_its_page_names_it(lemma):
    assert f"`{lemma.name}`" in (PROOFS / f"{lemma.page}.md").read_text()
