"""CHANGELOG.md keeps its form, and so do the fragments that a release moves there."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SPEC = importlib.util.spec_from_file_location("assemble", ROOT / "changelog.d" / "assemble.py")
assemble = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(assemble)


def test_fragments_have_a_known_kind_and_few_words():
    assert assemble.entries(assemble.fragments())


@pytest.mark.parametrize("line", ["Improved: a thing.", "Fixed: " + "word " * 21])
def test_entries_refuses_unknown_kinds_and_long_lines(line, tmp_path):
    (tmp_path / "a.md").write_text(line)
    with pytest.raises(SystemExit):
        assemble.entries([tmp_path / "a.md"])


def test_section_orders_kinds_and_keeps_entries(tmp_path):
    (tmp_path / "a.md").write_text("Fixed: one.\nAdded: `two`.\n")
    (tmp_path / "b.md").write_text("Fixed: three.\n")
    (tmp_path / "README.md").write_text("no fragment\n")
    made = assemble.section("9 (day)", assemble.entries(assemble.fragments(tmp_path)))
    assert made.splitlines() == [
        "## 9 (day)", "", "### Added", "", "- `two`.", "", "### Fixed", "", "- One.", "- Three.", ""
    ]  # fmt: skip


def test_the_changelog_has_known_kinds_and_short_entries():
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    assert len(lines) <= 120
    assert {line[4:] for line in lines if line.startswith("### ")} <= set(assemble.KINDS)
    entries = [line[2:] for line in lines if line.startswith("- ")]
    assert [entry for entry in entries if len(entry.split()) > assemble.WORDS] == []
    assert all(re.fullmatch(r"#{1,3} .*|- .*|[A-Z].*|", line) for line in lines)
