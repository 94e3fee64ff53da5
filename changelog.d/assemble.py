"""Move the fragments of this folder into CHANGELOG.md: `make changelog VERSION=... DATE=...`.

A fragment has one line per user-visible fact: `Kind: text`. Entries of one kind keep the order of
their files' names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
WORDS = 20


def fragments(folder: Path = FOLDER) -> list[Path]:
    return [path for path in sorted(folder.glob("*.md")) if path.name != "README.md"]


def entries(paths: Iterable[Path]) -> list[tuple[str, str]]:
    """The kind and the text of every line."""
    found = []
    for path in paths:
        for line in filter(None, path.read_text().splitlines()):
            kind, _, text = line.partition(": ")
            if kind not in KINDS:
                raise SystemExit(f"{path.name}: {line!r}: begin with one of {', '.join(KINDS)}")
            if len(text.split()) > WORDS:
                raise SystemExit(f"{path.name}: {line!r}: has more than {WORDS} words")
            found.append((kind, text))
    return found


def section(title: str, found: list[tuple[str, str]]) -> str:
    """A section of the changelog, in the form of Keep a Changelog."""
    lines = [f"## {title}", ""]
    for kind in KINDS:
        said = [f"- {text[0].upper()}{text[1:]}" for which, text in found if which == kind]
        lines += [f"### {kind}", "", *said, ""] if said else []
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    version, day = sys.argv[1:]
    page = FOLDER.parent / "CHANGELOG.md"
    head, mark, rest = page.read_text().partition("## ")
    page.write_text(head + section(f"{version} ({day})", entries(fragments())) + mark + rest)
    for path in fragments():
        path.unlink()
