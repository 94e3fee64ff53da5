"""Texts for users have the standard terms of the glossary, short sentences and lines, whole."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import privmean
from doc_pages import DOCS, gallery, pages, prose
from plain_words import RETIRED, retired_terms
from test_page_sizes import LIMITS, LOCAL, SENTENCE, sentences
from user_texts import advice, docstrings, help_texts, prints, status_texts

TRUST = ("accuracy", "verification", "limits", "statuses", "api")
STORIES = [f"gallery/{page.stem}" for page in gallery()]
GUIDES = [*LIMITS, *LOCAL, *TRUST, *STORIES, "../README"]
SOURCES = {
    "help": help_texts, "docstrings": docstrings, "prints": prints, "statuses": status_texts,
    "advice": advice,
}  # fmt: skip
CODE, PARAMETER = re.compile(r"`[^`]+`"), re.compile(r"\b\w+ ?:(?= )")
WRITES = {"warn", "warning", "info", "echo", "wrong"}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_pages_have_no_retired_term(page):
    text = CODE.sub("code", prose(page))
    assert retired_terms([(page.stem, _flat(text))]) == []


@pytest.mark.parametrize("name", GUIDES)
def test_sentences_of_guides_are_short(name):
    assert _long(sentences(DOCS / f"{name}.md")) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOURCES)
def test_texts_have_no_retired_term(kind):
    texts = SOURCES[kind]()
    assert len(texts) > 10
    assert retired_terms((name, _flat(text)) for name, text in texts) == []


@pytest.mark.slow
def test_messages_have_no_retired_term():
    assert retired_terms(_messages()) == []


@pytest.mark.slow
def test_docstrings_of_the_code_have_no_retired_term():
    """Pronouns may stand in them; names of parameters and of code are no words."""
    found = list(_docstrings())
    assert len(found) > 3000
    terms = retired_terms((name, PARAMETER.sub("", CODE.sub("", text))) for name, text in found)
    assert [term for term in terms if not term.endswith(": the noun")] == []


@pytest.mark.parametrize("kind", ["help", "statuses", "advice"])
def test_sentences_of_texts_are_short(kind):
    said = [_flat(text) for _, text in SOURCES[kind]()]
    assert _long(sentence for text in said for sentence in re.split(r"(?<=[.!?])\s", text)) == []


def test_advice_is_sentences():
    """It stands behind other sentences. A sentence begins with a capital, a number or a column."""
    found = {text for _, text in advice()}
    assert len(found) > 20
    starts = re.compile(r"(?:^|[.?] )(?!\w+(?:, \w+)*: )(?=[a-z])")
    assert [text for text in found if starts.search(text) or text[-1] not in ".?"] == []


def test_retired_terms_names_place_and_replacement():
    (found,) = retired_terms([("page", "4711 persons"), ("other", "4,711 people")])
    assert found.startswith("page: 'persons'")
    assert found.endswith(RETIRED[r"\bpersons\b"])


def _flat(text: str) -> str:
    return " ".join(text.split())


def _long(found):
    return [sentence for sentence in found if len(sentence.split()) > SENTENCE]


def _messages():
    """Texts that are raised, warned of, logged or written, with their place; the local model
    keeps the names of its wire format."""
    folder = Path(privmean.__file__).parent
    for path in sorted({*folder.rglob("*.py")} - {*(folder / "local").rglob("*.py")}):
        for node in ast.walk(ast.parse(path.read_text())):
            raised = isinstance(node, ast.Raise)
            if raised or (isinstance(node, ast.Call) and _called(node) in WRITES):
                parts = [item.value for item in ast.walk(node) if isinstance(item, ast.Constant)]
                text = " ".join(part for part in parts if isinstance(part, str))
                yield f"{path.relative_to(folder)}:{node.lineno}", text


def _docstrings():
    """Those of every module, class and function but of the local model, with their place."""
    folder = Path(privmean.__file__).parent
    owners = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for path in sorted({*folder.rglob("*.py")} - {*(folder / "local").rglob("*.py")}):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, owners) and (text := ast.get_docstring(node)):
                yield f"{path.relative_to(folder)}:{getattr(node, 'lineno', 1)}", _flat(text)


def _called(node: ast.Call) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))
