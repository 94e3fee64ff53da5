"""docs/architecture.md shows the import order of the source as it is."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parent.parent / "docs" / "site-tools" / "import_order.py"


@pytest.mark.slow
def test_architecture_page_shows_the_import_order():
    specification = importlib.util.spec_from_file_location("import_order", TOOL)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    shown = module.PAGE.read_text().split(module.BEGIN)[1].split(module.END)[0]
    assert "mechanisms" in shown
    assert shown == module.picture(), "python docs/site-tools/import_order.py"


def test_what_is_changed_to_add_something_is_there():
    """Each file of the table is there, and has the names that stand beside it."""
    root = TOOL.parents[2]
    table = TOOL.parents[1].joinpath("architecture.md").read_text().split("| To add | Change |")[1]
    seen = 0
    for line in table.split("\n\n")[0].splitlines():
        texts = ""
        for name in re.findall(r"`([\w./]+\.(?:py|md|yml))`", line):
            homes = [root / "src" / "privmean" / name, root / name]
            (path,) = (home for home in homes if home.exists())
            texts += path.read_text()
            seen += 1
        for name in re.findall(r"`([A-Za-z_]+)`", line.partition(" | ")[2]):
            assert not texts or re.search(rf"\b{name}\b", texts), name
    assert seen >= 15
