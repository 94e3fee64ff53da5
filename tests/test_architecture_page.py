"""docs/architecture.md shows the import order of the source as it is."""

from __future__ import annotations

import importlib.util
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
