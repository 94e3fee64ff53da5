"""Every figure of docs/accuracy.md stands in a results file that its section names."""

from __future__ import annotations

import re

import pytest

import report
from doc_pages import DOCS

PAGE = (DOCS / "accuracy.md").read_text()
SECTIONS = {part.splitlines()[0]: part for part in PAGE.split("\n## ")[1:]}


def figures(text: str) -> set[str]:
    """Return the numbers with decimals of a text."""
    return {re.sub(r"^\.", "0.", number) for number in re.findall(r"\d*\.\d+", text)}


def known(section: str) -> set[str]:
    """Return the numbers with decimals of the results files that a section links."""
    names = re.findall(r"\(appendix/([a-z0-9-]+)\.md\)", section)
    return figures(" ".join((report.RESULTS / f"{name}.json").read_text() for name in names))


@pytest.mark.parametrize("title", SECTIONS)
def test_figures_stand_in_the_results_that_the_section_names(title):
    found = figures(SECTIONS[title])
    assert found
    assert sorted(found - known(SECTIONS[title])) == []


def test_a_figure_without_results_is_noticed():
    assert figures("error 1.199, epsilon .5") == {"1.199", "0.5"}
    assert "1.102" in known(SECTIONS["Error of one mean"])
    assert "1.199" not in known(SECTIONS["Error of one mean"])
