"""The appendix of the site: one page per file of benchmarks/results/, outside of the search.

A hook of MkDocs (mkdocs.yml): pages are made when the site is built, and stored nowhere else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
HIDDEN = "---\nsearch:\n  exclude: true\n---\n\n"
INTRODUCTION = """# Measured results

The last run of each script of `benchmarks/`, stored in `benchmarks/results/`. Times were taken on a
machine that other work shared: compare times within one run only.
"""


def row(cells: list[str]) -> str:
    """Return one row of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def markdown(part: str | dict[str, Any]) -> str:
    """Return a text or a table of a record as Markdown."""
    if isinstance(part, str):
        return part
    columns = part["columns"]
    return "\n".join([row(columns), "|---" * len(columns) + "|", *map(row, part["rows"])])


def page(name: str, record: dict[str, Any]) -> str:
    """Return the page of one record."""
    source = f"`{record['command']}` ({record['machine']}), stored in `{name}.json`"
    parts = [f"# {record['title']}", source, *map(markdown, record["content"])]
    return HIDDEN + "\n\n".join(parts) + "\n"


def pages() -> dict[str, str]:
    """Return every page of the appendix by its address. Files of bare numbers have no page."""
    records = {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}
    records = {name: record for name, record in records.items() if "title" in record}
    made = {f"appendix/{name}.md": page(name, record) for name, record in records.items()}
    links = [f"- [{record['title']}]({name}.md)" for name, record in records.items()]
    return made | {"appendix/index.md": HIDDEN + INTRODUCTION + "\n" + "\n".join(links) + "\n"}


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages of the appendix to those of docs/."""
    from mkdocs.structure.files import File

    for address, text in pages().items():
        files.append(File.generated(config, address, content=text))
    return files
