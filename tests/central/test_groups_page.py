"""The page on groups: its blocks run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import privmean as pm

PAGE = Path(__file__).resolve().parents[2] / "docs" / "groups.md"


def test_every_block_of_the_page_runs(capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert isinstance(names["release"], pm.GroupRelease)
    assert "finance - trade" in capsys.readouterr().out
    assert isinstance(names["both"], pm.ValuesRelease)
    assert 0 <= names["public"].p_value <= 1
    shown = re.search(r"^```\n(ln_wage by industry.*?)^```", PAGE.read_text(), re.M | re.S)
    heads = [line.split()[0] for line in shown[1].splitlines()[2:8]]
    assert sorted(heads) == sorted(names["industries"])  # what the page shows is that table
