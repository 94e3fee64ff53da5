"""Prints a benchmark's table and keeps its last run in docs/benchmarks.md."""

from __future__ import annotations

import os
import platform
from datetime import date
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"


def table(header: list[str], rows: list[list[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def publish(section: str, title: str, text: str, *, command: str, on: Path = PAGE) -> None:
    """Print `text` and replace the section named `section` of docs/benchmarks.md (or the page `on`)
    by it."""
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {date.today()}"
    body = f"## {title}\n\n`{command}` ({machine})\n\n{text.strip()}\n"
    print(body)
    start, end = f"<!-- begin {section} -->", f"<!-- end {section} -->"
    page = on.read_text() if on.exists() else "# Benchmarks\n\nThe last run of each script.\n"
    if start in page:
        head, rest = page.split(start, 1)
        page = head + start + "\n" + body + end + rest.split(end, 1)[1]
    else:
        page = page.rstrip() + f"\n\n{start}\n{body}{end}\n"
    on.write_text(page)
