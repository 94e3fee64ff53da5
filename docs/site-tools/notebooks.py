"""Write the notebook of every page of the gallery beside it: `python docs/site-tools/notebooks.py`.

Texts and code are those of the page, without printed outputs; a picture is the cell that shows it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from doc_pages import Block, blocks, gallery  # noqa: E402

OWN = re.compile(r" *\[Notebook\]\([\w-]+\.ipynb\)")


def code(block: Block) -> str:
    """The cell of a block: shell commands by a magic word, a page in HTML displayed."""
    if block.kind == "sh":
        return f"%%sh\n{block.text}"
    if block.mark == "picture" and ".read_text()" in block.text:
        return f"from IPython.display import HTML\n\nHTML({block.text})"
    return block.text


def cells(page: Path) -> list[tuple[str, str]]:
    """Kind and text of every cell."""
    lines = page.read_text().splitlines()
    made: list[tuple[str, str]] = []
    at = 0
    for block in blocks(page):
        first = block.line - 1
        end = block.line if block.mark == "picture" else lines.index("```", block.line) + 1
        before = [line for line in lines[at:first] if not line.startswith("<!--")]
        made.append(("markdown", "\n".join(before).strip()))
        if block.mark != "output":
            made.append(("code", code(block)))
        at = end
    made.append(("markdown", "\n".join(lines[at:]).strip()))
    return [(kind, OWN.sub("", text)) for kind, text in made if text]


def notebook(page: Path) -> str:
    """The notebook of a page, as JSON."""
    found: list[dict[str, Any]] = []
    for number, (kind, text) in enumerate(cells(page)):
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text}
        found.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = {"cells": found, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def notebooks() -> dict[Path, str]:
    """Every notebook by its file."""
    return {page.with_suffix(".ipynb"): notebook(page) for page in gallery() if blocks(page)}


if __name__ == "__main__":
    for path, text in notebooks().items():
        path.write_text(text)
        print(path.relative_to(ROOT))
