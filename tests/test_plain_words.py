"""User pages use the standard terms of the glossary."""

from __future__ import annotations

import re

import pytest

from doc_pages import DOCS, prose
from plain_words import RETIRED, retired_terms
from test_page_sizes import LIMITS, LOCAL

PAGES = [*LIMITS, *LOCAL, "../README"]


@pytest.mark.parametrize("name", PAGES)
def test_user_pages_have_no_retired_term(name):
    text = re.sub(r"`[^`]+`", "code", prose(DOCS / f"{name}.md"))
    assert retired_terms([(name, " ".join(text.split()))]) == []


def test_retired_terms_names_place_and_replacement():
    (found,) = retired_terms([("page", "4711 persons"), ("other", "4,711 people")])
    assert found.startswith("page: 'persons'")
    assert found.endswith(RETIRED[r"\bpersons\b"])
